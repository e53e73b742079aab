"""A small tree in a temporary folder, and a check script run on it."""
import contextlib
import importlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))


class TreeCase(unittest.TestCase):
    script = ""  # the module's name, set by the subclass

    def run_on(self, files):
        """(exit status, output) of the script on a tree of {path: text}."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                status = importlib.import_module(self.script).main([root])
            return status, output.getvalue()

    def passes(self, files):
        status, output = self.run_on(files)
        self.assertEqual(status, 0, output)
        return output

    def fails(self, files, *parts):
        status, output = self.run_on(files)
        self.assertEqual(status, 1, output)
        for part in parts:
            self.assertIn(part, output)
