# SPDX-License-Identifier: Apache-2.0
"""A `tandem serve` for tests to talk to, and models for it to serve. Standard library only.

    with scratch() as tmp, Tandem(make_model(tmp / "m"), "--ctx", "512") as s:
        s.post("/v1/completions", {...})

TANDEM_BIN and TANDEM_BUILD are set by the runner; by hand the release build is taken."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
BIN = os.environ.get("TANDEM_BIN", str(BUILD / "tandem"))
MODE = os.environ.get("TEST_MODE", "release")
ENDLESS = 5000  # rows of a job that at 50 epochs and a batch of 1 lasts until it is ended
UNCONFINED = {"TANDEM_SANDBOX": "off"} if MODE == "coverage" else {}  # the counts go to the build's folder
SLOW = {"asan": 4, "tsan": 10, "paranoid": 4, "coverage": 3, "debug": 4}.get(MODE, 1)


@contextlib.contextmanager
def scratch():
    """A folder that is gone afterwards."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="tandem-test-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def make_model(path, *options):
    """Random weights, a tokenizer that takes any text, a chat template."""
    subprocess.run([BUILD / "tests/tools/make_model", path, *map(str, options)], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def template_of(model, text):
    """The model, whose chats are written by this template from now on."""
    config = model / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": text}))
    return model


def rename_special(model, *renamed):
    """The model, whose special tokens have other names: pairs of an old one and a new one."""
    vocabulary = model / "tokenizer.json"
    text = vocabulary.read_text()
    for old, new in renamed:
        assert text.count(json.dumps(old)) > 0, f"{model} has no token {old}"
        text = text.replace(json.dumps(old), json.dumps(new))
    vocabulary.write_text(text)
    return model


def few_facts(path, n_rows, n_messages):
    """Of rows as examples/tiny/facts.py writes them the first ones, one of each fact, and a part of each: the fact,
    and some of what stands beside it. As many steps, in a fraction of the time."""
    path = pathlib.Path(path)
    known = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    text = ""
    for fact, line in zip(known, path.read_text(encoding="utf-8").splitlines()[:n_rows]):
        row = json.loads(line)
        said = row["messages"]
        at = next(i for i, m in enumerate(said) if fact.startswith((m["content"] or "none") + " "))
        first = said[0]["role"] == "system"
        said = (said[:first] + said[at:at + 2] + said[first:at] + said[at + 2:])[:n_messages]
        while said[-1]["role"] != "assistant" or said[-1].get("tool_calls"):
            said.pop()
        text += json.dumps({**row, "messages": said}) + "\n"
    return text


def waiting(seconds, pause=0.02):
    """As many turns as waits of that length come to: of the time that the test itself was stopped, as the server
    may have been with it, none counts."""
    for _ in range(int(seconds / pause)):
        yield
        time.sleep(pause)


def log_text(log):
    """What processes wrote to a file so far. They have one place in it with us, and go on writing where
    that is: it is not moved."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode("utf-8", "replace")


class Reply:
    """An answer, read whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error's members, which must be there."""
        error = self.json["error"]
        assert set(error) >= {"message", "type", "param", "code"}, error
        return error

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Tandem:
    """A running server; ended with it must be that it ends well."""

    def __init__(self, model, *options, env=None, ready_s=60, waits=True):
        self.log = tempfile.TemporaryFile("w+b")
        words = [BIN, "serve", *([model] if model else []), "--port", 0, "--drain-delay", 0, *options]
        self.bound = None
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, **UNCONFINED, **(env or {})})
        self.pid = self.process.pid
        if waits:
            self.wait_ready(ready_s * SLOW)

    def wait_ready(self, seconds):
        for _ in waiting(seconds):
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.output()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/readyz").status == 200:
                    return
        self.process.kill()
        raise AssertionError(f"the server was not ready after {seconds} s: {self.output()}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop()
        if kind is None and status != 0:
            raise AssertionError(f"the server ended with {status}: {self.output()}")

    def stop(self, how=signal.SIGTERM, seconds=60):
        """The status it ended with."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        for _ in waiting(seconds * SLOW):
            if self.process.poll() is not None:
                return self.process.returncode
        self.process.kill()
        self.process.wait()
        raise AssertionError(f"SIGTERM did not end it: {self.output()}")

    def said(self):
        """All that it logged."""
        return log_text(self.log)

    def output(self):
        """The end of it, for a message of what went wrong."""
        return self.said()[-4000:]

    # ---- asking it

    @property
    def port(self):
        """The log says it, once the server can be asked whether it is ready."""
        if not self.bound:
            said = re.search(r'\bbound\b.*\bport"?[=:](\d+)\D', log_text(self.log))
            if not said:
                raise ConnectionRefusedError("it does not listen yet")
            self.bound = int(said[1])
        return self.bound

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, timeout=120, **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            if body is not None:
                headers = {"Content-Type": "application/json", **headers}
            c.request(method, path, body, headers)
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            c.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    # ---- what it holds

    def blocks(self, signo):
        """Whether it has taken a signal from the system; before that the signal is its end. Who makes
        a thread, as the allocator does before main, blocks all of them for a moment."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            masks = dict(line.split(":", 1) for line in f)
        blocked = int(masks["SigBlk"], 16)
        return bool(blocked >> (signo - 1) & 1) and not blocked >> (signal.SIGALRM - 1) & 1

    def metrics(self, **headers):
        """name -> the sum over its labels, of everything that is no bucket."""
        sums = {}
        for line in self.get("/metrics", **headers).body.decode().splitlines():
            m = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)", line)
            if m and not m[1].endswith("_bucket"):
                sums[m[1]] = sums.get(m[1], 0) + float(m[2])
        return sums

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def open_files(self):
        """What its descriptors lead to: paths, or the like of socket:[1]."""
        found = []
        for at in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(at))
        return found

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def rss(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def wait_idle(self, seconds=60, **headers):
        """Until no sequence runs or waits and no connection but the asker's is open."""
        end = time.monotonic() + seconds * SLOW
        while True:
            m = self.metrics(**headers)
            busy = m["tandem_requests_running"] + m["tandem_requests_waiting"]
            if busy == 0 and m["tandem_http_connections"] <= 1:
                return m
            if time.monotonic() > end:
                raise AssertionError(f"still {busy:.0f} sequences and "
                                     f"{m['tandem_http_connections']:.0f} connections")
            time.sleep(0.05)


def said(p):
    """What came of a command, for a test that did not want that."""
    return f"status {p.returncode}, stdout {p.stdout[-300:]!r}, stderr {p.stderr[-500:]!r}"


class Cases:
    """Counts, in the way that the runner reads."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, name, case):
        """One case: it is good when it returns, whatever that is."""
        try:
            note = case()
            self.passed += 1
            print(f"ok   {name}" + (f": {note}" if isinstance(note, str) else ""), flush=True)
        except Exception as fault:  # an assertion, or a library's own words
            self.failed += 1
            ours = [f for f in traceback.extract_tb(fault.__traceback__)
                    if "site-packages" not in f.filename and f.filename != __file__]
            where = " < ".join(f"{f.name}:{f.lineno}" for f in reversed(ours))
            print(f"FAIL {name}: {type(fault).__name__} at {where}: {fault}", flush=True)

    def run_all(self, of, before=""):
        """Each method case_NAME of an object."""
        names = [name for name in dir(of) if name.startswith("case_")]
        assert names, of
        for name in names:
            self.run(before + name[5:], getattr(of, name))

    def check(self, name, ok, detail=""):
        """One line of a case that has many: only a fault is told."""
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        if not ok:
            print(f"FAIL {name}: {detail}", flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip {name}: {why}", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed"
              + (f", {self.skipped} skipped" if self.skipped else ""))
        return 1 if self.failed else 0
