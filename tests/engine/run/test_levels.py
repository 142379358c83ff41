#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The goldens of models and of training at each level of kernels that this CPU has below its best, at
which make test runs them anyway. Catches: numbers that only hold on the CPU of whoever wrote a test,
or a kernel; a level that nobody's machine runs any more.

In the release build alone: what another build watches is the same at every level."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import BIN, BUILD, MODE, Cases  # noqa: E402

LEVELS = ("ref", "avx2", "avx512", "avx512_bf16")
PROGRAMS = ("engine/run/test_golden_logits", "engine/run/test_golden_encoder",
            "engine/run/test_golden_train", "engine/train/test_trainer")


def has(level):
    return subprocess.run([BIN, "doctor", "--kernels", level], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False).returncode == 0


def run(program, level):
    p = subprocess.run([BUILD / "tests" / program], env={**os.environ, "TEST_KERNELS": level},
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout[-2000:] + p.stderr[-2000:]


def main():
    cases = Cases()
    levels = [level for level in LEVELS if has(level)]
    assert levels, "not even the reference"
    for level in LEVELS[:-1]:
        for program in PROGRAMS:
            name = f"{program} at {level}"
            if MODE != "release":
                cases.skip(name, "the release build runs it")
            elif level not in levels[:-1]:
                cases.skip(name, "this CPU has no more" if level in levels else "this CPU lacks it")
            else:
                cases.run(name, lambda p=program, at=level: run(p, at))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
