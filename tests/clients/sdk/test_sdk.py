#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI SDK against `tandem serve`: makes the virtual environment that holds it
(build/deps/sdk, once for each requirements.txt) and runs cases.py in it. Where the packages cannot
be had, says so and skips."""
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WANTED = HERE / "requirements.txt"
VENV = pathlib.Path("build/deps/sdk")


def skip(why):
    print(f"skip the official SDK: {why}\n0 passed, 0 failed, 1 skipped")
    return 0


def make_venv(stamp, digest):
    """What went wrong, or None."""
    for words in ([sys.executable, "-m", "venv", "--clear", VENV],
                  [VENV / "bin/python", "-m", "pip", "install", "-q", "--no-input",
                   "--disable-pip-version-check", "--retries", "1", "-r", WANTED]):
        p = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode != 0:
            return (p.stdout.strip().splitlines() or ["no reason given"])[-1]
    stamp.write_text(digest)
    return None


def main():
    digest = hashlib.sha256(WANTED.read_bytes()).hexdigest()
    stamp = VENV / "requirements.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        fault = make_venv(stamp, digest)
        if fault:
            return skip(fault)
    python = str(VENV / "bin/python")
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "lib")}
    os.execve(python, [python, str(HERE / "cases.py")], env)


if __name__ == "__main__":
    sys.exit(main())
