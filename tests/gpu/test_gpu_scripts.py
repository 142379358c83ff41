#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts for a machine with a GPU, on the twins of CUDA and NCCL. A run that has no time still tells
its aims; sections whose program fails do not take others down; one that runs too long is ended with all
that it started.

Catches: an option that the program has no more; a figure that is not in the program's JSON; a report that
is written only at the end; a process that outlives the script and keeps the GPU's memory."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {name}: {detail}", file=sys.stderr)


def bench(tmp, **env):
    p = subprocess.run([HERE / "bench.py"], capture_output=True, text=True, check=False, timeout=300,
                       env={**os.environ, "GPU": "fake", "OUT": str(tmp), **env})
    return p, json.loads((tmp / "bench-gpu.json").read_text())


def without_time(tmp):
    p, told = bench(tmp, GPU_MINUTES="0.1")
    check("no time: status", p.returncode == 0, p.stdout[-1500:] + p.stderr[-500:])
    check("no time: aims", len(told["aims"]) == 7 and p.stdout.count("\naim ") == 7, str(told["aims"]))
    check("no time: left out", told["left_out"] >= 12 and told["failed"] == 0, str(told))


def without_program(tmp):
    p, told = bench(tmp, TANDEM_BUILD="/nowhere")
    check("no program: is told", p.returncode == 1 and told["failed"] >= 2, p.stdout[-1500:])
    check("no program: what needs none is there", told["figures"].get("copy_gb_s"), str(told))


def sections(tmp):
    """One at a time, by the functions themselves: some seconds in all."""
    os.environ.update(GPU="fake", OUT=str(tmp))
    import bench as b
    import program
    import report
    r = report.Report("sections", 5)
    state = b.Bench(tmp / "models")
    state.folder.mkdir()
    r.section("limits", 60, b.limits, state)
    for name, fn, args in (("start", program.make_and_start, ("1.2B",)),
                           ("a server", program.server, ("1.2B",)),
                           ("training", program.training, ("1.2B", (16, 0))),
                           ("collectives", program.collectives, ()), ("products", b.products, ()),
                           ("32B", program.large, ("int8",))):
        r.section(name, 120, fn, state, *args)
    check("sections", r.failed == 0 and r.passed >= 8, (tmp / "sections.txt").read_text()[-2000:])
    for what in ("start s", "served 4", "LoRA TFLOP/s", "full training"):
        check(f"1.2B {what}", ("1.2B", what) in state.got, str(state.got))  # 0.0 on a busy machine
    check("32B prompt", state.got.get(("32B int8", "prompt TFLOP/s")), str(state.got))
    r.section("fault", 10, lambda r: 1 // 0)
    check("a fault is told", r.failed == 1 and "ZeroDivisionError" in (tmp / "sections.txt").read_text())
    began = time.monotonic()
    for most in (2, 10, 30):  # until it had time for its first word
        status, out, err = r.run("sh", "-c", "echo told; sleep 77.7 & sleep 77.7", most=most)
        if out:
            break
    check("one that is late", status == 124 and out == "told\n" and "time was up" in err, f"{status} {out}")
    check("is ended with what it started", time.monotonic() - began < 70)


def main():
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as tmp:
        tmp = pathlib.Path(tmp)
        for i, fn in enumerate((without_time, without_program, sections)):
            (tmp / str(i)).mkdir()
            with contextlib.redirect_stdout(io.StringIO()):  # the reports' lines are in their files
                fn(tmp / str(i))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
