#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that end their side when they have asked, as `nc -N` does, and wait for the answer; and those
that really go.
Catches: an answer that never comes to who wants it, with the request's last byte, in the queue, while
tokens are made; an interim response to HTTP/1.0; a client that is gone and has its tokens made for it."""
import json
import socket
import sys
import time

from attack import Cases, Raw, Tandem, events, make_model, request, scratch

LONG = 30000


def made(server):
    return server.metrics()["tandem_generation_tokens_total"]


def ask(server, stream, n=40, old=False, runs=False):
    """runs: until tokens are made for it, with nobody else there."""
    if runs:
        server.wait_idle()
    before = made(server)
    body = {"prompt": "some words", "max_tokens": n, "ignore_eos": True, "stream": stream, "temperature": 0}
    whole = request("/v1/completions", body)
    c = Raw(server)
    c.send(whole.replace(b"HTTP/1.1", b"HTTP/1.0", 1) if old else whole)
    while runs and made(server) == before:
        time.sleep(0.01)
    return c


def answer_of(c, stream):
    """What came until the server closed: interim responses, then one answer."""
    while c.more():
        pass
    interim = 0
    while c.got.startswith(b"HTTP/1.1 100 "):
        c.got = c.got.partition(b"\r\n\r\n")[2]
        interim += 1
    head, _, rest = c.got.partition(b"\r\n\r\n")
    assert head.split()[1] == b"200", c.got[:300]
    if stream:
        said = events(rest)
        assert said[-1] == b"[DONE]", said[-1:]
        text = "".join(json.loads(x)["choices"][0]["text"] for x in said[:-1] if json.loads(x)["choices"])
    else:
        text = json.loads(rest)["choices"][0]["text"]
    return text, interim


def half(server, want, stream, old=False, n=40):
    """With the last byte of the request, and a while behind it."""
    for behind in (False, True):
        c = ask(server, stream, n, old, behind)
        c.s.shutdown(socket.SHUT_WR)
        text, interim = answer_of(c, stream)
        assert text == want, (behind, text[:80], want[:80])
        assert interim <= (0 if old else 1), interim
        c.close()


def queued(server, want):
    """Behind one that takes the only place."""
    first = ask(server, False, LONG, runs=True)
    c = ask(server, False)
    c.s.shutdown(socket.SHUT_WR)
    first.close()
    assert answer_of(c, False)[0] == want
    c.close()


def gone(server):
    """An ordinary end of a client's socket, which looks the same at first."""
    server.wait_idle()
    before = made(server)
    c = ask(server, False, LONG, runs=True)
    c.close()
    server.wait_idle()
    assert made(server) - before < LONG, made(server) - before


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", LONG + 2000)
        with Tandem(model, "--max-seqs", 1) as server:
            def text(n):
                r = server.post("/v1/completions", {"prompt": "some words", "max_tokens": n, "temperature": 0,
                                                    "ignore_eos": True})
                return json.loads(r.body)["choices"][0]["text"]
            want, want_long = text(40), text(2000)
            for stream in (False, True):
                for old in (False, True):
                    name = f"{'a stream' if stream else 'an answer'}{', HTTP/1.0' if old else ''}"
                    cases.run(name, lambda s=stream, o=old: half(server, want_long, s, o, 2000))
            cases.run("in the queue", lambda: queued(server, want))
            cases.run("who goes is gone", lambda: gone(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
