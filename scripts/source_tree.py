"""The tree's own files, for the scripts that check them."""
import os

SKIPPED_FOLDERS = {"build", "node_modules", "__pycache__", "third_party"}


def files_ending(root, endings):
    """Paths below root, with slashes, in order; without what is built, fetched or hidden."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("."))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
