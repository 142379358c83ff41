#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which share of the lines and functions the tests ran, by folder, from gcov's records.

    tests/lint/coverage.py BUILD_FOLDER [--files]

BUILD_FOLDER is build/coverage, after a run of the tests in it. --files shows each file, and the
first functions that nothing called.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CODE = ("kernels/", "engine/", "api/", "server/", "clients/")


def records(build):
    """One record of gcov for each compiled file."""
    for gcno in sorted(build.rglob("*.gcno")):
        out = subprocess.run(["gcov", "--json-format", "--stdout", str(gcno)], cwd=ROOT,
                             capture_output=True, text=True).stdout
        for line in out.splitlines():
            if line.startswith("{"):
                yield from json.loads(line)["files"]


def gather(build):
    """path -> ({line: hits}, {function: hits}); a header's are the sum over who includes it."""
    lines = collections.defaultdict(collections.Counter)
    functions = collections.defaultdict(collections.Counter)
    for f in records(build):
        path = f["file"].removeprefix("./").removeprefix(str(ROOT) + "/")
        if path.startswith(CODE):
            for at in f["lines"]:
                lines[path][at["line_number"]] += at["count"]
            for fn in f["functions"]:
                functions[path][fn["name"]] += fn["execution_count"]
    return lines, functions


def share(counters):
    n = sum(len(c) for c in counters)
    hit = sum(1 for c in counters for v in c.values() if v)
    return n, 100.0 * hit / n if n else 100.0


def row(name, lines, functions):
    n, part = share(lines)
    n_fn, part_fn = share(functions)
    return f"{name:36} {n:7} {part:6.1f}% {n_fn:6} {part_fn:6.1f}%"


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("build", type=pathlib.Path)
    ap.add_argument("--files", action="store_true")
    opt = ap.parse_args()
    lines, functions = gather(opt.build)
    print(f"{'folder':36} {'lines':>7} {'run':>7} {'func':>6} {'run':>7}")
    for folder in sorted({p.rpartition("/")[0] for p in lines}):
        paths = [p for p in sorted(lines) if p.rpartition("/")[0] == folder]
        print(row(folder, [lines[p] for p in paths], [functions[p] for p in paths]))
        for p in paths if opt.files else []:
            never = [name for name, hits in functions[p].items() if not hits]
            print(row("  " + p.rpartition("/")[2], [lines[p]], [functions[p]]),
                  ("  never: " + " ".join(never[:4])) if never else "")
    print(row("all", list(lines.values()), list(functions.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
