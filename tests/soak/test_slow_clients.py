#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that write their request, or read their answer, a byte a second, and others that say nothing: meanwhile
the server says that it lives, serves the rest rightly, ends by itself who takes too long, and holds nothing of them
when they are gone.

Faults they can catch: a thread, a buffer or a descriptor that a slow client keeps; a probe of an orchestrator that
waits behind them; others that do.

    test_slow_clients.py [--clients N] [--seconds S]

--clients 4000 --seconds 120 is what the server promises; from 60 seconds on /livez is judged by the clock: its p99
within 50 ms. Who was ended by the server comes again. RLIMIT_NOFILE bounds the clients. Standard library only."""
import argparse
import contextlib
import http.client
import multiprocessing
import pathlib
import random
import socket
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
from attack import Holdings, Known, connections, fill_cells, make_model, request  # noqa: E402
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402

KINDS = ("head", "body", "reader", "silent")
JUDGED_S, LIVE_MS, TICK_S, PROBE_S = 60, 50, 1, 0.02
WHOLE = request("/v1/completions", {"prompt": "slow " * 100, "max_tokens": 2, "ignore_eos": True})
LONG = request("/v1/completions", {"prompt": "x", "stream": True, "max_tokens": 100, "ignore_eos": True, "logprobs": 5})
CUT = WHOLE.index(b"\r\n\r\n") + 4


class Slow:
    """One of them; what it has still to say."""

    def __init__(self, port, kind):
        self.kind, self.port, self.s = kind, port, None
        self.open()

    def open(self):
        self.s = socket.socket()
        if self.kind == "reader":
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.s.settimeout(60 * SLOW)
        self.s.connect(("127.0.0.1", self.port))
        self.s.sendall({"body": WHOLE[:CUT], "reader": LONG}.get(self.kind, b""))
        self.s.setblocking(False)
        self.rest = {"head": WHOLE, "body": WHOLE[CUT:]}.get(self.kind, b"")

    def tick(self):
        """A byte; True: the server ended it."""
        try:
            self.s.send(self.rest[:1])
            self.rest = self.rest[1:]
            return not self.s.recv(1 if self.kind == "reader" else 4096)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self):
        self.s.close()


def probe(port, ends, out):
    """Milliseconds that /livez took, each on a connection of its own, as an orchestrator's."""
    ms = []
    while not ends.wait(PROBE_S):
        begin = time.monotonic()
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60 * SLOW)
        c.request("GET", "/livez")
        assert c.getresponse().read() is not None
        c.close()
        ms.append((time.monotonic() - begin) * 1000)
    out.put(sorted(ms))


def share(ms, of):
    return ms[min(len(ms) - 1, int(len(ms) * of))]


class World:
    def __init__(self, server, known, opt):
        self.server, self.known, self.opt, self.clients, self.again = server, known, opt, [], {}

    def drip(self):
        """Each a byte a second, and who was ended comes again."""
        rng, end = random.Random(3), time.monotonic() + self.opt.seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            for c in self.clients:
                if c.tick():
                    c.close()
                    c.open()
                    self.again[c.kind] = self.again.get(c.kind, 0) + 1
            self.known.ask(rng)
            time.sleep(max(0, min(begin + TICK_S, end) - time.monotonic()))

    def all(self):
        held = Holdings(self.server)
        n = min(self.opt.clients, connections(self.opt.clients))
        context = multiprocessing.get_context("fork")
        ends, out = context.Event(), context.Queue()
        live = context.Process(target=probe, args=(self.server.port, ends, out))
        live.start()
        try:
            for i in range(n):
                self.clients.append(Slow(self.server.port, KINDS[i % len(KINDS)]))
            m = self.server.metrics()["tandem_http_connections"]
            self.drip()
        finally:
            ends.set()
            for c in self.clients:
                with contextlib.suppress(OSError):
                    c.close()
        ms = out.get()
        live.join()
        self.known.check()
        text = (f"{n} clients, {m:.0f} connections, ended by the server and come again: "
                f"{ {k: self.again.get(k, 0) for k in KINDS} }; /livez {len(ms)} times, p50 {share(ms, 0.5):.1f}, p99 "
                f"{share(ms, 0.99):.1f}, at most {ms[-1]:.1f} ms; {self.known.asked} others, rightly; {held.check()}")
        assert m >= n, text
        assert self.opt.seconds < JUDGED_S or share(ms, 0.99) < LIVE_MS, text
        return text


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clients", type=int, default=100)
    ap.add_argument("--seconds", type=float, default=2)
    opt = ap.parse_args()
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 512)
        with Tandem(model, "--kv-memory", "32M", "--max-connections", 3 * opt.clients + 100, "--max-connections-ip",
                    2 * opt.clients + 100, "--max-waiting", 2 * opt.clients + 100) as server:
            known = Known(server, 10)
            fill_cells(server)
            cases.run("slow clients", lambda: World(server, known, opt).all())
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
