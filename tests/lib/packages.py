# SPDX-License-Identifier: Apache-2.0
"""Cases that need packages of PyPI: run in a virtual environment of their own, build/deps/NAME, which is
made once for each requirements.txt. Standard library only."""
import hashlib
import os
import pathlib
import subprocess
import sys

LIB = pathlib.Path(__file__).resolve().parent


def skip(what, why):
    print(f"skip {what}: {why}\n0 passed, 0 failed, 1 skipped")
    return 0


def make(venv, wanted, stamp, digest):
    """What went wrong, or None. Of a package only what is imported is compiled, then; and where there
    is a pip, it is not installed again: each would take longer than the packages do."""
    python = venv / "bin/python"
    without, pip = ["--clear"], [python, "-m", "pip"]
    if subprocess.run([sys.executable, "-c", "import pip"], capture_output=True, check=False).returncode == 0:
        without, pip = ["--clear", "--without-pip"], [sys.executable, "-m", "pip", "--python", python]
    for words in ([sys.executable, "-m", "venv", *without, venv],
                  [*pip, "install", "-q", "--no-input", "--disable-pip-version-check", "--retries", "1",
                   "--no-compile", "-r", wanted]):
        p = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode != 0:
            return (p.stdout.strip().splitlines() or ["no reason given"])[-1]
    stamp.write_text(digest)
    return None


def ready(name, folder):
    """(The Python of build/deps/NAME with the packages of folder/requirements.txt, None), or (None, what
    went wrong)."""
    venv, wanted = pathlib.Path("build/deps") / name, folder / "requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    stamp = venv / "requirements.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        fault = make(venv, wanted, stamp, digest)
        if fault:
            return None, fault
    return str(venv / "bin/python"), None


def run(what, name, folder):
    """Becomes folder/cases.py under the packages of folder/requirements.txt; where they cannot be
    had, says so and returns."""
    python, fault = ready(name, folder)
    if fault:
        return skip(what, fault)
    env = {**os.environ, "PYTHONPATH": str(LIB)}
    os.execve(python, [python, str(folder / "cases.py"), *sys.argv[1:]], env)
