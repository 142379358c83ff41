#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program's words and statuses: each command says what it should, each fault is one line on
stderr and status 2. Catches: a fault that prints nothing, prints a page, or ends well."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")

# words, status, what stdout has, what stderr is (whole lines, as patterns)
CASES = [
    ([], 2, None, r"tandem: no command given; `tandem help` lists them"),
    (["help"], 0, r"tandem doctor +\S.*tandem version", None),
    (["help"], 0, r"begin with:\n\n  tandem serve .*tandem chat .*tandem tune .*besides:\n\n  tandem bench", None),
    (["--help"], 0, r"tandem doctor", None),
    (["help", "doctor"], 0, r"tandem doctor", None),
    (["plan", "/no\x7fwhere"], 2, None, r"tandem plan: /no where: .*"),
    (["help", "docter"], 2, None, r'tandem: no command "docter"; did you mean "doctor"\?'),
    (["version"], 0, r"tandem \d+\.\d+\.\d+ \(\w+\)\nbuilt with .*cjson \d", None),
    (["--version"], 0, r"tandem \d", None),
    (["doctor"], 0, r"cpu +\S.*kernels +\d+ .*memory +\d+\.\d GiB", None),
    (["doctor", "--help"], 0, r"tandem doctor.*--kernels", None),
    (["doctor", "--kernels", "ref"], 0, r"kernels +\d+ ref\n", None),
    (["doctor", "--kernels", "avx3"], 2, None, r'tandem doctor: --kernels: "avx3" .*ref.*'),
    (["doctor", "--kernel"], 2, None, r"tandem doctor: --kernel: .*did you mean --kernels\?"),
    (["doctor", "--frob"], 2, None, r"tandem doctor: --frob: .*"),
    (["version", "now"], 2, None, r'tandem version: .*"now".*'),
    (["doctor", "--config", "/no/such"], 2, None, r"tandem doctor: .*/no/such.*"),
    (["docter"], 2, None, r'tandem: no command "docter"; did you mean "doctor"\?'),
    (["bench"], 2, None, r'tandem: no command "bench"; there are `tandem bench \w+`, .*'),
    (["bench", "--help"], 0, r"^  tandem bench beside.*tandem bench train MODEL[^\n]*\n$", None),
    (["help", "bench"], 0, r"^  tandem bench beside.*tandem bench train MODEL[^\n]*\n$", None),
    (["frobnicate", "--help"], 2, None, r'tandem: no command "frobnicate"; .*'),
    (["bench", "teapot"], 2, None, r'tandem: no command "bench teapot"; there are .*'),
    (["help", "bench", "engine"], 0, r"Usage: tandem bench engine .*MODEL", None),
    (["help", "doctor", "now"], 2, None, r'tandem: unexpected argument "now" behind "doctor"'),
    (["jobs", "got"], 2, None, r'tandem: no command "jobs got"; there are `tandem jobs cancel`, .*'),
    (["merge", "a"], 2, None, r"tandem merge: ADAPTER OUT is missing; .*"),
    (["jobs", "get"], 2, None, r"tandem jobs get: ID is missing; .*"),
    (["help", "jobs"], 0, r"Usage: tandem jobs \[OPTION", None),
    (["help", "jobs", "get"], 0, r"Usage: tandem jobs get ID", None),
    (["frobnicate"], 2, None, r'tandem: no command "frobnicate"; `tandem help` lists them'),
    (["tokenize"], 2, None, r"tandem tokenize: .*MODEL.*"),
    (["tokenize", "/no/such"], 2, None, r"tandem tokenize: /no/such: .*"),
    (["x" * 5000], 2, None, r"tandem: no command .*"),
]


def run(words, **kw):
    return subprocess.run([TANDEM, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, check=False, **kw)


def fault_of(words, status, out, err):
    """What is wrong with one case, or None."""
    p = run(words, stdout=subprocess.PIPE)
    if p.returncode != status:
        return f"status {p.returncode}, not {status}; stderr: {p.stderr}"
    if out is not None and not re.search(out, p.stdout, re.S):
        return f"stdout is {p.stdout!r}"
    if err is None and p.stderr:
        return f"stderr is {p.stderr!r}"
    if err is not None and not re.fullmatch(err + r"\n", p.stderr):
        return f"stderr is {p.stderr!r}"
    return None


def fault_of_config_line():
    """A line of a configuration file that cannot be read is named by file and line."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write("# what this machine runs\nkernels = ref\nkernals = avx2\n")
        f.flush()
        return fault_of(["doctor", "--config", f.name], 2, None,
                        rf"tandem doctor: {re.escape(f.name)}:3: kernals: .*kernels\?")


def fault_of_old_cpu():
    """A level that the CPU lacks is refused, and without it the program runs on the reference."""
    old = [shutil.which("qemu-x86_64"), "-cpu", "Nehalem", TANDEM]
    p = subprocess.run([*old, "doctor", "--kernels", "avx2"], capture_output=True, text=True)
    if p.returncode != 2 or not re.fullmatch(r"tandem doctor: --kernels avx2: .*\n", p.stderr):
        return f"{p}"
    p = subprocess.run([*old, "doctor"], capture_output=True, text=True)
    good = p.returncode == 0 and re.search(r"kernels +\d+ ref\n", p.stdout) and "AVX2" in p.stdout
    return None if good else f"{p}"


def fault_of_full_disk():
    """What cannot be written is a failure, not silence."""
    with open("/dev/full", "w", encoding="ascii") as full:
        p = run(["version"], stdout=full)
    return None if p.returncode == 1 and "No space left" in p.stderr else f"{p}"


def can_emulate():
    """An old CPU is had by emulation, where it is installed and the program is plain x86-64."""
    mode = os.environ.get("TEST_MODE", "release")
    if mode == "release" and os.uname().machine == "x86_64" and shutil.which("qemu-x86_64"):
        return True
    print("skip tandem doctor on an old CPU: no qemu-x86_64 for it here")
    return False


def main():
    results = [(" ".join(words)[:40] or "(no words)", fault_of(words, *rest))
               for words, *rest in CASES]
    results.append(("doctor, a bad line in its file", fault_of_config_line()))
    results.append(("version > /dev/full", fault_of_full_disk()))
    skipped = not can_emulate()
    if not skipped:
        results.append(("doctor on an old CPU", fault_of_old_cpu()))
    for name, fault in results:
        print(f"{'FAIL' if fault else 'ok  '} tandem {name}" + (f": {fault}" if fault else ""))
    failed = sum(1 for _, fault in results if fault)
    print(f"{len(results) - failed} passed, {failed} failed"
          + (", 1 skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
