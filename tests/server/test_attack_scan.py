#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a scan of ports brings: other protocols, zeros, noise, nothing. Catches: bytes that are no HTTP
and end the server, wedge a thread or stay in its books; an answer to them that is none; a port that
listens beside the one that was asked for."""
import pathlib
import random
import struct
import sys
import threading

from attack import Cases, Holdings, Known, Raw, Tandem, make_model, scratch, size, together

HELLO = bytes.fromhex("0303") + bytes(32) + bytes.fromhex("00 0004 1301 c02f 01 00 0000")
PROBES = {
    "nothing": b"",
    "zeros": bytes(4096),
    "TLS": b"\x16\x03\x01" + struct.pack(">HI", len(HELLO) + 4, 1 << 24 | len(HELLO)) + HELLO,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"),
    "HTTP/2 by upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                         b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/3.0": b"GET / HTTP/3.0\r\n\r\n",
    "a proxy's head": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a proxy's head in binary": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
    "SSH": b"SSH-2.0-scan\r\n",
    "SMTP": b"EHLO scan\r\n",
    "SOCKS": b"\x05\x01\x00",
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "SMB": b"\0\0\0\x2f\xffSMBr" + bytes(42),
    "RDP": b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",
    "PostgreSQL": struct.pack(">II", 8, 80877103),
    "lines without an end": b"A" * 70000,
    "line ends": b"\r\n" * 3000,
}


def probe(server, name, data, rng):
    """Either it is heard to the end, or the connection goes at once."""
    with Raw(server) as c:
        try:
            c.send(data)
            if rng.random() < 0.3:
                c.close(rudely=True)
                return
            c.s.shutdown(1)  # SHUT_WR: it waits for no more
            while c.more():
                pass
        except OSError:  # closed on us while we sent
            return
        good = (200, 426) if "upgrade" in name else (400, 405, 408, 413, 414, 431, 505)
        assert not c.got or c.head()[0] in good, (name, c.got[:300])


def scan(server):
    known = Known(server, 4)
    held, is_over = Holdings(server), threading.Event()

    def some(rng):
        for _ in range(size(2, 100)):
            for name in rng.sample(list(PROBES), len(PROBES)):
                probe(server, name, PROBES[name], rng)
            probe(server, "noise", rng.randbytes(rng.randrange(1, 9000)), rng)

    def ask():
        while True:
            known.ask(random)
            if is_over.is_set():
                return
    client = threading.Thread(target=ask)
    client.start()
    try:
        together(8, some)
    finally:
        is_over.set()
        client.join()
    known.check()
    return held.check()


def listens(server):
    """Only where it was asked to: addresses as the system has them."""
    ours = set(server.open_files())
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        table = pathlib.Path(f"/proc/{server.pid}/net") / name
        rows = [x.split() for x in table.read_text().splitlines()[1:]] if table.exists() else []
        found += [r[1] for r in rows if f"socket:[{r[9]}]" in ours
                  and (name.startswith("udp") or r[3] == "0A")]
    assert found == [f"0100007F:{server.port:04X}"], found


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m", "--ctx", 512)
        with Tandem(model, "--data-dir", tmp / "d", "--kv-memory", "16M") as s:
            cases.run("one port", lambda: listens(s))
            cases.run("a scan", lambda: scan(s))
        with Tandem(model, "--tp", 2, "--kv-memory", "16M") as s:
            cases.run("one port with two ranks", lambda: listens(s))
    return cases.end()


sys.exit(main())
