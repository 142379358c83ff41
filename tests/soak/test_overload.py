#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten times what the server can do, for a while, with fine-tuning jobs one behind the other beside it: who is
admitted is answered whole, who is not is told so at once, and what the server holds does not grow.

Faults they can catch: an admitted request that is dropped; a refusal that takes long, or is no 429 or 503; a
little that is kept of each request, or of each refusal; a job that starves.

    test_overload.py [--rounds N] [--seconds S] [--times T]

Half an hour: --rounds 30 --seconds 60. From 60 seconds on refusals are judged by the clock: 50 ms, less what the
client itself was late, where that is below 25 ms: else the machine has others to serve. Prints a line for each
round, and the slope of resident memory over the ends of the second half of them. Standard library only."""
import argparse
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
from attack import bench, connections, fill_cells, make_model  # noqa: E402
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from steady import one_job, resident, slope  # noqa: E402
from test_tuning import Client, rows  # noqa: E402

SHAPE = ["--input-tokens", 32, "--output-tokens", 200, "--no-stream"]
JUDGED_S, REFUSED_MS, HOUR = 60, 50, 3600


class Beside:
    """Something that is done again and again while a round lasts; what it raised is raised at its end."""

    def __init__(self, act):
        self.act, self.over, self.fault, self.n = act, threading.Event(), None, 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.over.is_set():
                self.act()
                self.n += 1
        except Exception as e:  # noqa: BLE001 of any kind
            self.fault = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.fault:
            raise self.fault


class Overload:
    def __init__(self, server, opt):
        self.s, self.opt, self.points, self.begun = server, opt, [], time.monotonic()
        self.file = Client(server, {}).file(rows(12))
        self.able = bench(server, *SHAPE, "-c", 64, "--duration", min(5, opt.seconds))[0]["requests_per_s"]
        fill_cells(server)

    def round(self):
        with Beside(lambda: one_job(self.s, self.file)) as jobs:
            r, = bench(self.s, *SHAPE, "--rate", self.opt.times * self.able, "--duration", self.opt.seconds, "-c",
                       connections(2500), "--warmup", 0, timeout=self.opt.seconds + 600)
        strange = {k: v for k, v in r["faults"].items() if k not in ("429", "503")}
        assert not strange and r["good"], f"{strange}: {r['first_fault']}"
        assert r["bad"] or self.opt.seconds < JUDGED_S, f"nothing is refused: {r}"
        self.s.wait_idle()
        self.points.append((time.monotonic() - self.begun, resident(self.s)))
        ms, late = r["refused_ms"], r["own_late_ms"]
        text = (f"{r['good']} answered, {r['bad']} refused after p50 {ms['p50']:.1f}, p99 {ms['p99']:.1f}, at most "
                f"{ms['max']:.1f} ms (the client's own p99 {late['p99']:.1f}), {jobs.n} jobs, "
                f"{self.points[-1][1]:.1f} MiB")
        print(text, flush=True)
        if self.opt.seconds >= JUDGED_S and late["p99"] < REFUSED_MS / 2:
            assert ms["p99"] - late["p99"] < REFUSED_MS, text
        return text

    def all(self):
        print(f"{self.able:.0f} a second are served alone", flush=True)
        for _ in range(self.opt.rounds):
            self.round()
        return (f"{self.opt.rounds} rounds of {self.opt.seconds} s, {self.points[-1][1]:.1f} MiB, "
                f"{slope(self.points) * HOUR:+.2f} MiB an hour")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=2)
    ap.add_argument("--times", type=float, default=10)
    opt = ap.parse_args()
    opt.seconds *= SLOW if opt.seconds < JUDGED_S else 1
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--ctx", 512)
        with Tandem(model, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log", "--kv-memory", "8M",
                    "--max-lora-rank", "16", "--max-waiting", 64) as s:
            cases.run("overload", lambda: Overload(s, opt).all())
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
