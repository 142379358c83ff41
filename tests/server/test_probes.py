#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The port of --probe-port. Catches: probes that wait behind those who hold every connection, or are refused for
them; one that wants a key, or answers more than whether the server lives and is ready; a server that calls itself
dead while it ends what is in work; a port that somebody has, which nobody hears of."""
import http.client
import json
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

KEY = "k" * 16


def ask(port, path, method="GET"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120 * SLOW)
    try:
        c.request(method, path)
        r = c.getresponse()
        r.read()
        return r.status
    finally:
        c.close()


def serve(model, *options):
    """A server and its port for probes: one that nobody had a moment ago, and nobody took since."""
    for _ in range(20):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        try:
            return Tandem(model, "--name", "m", "--probe-port", port, *options), port
        except AssertionError as why:
            if "in use" not in str(why):
                raise
    raise AssertionError("every port is taken")


def answers(model):
    s, port = serve(model, "--api-key", KEY)
    with s:
        paths = ("/livez", "/readyz", "/health", "/ping", "/v2/health/live", "/v2/health/ready")
        assert {ask(port, p) for p in paths} == {200}
        assert ask(port, "/livez", "HEAD") == 200 and ask(port, "/livez", "POST") == 405
        assert {ask(port, p) for p in ("/", "/metrics", "/v1/models", "/v1/chat/completions")} == {404}
        assert ask(s.port, "/livez") == 200
        assert s.get("/metrics").status == 401 and s.get("/metrics", Authorization=f"Bearer {KEY}").status == 200


def held(model):
    """Whoever holds all connections of the one port has none of the other."""
    s, port = serve(model, "--max-connections", 8, "--max-connections-ip", 8)
    with s:
        many = [socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) for _ in range(64)]
        for c in many:
            c.sendall(b"GET /livez HTTP/1.1\r\nHost: x")  # and no more
        assert {ask(port, "/livez"), ask(port, "/readyz")} == {200}
        for c in many:
            c.close()


def drains(model):
    s, port = serve(model, "--shutdown-timeout", 120)
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120 * SLOW)
    body = {"prompt": "a", "max_tokens": 100_000, "ignore_eos": True, "stream": True}
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    assert r.status == 200 and r.readline().startswith(b"data: "), r.status
    s.process.terminate()
    while ask(port, "/readyz") == 200:  # the signal was not seen yet
        time.sleep(0.01)
    assert ask(port, "/readyz") == 503 and ask(port, "/livez") == 200
    r.close()
    c.close()
    assert s.stop() == 0, s.output()


def taken(model):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        try:
            Tandem(model, "--probe-port", port).stop()
        except AssertionError as why:
            assert "--probe-port" in str(why) and "in use" in str(why), why
        else:
            raise AssertionError("it starts without its probes")


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 131072)
        for case in (answers, held, drains, taken):
            cases.run(case.__name__, lambda f=case: f(model))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
