#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd streams of requests, to nginx and to this server: who reads how many requests out of them. Catches: a
body that ends elsewhere than another parser in the row has it end, two answers to one request, bytes behind
what was refused that are taken for a request, a form that is taken here and nowhere else.

    tests/server/test_differ_nginx.py [COUNT [SEED]]      300 unless told; 5,000 with TEST_ATTACK=full

A stream is one odd request, sometimes with another hidden in its body, then a plain one, the probe. nginx
reads whole bodies and asks a server of this program's, which answers as ours would by content. Of each stream
are compared: the classes of the answers in their order, and whose they are. What we refuse and nginx takes
must be refused for a reason of STRICTER; what we take and nginx refuses be a form of LOOSER. Needs nginx."""
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse

from attack import SLOW, Cases, Tandem, make_model, scratch, size

PATHS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/sbin:/bin"
BODY = b'{"prompt":"a"}'
PROBE = b"GET /health HTTP/1.1\r\nHost: localhost\r\nx-request-id: probe\r\nConnection: close\r\n\r\n"
HIDDEN = b"GET /health HTTP/1.1\r\nHost: localhost\r\nx-request-id: hidden\r\n\r\n"

# Reasons for differences, as tests/server/README.md says them: of what is wrong with a request here, by a part of
# our message ("" where the connection is closed without one).
STRICTER = {
    "does not answer to that Host": "a Host that this server does not know",
    "this path takes no body": "a body where none is wanted",
    "status 413": "a body where none is wanted",
    "the only expectation known": "an expectation that nobody can meet",
    "bare LF character": "line ends of one byte",
    "bare CR character": "line ends of one byte",
    "chunked encoding is syntactically incorrect": "chunks that are not to the letter",
    "footer": "trailers that are not to the letter",
    "invalid character in field name": "headers that are not to the letter",
    "has no colon character": "headers that are not to the letter",
    "more then two whitespaces": "spaces in the first line",
    "total size of the request headers": "many headers",
    "request is syntactically incorrect": "a version that is none, or none given",
    "the query holds a broken escape": "escapes that are none, or of a control character",
    "nothing is served at this path": "paths are names, not ways through folders",
}
GOES_ON = ("does not answer to that Host", "nothing is served at this path", "is not for this path", "broken escape",
           "not valid JSON")
READS_ON = "both refuse; here the request's end is known, and the next one is read"
MUTE = "both refuse; what cannot be a request gets no word here, and the connection is closed"
LOOSER = (
    (lambda name, data: re.search(rb"\n[\w-]+: *\t", data), "a tab before a value is white space (RFC 9110, 5.6.3)"),
    (lambda name, data: b"Connection: closed" in data, "nginx looks for `close` at the beginning of a word"),
    (lambda name, data: name == "heads large", "nginx takes lines of 8 KB, here a head has 32 KB"),
)
SILENT = (
    (lambda name, data: re.match(rb"[\r\n]", data), "empty lines before a request: few are taken here"),
)


# ---- streams -----------------------------------------------------------------------------------------------

class Odd:
    """A request in parts, each of which a form may change."""

    def __init__(self, rng):
        self.method, self.target, self.version, self.end = b"GET", b"/health", b"HTTP/1.1", b"\r\n"
        self.headers = [[b"Host", b": ", b"localhost"], [b"x-request-id", b": ", b"odd"]]
        self.body, self.before, self.chunks = b"", b"", None
        if rng.random() < 0.2:
            self.headers.append([b"User-Agent", b": ", b"differ/1"])

    def add(self, name, value, colon=b": ", rng=None):
        self.headers.insert(rng.randrange(len(self.headers) + 1) if rng else len(self.headers), [name, colon, value])

    def post(self, rng, how=None):
        self.method, self.target, self.body = b"POST", b"/tokenize", BODY
        self.add(b"Content-Type", b"application/json")
        if (how or rng.choice(["length", "chunks"])) == "length":
            self.add(b"Content-Length", b"%d" % len(self.body))
        else:
            self.add(b"Transfer-Encoding", b"chunked")
            self.body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces(rng, BODY)) + b"0\r\n\r\n"
        return self

    def set(self, name, value):
        for h in self.headers:
            if h[0].lower() == name.lower():
                h[2] = value

    def drop(self, name):
        self.headers = [h for h in self.headers if h[0].lower() != name.lower()]

    def bytes(self):
        lines = [b" ".join([self.method, self.target, self.version])] + [b"".join(h) for h in self.headers]
        return self.before + b"".join(x + self.end for x in lines) + self.end + self.body


def pieces(rng, data):
    while data:
        n = rng.randrange(1, len(data) + 1)
        yield data[:n]
        data = data[n:]


FORMS = {}


def form(f):
    FORMS[f.__name__.replace("_", " ")] = f
    return f


def hide(o):
    """A request behind the body, or in it, as the reader sees it."""
    o.body += HIDDEN


@form
def plain(o, rng):
    if rng.random() < 0.6:
        o.post(rng)


@form
def length_twice(o, rng):
    o.post(rng, "length")
    o.add(b"Content-Length", rng.choice([b"%d" % len(BODY), b"0", b"5", b"%d" % (len(BODY) + len(HIDDEN))]), rng=rng)
    hide(o)


@form
def length_as_list(o, rng):
    o.post(rng, "length").set(b"Content-Length", b"%d%b%d" % (len(BODY), rng.choice([b",", b", ", b" "]), len(BODY)))


@form
def length_not_a_number(o, rng):
    n = len(BODY)
    o.post(rng, "length").set(b"Content-Length", rng.choice([
        b"+%d" % n, b"-1", b"-0", b"0x0f", b"%d.0" % n, b"1e1", b"", b" ", b"\t", b"%da" % n, b"'%d'" % n, b"%d;" % n,
        b"\xd9\xa1", b"1 5", b"%d\x00" % n, b"%d\x0b" % n]))


@form
def length_with_zeros(o, rng):
    o.post(rng, "length").set(b"Content-Length", b"0" * rng.choice([1, 2, 10, 100]) + b"%d" % len(BODY))


@form
def length_too_large(o, rng):
    o.post(rng, "length").set(b"Content-Length", b"%d" % rng.choice(
        [2**31, 2**32, 2**32 + len(BODY), 2**63 - 1, 2**63, 2**64, 2**64 + len(BODY), 10**40]))


@form
def length_short(o, rng):
    """What is left of the body stands where a request is expected."""
    o.post(rng, "length").set(b"Content-Length", b"%d" % rng.randrange(len(BODY)))
    if rng.random() < 0.5:
        o.body = o.body[:-1] + b"\r\n"


@form
def length_long(o, rng):
    """The probe is part of the body."""
    o.post(rng, "length").set(b"Content-Length", b"%d" % (len(BODY) + rng.randrange(1, len(PROBE) + 20)))


@form
def length_and_chunks(o, rng):
    o.post(rng, rng.choice(["length", "chunks"]))
    if o.body == BODY:
        o.add(b"Transfer-Encoding", b"chunked", rng=rng)
        o.body = rng.choice([b"0\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)])
        o.set(b"Content-Length", rng.choice([b"0", b"%d" % len(o.body), b"4", b"%d" % (len(o.body) + len(HIDDEN))]))
    else:
        o.add(b"Content-Length", rng.choice([b"0", b"%d" % len(o.body), b"4", b"%d" % (len(o.body) + len(HIDDEN))]), rng=rng)
    hide(o)


@form
def coding_unknown(o, rng):
    o.post(rng, "chunks").set(b"Transfer-Encoding", rng.choice([
        b"gzip", b"identity", b"xchunked", b"chunkedx", b"chunked, identity", b"gzip, chunked", b"chunked, chunked",
        b"identity, chunked", b"", b"\x0bchunked", b"chunked\x00", b"'chunked'", b"chunked;q=1", b"chunked,", b",chunked",
        b"cHuNkEd", b"chunked ", b"\tchunked", b"compress"]))


@form
def coding_twice(o, rng):
    o.post(rng, "chunks").add(b"Transfer-Encoding", rng.choice([b"chunked", b"identity", b"gzip", b"x"]), rng=rng)


@form
def coding_in_old(o, rng):
    o.post(rng, "chunks").version = b"HTTP/1.0"


@form
def coding_name(o, rng):
    """Headers that are nearly Transfer-Encoding."""
    o.post(rng, "chunks")
    for h in o.headers:
        if h[0] == b"Transfer-Encoding":
            h[0] = rng.choice([b"Transfer_Encoding", b"Transfer-Encoding ", b" Transfer-Encoding", b"Transfer-Encoding\t",
                               b"Transfer\xe2\x80\x90Encoding", b"TRANSFER-ENCODING", b"Transfer-Encodin", b"X:Transfer-Encoding",
                               b"Transfer-Encoding\x00", b"\x0bTransfer-Encoding"])


@form
def length_name(o, rng):
    o.post(rng, "length")
    for h in o.headers:
        if h[0] == b"Content-Length":
            h[0] = rng.choice([b"Content_Length", b"Content-Length ", b" Content-Length", b"Content-Length\t", b"CONTENT-LENGTH",
                               b"content-length", b"Content-Length\x00", b"Content Length", b"Content-Length\r"])


@form
def chunk_size(o, rng):
    o.post(rng, "chunks")
    n = len(BODY)
    o.body = rng.choice([b"%X", b"0%x", b"000000000000000000000%x", b" %x", b"%x ", b"\t%x", b"%x\t", b"0x%x", b"+%x", b"-%x",
                         b"%x;", b"%x;a", b"%x;a=b", b'%x;a="b;c"', b"%x ; a=b", b"%x;a=\x00", b"%xg", b"1%x", b"ffffffff%x",
                         b"fffffffffffffff%x", b"ffffffffffffffff%x", b"10000000000000%03x", b"1000000000000000%x", b"", b"%x\x00",
                         b"%x,", b"%x\r"]).replace(b"%x", b"%x" % n).replace(b"%X", b"%X" % n).replace(b"%03x", b"%03x" % n)
    o.body += b"\r\n%b\r\n0\r\n\r\n" % BODY
    if rng.random() < 0.5:
        hide(o)


@form
def chunk_ends(o, rng):
    o.post(rng, "chunks")
    n = len(BODY)
    o.body = rng.choice([b"%x\n%b\r\n0\r\n\r\n", b"%x\r\n%b\n0\r\n\r\n", b"%x\r\n%b0\r\n\r\n", b"%x\r\n%b\r\n0\n\n",
                         b"%x\r\n%b\r\n0\r\n\n", b"%x\r\n%b\r\n0\n\r\n", b"%x\r%b\r\n0\r\n\r\n", b"%x\r\n%b\r0\r\n\r\n",
                         b"%x\r\n%bXX\r\n0\r\n\r\n", b"%x\r\n%b\r\n\r\n0\r\n\r\n", b"%x\r\n%b\r\n00\r\n\r\n",
                         b"%x\r\n%b\r\n0;x\r\n\r\n", b"%x\r\n%b\r\n0\r\nX\r\n\r\n", b"\r\n%x\r\n%b\r\n0\r\n\r\n",
                         b"%x;a\n%b\r\n0\r\n\r\n", b"%x;a\nb\r\n%b\r\n0\r\n\r\n", b"%x;a\rb\r\n%b\r\n0\r\n\r\n"]) % (
                             (n, BODY))
    if rng.random() < 0.5:
        hide(o)


@form
def trailers(o, rng):
    o.post(rng, "chunks")
    end = rng.choice([b"X: y", b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: evil", b"X : y", b" X: y", b"X",
                      b"X: a\r\n b", b"X:\x00", b"X: y\r\nZ: y", b": y", b"X: " + b"y" * rng.choice([10, 5000, 40000])])
    o.body = o.body[:-2] + end + b"\r\n\r\n"


@form
def cut(o, rng):
    """Ends somewhere; the probe goes on where it ended."""
    if rng.random() < 0.7:
        o.post(rng)
    whole = o.bytes()
    o.bytes = lambda: whole[:rng.randrange(1, len(whole))]


@form
def line_ends(o, rng):
    o.end = rng.choice([b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n "])
    if rng.random() < 0.5:
        o.post(rng)


@form
def one_line_end(o, rng):
    if rng.random() < 0.5:
        o.post(rng)
    whole, n = o.bytes(), rng.randrange(len(o.headers) + 2)
    lines = whole.split(b"\r\n")
    at = rng.choice([b"\n", b"\r", b"\r\r\n", b"\n\r\n"])
    o.bytes = lambda: b"\r\n".join(lines[:n + 1]) + at + b"\r\n".join(lines[n + 1:])


@form
def folded(o, rng):
    if rng.random() < 0.5:
        o.post(rng)
    h = rng.choice(o.headers)
    h[2] = rng.choice([h[2] + b"\r\n ", b"\r\n " + h[2], h[2] + b"\r\n\tx", h[2] + b"\r\n \r\n x"])


@form
def header_names(o, rng):
    if rng.random() < 0.3:
        o.post(rng)
    o.add(rng.choice([b"", b"A B", b"A\tB", b"A(", b"A\x00", b"A\x7f", b"\xc3\xa9", b"A/", b'"A"', b"A_B", b"a" * 300, b"[A]",
                      b"A\x01", b"!#$%&'*+-.^_`|~0"]), b"x", rng=rng)


@form
def header_values(o, rng):
    if rng.random() < 0.3:
        o.post(rng)
    o.add(b"X-Odd", rng.choice([b"", b"  x  ", b"\x00", b"a\x00b", b"\x01", b"\x7f", b"\xff\xfe", b"a\tb", b"\x0b", b"\x1b[2J",
                                b":" * 5, b"a" * rng.choice([1000, 5000, 7000])]), rng=rng)


@form
def header_colons(o, rng):
    if rng.random() < 0.3:
        o.post(rng)
    h = rng.choice(o.headers)
    h[1] = rng.choice([b":", b" :", b"\t: ", b" : ", b":\t", b"", b" ", b"::", b":  ", b"=", b":\r\n"])


@form
def heads_large(o, rng):
    how = rng.randrange(4)
    if how == 0:
        o.target += b"?" + b"q" * rng.choice([4000, 9000, 20000, 40000, 70000])
    elif how == 1:
        o.add(b"X-Big", b"v" * rng.choice([4000, 9000, 20000, 40000, 70000]))
    elif how == 2:
        for i in range(rng.choice([50, 150, 500, 2000])):
            o.add(b"X-%d" % i, b"v")
    else:
        o.method = b"M" * rng.choice([20, 100, 5000, 40000])


@form
def hosts(o, rng):
    how = rng.randrange(3)
    if how == 0:
        o.drop(b"Host")
    elif how == 1:
        o.add(b"Host", rng.choice([b"localhost", b"evil.example", b""]), rng=rng)
    else:
        o.set(b"Host", rng.choice([b"", b"evil.example", b"localhost:1", b"localhost:", b"localhost:x", b"LOCALHOST", b"localhost.",
                                   b"[::1]", b"[::1", b"a b", b"localhost/", b"user@localhost", b"local\x00host", b"127.0.0.1",
                                   b"localhost:99999", b"localhost,evil", b"..", b"localhost\\x"]))


@form
def versions(o, rng):
    o.version = rng.choice([b"HTTP/1.0", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/3.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1",
                            b"HTTP/1.", b"HTTP/1.1.1", b"HTTP/11", b"HTTP/01.1", b"HTTP/1.10", b"HTTP 1.1", b"XTTP/1.1", b"",
                            b"HTTP/1.1 ", b"HTTP/1.1\t", b"HTTP/1.1 x", b"HTTP/-1.1", b"HTTP/1.\xb1"])


@form
def old_connections(o, rng):
    o.version = b"HTTP/1.0"
    if rng.random() < 0.7:
        o.add(b"Connection", rng.choice([b"keep-alive", b"Keep-Alive", b"close", b"keep-alive, close", b"x"]))
    if rng.random() < 0.4:
        o.post(rng, "length")


@form
def connections(o, rng):
    o.add(b"Connection", rng.choice([b"close", b"Close", b"keep-alive", b"keep-alive, close", b"close, keep-alive", b"x, close",
                                     b"closed", b"", b",", b"close,", b"upgrade", b"Content-Length", b"x"]), rng=rng)
    if rng.random() < 0.4:
        o.post(rng)


@form
def methods(o, rng):
    o.method = rng.choice([b"get", b"GeT", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT", b"FOO", b"G-T",
                           b"G T", b"", b"GET\t", b"\x00GET", b"(GET", b"GET:", b"1", b"PRI", b"G\xc3\xa9T", b" GET"])


@form
def targets(o, rng):
    o.target = rng.choice([b"health", b"*", b"//health", b"/./health", b"/x/../health", b"/../health", b"/health/..", b"/%68ealth",
                           b"/health%00", b"/health%", b"/health%zz", b"/health?", b"/health??a", b"/health#x", b"/health?a#b",
                           b"/health\x00", b"/health\xc3\xa9", b"/health?\xff", b"/health x", b"/health\t", b"\\health", b"/%2e%2e/health",
                           b"/health;x", b"", b"/%2fhealth", b"/he%61lth?a=%00", b"/health?a b", b"localhost", b"localhost:80",
                           b"/health\x7f", b'/"health', b"/<health", b"/{health", b"/health|", b"/health^"])


@form
def absolute(o, rng):
    o.target = rng.choice([b"http://localhost/health", b"HTTP://localhost/health", b"http://evil.example/health", b"http:///health",
                           b"http://localhost", b"http://localhost:80/health", b"https://localhost/health", b"ftp://localhost/health",
                           b"http:/health", b"http://user@localhost/health", b"http://localhost?health", b"http://localhost/health#x",
                           b"://localhost/health", b"http://local host/health", b"http://localhost:x/health", b"http://[::1]/health"])


@form
def request_line(o, rng):
    line = rng.choice([b"GET  /health HTTP/1.1", b"GET /health  HTTP/1.1", b"GET\t/health\tHTTP/1.1", b" GET /health HTTP/1.1",
                       b"GET /health HTTP/1.1 ", b"GET /health", b"GET", b"GET /health HTTP/1.1 x", b"GET /health\rHTTP/1.1",
                       b"GET\x0b/health HTTP/1.1", b"GET /health\x0cHTTP/1.1", b"\x00", b":", b"X: y", b"HTTP/1.1 200 OK"])
    whole = o.bytes()
    o.bytes = lambda: line + whole[whole.index(b"\r\n"):]


@form
def before_it(o, rng):
    o.before = rng.choice([b"\r\n", b"\n", b"\r\n\r\n", b"\r\n" * 10, b"\r\n" * 2000, b"\r", b" ", b"\t", b"\x00", b"\xef\xbb\xbf", b" \r\n",
                           b"\x0b", b"\r\r\n"])
    if rng.random() < 0.3:
        o.post(rng)


@form
def body_of_get(o, rng):
    """Where none is wanted."""
    if rng.random() < 0.5:
        o.body = rng.choice([b"x", HIDDEN, b"x" * 1000])
        o.add(b"Content-Length", b"%d" % len(o.body), rng=rng)
    else:
        o.body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
        o.add(b"Transfer-Encoding", b"chunked", rng=rng)


@form
def body_of_head(o, rng):
    body_of_get(o, rng)
    o.method = rng.choice([b"HEAD", b"OPTIONS", b"DELETE", b"PUT"])


@form
def no_length(o, rng):
    """A body that nothing announces."""
    o.post(rng, "length").drop(b"Content-Length")
    if rng.random() < 0.5:
        o.body = HIDDEN


@form
def expectations(o, rng):
    o.post(rng).add(b"Expect", rng.choice([b"100-continue", b"100-Continue", b"100-continue, x", b"200-ok", b"", b"x"]), rng=rng)
    if rng.random() < 0.3:
        o.version = b"HTTP/1.0"


@form
def upgrades(o, rng):
    o.add(b"Connection", b"Upgrade, HTTP2-Settings")
    o.add(b"Upgrade", rng.choice([b"h2c", b"websocket", b"TLS/1.0", b""]))


@form
def protocols(o, rng):
    o.bytes = lambda: rng.choice([
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /health\r\n", b"SSH-2.0-x\r\n", b"EHLO x\r\n",
        b"*1\r\n$4\r\nPING\r\n", b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"\x05\x01\x00", bytes(50), rng.randbytes(rng.randrange(1, 200))])


@form
def one_byte(o, rng):
    """Changed, put in or taken out, somewhere."""
    if rng.random() < 0.7:
        o.post(rng)
    whole, how = bytearray(o.bytes()), rng.randrange(3)
    at = rng.randrange(len(whole))
    new = rng.choice([rng.randrange(256), rng.choice(b"\r\n\t :;,/0f\x00\x7f\xff")])
    if how == 0:
        whole[at] = new
    elif how == 1:
        whole.insert(at, new)
    else:
        del whole[at]
    o.bytes = lambda: bytes(whole)


def draw(seed, i):
    """Form, and the pieces in which the stream is sent."""
    rng = random.Random(f"{seed} {i}")
    names = list(FORMS) + ["one byte"] * 8
    name = names[i % len(names)]
    o = Odd(rng)
    FORMS[name](o, rng)
    data = o.bytes() + PROBE
    return name, data


# ---- who answers -------------------------------------------------------------------------------------------

class Content(socketserver.StreamRequestHandler):
    """Behind nginx: by path and content as ours."""

    def status(self, method, path, headers, body):
        path = urllib.parse.unquote(path)
        if path in ("/", "/health"):
            return 200 if method in ("GET", "HEAD") else 405
        if path != "/tokenize":
            return 404
        if method != "POST":
            return 405
        if re.split("[; \t]", headers.get("content-type", ""))[0].lower() != "application/json":
            return 415
        try:
            return 200 if isinstance(json.loads(body)["prompt"], str) else 400
        except (ValueError, TypeError, KeyError):
            return 400

    def handle(self):
        first, headers = self.rfile.readline().decode("latin-1").split(), {}
        while (line := self.rfile.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        status = self.status(first[0], first[1].partition("?")[0], headers, body)
        self.wfile.write(f"HTTP/1.0 {status} x\r\nContent-Length: 2\r\nx-request-id: {headers.get('x-request-id', '')}\r\n\r\n"
                         .encode() + (b"" if first[0] == "HEAD" else b"ok"))


class Backend(socketserver.ThreadingTCPServer):
    daemon_threads, request_queue_size = True, 128

    def handle_error(self, request, client_address):
        pass  # nginx left


class Nginx:
    """Alone, as a distribution has it, in front of Content."""

    def __init__(self, tmp):
        self.backend = Backend(("127.0.0.1", 0), Content)
        threading.Thread(target=self.backend.serve_forever, daemon=True).start()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        folders = "".join(f"{k}_temp_path {tmp}/{k};\n" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (tmp / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {tmp}/pid; error_log {tmp}/error.log info;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{folders}server {{ listen 127.0.0.1:{self.port};\n"
            f"proxy_ignore_client_abort on;\nlocation / {{ proxy_pass http://127.0.0.1:{self.backend.server_address[1]}; }} }} }}\n")
        self.process = subprocess.Popen([shutil.which("nginx", path=PATHS), "-p", tmp, "-e", tmp / "error.log", "-c",
                                         tmp / "nginx.conf"])

    def __enter__(self):
        end = time.monotonic() + 60 * SLOW
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < end, "nginx does not start"
                time.sleep(0.02)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.backend.shutdown()
        self.backend.server_close()


def send(port, data):
    """All that comes back until the server has closed."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120 * SLOW) as k:
        try:
            k.sendall(data)
            k.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it closed on us; what it said can be read
        try:
            while piece := k.recv(65536):
                got += piece
        except ConnectionError:
            pass
    return got


