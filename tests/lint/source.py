# SPDX-License-Identifier: Apache-2.0
"""The tree as the lint sees it: files, their lines, and C without its comments and strings.

A finding can be waived where the better code breaks a rule: a comment `lint: RULE: why` anywhere
in the file waives RULE for the file, and the why is not optional.
"""
import functools
import pathlib
import re
import subprocess

C_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
WAIVER = re.compile(r"lint: ([a-z-]+): *(\S.*)")
FUNCTION_NAME = re.compile(r"(\w+)\s*\([^;{}]*$", re.S)


def blank(match):
    """A comment becomes spaces, a string keeps its quotes; every line keeps its number."""
    s = match.group(0)
    keep = s[0] if s[0] in "\"'" else " "
    inner = "".join("\n" if c == "\n" else " " for c in s[1:-1])
    return keep + inner + keep


class File:
    """One file of the tree; `path` is relative to the root."""

    def __init__(self, root, path):
        self.path, self.full = path, root / path
        self.suffix = pathlib.PurePath(path).suffix
        self.folder = path.rpartition("/")[0]
        self.text = self.full.read_text(encoding="utf-8", errors="replace")
        self.lines = self.text.splitlines()

    @property
    def is_c(self):
        return self.suffix in (".c", ".h", ".cu", ".cuh")

    @property
    def is_header(self):
        return self.suffix in (".h", ".cuh")

    @functools.cached_property
    def code(self):
        return C_TOKEN.sub(blank, self.text)

    @functools.cached_property
    def waived(self):
        return {m.group(1) for m in WAIVER.finditer(self.text)}

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def includes(self):
        """(line, '<' or '"', name) of each #include outside comments."""
        for m in INCLUDE.finditer(self.text):
            if self.code[m.start():m.end()].lstrip().startswith("#"):
                yield self.line_of(m.start()), m.group(1), m.group(2)

    def functions(self):
        """(name, line of the opening brace, lines from brace to brace), by the house format: a
        body opens and closes with a brace in the first column."""
        start, head = None, ""
        for n, line in enumerate(self.code.split("\n"), 1):
            if start is None and line.startswith("{"):
                name = FUNCTION_NAME.search(head)
                start, found = n, name.group(1) if name else "?"
            elif start is not None and line.startswith("}"):
                if found != "?":
                    yield found, start, n - start + 1
                start, head = None, ""
            elif start is None:
                head = "" if line.startswith(("}", "#")) or ";" in line else head + line + "\n"


class Tree:
    """Every file that git tracks or would track; of these tools are run over `changed`, where that is said."""

    def __init__(self, root, changed=None):
        self.root = pathlib.Path(root).resolve()
        out = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root, capture_output=True, check=True).stdout.decode()
        paths = sorted({p for p in out.split("\0") if p and (self.root / p).is_file()})
        self.paths = paths
        code = (".c", ".h", ".cu", ".cuh", ".def", ".py", ".sh")
        self.files = [File(self.root, p) for p in paths if p.endswith(code)]
        self.by_path = {f.path: f for f in self.files}
        self.for_tools = [f for f in self.files if changed is None or f.path in changed]

    def c_files(self):
        return [f for f in self.files if f.is_c]

    def text(self, path):
        """Of a file of the tree; "" where there is none."""
        path = self.root / path
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def table(self, name):
        """The rows of a data file of the lint: not comments, not blanks. A tree without it (the
        samples of the self-test) uses ours."""
        path = self.root / "tests/lint" / name
        if not path.exists():
            path = pathlib.Path(__file__).parent / name
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if line:
                yield line
