#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives between processes over sockets: the suite with 2 to 4 of them; what the others say and
do when one is killed, ends, stands still, or does something else; who is let in. One moment of each;
TEST_ATTACK=full: fifty, and a rank that comes so late that a network's own patience would be over.

Catches: frames taken for others; a rank that waits for one that is gone, or takes a busy one for gone; a
stranger that is taken for a rank, or that ranks wait behind; ranks that were told different things, or
are of different versions, and begin nevertheless; a rank that cannot come again.

Standard library only."""
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ranks import BUILD, Sockets  # noqa: E402
from serving import SLOW, Cases  # noqa: E402

RANK = BUILD / "tests/tools/comm_rank"
FULL = os.environ.get("TEST_ATTACK") == "full"
HANG_S = 120


def run(*words, n, ranks=None, during=None, but=None, **env):
    """All statuses; of who stands still (but): that it was killed at the end."""
    group = Sockets([RANK, *words], n, ranks, **env)
    if during:
        during(group)
    return group.wait(HANG_S * SLOW, but), group


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


def call(group, word):
    """Says so to rank 0 of a group that begins, as soon as it listens; None: it never did."""
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and group.process[0].poll() is None:
        try:
            s = socket.create_connection(("127.0.0.1", group.port), timeout=60 * SLOW)
            s.sendall(word)
            return s
        except OSError:
            time.sleep(0.02)
    return None


def hello(rank, size, version=None):
    said = subprocess.run([BUILD / "tandem", "version"], capture_output=True, text=True, check=True)
    version = version or said.stdout.split()[1]
    return (b"tandem\0\4" + version.encode().ljust(16, b"\0") + struct.pack("=iiHH", rank, size, 0, 0)
            + os.urandom(32))


def strangers():
    """Some who know nothing of us come first: one says something else, one leaves in the middle, and
    more than there is place for are silent and stay."""
    held = []

    def visit(group):
        words = [b"GET / HTTP/1.1\r\nHost: here.example\r\n\r\n", b"tandem", hello(1, 2)[:20]]
        held[:] = [call(group, w) for w in words + [b""] * 100]
        for s in held[:2]:
            if s:
                s.close()
        group.start(1)
    status, group = run("suite", n=2, ranks=[0], during=visit)
    assert status == [0, 0] and None not in held, group.said()


def comes_again():
    """A rank that ended while others were still to come, and was started again."""
    def visit(group):
        s = call(group, hello(1, 3))
        if s:
            s.close()
        group.start(1)
        group.start(2)
    status, group = run("suite", n=3, ranks=[0], during=visit)
    assert status == [0, 0, 0], group.said()


def other_version():
    status, group = run("suite", n=2, ranks=[0], during=lambda g: call(g, hello(1, 2, "0.0.7")))
    assert status == [1] and "of another version of this program" in group.said(), group.said()


def differs():
    status, group = run("differ", 1, 63, 60000, n=3)
    assert status == [1] * 3, (status, group.said())
    assert re.search(r"all-reduce 0: rank \d does something else$", group.said(), re.M), group.said()


def another(case):
    status, group = run("other", 1, case, 60000, n=3)
    assert 0 not in (status[0], status[2]), (status, group.said())
    assert re.search(r" 0: rank \d does something else$", group.said(), re.M), group.said()


def another_early(case):
    """What is compared is a frame that was there before it was waited for."""
    _, group = run("other", 1, case, 60000, n=2)
    assert re.search(r" 1: rank 0 does something else$", group.said(1), re.M), group.said()


def gives_up():
    status, group = run("abort", 1, 0, 60000, n=2)
    assert status[1] == 0 and "nothing was touched" in group.said(1), (status, group.said())


def comes_late():
    status, group = run("late", 1, 15, 60000, n=2)
    assert status == [0, 0], group.said()


def told_differently():
    """Two are rank 1."""
    status, group = run("suite", n=3, ranks=(0, 1, 1))
    assert status == [1, 1, 1] and "all must be told alike" in group.said(0), group.said()


def secret_file(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return str(path)


def takes_all(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        assert more, got
        got += more
    return got


def secret(folder):
    """Who has it is let in, whatever others say meanwhile: one that cannot prove it, and says that it is
    of another version, or a rank that there is not; one that sends back what it was sent."""
    file = secret_file(folder, "secret", "some thirty bytes of a secret.\n")
    said = []

    def visit(group):
        for word in (hello(1, 3, "0.0.7"), hello(7, 9), hello(1, 3)):
            s = call(group, word)
            welcome = takes_all(s, 80)
            s.sendall(welcome[-32:])
            said.append(s.recv(1))
            s.close()
        group.start(1)
        group.start(2)
    status, group = run("suite", n=3, ranks=[0], during=visit, MASTER_SECRET_FILE=file)
    assert status == [0] * 3 and said == [b""] * 3, (status, said, group.said())
    assert "does not know the secret" in group.said(0), group.said()


def secret_for_some(folder):
    """Of two ranks one has another secret, or none, or the other none."""
    one = secret_file(folder, "one", "a secret of ranks, the first")
    two = secret_file(folder, "two", "a secret of ranks, the second")
    for first, second, words in ((one, two, "does not know the secret"), (one, "", "asks for a secret"),
                                 ("", one, "has no secret")):
        def second_comes(group, second=second):
            group.env["MASTER_SECRET_FILE"] = second
            group.start(1)
            status[1] = group.process[1].wait(HANG_S * SLOW)
            group.kill()
        status = {}
        _, group = run("suite", n=2, ranks=[0], during=second_comes, MASTER_SECRET_FILE=first)
        assert status[1] == 1 and words in group.said(1), (status, group.said())


def impostor(folder):
    """Who listens where rank 0 should be, and does not know the secret, is told nothing."""
    file = secret_file(folder, "secret", "some thirty bytes of a secret.")
    with socket.create_server(("127.0.0.1", 0)) as server:
        group = Sockets([RANK, "suite"], 2, [], MASTER_SECRET_FILE=file,
                        MASTER_PORT=str(server.getsockname()[1]))
        group.start(1)
        s, _ = server.accept()
        takes_all(s, 68)
        s.sendall(b"tandem\0\4" + struct.pack("=iI", 0, 1) + os.urandom(64))
        assert s.recv(1) == b"", "it said more"
        s.close()
        assert group.wait(HANG_S * SLOW) == [1] and "does not know the secret" in group.said(), group.said()


def bad_secret(folder):
    for name, text, words in (("short", "0123456789abcde\n", "at least 16 bytes"),
                              ("long", "x" * 5000, "long"), (None, "", "No such file")):
        file = secret_file(folder, name, text) if name else str(pathlib.Path(folder) / "missing")
        status, group = run("suite", n=2, ranks=[0], MASTER_SECRET_FILE=file)
        assert status == [1] and "MASTER_SECRET_FILE" in group.said() and words in group.said(), group.said()


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
    cases.run("comes again", comes_again)
    cases.run("another version", other_version)
    cases.run("does something else", differs)
    with tempfile.TemporaryDirectory() as folder:
        for case in (secret, secret_for_some, impostor, bad_secret):
            cases.run(case.__name__, lambda c=case: c(folder))
    for i in range(4):
        cases.run(f"another as long, {i}", lambda i=i: another(i))
    for i in range(4, 7):
        cases.run(f"another as long, early, {i}", lambda i=i: another_early(i))
    cases.run("gives up", gives_up)
    if FULL:
        cases.run("comes late", comes_late)
    return cases.end()


sys.exit(main())
