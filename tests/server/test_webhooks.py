#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks: what who runs a server is told of jobs that end, signed as Standard Webhooks has it.

Faults they can catch: a signature that OpenAI's SDKs refuse; an end that nobody is told of, or another
than it was; one that is lost when it is not taken, or when the server is killed before it is; a receiver
that hangs, and holds up a job or a stop; a secret that is none and is taken.

Standard library only."""
import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, ENDLESS, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, KEYS, MODEL, Client, rows  # noqa: E402

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
SHAPE = {"n_epochs": 1, "batch_size": 4}


class Receiver:
    """What it was told; `answers`: the statuses that it gives first, then 200."""

    def __init__(self, *answers, port=0):
        self.got, answers = queue.Queue(), list(answers)
        me = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                me.got.put((self.path, dict(self.headers), body))
                self.send_response(answers.pop(0) if answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        """The next event, its signature checked; and its id."""
        path, headers, body = self.got.get(timeout=120 * SLOW)
        stamp, told = headers["webhook-timestamp"], json.loads(body)
        signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
        want = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{want}", headers
        assert path == "/told?by=tandem" and headers["Content-Type"] == "application/json", (path, headers)
        assert headers["webhook-id"] == told["id"] and told["object"] == "event", (headers, told)
        assert 0 <= int(stamp) - told["created_at"], (stamp, told)
        return told

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def serve(tmp, port):
    (tmp / "secret").write_text(SECRET + "\n")
    (tmp / "keys").write_text(KEYS)
    (tmp / "keys").chmod(0o600)
    return Tandem(MODEL, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir", tmp / "data",
                  "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16", "--webhook",
                  f"http://127.0.0.1:{port}/told?by=tandem", "--webhook-secret-file", tmp / "secret")


def ends(tmp):
    with Receiver() as told, serve(tmp, told.port) as s:
        c = Client(s)
        good, bad = c.job(c.file(rows(16)), hyperparameters=SHAPE), c.job(c.file(b"no rows\n"))
        c.done(good)
        assert c.wait(bad)["status"] == "failed"
        lasting = c.job(c.file(rows(ENDLESS)), hyperparameters={"n_epochs": 50, "batch_size": 1})
        c.wait_step(lasting, 1)
        assert c.ask("POST", f"{JOBS}/{lasting}/cancel").status == 200
        got = {t["data"]["id"]: t for t in (told.next() for _ in range(3))}
        for job, end in ((good, "succeeded"), (bad, "failed"), (lasting, "cancelled")):
            assert got[job]["type"] == f"fine_tuning.job.{end}", got[job]
            assert got[job]["created_at"] == c.look(job)["finished_at"], got[job]
        assert len({t["id"] for t in got.values()}) == 3, got
        assert told.got.empty()


def again(tmp):
    """Not taken, it comes again under its id."""
    with Receiver(500, 302) as told, serve(tmp, told.port) as s:
        c = Client(s)
        job = c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))["id"]
        first, second, third = told.next(), told.next(), told.next()
        assert first == second == third and first["data"] == {"id": job}, (first, second, third)
    with Receiver(port=told.port) as told, serve(tmp, told.port) as s:
        c = Client(s)
        other = c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))["id"]
        assert told.next()["data"] == {"id": other}  # the first is not told any more


def over_a_kill(tmp):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with serve(tmp, port) as s:
        c = Client(s)
        job = c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))["id"]
        s.stop(signal.SIGKILL)
        s.process.returncode = 0
    with Receiver(port=port) as told, serve(tmp, port) as s:
        t = told.next()
        assert t["data"] == {"id": job} and t["type"] == "fine_tuning.job.succeeded", t


def beside_silence(serve):
    """Who takes the connection and says nothing: the next job runs, and a stop waits for nobody. `serve`: a server
    that tells a port."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with serve(silent.getsockname()[1]) as s:
            c = Client(s)
            c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))
            silent.settimeout(60 * SLOW)
            with silent.accept()[0]:
                c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))
                assert s.stop(signal.SIGINT) == 0, s.output()


def hangs(tmp):
    beside_silence(lambda port: serve(tmp, port))


def refused(tmp):
    secret, data = tmp / "wrong", tmp / "other"
    secret.write_text("whsec_" + base64.b64encode(b"short").decode())
    url, here = ("--webhook", "http://127.0.0.1:9/"), ("--data-dir", data)
    for words, what in (((*url, *here), "--webhook-secret-file is needed"),
                        ((*url, *here, "--webhook-secret-file", secret), "24 to 64 bytes"),
                        ((*url, *here, "--webhook-secret-file", tmp / "none"), "none"),
                        (("--webhook", "here", *here, "--webhook-secret-file", secret), "--webhook here"),
                        (url, "--data-dir")):
        p = subprocess.run([BIN, "serve", MODEL, "--port", "0", *map(str, words)], capture_output=True,
                           text=True, timeout=60 * SLOW, check=False)
        assert p.returncode and what in p.stderr, (words, p)


def main():
    cases = Cases()
    for name, case in (("every end is told", ends), ("told again", again), ("over a kill", over_a_kill),
                       ("a receiver that hangs", hangs), ("what is refused", refused)):
        with scratch() as tmp:
            cases.run(name, lambda case=case, tmp=tmp: case(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
