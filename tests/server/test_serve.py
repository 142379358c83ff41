#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` as a process: who comes in, limits, draining, signals at any moment."""
import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, SLOW, Cases, Tandem  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "tests/golden/models", sorted(
    m for m in os.listdir(os.path.join(ROOT, "tests/golden/models")) if "llama" in m)[0])
cases = Cases()
check = cases.check


class Server(Tandem):
    def bare(self, method, path, headers=None, body=None):
        """Status, headers, body; nothing is sent that is not said here."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * SLOW)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()

    def until(self, path, status):
        """Asks until it is answered so."""
        end = time.monotonic() + 60 * SLOW
        while self.bare("GET", path)[0] != status:
            assert time.monotonic() < end, path
            time.sleep(0.01)


# A route that a key's lack, or a small one, does not close; a name or page that is not ours.
with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
    keys.write("# names\nroot all root-key-1234\ntrainer training sha256:" + "0" * 64 + "\n")
    keys.writelines(f"user{i} inference user-key-{i}234 rpm=4\n" for i in range(1, 10))
    keys.flush()
    s = Server(MODEL, "--api-key-file", keys.name)
    root = {"Authorization": "Bearer root-key-1234"}
    user = {"Authorization": "Bearer user-key-1234"}
    rows = re.findall(r'^ROUTE\(\w+, "(\w+)", "([^"]+)", (\w+),',
                      open(os.path.join(ROOT, "server/http/routes.def")).read(), re.M)
    for method, path, scope in rows:
        path = re.sub(r"{\w+}", "x", path)
        for name, head in (("no key", {}), ("wrong key", {"Authorization": "Bearer wrong-key-123"})):
            status, _, text = s.bare(method, path, head)
            if scope == "SCOPE_OPEN":
                check(f"{method} {path} is open", status == (404 if "web" in path else 200), status)
            else:
                check(f"{method} {path} {name}", status == 401 and b'"error"' in text, status)
        if scope not in ("SCOPE_OPEN", "SCOPE_INFERENCE"):
            check(f"{method} {path} small key", s.bare(method, path, user)[0] == 403)
    check("host", s.bare("GET", "/health", {"Host": "evil.com"})[0] == 403)
    check("host with a port", s.bare("GET", "/health", {"Host": "evil.com:80"})[0] == 403)
    check("host localhost", s.bare("GET", "/health", {"Host": "localhost:1"})[0] == 200)
    check("origin", s.bare("GET", "/health", {"Origin": "http://evil.com"})[0] == 403)
    check("origin null", s.bare("GET", "/health", {"Origin": "null"})[0] == 403)
    check("no type", s.bare("POST", "/v1/completions", root, b"{}")[0] == 415)
    for i in range(1, 10):  # until six were asked before time gave one of the four back
        began, user = time.monotonic(), {"Authorization": f"Bearer user-key-{i}234"}
        said = [s.bare("POST", "/v1/completions", {**user, "Content-Type": "application/json"}, b"{")
                for _ in range(6)]
        if time.monotonic() - began < 60 / 4:
            break
    check("rate", [x[0] for x in said] == [400] * 4 + [429] * 2, [x[0] for x in said])
    check("rate headers", said[0][1].get("x-ratelimit-limit-requests") == "4"
          and said[0][1].get("x-ratelimit-remaining-requests") == "3", said[0][1])
    check("retry", 1 <= int(said[5][1].get("retry-after", 0)) <= 120, said[5][1])
    check("id is kept", s.bare("GET", "/health", {"x-request-id": "mine-1"})[1]["x-request-id"]
          == "mine-1")
    check("id is cleaned", s.bare("GET", "/health", {"x-request-id": "<b>"})[1]["x-request-id"]
          .startswith("req-"))
    check("SIGTERM ends well", s.stop() == 0)

# Readiness that stays while the server leaves; requests refused before the delay is over.
s = Server(MODEL, "--drain-delay", 3600)
check("ready", s.bare("GET", "/readyz")[0] == 200)
s.process.send_signal(signal.SIGTERM)
s.until("/readyz", 503)
check("alive", s.bare("GET", "/livez")[0] == 200)
status = s.bare("POST", "/v1/completions", {"Content-Type": "application/json"}, b"{")[0]
check("still taken", status == 400, status)
check("a second signal is the end", s.stop() == 0, s.output())
s = Server(MODEL, "--drain-delay", 0.5)
check("the delay is over", s.stop() == 0, s.output())

# A bind that anybody can reach without a key.
p = subprocess.run([BIN, "serve", MODEL, "--host", "0.0.0.0", "--port", "0"], stderr=subprocess.PIPE,
                   text=True, timeout=60 * SLOW)
check("open bind", p.returncode == 2 and "--insecure" in p.stderr, p.stderr)
if not os.path.exists(f"{BIN}.bin"):  # of tests/gpu/bundle.sh, bound to where its libraries lie
    with tempfile.TemporaryDirectory() as away:  # where no model lies beside it
        p = subprocess.run([shutil.copy(BIN, away), "serve"], stderr=subprocess.PIPE, text=True,
                           timeout=60 * SLOW)
    check("no model", p.returncode == 2 and "which model" in p.stderr, p.stderr)

# A signal that finds the process half begun: a crash, a hang. Before main it is the system's: a
# shell that runs this in the background lets SIGINT be ignored, and a new program inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # a thread that still loads is left behind
for ms in range(0, 200, 10):
    p = subprocess.Popen([BIN, "serve", MODEL, "--port", "0"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
    time.sleep(ms / 1000)
    p.send_signal(signal.SIGINT)
    try:
        log, code = p.communicate(timeout=120 * SLOW)[1], p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        log, code = p.communicate()[1], "hangs"
    check(f"signal at {ms} ms", code == 0 or (code == -signal.SIGINT and not log), (code, log))

raise SystemExit(cases.end())
