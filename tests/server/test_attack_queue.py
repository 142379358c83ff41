#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A queue that stands: one sequence runs, others wait. Catches: a stream that is silent while it
waits, until a proxy cuts it; a stream whose wait broke its status or its events; a refusal that
parses what it refuses."""
import sys
import time

from attack import SLOW, Cases, Raw, Tandem, events, make_model, request, scratch

CTX = 131072
# minutes of work on any machine: nothing ends before it is left
LONG = {"prompt": "wait", "max_tokens": CTX - 1000, "ignore_eos": True, "stream": True}
QUEUED = ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/v1/rerank", "/rerank", "/v2/rerank",
          "/v1/score", "/score", "/v1/classify", "/classify", "/api/chat")
TRIES = 20  # a machine that stands still for seconds can spoil one


def stands(server, n_wait):
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end:
        m = server.metrics()
        if (m["tandem_requests_running"], m["tandem_requests_waiting"]) == (1, n_wait):
            return True
        time.sleep(0.002)
    return False


def stand(server, n):
    """So many connections, each with a long stream; the first runs."""
    for _ in range(TRIES):
        all_ = []
        for i in range(n):
            c = Raw(server)
            c.send(request("/v1/completions", LONG))
            all_.append(c)
            if not stands(server, i):
                break  # one has reached its timeout
        else:
            return all_
        leave(all_)
        server.wait_idle()
    raise AssertionError("no queue stands")


def leave(streams):
    for c in streams:
        c.close()


def pings(server):
    """Comments come while a stream waits, and then its whole answer, as if it had not waited."""
    streams = stand(server, 3)
    with Raw(server) as c:
        c.send(request("/v1/completions", {**LONG, "max_tokens": 4}))
        status, headers = c.head()
        assert status == 200 and headers["content-type"] == "text/event-stream", headers
        assert c.until(b": ping\n\n"), c.got
        assert b"data:" not in c.got, c.got
        leave(streams)
        assert c.until(b"[DONE]"), c.got
        assert len(events(c.got)) >= 2 and b'"error"' not in c.got, c.got


def fails_as_an_event(server):
    """What fails behind a comment is the last event of a stream that has begun."""
    for _ in range(TRIES):
        streams = stand(server, 3)
        with Raw(server) as c:
            c.send(request("/v1/completions", LONG))
            status, _ = c.head()
            while status == 200 and not c.got.endswith(b"0\r\n\r\n") and c.more():
                pass
        leave(streams)
        server.wait_idle()
        assert status in (200, 504), (status, c.got)
        if status == 504:
            continue  # its time was over before that of a comment
        assert b'"error"' in events(c.got)[-1] and b"[DONE]" not in c.got, c.got
        if c.got.startswith(b"8\r\n: ping\n\n"):
            return
        # the time of those before it was over before that of a comment: it ran at once
        assert b'"choices"' in events(c.got)[0], c.got
    raise AssertionError("no comment was sent")


def refuses_unread(server):
    """What is no JSON is 503, as all that is sent to a full queue, and keeps its connection."""
    for _ in range(TRIES):  # until one try was over before the first stream was
        streams = stand(server, 3)
        got = []
        with Raw(server) as c:
            c.send(b"".join(request(path, b"{") for path in QUEUED))
            for _ in QUEUED:
                status, headers = c.head()
                c.until_bytes(int(headers["content-length"]))
                c.got = c.got[int(headers["content-length"]):]
                got.append((status, int(headers.get("retry-after", 0))))
        still = server.metrics()["tandem_requests_waiting"]
        leave(streams)
        server.wait_idle()
        if still == 2:
            assert all(status == 503 and 1 <= retry <= 120 for status, retry in got), dict(zip(QUEUED, got))
            return
    raise AssertionError("the streams were always faster")


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", CTX)
        one = ("--max-seqs", 1, "--kv-memory", "128M")
        with Tandem(model, *one, "--stream-ping", 0.05) as server:
            cases.run("a waiting stream is not silent", lambda: pings(server))
        with Tandem(model, *one, "--stream-ping", 0.05, "--request-timeout", 2 * SLOW) as server:
            cases.run("and fails as one", lambda: fails_as_an_event(server))
        with Tandem(model, *one, "--max-waiting", 2) as server:
            cases.run("a full queue refuses unread", lambda: refuses_unread(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
