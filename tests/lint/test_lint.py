#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lint on small trees: a good one has no finding, and each bad sample breaks exactly its rule.
Catches: a rule that has gone blind, and one that cries at good code. Without clang-format, which is
no part of building and testing, its rule is left out."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import lint  # noqa: E402
from tools import clang_format  # noqa: E402

LINT = pathlib.Path(__file__).parent / "lint.py"
STYLE = (LINT.parent.parent.parent / ".clang-format").read_text()
TOP = "/* SPDX-License-Identifier: Apache-2.0\n *\n * What this file is for.\n */\n"


def header(path, body=""):
    guard = path.replace("/", "_").replace(".", "_").upper()
    return f"{TOP}#ifndef {guard}\n#define {guard}\n\n{body}\n#endif\n"


def function(n_lines):
    body = "".join(f"    n += {i};\n" for i in range(n_lines - 3))
    return TOP + f"int sum(int n);\n\nint sum(int n)\n{{\n{body}    return n;\n}}\n"


GOOD = {
    ".clang-format": STYLE,
    "GLOSSARY.md": "| word | meaning | not |\n|---|---|---|\n| prefetch | to ask memory early | k_soon |\n",
    "kernels/kernels.h": header("kernels/kernels.h", "int k_one(void);\n"),
    "kernels/one.c": TOP + '#include "kernels/kernels.h"\n\nint k_one(void)\n{\n    return 1;\n}\n',
    "kernels/README.md": "# kernels\n",
    "engine/base/one.c": TOP + "#include <stdlib.h>\n\n"
                         "void *one(void);\n\nvoid *one(void)\n{\n"
                         "    return malloc(1); /* malloc(1), \"#if 0\" */\n}\n",
    "engine/device/two.c": TOP + '#include "kernels/kernels.h"\n\n'
                           "int two(void);\n\nint two(void)\n{\n    return k_one() + 1;\n}\n",
    "engine/device/README.md": "# device\n",
    "engine/base/err.def": "ERR(IO, \"io\")\n",
    "engine/base/err.c": TOP + "enum { ERR_IO };\n",
    "engine/base/README.md": "# base\n",
    "tests/engine/base/test_one.c": TOP + '#include <cmocka.h>\n\n#include "kernels/kernels.h"\n',
}

# rule, file, content: the tree above with this file breaks the rule, and no other
BAD = [
    ("layers", "kernels/up.c", TOP + '#include "engine/base/err.def"\n'),
    ("layers", "kernels/lost.c", TOP + '#include "kernel.h"\n'),
    ("layers", "kernels/c.c", TOP + '#include "kernels/one.c"\n'),
    ("layers", "engine/odd/one.c", TOP + '#include "tests/engine/base/test_one.c"\n'),
    ("owners", "engine/base/json.c", TOP + "#include <jansson.h>\n"),
    ("owners", "engine/base/new.c", TOP + "#include <unheard/of.h>\n"),
    ("banned", "engine/base/copy.c",
     TOP + "void f(char *d, const char *s);\n\nvoid f(char *d, const char *s)\n{\n"
     "    strcpy(d, s);\n}\n"),
    ("banned", "kernels/own.c",
     TOP + "void *f(void);\n\nvoid *f(void)\n{\n    return malloc(1);\n}\n"),
    ("glossary", "kernels/soon.c", TOP + "int k_soon;\n"),
    ("file-length", "engine/base/long.c", TOP + "int x;\n" * 800),
    ("header-length", "engine/base/long.h", header("engine/base/long.h", "int f(void);\n" * 200)),
    ("header-length", "engine/base/code.h",
     header("engine/base/code.h", ("static inline int f(void)\n{\n    return 1;\n}\n" +
                                   "int g(void);\n" * 400))),
    ("function-length", "engine/base/sum.c", function(101)),
    ("first-screen", "engine/base/bare.c", "int x;\n"),
    ("first-screen", "engine/base/mute.c", "/* SPDX-License-Identifier: Apache-2.0 */\nint x;\n"),
    ("guard", "engine/base/g.h", header("engine/base/h.h", "int g(void);\n")),
    ("form", "engine/base/zero.c", TOP + "#if 0\nint x;\n#endif\n"),
    ("form", "engine/base/td.c", TOP + "typedef struct one {\n    int x;\n} one;\n"),
    ("form", "engine/base/todo.c", TOP + "int x; /* TO" + "DO */\n"),
    ("form", "engine/base/hook.c", TOP + "#ifdef TESTING\nint x;\n#endif\n"),
    ("rows", "engine/base/err.def", 'ERR(IO, "io")\nERR(NEW, "new")\n'),
    ("rows", "engine/base/new.def", "NEW(1)\n"),
    ("format", "engine/base/wide.c", TOP + "int  x;\n"),
    ("alone", "engine/base/s.h", header("engine/base/s.h", "size_t f(void);\n")),
    ("alone", "engine/base/t.h", header("engine/base/t.h", "size_t f(void);\n")),
    ("names", "engine/base/README.md", "# base\n\n`one.c`, `err.*` and `gone.c`\n"),
    ("readme", "api/one.c", TOP + "int one;\n"),
]
EXTRA = {"api/one.c": {"api/two.c": TOP + "int two;\n"},
         "engine/base/t.h": {"engine/base/t.c": TOP + '#include <stddef.h>\n\n#include "engine/base/t.h"\n'}}
