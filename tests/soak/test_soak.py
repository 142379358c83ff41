#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad luck of all kinds, one life of a server after another on one data directory: clients that ask,
stream and leave in the midst, uploads, jobs that are made, paused and cancelled; meanwhile
the disk is full or slow, the clock jumps, memory is short; in the end a SIGKILL or a SIGTERM. What was
acknowledged is known (test_killed.py's World) and looked for at each start, every text must be the one
that is given when nobody else asks, every job's steps, checkpoints and model those of a straight run.

Faults they can catch: something acknowledged that is lost, something refused that stays; a text that
depends on its neighbours or on luck; a server that ends where only memory or the disk was short, or does
not go on when there is room again; a state that lies.

    test_soak.py [--lives N] [--seconds S] [--seed N]

An hour: --lives 700 --seconds 4. What is asked for and what goes wrong is drawn by the seed; which instant
it meets is the machine's to say. Standard library only."""
import argparse
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import random
import resource
import signal
import struct
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
import test_killed  # noqa: E402
from attack import Raw, request  # noqa: E402
from serving import BUILD, MODE, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_full_disk import SHIM, Disk  # noqa: E402
from test_tuning import MODEL, Client  # noqa: E402

N_ASK, N_CLIENT = 12, 4
SHORT = (429, 503, 507)  # refusals that bad luck explains
GONE = (OSError, http.client.HTTPException)
HOUR = 3600


class Refused(Exception):
    """There was no room for it now."""


class Patient(Client):
    def ask(self, method, path, body=None, **headers):
        r = super().ask(method, path, body, **headers)
        if r.status in SHORT:
            assert r.error["message"], r
            raise Refused(r)
        return r


class Luck:
    """What goes wrong in a server's surroundings, and is right again."""

    def __init__(self, tmp):
        self.disk, ctl = Disk(tmp), tmp / "luck"
        ctl.write_bytes(bytes(16))
        with open(ctl, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 16)
        shims = f"{SHIM}:{BUILD.resolve() / 'tests/fake/preload/bad_luck.so'}"
        self.env = {**self.disk.env, "LD_PRELOAD": shims, "BAD_LUCK_CTL": str(ctl)}

    def set(self, at, value):
        self.map[8 * at:8 * at + 8] = struct.pack("q", value)

    def full(self, rng, _):
        self.disk.fill(rng.randrange(40), rng.choice([1, 5, 1 << 40]))

    def slow(self, rng, _):
        self.set(1, rng.randrange(1000, 100000))

    def clock(self, rng, _):
        self.set(0, rng.choice([-1, 1]) * rng.choice([1, 90, HOUR, 30 * HOUR]))

    def memory(self, rng, s):
        """So much more than it has now."""
        pages = int(pathlib.Path(f"/proc/{s.pid}/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + rng.randrange(1 << 20, 64 << 20)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(s.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    def over(self, s=None):
        self.disk.free()
        for at in (0, 1):
            self.set(at, 0)
        with contextlib.suppress(ProcessLookupError):
            if s:
                resource.prlimit(s.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

    def kinds(self):
        """A sanitizer has its own needs of memory."""
        return [self.full, self.slow, self.clock, *([self.memory] if MODE in ("release", "debug") else [])]


def draw_asks(rng):
    out = []
    for _ in range(N_ASK):
        out.append({"model": "tiny", "prompt": " ".join(rng.choices("ab", k=rng.randrange(1, 30))),
                    "max_tokens": rng.randrange(1, 30), "seed": rng.randrange(99), "ignore_eos": True,
                    "temperature": rng.choice([0, 1])})
    return out


class Soak(test_killed.World):
    def __init__(self, tmp, opt):
        super().__init__(tmp)
        self.opt, self.plan, self.luck = opt, random.Random(opt.seed), Luck(tmp)
        self.asks, self.texts = draw_asks(self.plan), []
        self.lock, self.fault = threading.Lock(), None

    def serve(self):
        return Tandem(MODEL, "--name", "tiny", "--data-dir", self.tmp / "data", "--no-access-log", "--kv-memory", "8M",
                      "--max-lora-rank", "16", "--max-adapters", "32",
                      env=self.luck.env)

    def add(self, what):
        with self.lock:
            self.count[what] = self.count.get(what, 0) + 1

    # ---- clients

    def text(self, s, i, streams):
        r = s.post("/v1/completions", {**self.asks[i], "stream": streams})
        if r.status in SHORT:
            raise Refused(r)
        assert r.status == 200, r
        if not streams:
            return r.json["choices"][0]["text"]
        data = [x[6:] for x in r.body.decode().splitlines() if x.startswith("data: ")]
        if any('"error"' in x for x in data):
            raise Refused(r)
        if data[-1:] != ["[DONE]"]:
            raise ConnectionResetError
        return "".join(json.loads(x)["choices"][0]["text"] for x in data[:-1] if json.loads(x)["choices"])

    def leave(self, s, rng):
        with Raw(s, timeout=20) as raw:
            raw.send(request("/v1/completions", {**rng.choice(self.asks), "stream": True}))
            if rng.random() < 0.7:
                raw.more()
            raw.close(rudely=rng.random() < 0.5)
        self.add("left")

    def client(self, s, seed, ends):
        """Asks until the life is over."""
        rng = random.Random(seed)
        while not ends.is_set():
            try:
                draw, i = rng.random(), rng.randrange(N_ASK)
                if draw < 0.2:
                    self.leave(s, rng)
                else:
                    got = self.text(s, i, draw < 0.65)
                    assert got == self.texts[i], (self.asks[i], got, self.texts[i])
                    self.add("texts")
            except Refused:
                self.add("refused")
            except GONE:
                time.sleep(0.01)
            except Exception as e:  # noqa: BLE001 a fault of any kind is the first thread's to raise
                self.fault = self.fault or e
                return

    # ---- a life

    def acts(self, end):
        acts = [self.upload, self.create, self.look, self.delete, lambda: self.change("cancel"),
                lambda: self.change("pause"), lambda: self.change("resume")]
        while time.monotonic() < end and not self.fault:
            act, = self.random.choices(acts, [2, 3, 3, 1, 0.2, 1, 3])
            try:
                act()
                self.add("acts")
            except Refused:
                self.add("refused")
            except GONE:
                return

    def misfortunes(self, s, ends):
        rng = random.Random(self.random.getrandbits(64))
        while not ends.wait(0.3 * rng.random() * SLOW):
            what = rng.choice(self.luck.kinds())
            what(rng, s)
            self.add(what.__name__)
            ends.wait(0.3 * rng.random() * SLOW)
            self.luck.over(s)

    def live_one(self):
        self.random = random.Random(self.plan.getrandbits(64))
        s, ends = self.serve(), threading.Event()
        self.check(s)
        self.c = Patient(s, {})
        work = [threading.Thread(target=self.client, args=(s, self.random.getrandbits(64), ends)) for _ in range(N_CLIENT)]
        work.append(threading.Thread(target=self.misfortunes, args=(s, ends)))
        for t in work:
            t.start()
        try:
            self.acts(time.monotonic() + self.opt.seconds * self.random.random() * SLOW)
        finally:
            died = s.process.poll()
            kills = self.random.random() < 0.7
            if kills:
                s.process.kill()
            else:
                ends.set()
            ends.set()
            for t in work:
                t.join()
            self.luck.over()
        assert died is None, f"it ended by itself: {died}: {s.output()[-2000:]}"
        status = s.process.wait() if kills else s.stop(self.random.choice([signal.SIGTERM, signal.SIGQUIT]))
        assert status == (-signal.SIGKILL if kills else 0), (status, s.output()[-2000:])
        self.add("killed" if kills else "stopped")
        if self.fault:
            raise self.fault
        self.sound()

    def all(self):
        self.begin()
        with self.serve() as s:
            self.texts = [self.text(s, i, False) for i in range(N_ASK)]
        for i in range(self.opt.lives):
            try:
                self.live_one()
            except AssertionError as e:
                raise AssertionError(f"life {i}: {e}") from e
            if self.opt.lives > 100 and i % 50 == 49:
                print(f"life {i + 1}: {self.said()}", flush=True)
        self.end()
        return self.said()

    def said(self):
        return ", ".join(f"{n} {what}" for what, n in sorted(self.count.items()))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lives", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32)))
    opt = ap.parse_args()
    cases = Cases()
    with scratch() as tmp:
        cases.run(f"soak, TEST_SEED={opt.seed}", lambda: Soak(tmp, opt).all())
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
