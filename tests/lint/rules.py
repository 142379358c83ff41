# SPDX-License-Identifier: Apache-2.0
"""The rules that read text. Each is a generator of (path, line, message); RULES names them all."""
import fnmatch
import re

GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)$", re.M)
LIMITS = {"file-length": 800, "header-length": 200, "inline-length": 400, "function-length": 100}
IF_ZERO = re.compile(r"^\s*#\s*if\s+0\b", re.M)
TYPEDEF = re.compile(r"^typedef (struct|union|enum)\b(?: \w+)?(?: \w+;|\s*\{)", re.M)
TEST_IFDEF = re.compile(r"^\s*#\s*if(?:def|\s+defined)?\W*(?:UNIT_?)?TEST(?:S|ING)?\b", re.M)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
CODE_FOLDERS = ("kernels", "engine", "api", "server", "clients", "tests")


def owner_of(path, layers):
    """The longest layer that holds the file."""
    fits = [name for name in layers if path == name or path.startswith(name + "/")]
    return max(fits, key=len, default=None)


def closure(layers):
    """name -> all that stands below it."""
    below = {}

    def walk(name):
        if name not in below:
            below[name] = set()
            for b in layers.get(name, ()):
                below[name] |= {b} | walk(b)
        return below[name]

    for name in layers:
        walk(name)
    return below


def rule_layers(tree):
    """Includes are relative to the root and go downwards."""
    layers = {}
    for row in tree.table("layers.txt"):
        name, _, rest = row.partition("<")
        layers[name.strip()] = rest.split()
    below = closure(layers)
    known = set(tree.paths)
    for f in tree.c_files() + [f for f in tree.files if f.suffix == ".def"]:
        mine = owner_of(f.path, layers)
        for line, kind, name in f.includes():
            if kind == "<":
                continue
            if name not in known:
                yield f.path, line, f'"{name}" is no file of the tree: write it from the root'
            elif name.endswith(".c"):
                yield f.path, line, f'"{name}": a .c file is compiled, never included'
            elif not f.path.startswith("tests/"):
                theirs = owner_of(name, layers)
                if name.startswith("tests/"):
                    yield f.path, line, "nothing uses tests/"
                elif mine is None or theirs is None:
                    lost = f.path if mine is None else name
                    yield f.path, line, f"{lost} stands in no layer of layers.txt"
                elif theirs != mine and not {theirs, name} & below[mine]:
                    yield f.path, line, f'{mine} may not include {theirs} ("{name}")'


def rule_owners(tree):
    """An outside header has one owner."""
    owners, free = [], []
    for row in tree.table("owners.txt"):
        words = row.split()
        if any("/" in w and w.split("/")[0] in CODE_FOLDERS for w in words[1:]):
            owners.append((words[0], words[1:]))
        else:
            free += words
    for f in tree.c_files():
        for line, kind, name in f.includes():
            if kind != "<" or any(fnmatch.fnmatch(name, p) for p in free):
                continue
            where = [w for p, ws in owners if fnmatch.fnmatch(name, p) for w in ws]
            if not where:
                yield f.path, line, f"<{name}> has no owner in owners.txt"
            elif not any(fnmatch.fnmatch(f.path, w) for w in where + ["tests/*"]):
                yield f.path, line, f"<{name}> belongs to {' '.join(where)}"


def rule_banned(tree):
    """Calls that have a better form here."""
    calls = {}
    for row in tree.table("banned.txt"):
        name, where, instead = (cell.strip() for cell in row.split("|"))
        calls[name] = (where.split(), instead)
    call = re.compile(r"(?<![\w.])(?<!->)(" + "|".join(calls) + r")\s*\(")
    for f in tree.c_files():
        for m in call.finditer(f.code):
            where, instead = calls[m.group(1)]
            if not f.path.startswith(tuple(where) or ("\0",)):
                yield f.path, f.line_of(m.start()), f"{m.group(1)}(): write {instead}"


def rule_glossary(tree):
    """A word that GLOSSARY.md has given up for another."""
    instead = {}
    for row in re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", tree.text("GLOSSARY.md"), re.M):
        instead |= {w.strip(): row[0].strip() for w in row[1].split(",") if w.strip() not in ("", "not")}
    instead = {w: x for w, x in instead.items() if not set(w) <= {"-"}}
    if not instead:
        return
    word = re.compile(r"\b(" + "|".join(map(re.escape, instead)) + r")(?![a-z])")
    for f in tree.c_files():
        for m in word.finditer(f.text):
            yield f.path, f.line_of(m.start()), f"{m.group(1)}: the word is {instead[m.group(1)]}"


