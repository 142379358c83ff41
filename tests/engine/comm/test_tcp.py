#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives between processes over sockets: the suite with 2 to 4 of them; what the others say and
do when one is killed, ends, or stands still; who is let in. One moment of each; TEST_ATTACK=full:
fifty.

Catches: frames taken for others; a rank that waits for one that is gone; a stranger that is taken for a
rank; ranks that were told different things and begin nevertheless.

Standard library only."""
import os
import pathlib
import random
import re
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ranks import BUILD, Sockets, in_use  # noqa: E402
from serving import SLOW, Cases  # noqa: E402

RANK = BUILD / "tests/tools/comm_rank"
FULL = os.environ.get("TEST_ATTACK") == "full"
HANG_S = 120


def run(*words, n, during=None, but=None):
    """All statuses; of who stands still (but): that it was killed at the end."""
    for _ in range(5):
        group = Sockets([RANK, *words], n)
        if during:
            during(group)
        status = group.wait(HANG_S * SLOW, but)
        if not in_use(group):
            break
    return status, group


def suite(n):
    status, group = run("suite", n=n)
    assert status == [0] * n and f"over tcp: {n} ranks: good" in group.said(), group.said()


def falls(how, who, at):
    begin = time.monotonic()
    status, group = run(how, who, at, 1500, n=3, but=who if how == "stall" else None)
    took = time.monotonic() - begin
    others = [r for r in range(3) if r != who]
    words = r"^rank \d of 3: all-reduce \d+: rank \d (is gone|did not come within 1\.5 s)$"
    for r in others:
        assert status[r] == 1, (status, group.said())
        assert re.search(words, group.said(r), re.M), group.said(r)
    if FULL:
        assert took < 10 * SLOW, took


def strangers():
    """Some who know nothing of us come first: one is silent, one says something else, one leaves."""
    def visit(group):
        end, held = time.monotonic() + 30, []
        os.kill(group.pids()[1], signal.SIGSTOP)
        while len(held) < 3 and time.monotonic() < end and group.process[0].poll() is None:
            try:
                held.append(socket.create_connection(("127.0.0.1", group.port), timeout=5))
            except OSError:
                time.sleep(0.02)
        for s, word in zip(held, (b"", b"GET / HTTP/1.1\r\nHost: here.example\r\n\r\n", b"tandem")):
            try:
                s.sendall(word)
                s.close()
            except OSError:
                pass
        os.kill(group.pids()[1], signal.SIGCONT)
    status, group = run("suite", n=2, during=visit)
    assert status == [0, 0], group.said()


def told_differently():
    """Two are rank 1."""
    for _ in range(5):
        group = Sockets([RANK, "suite"], 3, ranks=(0, 1, 1))
        status = group.wait(HANG_S * SLOW)
        if not in_use(group):
            break
    assert status == [1, 1, 1] and "all must be told alike" in group.said(0), group.said()


def main():
    cases = Cases()
    rng = random.Random(5)
    for n in (2, 3, 4):
        cases.run(f"suite of {n}", lambda n=n: suite(n))
    for how in ("kill", "exit", "stall"):
        for _ in range(50 if FULL else 1):
            who, at = rng.randrange(3), rng.randrange(60)
            cases.run(f"{how} rank {who} at {at}", lambda h=how, w=who, a=at: falls(h, w, a))
    cases.run("strangers", strangers)
    cases.run("told differently", told_differently)
    return cases.end()


sys.exit(main())
