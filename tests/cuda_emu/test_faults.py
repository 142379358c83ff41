#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulation of a GPU finds what it is there to find: a missing barrier, a copy that nobody
waited for, a barrier that some threads do not reach, a write past shared memory, a wide load that is
not aligned; and finds nothing where nothing is wrong.

Catches: an emulation that runs threads so that races cannot show."""
import os
import pathlib
import platform
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
LIB = BUILD / "libtandem_cuda_emu.so"
TRAP = -4 if platform.machine() == "x86_64" else -5
# number of the kernel in faults.cc, what it is, what becomes of it (below 0: a signal)
CASES = ((0, "a barrier", 0), (1, "no barrier", 1), (2, "a copy waited for", 0),
         (3, "a copy not waited for", 1), (4, "a barrier of some threads", -6),
         (5, "a write past shared memory", -11), (6, "a wide load that is not aligned", TRAP))


def main():
    if not LIB.exists():
        print(f"no {LIB}: the emulation is built in release alone\n0 passed, 0 failed, 1 skipped")
        return 0
    failed = 0
    for which, name, want in CASES:
        code = f"import ctypes, sys; sys.exit(ctypes.CDLL({str(LIB.resolve())!r}).emu_faults({which}))"
        p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if p.returncode != want:
            failed += 1
            print(f"FAIL {name}: {p.returncode}, not {want}: {p.stderr[-300:]}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
