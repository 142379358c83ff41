#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives between processes, over MPI: the suite with 2 and 4 of them, with two network
namespaces as two hosts where this machine lets us make them, and what the others say and do when
one is killed, ends, or stands still at some round; a model that two of them share. One moment of each;
TEST_ATTACK=full: fifty.
Says so, and passes nothing, where there is no MPI.

Catches: sums in another order than threads have them; a process that waits for one that is gone;
different collectives that are taken for one; an end without a word."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import SLOW, Cases  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/" + os.environ.get("TEST_MODE", "release")))
RANK = BUILD / "tests/tools/comm_rank"
HANG_S = 120 * SLOW
FULL = os.environ.get("TEST_ATTACK") == "full"
# what an MPI leaves lying at its end is not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
cases = Cases()
check = cases.check


def mpirun(*words, n, more=(), **kw):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return subprocess.run(["mpirun", *root, "--oversubscribe", *more, "-np", str(n), RANK,
                           *map(str, words)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=HANG_S, **kw)


def suite():
    for n in (2, 4):
        p = mpirun("suite", n=n)
        check(f"suite of {n}", p.returncode == 0 and f"{n} ranks: good" in p.stdout,
              p.stdout[-500:] + p.stderr[-500:])


def falls():
    """Who stands still is found by the deadline; who is gone, by mpirun or by the deadline."""
    words = re.compile(r"^rank \d of 3: all-reduce \d+: not all ranks came within 1\.5 s$", re.M)
    rng = random.Random(3)
    for how in ("kill", "exit", "stall"):
        for i in range(50 if FULL else 1):
            who, at = rng.randrange(3), rng.randrange(60)
            begin = time.monotonic()
            p = mpirun(how, who, at, 1500, n=3)
            name = f"{how} rank {who} at {at}"
            check(name, p.returncode != 0 and (how != "stall" or words.search(p.stdout)),
                  f"{p.returncode} {p.stdout[-300:]} {p.stderr[-300:]}")
            if FULL:
                check(f"{name}: over within 10 s", time.monotonic() - begin < 10)


def others():
    """Collectives as long as each other, of different kinds: none gets the numbers of the other."""
    for case in range(4):
        p = mpirun("other", 1, case, 1500, n=3)
        check(f"does something else: {case}", p.returncode != 0
              and re.search(r" 0: not all ranks came within 1\.5 s$", p.stdout, re.M),
              f"{p.returncode} {p.stdout[-300:]} {p.stderr[-300:]}")


def gives_up():
    p = mpirun("abort", 1, 0, 60000, n=2)
    check("who gave up keeps its memory", "nothing was touched" in p.stdout, p.stdout + p.stderr[-500:])


def shared_model():
    """Two processes that share a model write what one does."""
    model = pathlib.Path("tests/golden/models/qwen2")
    golden = json.loads((model / "golden.json").read_text())
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    p = subprocess.run(
        ["mpirun", *root, "--oversubscribe", "-np", "2", BUILD / "tandem", "run", model,
         "--quantize", "f32", "--ignore-eos", "--ids", ",".join(map(str, golden["prompt"])), "-n",
         str(len(golden["greedy"]))], capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=HANG_S)
    check("run over two processes",
          p.stdout.strip() == ",".join(map(str, golden["greedy"])), p.stdout + p.stderr[-500:])


def ns(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


def two_hosts():
    """mpirun starts its second daemon through a script that enters the other namespace."""
    a, b, tag = "tandem-a", "tandem-b", str(os.getpid() % 10000)
    a, b, v, w = a + tag, b + tag, "tda" + tag, "tdb" + tag
    try:
        for name in (a, b):
            ns("netns", "add", name)
        ns("link", "add", v, "netns", a, "type", "veth", "peer", "name", w, "netns", b)
        for name, dev, host in ((a, v, 1), (b, w, 2)):
            ns("-n", name, "addr", "add", f"10.251.7.{host}/24", "dev", dev)
            ns("-n", name, "link", "set", dev, "up")
            ns("-n", name, "link", "set", "lo", "up")
        with tempfile.TemporaryDirectory() as tmp:
            agent = pathlib.Path(tmp) / "agent"
            agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {b} sh -c "$*"\n')
            agent.chmod(0o755)
            over = ["ip", "netns", "exec", a, "mpirun", "--allow-run-as-root", "--mca",
                    "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self", "--mca",
                    "btl_tcp_if_include", "10.251.7.0/24", "--mca", "oob_tcp_if_include",
                    "10.251.7.0/24", "--host", "10.251.7.1:1,10.251.7.2:1", "--oversubscribe",
                    "-np", "2"]
            more = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
            subprocess.run([*over, "true"], check=True, timeout=HANG_S / 2, **more)
            p = subprocess.run([*over, RANK.resolve(), "suite"], check=False, timeout=HANG_S, **more)
        check("two namespaces", p.returncode == 0 and "2 ranks: good" in p.stdout,
              p.stdout[-500:] + p.stderr[-500:])
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        cases.skip("two namespaces", "they cannot be made here, or mpirun not start in them "
                   f"({getattr(e, 'stderr', '') or e})".strip())
    finally:
        for name in (a, b):
            if shutil.which("ip"):
                ns("netns", "del", name, check=False)


def main():
    if not shutil.which("mpirun") or not list(BUILD.glob("libtandem_mpi.so")):
        cases.skip("MPI", "there is none here (make deps SETS=mpi installs one)")
    else:
        suite()
        falls()
        others()
        gives_up()
        shared_model()
        two_hosts()
    return cases.end()


sys.exit(main())
