#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--proxy-protocol: connections from 127.0.0.2, which is trusted, begin with a line that says whose they
are; those from 127.0.0.1, which is not, are themselves.

Faults they can catch: a client that says of himself who he is, by a line or by X-Forwarded-For behind one;
a line that is half there and holds a place for ever, or holds others up; a byte of the request that is lost
with it; a proxy without a line that is taken for a client; a list that SIGHUP does not change.

Standard library only."""
import http.client
import json
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import BIN, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

PROXY, OTHER = "127.0.0.2", "127.0.0.1"
V2 = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n%sConnection: close\r\n\r\n"


def v1(client="203.0.113.9", port=4711):
    kind, here = ("TCP6", "::1") if ":" in client else ("TCP4", "10.0.0.1")
    return f"PROXY {kind} {client} {here} {port} 443\r\n".encode()


def v2(client="203.0.113.9", port=4711, command=0x21, more=b"", family=0x11):
    own = socket.inet_aton(client) + socket.inet_aton("10.0.0.1") + struct.pack("!HH", port, 443) + more
    return V2 + struct.pack("!BBH", command, family, len(own)) + own


def connected(s, source):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW, source_address=(source, 0))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return c


def rest(c):
    """All that comes until the server closes."""
    got = b""
    try:
        while data := c.recv(65536):
            got += data
    except ConnectionResetError:
        pass
    c.close()
    return got


def asked(s, source, line, name, headers=b"", pieces=1):
    """The status, and who the log says it was; None: it was closed without a word."""
    c, data = connected(s, source), line + GET % (name.encode(), headers)
    step = -(-len(data) // pieces)
    for i in range(0, len(data), step):
        c.sendall(data[i:i + step])
        time.sleep(0.001 if pieces > 1 else 0)
    got = rest(c)
    if not got:
        return None
    status = int(got.split(b" ", 2)[1])
    end = time.monotonic() + 60 * SLOW
    while not (said := re.search(rf'request id="{name}".* peer="([^"]*)"', s.said())):
        if status == 400:  # no request that it could name
            return status, None
        assert time.monotonic() < end, s.output()
        time.sleep(0.01)
    return status, said[1]


def believed(s):
    assert asked(s, PROXY, v1(), "one") == (200, "203.0.113.9:4711")
    assert asked(s, PROXY, v1("2001:db8::9", 7), "two") == (200, "2001:db8::9:7")
    assert asked(s, PROXY, v2(), "three") == (200, "203.0.113.9:4711")
    assert asked(s, PROXY, v2(more=b"\x04\0\x03abc"), "four") == (200, "203.0.113.9:4711")
    forged = b"X-Forwarded-For: 198.51.100.7\r\n"  # a client's, where the proxy does not say whose
    for line, name in ((b"PROXY UNKNOWN\r\n", "own"), (v2(command=0x20), "local"), (v2(family=0), "unspec"),
                       (v2(command=0x20, family=0x12), "local-udp"), (v2(family=0x31, more=bytes(204)), "unix")):
        status, peer = asked(s, PROXY, line, name, forged)
        assert status == 200 and peer.startswith(f"{PROXY}:"), peer
    for i, line in enumerate((v1(), v2())):  # however it is cut
        for pieces in (2, 7, len(line)):
            assert asked(s, PROXY, line, f"cut-{i}-{pieces}", pieces=pieces) == (200, "203.0.113.9:4711")


def nobody_else(s):
    """Who is not a proxy is himself, and a line of his is no request; X-Forwarded-For of a client is hearsay."""
    status, peer = asked(s, OTHER, b"", "himself")
    assert status == 200 and peer.startswith(f"{OTHER}:"), peer
    for line in (v1(), v2()):
        assert asked(s, OTHER, line, "liar") in (None, (400, None))
    forged = b"X-Forwarded-For: 198.51.100.7\r\n"
    assert asked(s, PROXY, v1(), "forged", forged) == (200, "203.0.113.9:4711")
    assert asked(s, PROXY, v1() + v1("198.51.100.7"), "twice") in (None, (400, None))


def closed(s):
    """No line, or none that is one: closed without a word."""
    for line in (b"", b"PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n", v1().replace(b"\r", b""),
                 V2 + struct.pack("!BBH", 0x21, 0x12, 12) + bytes(12), V2 + b"\x21\x11\xff\xff" + bytes(4096)):
        assert asked(s, PROXY, line, "closed") is None, line
    assert asked(s, PROXY, v1(), "still") == (200, "203.0.113.9:4711")


def slow(s):
    """Half a line each: others come in meanwhile, and these are closed in time."""
    some = [connected(s, PROXY) for _ in range(200)]
    for i, c in enumerate(some):
        c.sendall((v1() if i % 2 else v2())[:1 + i % 14])
    assert asked(s, OTHER, b"", "beside")[0] == 200
    assert asked(s, PROXY, v1(), "beside-too") == (200, "203.0.113.9:4711")
    for c in some:
        assert rest(c) == b""
    end = time.monotonic() + 60 * SLOW
    while s.said().count("its line took too long") < 200:  # it is written behind the act
        assert time.monotonic() < end, s.output()
        time.sleep(0.02)
    before = s.descriptors()
    for _ in range(50):
        connected(s, PROXY).close()
    while s.descriptors() > before:
        assert time.monotonic() < end, (before, s.descriptors())
        time.sleep(0.05)


def streams(s):
    """A stream and a second request over one connection, as any other's."""
    c = connected(s, PROXY)
    c.sendall(v2())
    h = http.client.HTTPConnection("127.0.0.1", s.port)
    h.sock = c
    for stream in (True, False):
        body = json.dumps({"prompt": "a", "max_tokens": 20, "stream": stream})
        h.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        r = h.getresponse()
        assert r.status == 200 and (b"[DONE]" in r.read()) is stream, r.status
    h.close()


def reloaded(s, config):
    config.write_text(f"trusted-proxy = {OTHER}\n", encoding="ascii")
    s.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60 * SLOW
    while "reloaded" not in s.said():
        assert time.monotonic() < end, s.output()
        time.sleep(0.02)
    assert asked(s, OTHER, v1(), "now") == (200, "203.0.113.9:4711")
    status, peer = asked(s, PROXY, b"", "before")
    assert status == 200 and peer.startswith(f"{PROXY}:"), peer


def wants_names(model):
    p = subprocess.run([BIN, "serve", model, "--port", "0", "--proxy-protocol"], capture_output=True, text=True,
                       check=False, timeout=120 * SLOW)
    assert p.returncode == 2 or "--trusted-proxy" in p.stderr + p.stdout, p


def main():
    cases = Cases()
    with scratch() as tmp:
        model, config = make_model(tmp / "m"), tmp / "conf/tandem.conf"
        config.parent.mkdir()
        config.write_text(f"trusted-proxy = {PROXY}\n", encoding="ascii")
        server = Tandem(model, "--proxy-protocol", "--config", config)
        with server as s:
            for case in (believed, nobody_else, closed, slow, streams):
                cases.run(case.__name__, lambda case=case: case(s))
            cases.run("reloaded", lambda: reloaded(s, config))
        cases.run("wants names", lambda: wants_names(model))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
