#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` where the machine gives too little: descriptors, memory, room for the log. Catches
a server that dies, spins or stays deaf once what it lacked is there again, and cells that leak."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, MODE, SLOW, Cases  # noqa: E402

MODEL = "tests/golden/models/llama_tied"
cases = Cases()
check = cases.check


def port_of(pid):
    """Where a process listens, as the system knows it: a log that is lost cannot say it."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            words = line.split()
            at, state = words[1], words[3]
            if state == "0A" and f"socket:[{words[9]}]" in links:
                return int(at.split(":")[1], 16)
    return None


class Server:
    """Started by a shell that first lessens what it may have."""

    def __init__(self, lessen, log):
        line = (f'{lessen}; exec "$0" serve "$1" --port 0 --drain-delay 0 --threads 1 '
                '--kv-memory 64M')
        self.p = subprocess.Popen(["sh", "-c", line, BIN, MODEL], stderr=log)
        self.port, end = None, time.monotonic() + 60 * SLOW
        while not self.is_ready():
            if self.p.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server does not begin: {self.p.poll()}")
            time.sleep(0.05)

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.port = self.port or port_of(self.p.pid)
            return bool(self.port) and self.ask("GET", "/readyz")[0] == 200
        return False

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240 * SLOW)
        try:
            c.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def still_serves(self, name):
        status = self.ask("POST", "/v1/completions", b'{"prompt":"a","max_tokens":2}')[0]
        check(f"{name}: serves", status == 200, status)
        end = time.monotonic() + 60 * SLOW
        while time.monotonic() < end:  # who was cut off is noticed a step later
            used = re.search(rb"^tandem_kv_cache_usage_ratio\S* (\S+)",
                             self.ask("GET", "/metrics")[1], re.M)
            if used and float(used.group(1)) == 0:
                break
            time.sleep(0.1)
        check(f"{name}: cells are back", used and float(used.group(1)) == 0, used)

    def stop(self, name):
        self.p.send_signal(signal.SIGTERM)
        try:
            code = self.p.wait(timeout=60 * SLOW)
        except subprocess.TimeoutExpired:
            self.p.kill()
            code = "hangs"
        check(f"{name}: ends well", code == 0, code)


# More connections than descriptors; then they go.
s = Server("ulimit -n 64", subprocess.DEVNULL)
many = [socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) for _ in range(100)]
time.sleep(0.3)
check("descriptors: lives", s.p.poll() is None)
for k in many:
    k.close()
time.sleep(0.3)
s.still_serves("descriptors")
s.stop("descriptors")

# A log that cannot be written.
with open("/dev/full", "w") as full:
    s = Server("true", full)
    s.still_serves("full disk")
    s.stop("full disk")

# Little memory: wide answers and large bodies at once are answered or refused, as errors are.
if MODE not in ("asan", "tsan"):
    with tempfile.TemporaryFile() as log:
        # the C library's malloc, which the paranoid build has, takes 64 MB of addresses for each thread
        s = Server("ulimit -v 600000; export MALLOC_ARENA_MAX=2", log)
        wide = json.dumps({"prompt": ["a"] * 200, "max_tokens": 40, "logprobs": 5}).encode()
        large = json.dumps({"prompt": "a" * (30 << 20)}).encode()
        said = []

        def go(body):
            try:
                said.append(s.ask("POST", "/v1/completions", body))
            except (OSError, http.client.HTTPException) as x:
                said.append((0, repr(x).encode()))

        threads = [threading.Thread(target=go, args=(b,)) for b in [wide] * 6 + [large] * 4]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for status, text in said:
            keys = set(json.loads(text).get("error", {})) if status >= 400 else set()
            check("memory: answers", status in (0, 200) or (
                status in (400, 503) and keys == {"message", "type", "param", "code"}), text[:200])
        check("memory: lives", s.p.poll() is None)
        s.still_serves("memory")
        s.stop("memory")

raise SystemExit(cases.end())