# breaks its rule, but is none of those that were changed
UNCHANGED = {**GOOD, "engine/base/s.h": header("engine/base/s.h", "size_t f(void);\n")}
GOOD_TOO = [
    ("function of 100 lines", "engine/base/sum.c", function(100)),
    ("waived", "engine/base/long.c", TOP + "/* lint: file-length: a table */\n" + "int x;\n" * 800),
    ("300 lines of inline code", "engine/base/code.h",
     header("engine/base/code.h", ("static inline int f(void)\n{\n    return 1;\n}\n" +
                                   "int g(void);\n" * 290))),
    ("callback named exit", "engine/base/m.c",
     TOP + "struct m {\n    int (*exit)(int);\n};\n\nint f(struct m *m);\n\n"
     "int f(struct m *m)\n{\n    return m->exit(1);\n}\n"),
]


def as_program(words):
    p = subprocess.run([str(LINT), *words], capture_output=True, text=True)
    return p.returncode, p.stdout + p.stderr


def within(words):
    """The same without a Python of its own, which takes longer than a small tree."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = lint.main(words)
    return status, out.getvalue()


def broken(files, skip, run):
    """The rules that a tree of these files breaks, its status, and what was printed."""
    with tempfile.TemporaryDirectory() as d:
        for path, text in files.items():
            p = pathlib.Path(d) / path
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        subprocess.run(["git", "init", "-q", d], check=True)
        status, text = run(["--root", d, *skip])
    lines = [line.split(": ") for line in text.splitlines() if not line.startswith("lint:")]
    return {line[1] for line in lines if len(line) > 1}, status, text


def main():
    cases = [("good tree", set(), GOOD)]
    cases += [(f"{name} in {path}", set(), {**GOOD, path: text}) for name, path, text in GOOD_TOO]
    cases += [(f"{rule} in {path}", {rule}, {**GOOD, path: text, **EXTRA.get(path, {})})
              for rule, path, text in BAD if rule != "format" or clang_format()]
    cases += [("unchanged", set(), UNCHANGED), ("changed", {"alone"}, UNCHANGED)]
    words = {"unchanged": ["--changed", "engine/base/err.c"], "changed": ["--changed", "engine/base/s.h"]}
    usual = [name for name, _, _ in cases[1:-1]]  # a good tree and a bad one go the whole way
    failed = 0
    for name, want, files in cases:
        # the tool is started where it is asked for, and over the good tree
        is_formatted = clang_format() and want <= {"format"}
        got, status, text = broken(files, words.get(name, []) + ([] if is_formatted else ["--skip", "format"]),
                                   within if name in usual else as_program)
        good = got == want and status == (1 if want else 0)
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {got}\n{text}"))
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
