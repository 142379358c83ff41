#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program's words and statuses: each command says what it should, each fault is one line on
stderr and status 2. Catches: a fault that prints nothing, prints a page, or ends well."""
import os
import re
import subprocess
import sys

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")

# words, status, what stdout has, what stderr is (whole lines, as patterns)
CASES = [
    ([], 2, None, r"tandem: no command given; `tandem help` lists them"),
    (["help"], 0, r"tandem doctor +\S.*tandem version", None),
    (["--help"], 0, r"tandem doctor", None),
    (["help", "doctor"], 0, r"tandem doctor", None),
    (["help", "docter"], 2, None, r'tandem help: no command "docter"; did you mean "doctor"\?'),
    (["version"], 0, r"tandem \d+\.\d+\.\d+ \(\w+\)\nbuilt with .*cjson \d", None),
    (["--version"], 0, r"tandem \d", None),
    (["doctor"], 0, r"cpu +\S.*kernels +\d+ .*memory +\d+\.\d GiB", None),
    (["doctor", "--help"], 0, r"tandem doctor", None),
    (["doctor", "--frob"], 2, None, r'tandem doctor: .*"--frob".*'),
    (["version", "now"], 2, None, r'tandem version: .*"now".*'),
    (["docter"], 2, None, r'tandem: no command "docter"; did you mean "doctor"\?'),
    (["frobnicate"], 2, None, r'tandem: no command "frobnicate"; `tandem help` lists them'),
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


def fault_of_full_disk():
    """What cannot be written is a failure, not silence."""
    with open("/dev/full", "w", encoding="ascii") as full:
        p = run(["version"], stdout=full)
    return None if p.returncode == 1 and "No space left" in p.stderr else f"{p}"


def main():
    results = [(" ".join(words)[:40] or "(no words)", fault_of(words, *rest))
               for words, *rest in CASES]
    results.append(("version > /dev/full", fault_of_full_disk()))
    for name, fault in results:
        print(f"{'FAIL' if fault else 'ok  '} tandem {name}" + (f": {fault}" if fault else ""))
    failed = sum(1 for _, fault in results if fault)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
