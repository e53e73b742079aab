#!/usr/bin/env python3
"""Files explain themselves above 600 lines and fail above 1,000; a C++ function longer than 70 lines fails.

Usage: check_sizes.py [ROOT]    prints file:line: what; exits 1 if anything fails (warnings do not).
The functions are found by their braces, after comments, strings and preprocessor lines are blanked: good enough for
code that clang-format has laid out. Lambdas and local classes count as part of the function around them.
"""
import os
import re
import sys

from source_tree import files_ending

WARN_FILE_LINES = 600
MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 70

# "path", "path:function" or "path:title of a test case": why it may be longer.
EXCEPTIONS = {
    "tests/http/generation_request_test.cpp:a bad value is a 400 that names the field, the value and the limit":
        "a table of cases, one a line",
}

CPP = (".hpp", ".cpp", ".h", ".c", ".inl", ".cu", ".cuh")
SOURCES = CPP + (".capnp", ".py", ".sh", ".cmake", ".js", ".mjs", ".ts", ".css", ".html", "CMakeLists.txt")

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^()\\ \n]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
CONTAINER = re.compile(r"(?:(?:inline|static|typedef|export|constexpr|const)\s+)*"
                       r"(?:namespace|class|struct|union|enum|extern)\b")


def blank(text):
    """Comments, literals and preprocessor lines become blanks; the lines stay where they are."""
    def blanked(match):
        token = match.group(0)
        kept = '""' if token[0] in "\"R" else ""
        return kept + "\n" * token.count("\n")
    return TOKEN.sub(blanked, text)


def strip_templates(head):
    """Without `template <...>` and [[attributes]] in front."""
    head = re.sub(r"\[\[[^\]]*\]\]", " ", head).strip()
    while head.startswith("template"):
        depth, at = 0, head.find("<")
        for at in range(max(at, 0), len(head)):
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            if depth == 0:
                break
        head = head[at + 1:].strip()
    return head


def is_container(head):
    head = strip_templates(re.sub(r"^(\s*(public|private|protected)\s*:)+", "", head))
    if not CONTAINER.match(head):
        return False
    return not re.search(r"\)\s*(const|noexcept|override|final|\s)*$", head)  # a function that returns `struct x`


def function_name(head):
    head = strip_templates(head)
    match = re.search(r"([~\w:]+(?:\s*operator\s*[^\s(]+)?)\s*\(", head)
    return match.group(1) if match else head.strip()[:40] or "?"


def title_of(line):
    """A doctest case is known by its title."""
    match = re.match(r'\s*(?:TEST_CASE|SUBCASE|SCENARIO)\("([^"]*)"', line)
    return match.group(1) if match else None


def functions(text):
    """(name, first line, last line) of each function with a body in the C++ `text`."""
    code = blank(text)
    lines = text.splitlines()
    found = []
    scopes = []  # of each open brace: is it a namespace, class or the like?
    function = None  # (name, first line, depth) of the one that is open
    head_start, last_name = 0, ("?", 1)
    for match in re.finditer(r"[{};]", code):
        at, mark = match.start(), match.group(0)
        head = code[head_start:at]
        if mark == "{":
            first = code.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            opens_container = function is None and is_container(head)
            if function is None and not opens_container:
                # After `member{...}` of a constructor's initialisers the rest of them follows: it belongs to the name before.
                continues = not re.match(r"[\w\[~:]", head.lstrip())
                last_name = last_name if continues else (title_of(lines[first - 1]) or function_name(head), first)
                function = (*last_name, len(scopes))
            scopes.append(opens_container)
        elif mark == "}" and scopes:
            scopes.pop()
            if function is not None and len(scopes) == function[2]:
                found.append((function[0], function[1], code.count("\n", 0, at) + 1))
                function = None
        head_start = at + 1
    return found


def check_file(path, text):
    """(problems, warnings) of one file."""
    problems, warnings = [], []
    line_count = text.count("\n")
    if line_count > MAX_FILE_LINES and path not in EXCEPTIONS:
        problems.append(f"{path}:1: {line_count} lines; the limit is {MAX_FILE_LINES}")
    elif line_count > WARN_FILE_LINES:
        warnings.append(f"{path}:1: warning: {line_count} lines; above {WARN_FILE_LINES} a file should be split")
    if not path.endswith(CPP):
        return problems, warnings
    longest = {}  # one name may be found twice when a constructor has brace initialisers
    for name, first, last in functions(text):
        if f"{path}:{name}" not in EXCEPTIONS:
            longest[(name, first)] = max(last - first + 1, longest.get((name, first), 0))
    for (name, first), lines in longest.items():
        if lines > MAX_FUNCTION_LINES:
            problems.append(f"{path}:{first}: {name} has {lines} lines; the limit of a function is {MAX_FUNCTION_LINES}")
    return problems, warnings


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    failed = 0
    for path in files_ending(root, SOURCES):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            problems, warnings = check_file(path, file.read())
        failed += len(problems)
        for line in problems + warnings:
            print(line)
    print(f"check_sizes: {failed} too long" if failed else "check_sizes: everything fits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
