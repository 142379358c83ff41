#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` as a process: who comes in, limits, draining, signals at any moment."""
import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("TANDEM_BIN", os.path.join(ROOT, "build", "tandem"))
MODEL = os.path.join(ROOT, "tests/golden/models", sorted(
    m for m in os.listdir(os.path.join(ROOT, "tests/golden/models")) if "llama" in m)[0])
good = bad = 0


def check(name, ok, what=""):
    global good, bad
    if ok:
        good += 1
    else:
        bad += 1
        print("FAIL", name, what)


class Server:
    def __init__(self, *options):
        self.p = subprocess.Popen([BIN, "serve", MODEL, "--port", "0", "--drain-delay", "0", *options],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.p.stderr:
            found = re.search(r"listening address=.* port=(\d+)", line)
            if found:
                self.port = int(found.group(1))
            if " ready " in line:
                break

    def ask(self, method, path, headers=None, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()

    def stop(self, signo=signal.SIGTERM):
        self.p.send_signal(signo)
        self.p.communicate(timeout=60)
        return self.p.returncode


# A route that a key's lack, or a small one, does not close; a name or page that is not ours.
with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
    keys.write("# names\nroot all root-key-1234\nuser inference user-key-1234 rpm=4\n"
               "trainer training sha256:" + "0" * 64 + "\n")
    keys.flush()
    s = Server("--api-key-file", keys.name)
    root = {"Authorization": "Bearer root-key-1234"}
    user = {"Authorization": "Bearer user-key-1234"}
    rows = re.findall(r'^ROUTE\(\w+, "(\w+)", "([^"]+)", (\w+),',
                      open(os.path.join(ROOT, "server/routes.def")).read(), re.M)
    for method, path, scope in rows:
        path = re.sub(r"{\w+}", "x", path)
        for name, head in (("no key", {}), ("wrong key", {"Authorization": "Bearer wrong-key-123"})):
            status, _, text = s.ask(method, path, head)
            if scope == "SCOPE_OPEN":
                check(f"{method} {path} is open", status == 200, status)
            else:
                check(f"{method} {path} {name}", status == 401 and b'"error"' in text, status)
        if scope not in ("SCOPE_OPEN", "SCOPE_INFERENCE"):
            check(f"{method} {path} small key", s.ask(method, path, user)[0] == 403)
    check("host", s.ask("GET", "/health", {"Host": "evil.com"})[0] == 403)
    check("host with a port", s.ask("GET", "/health", {"Host": "evil.com:80"})[0] == 403)
    check("host localhost", s.ask("GET", "/health", {"Host": "localhost:1"})[0] == 200)
    check("origin", s.ask("GET", "/health", {"Origin": "http://evil.com"})[0] == 403)
    check("origin null", s.ask("GET", "/health", {"Origin": "null"})[0] == 403)
    check("no type", s.ask("POST", "/v1/completions", root, b"{}")[0] == 415)
    said = [s.ask("POST", "/v1/completions", {**user, "Content-Type": "application/json"}, b"{")
            for _ in range(6)]
    check("rate", [x[0] for x in said] == [400] * 4 + [429] * 2, [x[0] for x in said])
    check("rate headers", said[0][1].get("x-ratelimit-limit-requests") == "4"
          and said[0][1].get("x-ratelimit-remaining-requests") == "3", said[0][1])
    check("retry", 1 <= int(said[5][1].get("retry-after", 0)) <= 120, said[5][1])
    check("id is kept", s.ask("GET", "/health", {"x-request-id": "mine-1"})[1]["x-request-id"]
          == "mine-1")
    check("id is cleaned", s.ask("GET", "/health", {"x-request-id": "<b>"})[1]["x-request-id"]
          .startswith("req-"))
    check("SIGTERM ends well", s.stop() == 0)

# Readiness that stays while the server leaves; requests refused before the delay is over.
s = Server("--drain-delay", "1.5")
check("ready", s.ask("GET", "/readyz")[0] == 200)
s.p.send_signal(signal.SIGTERM)
time.sleep(0.3)
check("not ready", s.ask("GET", "/readyz")[0] == 503)
check("alive", s.ask("GET", "/livez")[0] == 200)
status = s.ask("POST", "/v1/completions", {"Content-Type": "application/json"}, b"{")[0]
check("still taken", status == 400, status)
s.p.communicate(timeout=60)
check("drained", s.p.returncode == 0, s.p.returncode)

# A bind that anybody can reach without a key.
p = subprocess.run([BIN, "serve", MODEL, "--host", "0.0.0.0", "--port", "0"], stderr=subprocess.PIPE,
                   text=True, timeout=60)
check("open bind", p.returncode == 2 and "--insecure" in p.stderr, p.stderr)
with tempfile.TemporaryDirectory() as away:  # where no model lies beside it
    p = subprocess.run([shutil.copy(BIN, away), "serve"], stderr=subprocess.PIPE, text=True, timeout=60)
check("no model", p.returncode == 2 and "which model" in p.stderr, p.stderr)

# A signal that finds the process half begun: a crash, a hang. Before main it is the system's: a
# shell that runs this in the background lets SIGINT be ignored, and a new program inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ms in range(0, 200, 10):
    p = subprocess.Popen([BIN, "serve", MODEL, "--port", "0"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
    time.sleep(ms / 1000)
    p.send_signal(signal.SIGINT)
    try:
        log, code = p.communicate(timeout=120)[1], p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        log, code = p.communicate()[1], "hangs"
    check(f"signal at {ms} ms", code == 0 or (code == -signal.SIGINT and not log), (code, log))

print(f"{good} passed, {bad} failed")
raise SystemExit(bad != 0)
