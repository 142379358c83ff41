#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Behind a proxy: whom the log names, and docs/proxy/ as it stands in front of a server, where nginx and
caddy are installed. Catches: a client that names itself, a proxy that is believed without being named, a
configuration that buffers a stream, cuts uploads or loses the Host."""
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import BIN, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

NAME, CLIENT = "llm.example.com", "203.0.113.9"
FROM = "127.0.0.2"  # clients of a proxy, which is at .1
LONG = {"model": "m", "prompt": "a", "max_tokens": 32000, "ignore_eos": True, "stream": True}


def peer_of(s, name, **headers):
    s.get("/health", **{"x-request-id": name}, **headers)
    end = time.monotonic() + 60 * SLOW
    while not (said := re.search(rf'id="{name}".* peer="(\S+)"', s.said())):
        assert time.monotonic() < end, "the log has no line of the request"
        time.sleep(0.01)
    return said[1]


def told(model):
    """Who is named counts; who is not is the address it comes from."""
    forwarded = {"X-Forwarded-For": f"6.6.6.6, {CLIENT}"}
    with Tandem(model, "--trusted-proxy", "127.0.0.0/8") as s:
        assert peer_of(s, "by-proxy", **forwarded) == CLIENT
        assert peer_of(s, "by-itself").startswith("127.0.0.1:")
        assert peer_of(s, "garbled", **{"X-Forwarded-For": "x\x7f, y"}).startswith("127.0.0.1:")
    with Tandem(model, "--trusted-proxy", "192.0.2.1") as s:
        assert peer_of(s, "by-nobody", **forwarded).startswith("127.0.0.1:")


def read_again(tmp, model):
    """SIGHUP takes a new list, and keeps the old one where a word of it is none."""
    conf = tmp / "tandem.conf"
    conf.write_text("drain-delay = 0\n")
    forwarded = {"X-Forwarded-For": CLIENT}
    with Tandem(model, "--config", conf) as s:
        assert peer_of(s, "before", **forwarded).startswith("127.0.0.1:")
        for words, count, peer in (("trusted-proxy = 127.0.0.1\n", ("reloaded", 1), CLIENT),
                                   ("trusted-proxy = next-door\n", ("not reloaded", 1), CLIENT)):
            conf.write_text(words)
            s.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60 * SLOW
            while s.said().count(f" {count[0]}") < count[1]:
                assert time.monotonic() < end, s.said()
                time.sleep(0.01)
            assert peer_of(s, f"after-{count[0].replace(' ', '-')}", **forwarded) == peer


def refused(model):
    p = subprocess.run([BIN, "serve", model, "--trusted-proxy", "next-door"], capture_output=True, text=True)
    assert p.returncode == 2 or p.returncode == 1, p
    assert "--trusted-proxy next-door" in p.stderr, p.stderr


def certificate(tmp):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", tmp / "key",
                    "-out", tmp / "pem", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"],
                   check=True, capture_output=True)


def nginx(tmp, port, to):
    """docs/proxy/nginx.conf, with ports and files of our own."""
    text = (ROOT / "docs/proxy/nginx.conf").read_text()
    for old, new in (("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), ("127.0.0.1:8080", f"127.0.0.1:{to}"),
                     (f"/etc/ssl/{NAME}.pem", str(tmp / "pem")), (f"/etc/ssl/{NAME}.key", str(tmp / "key"))):
        assert old in text, old
        text = text.replace(old, new)
    folders = "".join(f"{k}_temp_path {tmp}/{k};\n" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp / "nginx.conf").write_text(f"daemon off; pid {tmp}/pid; error_log {tmp}/error.log;\nevents {{}}\n"
                                    f"http {{\naccess_log off;\n{folders}{text}}}\n")
    return ["nginx", "-p", str(tmp), "-e", str(tmp / "error.log"), "-c", str(tmp / "nginx.conf")]


def caddy(tmp, port, to):
    """docs/proxy/Caddyfile, with a certificate of ours in place of one that it would fetch."""
    text = (ROOT / "docs/proxy/Caddyfile").read_text()
    assert "127.0.0.1:8080" in text and f"{NAME} {{" in text
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{to}")
    text = text.replace(f"{NAME} {{", f"{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {tmp}/pem {tmp}/key")
    (tmp / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(tmp / "Caddyfile")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Front:
    """A proxy that runs, and connections through it by the name that it has."""

    def __init__(self, words, tmp, port):
        self.port = port
        self.log = open(tmp / "front.log", "w+b")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp), "XDG_DATA_HOME": str(tmp)}
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=env)
        self.context = ssl.create_default_context(cafile=tmp / "pem")

    def connect(self):
        end = time.monotonic() + 60 * SLOW
        while True:
            try:
                raw = socket.create_connection(("127.0.0.1", self.port), timeout=120 * SLOW, source_address=(FROM, 0))
                break
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < end, self.said()
                time.sleep(0.05)
        c = http.client.HTTPConnection(NAME)
        c.sock = self.context.wrap_socket(raw, server_hostname=NAME)
        return c

    def said(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def through(tmp, model, words_of):
    certificate(tmp)
    with Tandem(model, "--name", "m", "--trusted-proxy", "127.0.0.1", "--allowed-host", NAME, "--data-dir",
                tmp / "data") as s:
        port = free_port()
        with Front(words_of(tmp, port, s.port), tmp, port) as front:
            c = front.connect()
            c.request("GET", "/health", headers={"x-request-id": "one", "X-Forwarded-For": "6.6.6.6"})
            assert c.getresponse().read() is not None
            c.request("POST", "/v1/completions", json.dumps(LONG), {"Content-Type": "application/json",
                                                                  "x-request-id": "stream"})
            r = c.getresponse()
            assert r.status == 200, r.read()
            assert r.readline().startswith(b"data: ")  # and nobody waits for the rest of it
            with contextlib.suppress(OSError):
                c.sock.shutdown(socket.SHUT_RDWR)
            r.close()
            c.close()
            row = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n'
            part = (b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--x\r\nContent-Disposition: '
                    b'form-data; name="file"; filename="a.jsonl"\r\n\r\n' + row * 50_000 + b"\r\n--x--\r\n")
            c = front.connect()
            c.request("POST", "/v1/files", part, {"Content-Type": "multipart/form-data; boundary=x"})
            r = c.getresponse()
            assert r.status == 200 and json.loads(r.read())["bytes"] == len(row) * 50_000, r.status
            c.close()
        end = time.monotonic() + 120 * SLOW
        while not (cut := re.search(r'id="stream".*', s.said())):
            assert time.monotonic() < end, s.said()[-2000:]
            time.sleep(0.05)
        assert "cut=true" in cut[0], cut[0]
        assert re.search(r'id="one".* peer="127\.0\.0\.2"', s.said()), s.said()[-2000:]


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "model", "--ctx", 32768)
        cases.run("told", lambda: told(model))
        cases.run("read again", lambda: read_again(tmp, model))
        cases.run("refused", lambda: refused(model))
        for words_of in (nginx, caddy):
            if not shutil.which(words_of.__name__, path="/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"):
                cases.skip(words_of.__name__, "it is not installed")
                continue
            with scratch() as own:
                cases.run(words_of.__name__, lambda t=own, w=words_of: through(t, model, w))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
