#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What signals mean: SIGHUP reads keys, limits, origins and the log's level again, SIGQUIT drains, SIGUSR1
opens the log anew; and a log that nobody reads. Catches: a signal that kills the server, a reload that
drops a request or opens a door by a fault in a file, a log pipe that stops everything."""
import contextlib
import http.client
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import BIN, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

CHAT = "/v1/completions"


def key(name):
    return {"Authorization": f"Bearer {name}-key-{name}-key"}


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds * SLOW
    while not what():
        assert time.monotonic() < end, "what was waited for does not come"
        time.sleep(0.01)


def ask(s, who, n=1, **more):
    return s.post(CHAT, {"prompt": "a", "max_tokens": n, "ignore_eos": True}, **key(who), **more)


def reload(s, n_before):
    s.process.send_signal(signal.SIGHUP)
    wait_for(lambda: s.log_count("reloaded") > n_before)


def full_pipe():
    """(reader, writer), with no room left."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


class Unix(http.client.HTTPConnection):
    """By a socket's path."""

    def __init__(self, at):
        super().__init__("localhost")
        self.at = at

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120 * SLOW)
        self.sock.connect(str(self.at))


def status_at(at, path):
    """None: nobody listens there yet, though the socket may have its name."""
    with contextlib.closing(Unix(at)) as c, contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
        c.request("GET", path)
        return c.getresponse().status


class Logged(Tandem):
    """Its log is a file of its own."""

    def __init__(self, file, *words, **more):
        self.file = file
        super().__init__(*words, "--log-file", file, **more)

    def log_count(self, words):
        return self.file.read_text(encoding="utf-8").count(words) if self.file.exists() else 0

    @property
    def port(self):
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        if "port=" not in text and not self.bound:
            raise ConnectionRefusedError("it does not listen yet")
        self.bound = self.bound or int(text.split("port=")[1].split()[0])
        return self.bound


def reloads(tmp, model):
    keys, config = tmp / "keys", tmp / "conf"
    keys.write_text("ann all ann-key-ann-key\nbob all bob-key-bob-key rpm=2\n")
    config.write_text("cors-origin = http://one.example\nlog-level = info\n")
    with Logged(tmp / "log", model, "--config", config, "--api-key-file", keys) as s:
        assert ask(s, "ann").status == 200
        assert [ask(s, "bob").status for _ in range(3)] == [200, 200, 429]
        said = []
        long = threading.Thread(target=lambda: said.append(ask(s, "ann", 400, timeout=300).status))
        long.start()
        wait_for(lambda: s.metrics(**key("ann"))["tandem_requests_running"] >= 1 or said)
        keys.write_text("bob all bob-key-bob-key rpm=3\ncyd all cyd-key-cyd-key\n")
        config.write_text("cors-origin = http://two.example\nlog-level = warn\n")
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: ask(s, "cyd").status == 200)
        long.join()
        assert said == [200], f"the request in work, by a key that is gone: {said}"
        assert ask(s, "ann").status == 401
        r = ask(s, "bob")
        assert r.status == 429 and "3 requests" in r.error["message"], f"what is left is carried: {r}"
        def origin(o):
            return s.get("/livez", Origin=o).status
        assert origin("http://one.example") == 403 and origin("http://two.example") == 200
        lines = s.log_count("request ")
        ask(s, "cyd")
        assert s.log_count("request ") == lines, "the level is warn now"

        keys.write_text("cyd all short\n")
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: s.log_count("not reloaded") == 1)
        assert s.log_count("8 characters") == 1
        assert ask(s, "cyd").status == 200, "a fault in the file changes nothing"
        keys.unlink()
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: s.log_count("not reloaded") == 2)
        assert ask(s, "cyd").status == 200 and ask(s, "").status == 401


def reloads_under_load(tmp, model):
    keys = tmp / "keys"
    keys.write_text("ann all ann-key-ann-key\n")
    with Logged(tmp / "log", model, "--api-key-file", keys) as s:
        bad, goes_on = [], [True]
        def loop():
            while goes_on[0]:
                r = ask(s, "ann", 3)
                if r.status != 200:
                    bad.append(r)
        threads = [threading.Thread(target=loop) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(30):
            keys.write_text("ann all ann-key-ann-key\n" + "".join(f"k{j} all key-{i}-{j}-key\n" for j in range(i)))
            reload(s, i)
        goes_on[0] = False
        for t in threads:
            t.join()
        assert not bad, bad[0]


def quits(model):
    s = Tandem(model)
    said = []
    t = threading.Thread(target=lambda: said.append(
        s.post(CHAT, {"prompt": "a", "max_tokens": 400, "ignore_eos": True}).status))
    t.start()
    wait_for(lambda: s.metrics()["tandem_requests_running"] >= 1 or said)
    status = s.stop(how=signal.SIGQUIT)
    t.join()
    assert status == 0 and said == [200], (status, said)


def opens_again(tmp, model):
    with Logged(tmp / "log", model) as s:
        assert s.post(CHAT, {"prompt": "a", "max_tokens": 1}).status == 200
        (tmp / "log").rename(tmp / "log.1")
        s.process.send_signal(signal.SIGUSR1)
        wait_for((tmp / "log").exists)
        assert s.post(CHAT, {"prompt": "a", "max_tokens": 1}, **{"X-Request-Id": "behind"}).status == 200
        wait_for(lambda: s.log_count("behind") == 1)
        assert "behind" not in (tmp / "log.1").read_text(encoding="utf-8")


def is_not_read(tmp, model):
    """A pipe for a log, which nobody reads: requests go on, and the end comes."""
    at = tmp / "socket"
    reader, writer = os.pipe()
    p = subprocess.Popen([BIN, "serve", str(model), "--port", "0", "--unix-socket", str(at), "--drain-delay", "0",
                          "--log-level", "debug"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
    try:
        wait_for(lambda: status_at(at, "/livez") == 200)
        c = Unix(at)
        def status():
            c.request("GET", "/livez", headers={"X-Request-Id": "i" * 100, "User-Agent": "u" * 100})
            r = c.getresponse()
            r.read()
            return r.status
        for _ in range(1500):  # 300 bytes each are more than the pipe holds
            assert status() == 200
        wait_for(lambda: not select.select([], [writer], [], 0)[1])  # the log's own thread has filled it
        os.read(reader, 1 << 20)
        os.set_blocking(reader, False)
        p.send_signal(signal.SIGTERM)
        assert p.wait(60 * SLOW) == 0
    finally:
        p.kill()
        os.close(reader)
        os.close(writer)


def was_full_before(tmp, model):
    """The pipe of one that ran before, which a supervisor keeps: this one comes and goes all the same."""
    reader, writer = full_pipe()
    for words, status in (([str(model), "--unix-socket", str(tmp / "socket")], 0), ([str(tmp / "nothing")], 2)):
        p = subprocess.Popen([BIN, "serve", *words, "--port", "0", "--drain-delay", "0"], stdin=subprocess.DEVNULL,
                             stdout=writer, stderr=writer)
        try:
            if status == 0:
                wait_for(lambda: status_at(tmp / "socket", "/readyz") == 200)
                p.send_signal(signal.SIGTERM)
            assert p.wait(60 * SLOW) == status
        finally:
            p.kill()
    os.close(reader)
    os.close(writer)


cases = Cases()
for case in (reloads, reloads_under_load, opens_again, is_not_read, was_full_before):
    with scratch() as folder:
        cases.run(case.__name__, lambda: case(folder, make_model(folder / "m")))
with scratch() as folder:
    cases.run("quits", lambda: quits(make_model(folder / "m")))
raise SystemExit(cases.end())
