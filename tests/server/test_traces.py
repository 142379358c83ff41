#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of requests, as a collector of OpenTelemetry gets them.
Catches: a span under another trace than its sender named, or of a request whose sender wants none; parts
that lie outside their request; a collector that is gone, slow or cross and is felt by who asks, or is not
tried again; what is not sent when the server ends; a key of the collector's that gets lost."""
import http.server
import json
import queue
import re
import socket
import sys
import threading
import time

from attack import Cases, Tandem, make_model, scratch
from serving import SLOW

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ASK = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5, "ignore_eos": True}


class Collector:
    """What it was sent; `status`: what it answers."""

    def __init__(self, port=0):
        got, self.status, self.spans, self.seen = queue.Queue(), 200, [], []
        me = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(me.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")
                got.put((self.path, dict(self.headers), json.loads(body), me.status))

            def log_message(self, *_):
                pass

        self.got = got
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        post = self.got.get(timeout=120 * SLOW)
        self.seen.append(post)
        resource, = post[2]["resourceSpans"]
        scope, = resource["scopeSpans"]
        if post[3] == 200:
            self.spans += scope["spans"]
        return post

    def until(self, is_it):
        """The first span of that kind."""
        while not (found := [s for s in self.spans if is_it(s)]):
            self.next()
        return found[0]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def of_id(request):
    return lambda s: s["kind"] == 2 and attributes(s)["tandem.request_id"] == request


def chat(s, request, **headers):
    r = s.post("/v1/chat/completions", {"model": "tiny", **ASK}, **{"X-Request-Id": request, **headers})
    assert r.status == 200, r
    return r


def tree(s, c):
    r = chat(s, "one", traceparent=f"00-{TRACE}-{PARENT}-01")
    top = c.until(of_id("one"))
    path, headers, body, _ = c.seen[-1]
    assert path == "/v1/traces" and headers["x-who"] == "a b", (path, headers)
    about = {a["key"]: a["value"]["stringValue"] for a in body["resourceSpans"][0]["resource"]["attributes"]}
    assert about["service.name"] == "a service" and about["service.version"], about
    assert (top["traceId"], top["parentSpanId"]) == (TRACE, PARENT), top
    assert top["name"] == "POST /v1/chat/completions" and "status" not in top, top
    has = attributes(top)
    assert has["http.response.status_code"] == "200" and has["gen_ai.request.model"] == "tiny", has
    assert has["gen_ai.usage.output_tokens"] == str(r.json["usage"]["completion_tokens"]) == "5", has
    parts = [p for p in c.spans if p.get("parentSpanId") == top["spanId"]]
    assert sorted(p["name"] for p in parts) == ["decode", "prefill", "queue"], parts
    for p in parts:
        times = [int(x) for x in (top["startTimeUnixNano"], p["startTimeUnixNano"], p["endTimeUnixNano"],
                                  top["endTimeUnixNano"])]
        assert times == sorted(times) and p["traceId"] == TRACE, (p, top)
    assert all(re.fullmatch("[0-9a-f]{16}", p["spanId"]) for p in [*parts, top])


def as_its_sender_wants(s, c):
    """One that is not to be kept is before one that is, and does not come."""
    chat(s, "unwanted", traceparent=f"00-{TRACE}-{PARENT}-00")
    chat(s, "wanted")
    top = c.until(of_id("wanted"))
    assert "parentSpanId" not in top and top["traceId"] != TRACE, top
    assert not [x for x in c.spans if of_id("unwanted")(x)]
    r = s.post("/v1/chat/completions", {"model": "nobody"}, **{"X-Request-Id": "wrong"})
    assert attributes(c.until(of_id("wrong")))["http.response.status_code"] == str(r.status)


def collector_is_away(s, c):
    """Answers go on; when it is back it has what came meanwhile."""
    c.status = 503
    chat(s, "meanwhile")
    while c.next()[3] != 503:
        pass
    c.status = 200
    c.until(of_id("meanwhile"))


def refused(s, c):
    """What it will never take is lost, said once, and the next is offered."""
    c.status = 400
    chat(s, "never")
    while c.next()[3] != 400:
        pass
    s.until_said("traces are lost")
    c.status = 200
    chat(s, "again")
    c.until(of_id("again"))
    assert not [x for x in c.spans if of_id("never")(x)]


def at_the_end(model):
    c = Collector()
    with Tandem(model, "--otlp-endpoint", f"http://127.0.0.1:{c.port}/") as s:
        chat(s, "last")
    c.until(of_id("last"))
    c.close()


def nobody_there(model):
    """A port where nobody listens; the server serves, and ends."""
    c = Collector()
    c.close()
    with Server(model, "--otlp-endpoint", f"http://127.0.0.1:{c.port}") as s:
        chat(s, "alone")
        s.until_said("traces are lost")
        chat(s, "still alone")


def hangs(model):
    """One that takes a connection and says nothing: the server's end does not wait until it times out."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        s = Server(model, "--otlp-endpoint", f"http://127.0.0.1:{there.getsockname()[1]}")
        chat(s, "unheard")
        held, _ = there.accept()
        assert held.recv(1)
        assert s.stop() == 0, s.output()
        assert "the server ends" in s.output() and "timed out" not in s.output(), s.output()
        held.close()


def bad_options(model):
    for env, options, words in (({}, ["--otlp-endpoint", "here:1"], "--otlp-endpoint"),
                                ({"OTEL_EXPORTER_OTLP_HEADERS": "x"}, ["--otlp-endpoint", "http://127.0.0.1:9"], "NAME=VALUE"),
                                ({}, ["--otlp-share", "2"], "otlp-share")):
        s = Tandem(model, *options, env=env, waits=False)
        assert s.process.wait(60 * SLOW) != 0 and words in s.output(), s.output()


class Server(Tandem):
    def until_said(self, words):
        while words not in self.output():
            assert self.process.poll() is None
            time.sleep(0.02)


def main():
    cases = Cases()
    with scratch() as tmp:
        model, c = make_model(tmp / "tiny"), Collector()
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{c.port}", "OTEL_SERVICE_NAME": "a service",
               "OTEL_EXPORTER_OTLP_HEADERS": "x-who=a%20b,x-more=1"}
        with Server(model, env=env) as s:
            for case in (tree, as_its_sender_wants, collector_is_away, refused):
                cases.run(case.__name__, lambda f=case: f(s, c))
        c.close()
        cases.run("at the end", lambda: at_the_end(model))
        cases.run("nobody there", lambda: nobody_there(model))
        cases.run("hangs", lambda: hangs(model))
        cases.run("bad options", lambda: bad_options(model))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
