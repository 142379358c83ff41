#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gates of the tree: prints `path:line: rule: message`, exits 1 when there is any.

    tests/lint/lint.py [--root DIR] [--only RULE]... [--skip RULE]... [--stats] [--changed FILE...]

Rules that read text are in rules.py, those that run a tool in tools.py; what they allow stands in
layers.txt, owners.txt, banned.txt and rows.txt. --stats prints how long files and functions are.
--changed: all else was found good, so that tools are run over these files alone.
"""
import argparse
import pathlib
import sys
import time

sys.dont_write_bytecode = True
import rules  # noqa: E402
import tools  # noqa: E402
from source import Tree  # noqa: E402

ALL = {**rules.RULES, **tools.RULES}


def findings(tree, chosen):
    for rule in chosen:
        for path, line, message in ALL[rule](tree):
            f = tree.by_path.get(path)
            if f is None or rule not in f.waived:
                yield path, line, rule, message


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else 0


def stats(tree):
    print(f"{'folder':16} {'files':>6} {'lines':>7} {'median':>7} {'longest':>8}"
          f" {'functions':>10} {'median':>7} {'p90':>5} {'longest':>8}")
    for top in rules.CODE_FOLDERS:
        files = [f for f in tree.c_files() if f.path.startswith(top + "/")]
        n_lines = [len(f.lines) for f in files]
        n_func = [n for f in files for _, _, n in f.functions()]
        if files:
            print(f"{top:16} {len(files):6} {sum(n_lines):7} {quantile(n_lines, .5):7}"
                  f" {max(n_lines):8} {len(n_func):10} {quantile(n_func, .5):7}"
                  f" {quantile(n_func, .9):5} {max(n_func, default=0):8}")


def main(words=None):
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent.parent)
    ap.add_argument("--only", action="append", choices=sorted(ALL))
    ap.add_argument("--skip", action="append", choices=sorted(ALL), default=[])
    ap.add_argument("--stats", action="store_true")
    ap.add_argument("--changed", nargs="+", metavar="FILE")
    opt = ap.parse_args(words)
    tree = Tree(opt.root, opt.changed)
    if opt.stats:
        stats(tree)
        return 0
    began = time.monotonic()
    chosen = [rule for rule in opt.only or ALL if rule not in opt.skip]
    found = sorted(findings(tree, chosen))
    for path, line, rule, message in found:
        print(f"{path}:{line}: {rule}: {message}")
    print(f"lint: {len(tree.files)} files, {len(chosen)} rules, {len(found)} findings, "
          f"{time.monotonic() - began:.1f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