def answers(got):
    """Classes and owners of the answers in a stream of them, and the words of the first refusal."""
    said, words = [], ""
    while got:
        head, mark, rest = got.partition(b"\r\n\r\n")
        if not got.startswith(b"HTTP/1.") or not mark:
            return [*said, "of HTTP/0.9"], words
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:])}
        status, n = int(lines[0].split()[1]), int(headers.get("content-length", 0))
        body = b"" if rest.startswith(b"HTTP/1.") else rest[:n]  # of HEAD there is none
        got = rest[len(body):]
        if status < 200:
            if status != 100:
                said.append(str(status))
            continue
        if status < 400:
            name = headers.get("x-request-id")
            said.append(name if name in ("odd", "hidden", "probe") else "unnamed")
            continue
        said.append("refused")
        words = words or message_of(body) or f"status {status}"
    return said, words


def message_of(body):
    try:
        return json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""


# ---- what differs -------------------------------------------------------------------------------------------

def explained(name, data, theirs, ours, words):
    """The reason for a difference, None: there is none."""
    def first(rows):
        return next((why for holds, why in rows if holds(name, data)), None)
    n_theirs, n_ours = (sum(x != "refused" for x in said) for said in (theirs, ours))
    if "hidden" in ours and "hidden" not in theirs:
        return None
    if n_theirs == 0 and (not ours or theirs == [*ours, "refused"]):
        return MUTE
    if theirs == ["refused"] and ours == ["refused", "probe"] and any(x in words for x in GOES_ON):
        return READS_ON
    if n_ours > n_theirs:
        return first(LOOSER)
    if not ours:
        return first(SILENT)
    return next((f"refused here: {why}" for part, why in STRICTER.items() if part in words), None)


