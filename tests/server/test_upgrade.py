#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data directory of an older program under this one (tests/golden/upgrade/make_upgrade.py made it).

Faults they can catch: a migration that loses a row or changes what it says; an adapter, a checkpoint or a file
that is not found or not taken any more; other answers, other log-probabilities; a job that was paused and does
not go on from where it was; a store that is not copied before it is changed.

Standard library only."""
import json
import math
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/upgrade"
sys.path[:0] = [str(ROOT / "tests/lib"), str(GOLDEN)]
sys.dont_write_bytecode = True
from make_upgrade import JOBS, good, record, result, served, wait  # noqa: E402
from serving import BIN, Cases, scratch  # noqa: E402


def has(new, old, where, within=1e-5):
    """All that was said before is said now; there may be more members. Numbers may differ by what the system's
    exp and log do."""
    if isinstance(old, dict):
        for name in old:
            assert isinstance(new, dict) and name in new, f"{where}: {name} is not there"
            has(new[name], old[name], f"{where}.{name}", within)
    elif isinstance(old, list):
        assert isinstance(new, list) and len(new) == len(old), f"{where}: {len(old)} were there, now {new}"
        for i, (a, b) in enumerate(zip(new, old)):
            has(a, b, f"{where}[{i}]", within)
    elif isinstance(old, float):
        assert math.isclose(new, old, rel_tol=within, abs_tol=within), f"{where}: {old}, now {new}"
    else:
        assert new == old, f"{where}: {old!r}, now {new!r}"


def numbers(text):
    """A CSV's head, and its cells as numbers where they are."""
    head, *rows = text.splitlines()
    return head.split(","), [[float(c) if c else None for c in row.split(",")] for row in rows]


def resumed(server, old):
    """The paused job goes on, to the losses and the model that the older program came to."""
    job = old["job"]
    good(server.post(f"{JOBS}/{job}/resume", {}))
    wait(server, job, "succeeded")
    now = result(server, job)
    has(now["answer"], old["answer"], "answer", 1e-3)
    (head, rows), (old_head, old_rows) = numbers(now["metrics"]), numbers(old["metrics"])
    assert head[:len(old_head)] == old_head, head
    has([row[:len(old_head)] for row in rows], old_rows, "metrics", 1e-3)
    return f"{len(rows)} steps"


def main():
    cases = Cases()
    said = json.loads((GOLDEN / "said.json").read_text())
    with scratch() as tmp:
        data = tmp / "data"
        with tarfile.open(GOLDEN / "data.tar.xz") as tar:
            more = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian 12's Python has none
            tar.extractall(data, **more)
        with served(data) as server:
            now = record(server)
            for part in ("models", "files", "contents", "jobs", "events", "checkpoints", "answers"):
                cases.run(part, lambda p=part: has(now[p], said[p], p))
            cases.run("a paused job", lambda: resumed(server, said["paused"]))
        cases.check("a copy before", list((data / "backups").glob("*.db")), sorted(data.iterdir()))
        p = subprocess.run([BIN, "doctor", "--data-dir", data], capture_output=True, text=True, check=False)
        cases.check("doctor", p.returncode == 0, p.stdout + p.stderr)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
