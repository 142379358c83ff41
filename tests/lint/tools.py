# SPDX-License-Identifier: Apache-2.0
"""The rules that run a tool: clang-format over every C file, and each header compiled alone."""
import concurrent.futures
import functools
import os
import re
import shutil
import subprocess
import sys

FORMAT_MAJOR = "14"  # versions differ in what they make of one style
ISA = {"x86_64": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi",
                  "-mavx512bf16", "-mfma", "-mf16c"]}
ALONE = ["-std=c17", "-D_GNU_SOURCE", "-I.", "-Ibuild/deps/include", "-Wall", "-Wextra", "-Werror",
         "-fsyntax-only", "-x", "c", "-"]
WORKERS = os.cpu_count() or 2


@functools.cache
def clang_format():
    """The clang-format of the major version that the style is written for, or None."""
    for name in ("clang-format-" + FORMAT_MAJOR, "clang-format"):
        path = shutil.which(name)
        if path:
            out = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            m = re.search(r"version (\d+)", out)
            if m and m.group(1) == FORMAT_MAJOR:
                return path
    return None


def rule_format(tree):
    """The code is as clang-format writes it."""
    tool = clang_format()
    if not tool:
        print(f"lint: clang-format {FORMAT_MAJOR} is not here: the format is not looked at", file=sys.stderr)
        return
    paths = [f.path for f in tree.for_tools if f.is_c]
    chunks = [c for c in (paths[i::WORKERS] for i in range(WORKERS)) if c]

    def run(chunk):
        return subprocess.run([tool, "--dry-run", "-Werror", "--style=file", *chunk],
                              cwd=tree.root, capture_output=True, text=True).stderr

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for text in pool.map(run, chunks):
            seen = set()
            for m in re.finditer(r"^([^\s:]+):(\d+):\d+: error: ", text, re.M):
                if m.group(1) not in seen:
                    seen.add(m.group(1))
                    yield m.group(1), int(m.group(2)), f"run clang-format -i {m.group(1)}"


# Of CUDA, NCCL and MPI, which a build does without.
VENDORS = re.compile(r"fatal error: (cuda\w*|cublas\w*|nccl\w*|mpi)\.h: No such file")


def is_proved(tree, f):
    """Whether `make` sees the header alone: its own .c, which everybody's build has, includes it first."""
    own = tree.by_path.get(f.path[:-2] + ".c")
    if own is None or f.folder.startswith(("kernels/arm", "tests")):
        return False
    return next(own.includes(), (0, "", ""))[1:] == ('"', f.path)


def rule_alone(tree):
    """A header includes what it needs. What wants a vendor's header is looked at where that is."""
    cc = os.environ.get("CC", "gcc").split()
    machine = subprocess.run([*cc, "-dumpmachine"], capture_output=True, text=True).stdout
    isa = ISA.get(machine.split("-")[0], [])

    def run(f):
        if f.folder == "kernels/x86":
            if not isa:
                return None
            flags = isa
        elif f.folder == "kernels/arm" and not machine.startswith("aarch64"):
            return None
        else:
            flags = []
        p = subprocess.run([*cc, *flags, *ALONE], cwd=tree.root, capture_output=True, text=True,
                           input=f'#include "{f.path}"\n')
        if p.returncode == 0 or VENDORS.search(p.stderr):
            return None
        return f.path, 1, "does not compile alone: " + first_error(p.stderr)

    headers = [f for f in tree.for_tools if f.suffix == ".h" and not is_proved(tree, f)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from filter(None, pool.map(run, headers))


def first_error(text):
    return next((line for line in text.splitlines() if "error" in line), text.strip()[:200])


RULES = {"format": rule_format, "alone": rule_alone}
