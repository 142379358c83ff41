#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` where the machine gives too little: descriptors, memory, room for the log. Catches
a server that dies, spins or stays deaf once what it lacked is there again, and cells that leak."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("TANDEM_BIN", os.path.join(ROOT, "build", "tandem"))
MODEL = os.path.join(ROOT, "tests/golden/models/llama_tied")
good = bad = 0


def check(name, ok, what=""):
    global good, bad
    if ok:
        good += 1
    else:
        bad += 1
        print("FAIL", name, what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """Started by a shell that first lessens what it may have."""

    def __init__(self, lessen, log):
        for _ in range(10):
            if self.begins(lessen, log):
                return
        raise SystemExit(f"the server does not begin: {self.p.returncode}")

    def begins(self, lessen, log):
        """False: somebody took the port before the server did."""
        self.port = free_port()
        line = f'{lessen}; exec "$0" serve "$1" --port {self.port} --drain-delay 0 --threads 1'
        self.p = subprocess.Popen(["sh", "-c", line, BIN, MODEL], stderr=log)
        while self.p.poll() is None:
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return True
            except OSError:
                pass
            time.sleep(0.05)
        return False

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def still_serves(self, name):
        status = self.ask("POST", "/v1/completions", b'{"prompt":"a","max_tokens":2}')[0]
        check(f"{name}: serves", status == 200, status)
        for _ in range(100):  # who was cut off is noticed a step later
            used = re.search(rb"^tandem_kv_cache_usage_ratio\S* (\S+)",
                             self.ask("GET", "/metrics")[1], re.M)
            if used and float(used.group(1)) == 0:
                break
            time.sleep(0.1)
        check(f"{name}: cells are back", used and float(used.group(1)) == 0, used)

    def stop(self, name):
        self.p.send_signal(signal.SIGTERM)
        try:
            code = self.p.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.p.kill()
            code = "hangs"
        check(f"{name}: ends well", code == 0, code)


# More connections than descriptors; then they go.
s = Server("ulimit -n 64", subprocess.DEVNULL)
many = [socket.create_connection(("127.0.0.1", s.port), timeout=10) for _ in range(100)]
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
if "asan" not in os.path.realpath(BIN) and "tsan" not in os.path.realpath(BIN):
    with tempfile.TemporaryFile() as log:
        s = Server("ulimit -v 600000", log)
        wide = json.dumps({"prompt": ["a"] * 200, "max_tokens": 40, "logprobs": 5}).encode()
        large = json.dumps({"prompt": "a" * (30 << 20)}).encode()
        said = []

        def go(body):
            try:
                said.append(s.ask("POST", "/v1/completions", body))
            except OSError as x:
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

print(f"{good} passed, {bad} failed")
raise SystemExit(bad != 0)
