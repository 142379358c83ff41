#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model with a matrix of so many inputs that no piece of a file has room for the rows which are packed together.
Catches: a load that cuts such a matrix into pieces of nothing, and never ends; pieces that do not fit together, where
two ranks have other ones."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import BIN, SLOW, Cases, make_model, scratch  # noqa: E402

WIDE = ("--hidden", 32, "--ff", 20000, "--layers", 1, "--heads", 2, "--kv-heads", 2, "--head-dim", 16)


def ids(model, *options):
    p = subprocess.run([BIN, "run", model, "--ids", "5,6,7", "-n", "4", "--ignore-eos", *options], check=False,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == 0, p.stderr
    return p.stdout.split()


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "wide", *WIDE)

        def wide():
            said = ids(model)
            assert len(",".join(said).split(",")) >= 4, said
            assert ids(model, "--tp", "2") == said, said
        cases.run("a matrix of 20,000 inputs", wide)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
