#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow on purpose: a head, a body, byte by byte; an answer that is not read; a
connection on which nothing comes. Catches: a thread or a buffer that a slow client keeps, others
that wait for it, deadlines that every byte puts off."""
import random
import selectors
import sys
import threading
import time
from pathlib import Path

from attack import (IS_FULL, Cases, Holdings, Known, Raw, Tandem, bench, fill_cells, make_model,
                    request, scratch, size)

CLIENTS = size(80, 1000)
KINDS = ("head", "body", "reader", "silent")
SHAPE = ["-c", 8, "--input-tokens", 16, "--output-tokens", 16]


class Slow:
    """All slow clients, driven by one thread: a byte each a second."""

    def __init__(self, server, n):
        self.rng, self.over = random.Random(1), False
        whole = request("/v1/completions", {"prompt": "slow " * 100, "max_tokens": 2,
                                            "ignore_eos": True})
        long = request("/v1/completions", {"prompt": "x", "stream": True, "max_tokens": 1500,
                                           "ignore_eos": True, "logprobs": 5})
        self.clients = []
        for i in range(n):
            kind = KINDS[i % len(KINDS)]
            c = Raw(server, receive_buffer=2048 if kind == "reader" else None)
            rest = {"head": whole, "body": whole, "reader": b"", "silent": b""}[kind]
            if kind == "body":
                cut = whole.index(b"\r\n\r\n") + 4
                c.send(whole[:cut])
                rest = whole[cut:]
            elif kind == "reader":
                c.send(long)
            self.clients.append([kind, c, rest, None])
        self.thread = threading.Thread(target=self.drip)
        self.thread.start()

    def drip(self):
        while not self.over:
            began = time.monotonic()
            for client in self.clients:
                kind, c, rest, ended = client
                if ended or kind not in ("head", "body"):
                    continue
                try:
                    c.send(rest[:1])
                    client[2] = rest[1:]
                except OSError:
                    client[3] = time.monotonic()
            while not self.over and time.monotonic() < began + 1:
                time.sleep(0.02)

    def cut_off(self, kind):
        """How many of a kind the server has ended by itself, judged by what is readable."""
        select, n, asked = selectors.DefaultSelector(), 0, 0
        for k, c, _, _ in self.clients:
            if k == kind:
                asked += 1
                select.register(c.s, selectors.EVENT_READ)
        n = len(select.select(0.1))
        select.close()
        return n, asked

    def end(self):
        self.over = True
        self.thread.join()
        for _, c, _, _ in self.clients:
            c.close(rudely=self.rng.random() < 0.5)


def others(server, quiet):
    now = bench(server, *SHAPE, "--duration", size(1, 10))[0]
    assert now["bad"] == 0, (now["faults"], now["first_fault"])
    a, b = quiet["whole_ms"]["p99"], now["whole_ms"]["p99"]
    text = f"whole answers, p99: {a:.1f} ms quiet, {b:.1f} ms among {CLIENTS} slow clients"
    assert not IS_FULL or b < 2 * a + 20, text
    return text


def deadlines(slow):
    """A head must be whole in ten seconds, whatever drips in."""
    end = time.monotonic() + 40
    while True:
        heads, asked = slow.cut_off("head")
        if heads == asked:
            return f"{heads} slow heads were ended by the server"
        assert time.monotonic() < end, f"only {heads} of {asked} slow heads were ended"
        time.sleep(0.5)


def gives_back(server):
    """Whoever freed memory may sleep from then on: a thread of the allocator's own returns it."""
    with open(f"/proc/{server.pid}/maps", encoding="utf-8") as f:
        if "jemalloc" not in f.read():
            return "another allocator"
    names = [p.read_text().strip() for p in Path(f"/proc/{server.pid}/task").glob("*/comm")]
    assert any("jemalloc" in x for x in names), names


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 2048)
        with Tandem(model, "--kv-memory", size("32M", "64M")) as server:
            known = Known(server, 10)
            fill_cells(server)
            bench(server, *SHAPE, "-n", 200)
            quiet = bench(server, *SHAPE, "--duration", size(1, 10))[0]
            held = Holdings(server)
            slow = Slow(server, CLIENTS)
            try:
                cases.run("others are served", lambda: others(server, quiet))
                rng = random.Random(3)
                cases.run("and rightly", lambda: [known.ask(rng) for _ in range(20)]
                          and known.check())
                if IS_FULL:
                    cases.run("slow heads have a deadline", lambda: deadlines(slow))
            finally:
                slow.end()
            cases.run("what they held is back", held.check)
            cases.run("what is free is given back", lambda: gives_back(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