def rule_file_length(tree):
    """A file is one idea."""
    for f in tree.files:
        if len(f.lines) > LIMITS["file-length"]:
            yield f.path, LIMITS["file-length"], f"{len(f.lines)} lines: past 800 it is two files"


def rule_header_length(tree):
    """A face is narrow; a header of inline functions is code that several files share."""
    for f in tree.files:
        kind = "inline-length" if f.is_header and any(f.functions()) else "header-length"
        if f.is_header and len(f.lines) > LIMITS[kind]:
            yield f.path, LIMITS[kind], f"{len(f.lines)} lines: a header has {LIMITS[kind]} at most"


def rule_function_length(tree):
    """A function fits on a screen."""
    for f in tree.c_files():
        for name, line, n in f.functions():
            if n > LIMITS["function-length"]:
                yield f.path, line, f"{name}: {n} lines: a function has 100 at most"


def rule_first_screen(tree):
    """One SPDX line, then what the file is for."""
    for f in tree.files:
        if f.suffix == ".def":
            continue
        top = "\n".join(f.lines[:2])
        if "SPDX-License-Identifier: Apache-2.0" not in top:
            yield f.path, 1, "the first line is no SPDX line"
        elif f.is_c:
            end = f.text.find("*/")
            n = f.text.count("\n", 0, end) + 1
            if not f.text.startswith("/*") or n < 3:
                yield f.path, 1, "the first comment does not say what the file is for"
            elif n > 45:
                yield f.path, 1, f"the first comment has {n} lines: 40 say enough"


def rule_guard(tree):
    """A header is guarded by its own path."""
    for f in tree.files:
        if f.is_header:
            want = re.sub(r"\W", "_", f.path).upper()
            m = GUARD.search(f.code)
            if not m or m.group(1) != want or m.group(2) != want:
                yield f.path, 1, f"the include guard is not {want}"


def rule_form(tree):
    """Forms that do not stand here."""
    forms = ((IF_ZERO, "code", "#if 0: delete it, git remembers"),
             (TYPEDEF, "code", "write `struct x`: a typedef hides what it is"),
             (TEST_IFDEF, "code", "no test code in the program"),
             (UNFINISHED, "text", "unfinished: do it or leave it out"))
    for f in tree.c_files():
        is_twin = f.path.startswith("tests/fake/")  # has the names of what it stands for
        for pattern, of, message in forms:
            if is_twin and pattern is TYPEDEF:
                continue
            for m in pattern.finditer(getattr(f, of)):
                yield f.path, f.line_of(m.start()), message


def rule_readme(tree):
    """A folder with code has a map."""
    folders = {f.folder for f in tree.c_files() if f.path.split("/")[0] in CODE_FOLDERS}
    for folder in sorted(folders):
        files = [f for f in tree.c_files() if f.folder == folder]
        readme = folder + "/README.md"
        mirrors = folder.startswith("tests/") and folder[6:].split("/")[0] in CODE_FOLDERS
        if len(files) > 1 and not mirrors and readme not in tree.paths:
            yield readme, 1, f"{folder} has {len(files)} files and no map of them"


def rule_names(tree):
    """A file that a map or a recipe names is there."""
    last = {p.rsplit("/", 1)[-1] for p in tree.paths}
    for path in tree.paths:
        if not path.endswith("README.md") and path not in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
            continue
        text = tree.text(path)
        for m in re.finditer(r"`([a-z0-9][a-z0-9_./*-]*\.(?:c|h|def|cu|cuh|py))`", text):
            name = m.group(1)
            if name not in last and not fnmatch.filter(tree.paths, name) and \
                    not fnmatch.filter(tree.paths, "*/" + name):
                yield path, text.count("\n", 0, m.start()) + 1, f"{name} is not there"


def rule_rows(tree):
    """A row of a .def file has all that follows from it."""
    known = set()
    for row in tree.table("rows.txt"):
        path, macro, pattern, where = (cell.strip() for cell in row.split("|"))
        known.add(path)
        f = next((f for f in tree.files if f.path == path), None)
        if f is None:
            continue
        text = "\n".join(g.text for g in tree.files
                         if g.path.startswith(tuple(where.split())) and g is not f)
        for m in re.finditer(rf"^{macro}\(\s*(\w+)", f.code, re.M):
            want = pattern.replace("{}", m.group(1))
            if not re.search(rf"\b{re.escape(want)}\b", text):
                yield path, f.line_of(m.start()), f"{m.group(1)}: no {want} in {where}"
    for f in tree.files:
        if f.suffix == ".def" and f.path not in known:
            yield f.path, 1, "rows.txt does not say what a row of this file must have"


RULES = {name[5:].replace("_", "-"): fn for name, fn in list(globals().items())
         if name.startswith("rule_")}
