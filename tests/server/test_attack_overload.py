#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten times what the server can do. Catches: a queue without end, an admitted request that is
dropped, a refusal that takes long or is no 429 or 503, or that waits for the turn of those who compute, memory
that grows with those who wait."""
import ctypes
import os
import pathlib
import platform
import sys

from attack import (IS_FULL, Cases, Holdings, Tandem, bench, connections, fill_cells, make_model,
                    scratch, size)

SECONDS, CLIENTS = size(2, 60), connections(2500)
SHAPE = ["--input-tokens", 32, "--output-tokens", 200, "--no-stream"]


def at_rate(server, rate, seconds):
    """What comes of it, at this rate or at the first above it that is too much: a machine that stood
    still while it was measured can do more than was seen."""
    for _ in range(10):
        r = bench(server, *SHAPE, "--rate", rate, "--duration", seconds, "-c", CLIENTS, "--warmup",
                  0)[0]
        strange = {k: v for k, v in r["faults"].items() if k not in ("429", "503")}
        assert not strange, f"{strange}: {r['first_fault']}"
        assert r["good"] > 0, r
        if r["bad"] > 0:
            return r
        rate = min(4 * rate, 1e6)
    raise AssertionError(f"nothing is refused: {r}")


def overload(server, state):
    able = bench(server, *SHAPE, "-c", 64, "--duration", size(1, 5))[0]["requests_per_s"]
    rate = at_rate(server, 10 * able, 1)["rate"]
    fill_cells(server)
    held = Holdings(server)  # with what connections cost once
    r = state["r"] = at_rate(server, rate, SECONDS)
    return (f"{able:.0f}/s able, {r['rate']:.0f}/s asked for {SECONDS} s: {r['good']} answered, "
            f"{r['bad']} refused; {held.check()}")


def quickly(state):
    ms, late = state["r"]["refused_ms"], state["r"]["own_late_ms"]
    text = (f"refused after p50 {ms['p50']:.1f}, p99 {ms['p99']:.1f}, at most {ms['max']:.1f} ms, of "
            f"which the client's own p99 is {late['p99']:.1f}, at most {late['max']:.1f}")
    assert not IS_FULL or ms["p99"] - late["p99"] < 50, text
    return text


def told_when(server):
    """A refusal says when to come back."""
    seen = []
    for _ in range(200):
        r = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "n": 1})
        if r.status != 200:
            seen.append(r)
    for r in seen:
        assert r.status in (429, 503) and int(r.headers["Retry-After"]) <= 120 and r.error


def turns(server):
    """Nanoseconds that each thread may run before the others' turn, by sched_getattr: of those that answer, and of
    the others."""
    number, libc = {"x86_64": 315}.get(platform.machine(), 275), ctypes.CDLL(None, use_errno=True)
    of = {True: [], False: []}
    for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
        room = (ctypes.c_uint64 * 6)()
        assert libc.syscall(number, int(task.name), room, 48, 0) == 0, os.strerror(ctypes.get_errno())
        of[(task / "comm").read_text().startswith("MHD")].append(room[3])
    return of[True], of[False]


def ahead(server):
    """Who answers has a turn as soon as there is something to answer, whoever computes."""
    answer, others = turns(server)
    assert len(answer) > 1 and others, (answer, others)
    if max(others) == 0:
        return "this system has no turns of threads"
    assert max(answer) < min(others), (answer, others)
    return f"{max(answer)} ns beside {min(others)}"


def main():
    cases, state = Cases(), {}
    with scratch() as tmp:
        model = os.environ.get("TEST_ATTACK_MODEL") or make_model(tmp / "tiny", "--ctx", 512)
        with Tandem(model, "--max-waiting", 64) as server:
            cases.run("admitted requests end, the others are refused",
                      lambda: overload(server, state))
            cases.run("who refuses has its turn before who computes", lambda: ahead(server))
            cases.run("refusals are quick", lambda: quickly(state))
            cases.run("and afterwards all is well", lambda: told_when(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
