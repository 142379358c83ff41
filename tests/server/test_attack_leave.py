#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that go away, at every moment that there is: in the head, in the body, in the queue, in
the prompt, among the tokens, before the last byte; gently and by reset; among clients that stay.
Catches: a sequence that runs on for nobody, cells or descriptors that are never given back, one
client's leaving that ends another's answer."""
import random
import sys
import threading
import time

from attack import (Cases, Holdings, Known, Raw, Tandem, fill_cells, make_model, request,
                    scratch, size, together)

N, CLIENTS = size(150, 10000), size(8, 24)
PHASES = ("head", "body", "queue", "prompt", "tokens", "end")


def body_of(rng, phase):
    body = {"prompt": "long " * (180 if phase in ("queue", "prompt") else 4), "ignore_eos": True,
            "max_tokens": 600 if phase == "tokens" else rng.randint(1, 8), "temperature": 0,
            "stream": phase == "tokens" or rng.random() < 0.5}
    if phase == "prompt":
        body["echo"], body["logprobs"] = rng.random() < 0.3, 1
    return body


def read_to_the_end(c):
    """All but the last byte."""
    _, headers = c.head()
    if "content-length" in headers:
        c.until_bytes(int(headers["content-length"]) - 1)
    else:
        c.until(b"[DONE]")


def leave(server, rng, counts):
    phase = rng.choice(PHASES)
    whole = request("/v1/completions", body_of(rng, phase))
    c = Raw(server)
    try:
        if phase == "head":
            c.send(whole[:rng.randrange(0, whole.index(b"\r\n\r\n"))])
        elif phase == "body":
            c.send(whole[:rng.randrange(whole.index(b"\r\n\r\n") + 4, len(whole))])
        else:
            c.send(whole)
        if phase == "prompt":
            time.sleep(rng.random() * 0.02)
        elif phase == "tokens":
            for _ in range(rng.randint(1, 6)):
                if b"[DONE]" not in c.got:  # behind it nothing comes, and the connection stays
                    c.more()
        elif phase == "end":
            read_to_the_end(c)
    except OSError:
        pass  # the server may have been faster
    c.close(rng.random() < 0.5)
    counts[phase] = counts.get(phase, 0) + 1


def storm(server, known, n, counts):
    left = {"leave": n, "stay": n}
    lock = threading.Lock()

    def work(rng):
        while True:
            with lock:
                kinds = [k for k, v in left.items() if v > 0]
                if not kinds:
                    return
                kind = rng.choice(kinds)
                left[kind] -= 1
            if kind == "leave":
                leave(server, rng, counts)
            else:
                known.ask(rng)

    together(CLIENTS, work)


def main():
    cases, counts = Cases(), {}
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 2048)
        with Tandem(model, "--kv-memory", size("16M", "64M")) as server:
            fill_cells(server)
            known = Known(server, 40)
            storm(server, known, max(N // 20, 20), {})  # what is allocated once, is
            held = Holdings(server)
            storm(server, known, N, counts)
            cases.run("those who stayed have their answers", known.check)
            cases.run("what those who left held is back", held.check)
            rng = random.Random(0)
            cases.run("and it still answers", lambda: [known.ask(rng), known.check()] and None)
    print(f"{known.asked} stayed; left in: {counts}")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
