#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` over ranks that share the model: threads, processes over sockets, and over MPI where
there is one. And what happens when a rank is killed or stands still, while it loads or under load: a
few moments of each; TEST_ATTACK=full: fifty, and all must be over within ten seconds.

Faults it can catch: text that is not that of one rank, with an adapter or without, or other bits over
processes than over threads; a rank that waits for one that is gone, or that ends without a word; a
client that is left without an answer; a server without a rank that says it is ready. Jobs over ranks
are test_tuning_ranks.py's.

Standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from ranks import Mpi, Shared, Sockets, has_mpi  # noqa: E402
from serving import BIN, SLOW, Cases, Tandem  # noqa: E402

MODEL = "tests/golden/models/llama_plain"
NAMES = ("llama_plain", "tuned")
PROMPTS = [[1 + (7 * i + k) % 150 for k in range(5 + i)] for i in range(6)]
OPTIONS = ("--quantize", "f32", "--adapter", f"tuned={MODEL}/lora", "--max-adapters", "4",
           "--kv-memory", "1M", "--ctx", "512")
FULL = os.environ.get("TEST_ATTACK") == "full"
HANG_S = 300


def shared(kind, n, rank_s=60, **more):
    return Shared(kind, n, MODEL, "--rank-timeout", 8 if FULL else rank_s * SLOW, *OPTIONS, **more)


def texts(server):
    """What the server writes, of each model, and how sure it was."""
    said = []
    for name in NAMES:
        for prompt in PROMPTS:
            r = server.post("/v1/completions", {
                "model": name, "prompt": prompt, "max_tokens": 12, "temperature": 0, "logprobs": 1})
            assert r.status == 200, r
            choice = r.json["choices"][0]
            said.append((choice["text"], choice["logprobs"]["token_logprobs"]))
    return said


def same(got, want, within):
    assert len(got) == len(want)
    for (text, sure), (want_text, want_sure) in zip(got, want):
        assert text == want_text, (text, want_text)
        assert all(abs(a - b) <= within for a, b in zip(sure, want_sure)), (sure, want_sure)


def processes(kind, want):
    with shared(kind, 2) as server:
        same(texts(server), want, 0)


def does_not_begin(words, last, said):
    """Ranks that were told different things, or of which one cannot: all end, and one says why."""
    group = Sockets([BIN, "serve", "--port", 0, "--threads", 1, *words], 2, last=last)
    status = group.wait(HANG_S * SLOW)
    assert status[0] and None not in status, (status, group.said())
    assert re.search(said, group.said(), re.M), group.said()


# ---- falling


class Load(threading.Thread):
    """Asks for streams, one after the other, until the server is gone: how each ended."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ends, self.stops = server, [], False
        self.start()

    def ask(self):
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60 * SLOW)
        try:
            c.request("POST", "/v1/completions", json.dumps({
                "model": NAMES[len(self.ends) % 2], "prompt": PROMPTS[0], "max_tokens": 400,
                "stream": True}), {"Content-Type": "application/json"})
            r = c.getresponse()
            body = r.read()
        finally:
            c.close()
        if r.status != 200:
            return str(r.status)
        events = body.split(b"\n\n")
        return ("whole" if events[-2] == b"data: [DONE]"
                else "error" if b'"error"' in events[-2] else "cut")

    def run(self):
        while not self.stops:
            try:
                self.ends.append(self.ask())
            except TimeoutError:
                self.ends.append("left waiting")
            except (OSError, http.client.HTTPException, IndexError):
                self.ends.append("gone")
                return


def check_ends(load, may_be_cut):
    load.join(60 * SLOW)
    assert "left waiting" not in load.ends, load.ends
    assert may_be_cut or "cut" not in load.ends, load.ends


def take_away(group, pid, how):
    """Kills it; or stops it, again and again, should somebody wake what stands still."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        while how != "kill" and group.is_there(pid):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.01)


def moment(kind, n, how, who, rng, is_early):
    """Waits for a moment, and takes rank `who` away."""
    server = shared(kind, n, rank_s=60 if how == "kill" else 10, waits=False)
    load, is_told = None, kind is Sockets and who != 0  # mpirun may take rank 0 away in the middle of a word
    try:
        pids = server.group.pids()
        if is_early:  # all have met
            end = time.monotonic() + 60 * SLOW
            while server.group.said().count(" bound ") + server.group.said().count(
                    " following ") < n and time.monotonic() < end:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.02)
        else:
            server.wait_ready(60 * SLOW)
            load = Load(server)
            time.sleep(rng.random() * 0.3)
        falls, begin = threading.Thread(target=take_away, args=(server.group, pids[who], how),
                                        daemon=True), time.monotonic()
        falls.start()
        if load and is_told and how == "kill":
            told, seen = server.hear_fall(begin, 60 * SLOW)
            assert told, (seen, server.group.said())
        status = (server.group.wait(HANG_S * SLOW, who) if kind is Sockets
                  else server.group.wait(HANG_S * SLOW))
        took = time.monotonic() - begin
        said = server.group.said()
        assert all(s not in (0, None) for r, s in enumerate(status)
                   if kind is Mpi or r != who), (status, said)
        if kind is Sockets:
            for r in set(range(n)) - {who}:
                words = re.findall(r"^tandem serve: .*rank \d (?:is gone|left before|did not come).*",
                                   server.group.said(r), re.M)
                assert len(words) == 1, (r, said)
        if load:
            check_ends(load, not is_told)
        return took
    finally:
        if load:
            load.stops = True
        server.group.kill()


def falls(kind, n, how, who, rng, is_early=False):
    took = moment(kind, n, how, who, rng, is_early)
    if FULL:
        assert took < 10, took
    return f"{took:.2f} s"


def all_falls(cases, kind):
    rng = random.Random(11)
    some = [("kill", 1, False), ("kill", 0, False), ("kill", 1, True), ("stall", 1, False)]
    if FULL:
        some = [(rng.choice(("kill", "kill", "kill", "stall")), rng.randrange(3), False)
                for _ in range(40)] + [("kill", rng.randrange(3), True) for _ in range(10)]
    elif kind is Mpi:
        some = some[:1]
    for how, who, is_early in some:
        cases.run(f"{kind.name}: {how} rank {who}{' early' if is_early else ''}",
                  lambda h=how, w=who, y=is_early: falls(kind, 3 if FULL else 2, h, w, rng, y))


def main():
    cases = Cases()
    with Tandem(MODEL, *OPTIONS, "--threads", 2) as one:
        want = texts(one)
    with Tandem(MODEL, *OPTIONS, "--threads", 2, "--tp", 2) as two:
        got = texts(two)
        cases.run("threads: text of one rank", lambda: same(got, want, 1e-4))
    cases.run("sockets: bits of threads", lambda: processes(Sockets, got))
    cases.run("sockets: another type", lambda: does_not_begin(
        [MODEL], ["--quantize", "int8"], "^tandem serve: .*rank 1 has another model than rank 0"))
    cases.run("sockets: no such adapter", lambda: does_not_begin(
        [MODEL, "--adapter", "x=/nowhere"], [], "^tandem serve: --adapter x=/nowhere:"))
    all_falls(cases, Sockets)
    if has_mpi():
        cases.run("MPI: bits of threads", lambda: processes(Mpi, got))
        all_falls(cases, Mpi)
    else:
        cases.skip("MPI", "there is none here (make deps SETS=mpi installs one)")
    return cases.end()


sys.exit(main())
