#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests made to hurt: nested, endless, in a million pieces, contradicting themselves. Catches: a
stack or a buffer without a ceiling, time that grows with the square of what is sent, a 5xx, an
answer that is no error object, a message that tells what is none of the client's business."""
import re
import sys

from attack import Cases, Holdings, Raw, Tandem, make_model, request, scratch, size

SECRETS = re.compile(rb"0x[0-9a-f]{6,}|/(tmp|home|work|usr|proc)/|engine/|server/\w+\.c|0\.0\.0\.0")
PATH = "/v1/chat/completions"
HEAD_MOST = 16 << 10


def good_error(reply, statuses):
    status, body = reply
    assert status in statuses, (status, body[:200])
    if body:
        assert b'"error"' in body and not SECRETS.search(body), body[:300]
    return status


def ask(server, body, statuses=(400,), path=PATH):
    with Raw(server) as c:
        try:
            c.send(request(path, body))
        except OSError:
            pass  # refused before it was whole
        return good_error(c.reply(), statuses)


def deep(server):
    n = size(10 ** 5, 10 ** 6)
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"1}"), (b'[{"a":', b"}]")):
        ask(server, opening * n + closing * n, (400, 413))
        ask(server, opening * n, (400, 413))
        ask(server, b'{"messages":' + opening * n + closing * n + b"}", (400, 413))
    ask(server, b'{"messages":[{"role":"user","content":' + b"[" * 65 + b"]" * 65 + b"}]}")


def texts(server):
    """Bytes that are no JSON, and JSON that is no request."""
    n = size(10 ** 4, 10 ** 6)
    for body in (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe{}", b"\0", b'{"messages":null}',
                 b'{"a":1,"a":2}', b'{"messages":[{"role":"user","content":"\\ud800"}]}',
                 b'{"messages":[{"role":"user","content":"a\\u0000b"}],"model":"\\u0000"}',
                 b'{"max_tokens":' + b"9" * n + b"}", b'{"max_tokens":1e999999}',
                 b'{"' + b"k" * n + b'":1}',
                 b"{" + b",".join(b'"k%d":%d' % (i, i) for i in range(n // 10)) + b"}",
                 b'{"messages":[' + b",".join([b"{}"] * (n // 10)) + b"]}",
                 b" " * n + b"{}" + b" " * n):
        ask(server, body)


def ids(server):
    """Token ids out of the vocabulary; texts that do not fit the context."""
    for bad in ([10 ** 9], [-1], [2 ** 31], [2 ** 53], [2 ** 63 - 1], [1.5], [5, "1"], [None], [[1], "a"],
                [[]], [], [True], 5, {}):
        r = server.post("/v1/completions", {"prompt": bad, "max_tokens": 1})
        assert r.status == 400 and (r.error["param"] or "").startswith("prompt"), (bad, r)
    r = server.post("/v1/completions", {"prompt": "a " * size(10 ** 4, 10 ** 6), "max_tokens": 1})
    assert r.status in (400, 413) and r.error["message"], r


def told(server, data, statuses):
    """Why it is refused. Only of what is longer than a head may be can the answer be lost: what comes
    behind the refusal resets the connection, and the client's own system drops what it had."""
    with Raw(server) as c:
        try:
            c.send(data)
            status, _ = c.head()
        except ConnectionError:
            assert len(data) > HEAD_MOST, (data[:200], "the connection was dropped without a word")
            assert server.get("/livez").status == 200
            return
        assert status in statuses, (data[:200], status)


def heads(server):
    """Heads that are huge, many, or contradict themselves. What was refused is not read on."""
    many = b"".join(b"X-%d: y\r\n" % i for i in range(size(2000, 100000)))
    for head, statuses in (
            (b"X: " + b"a" * size(10 ** 5, 10 ** 7) + b"\r\n", (400, 413, 431)),
            (many, (400, 413, 431)),
            (b"Content-Length: 2\r\nContent-Length: 3\r\n", (400,)),
            (b"Content-Length: -1\r\n", (400,)),
            (b"Content-Length: 2x\r\n", (400,)),
            (b"Content-Length: 99999999999999999999\r\n", (400, 413)),
            (b"Content-Length: 999999999999\r\n", (400, 413)),
            (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", (400,)),
            (b"Transfer-Encoding: gzip\r\n", (400, 501)),
            (b"A\0B: c\r\n", (400,)),
            (b"Content-Length : 2\r\n", (400,)),
            (b" folded: 1\r\n", (400,))):
        told(server, b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
             b"Content-Type: application/json\r\n" + head + b"\r\n{}", statuses)
    path = b"/" + b"a" * size(10 ** 5, 10 ** 6)
    told(server, b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 404, 414, 431))


def pieces(server):
    """A body that comes a byte a chunk."""
    n = size(50_000, 2_000_000)
    text = b'{"prompt":"' + b"a" * (n - 40) + b'","max_tokens":1}'
    chunks = b"".join(b"1\r\n%c\r\n" % x for x in text) + b"0\r\n\r\n"
    head = request("/v1/completions", b"", Transfer_Encoding="chunked").replace(
        b"Content-Length: 0\r\n", b"")
    with Raw(server) as c:
        try:
            c.send(head + chunks)
        except OSError:
            pass
        return f"status {good_error(c.reply(), (400, 413))} of {len(text)} chunks"


def too_long(server):
    """A body over the route's ceiling is refused by its length alone, and by what came of it."""
    with Raw(server) as c:
        c.send(b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
               b"application/json\r\nContent-Length: 4000000000\r\n\r\n")
        assert good_error(c.reply(), (413,)) == 413
    with Raw(server) as c:
        c.send(request(PATH, b"", Transfer_Encoding="chunked").replace(
            b"Content-Length: 0\r\n", b""))
        for _ in range(32):
            c.send(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        c.send(b"400\r\n" + b" " * 1024 + b"\r\n0\r\n\r\n")
        assert good_error(c.reply(), (413,)) == 413


def past_the_context(server):
    """A chat that no context holds is refused by its length alone; other bodies hold many texts."""
    n = (16 << 20) + 1
    for path in (PATH, "/v1/messages", "/api/chat", "/infill"):
        with Raw(server) as c:
            c.send(request(path, b"", Content_Length=n))
            status, body = c.reply()
            assert status == 413 and b"maximum context length is 512" in body, (path, status, body)
    ask(server, b'{"messages":[{"role":"user","content":"' + b"a" * (n - 200) + b'"}]}')
    with Raw(server) as c:
        c.send(request("/v1/completions", b'{"prompt":["a"],"max_tokens":1,"user":"' + b"a" * n + b'"}'))
        assert c.reply()[0] == 200


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 512)
        with Tandem(model) as server:
            ask(server, b"[" * 1000)
            too_long(server)
            held = Holdings(server)
            for case in (deep, texts, ids, heads, pieces, too_long, past_the_context):
                cases.run(case.__name__.replace("_", " "), lambda f=case: f(server))
            cases.run("memory is flat", lambda: held.check(64 << 20))
            r = server.post("/v1/completions", {"prompt": "x", "max_tokens": 3})
            cases.run("it still answers", lambda: r.status == 200 or repr(r))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