def compare(nginx, ours, n, seed):
    def one(i):
        name, data = draw(seed, i)
        theirs, _ = answers(send(nginx.port, data))
        mine, words = answers(send(ours.port, data))
        return name, data, theirs, mine, words
    why, faults = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for name, data, theirs, mine, words in pool.map(one, range(n)):
            if theirs == mine:
                why["the same"] += 1
            elif reason := explained(name, data, theirs, mine, words):
                why[reason] += 1
            else:
                faults.append((name, theirs, mine, words, data))
    return why, faults


def main():
    cases = Cases()
    n = int(sys.argv[1]) if len(sys.argv) > 1 else size(300, 5000)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1

    def differ(tmp):
        with Nginx(tmp) as nginx, Tandem(make_model(tmp / "m")) as ours:
            why, faults = compare(nginx, ours, n, seed)
            for reason, count in why.most_common():
                print(f"{count:6}  {reason}")
            for name, theirs, mine, words, data in faults:
                print(f"{name}: nginx {theirs}, here {mine} {words!r}: {data[:-len(PROBE)][:300]!r}")
            assert not faults, f"{len(faults)} of {n} differ without a reason, seed {seed}"
    if not shutil.which("nginx", path=PATHS):
        cases.skip("differ", "nginx is not installed")
        return cases.end()
    with scratch() as tmp:
        cases.run("differ", lambda: differ(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
