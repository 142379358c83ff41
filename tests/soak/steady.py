#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a server's memory comes to that nobody ends: jobs one behind the other, or clients that leave in the
midst of streams, by number. Prints resident bytes along the way, and their slope over the second half: what
is kept for good, and not what a first use takes.

    steady.py --jobs N | --leaves N [--every N]

Not part of make test: a slope takes many minutes. Standard library only."""
import argparse
import concurrent.futures
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
from attack import Raw, request  # noqa: E402
from serving import Tandem, scratch  # noqa: E402
from test_tuning import JOBS, MODEL, Client, rows  # noqa: E402

HYPER = {"n_epochs": 2, "batch_size": 6, "learning_rate_multiplier": 20}
CLIENTS = 16


def resident(s):
    lines = pathlib.Path(f"/proc/{s.pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(x for x in lines if x.startswith("VmRSS")).split()[1]) / 1024


def one_job(s, file):
    """To its end, and deleted with all that it made."""
    c = Client(s, {})
    j = c.done(c.job(file, hyperparameters=HYPER, seed=3))
    for p in c.get(f"{JOBS}/{j['id']}/checkpoints").json["data"]:
        c.ask("DELETE", f"/v1/models/{p['fine_tuned_model_checkpoint']}")
    for f in j["result_files"]:
        r = c.ask("DELETE", f"/v1/files/{f}")
        assert r.status == 200, r
    assert c.ask("DELETE", f"/v1/models/{j['fine_tuned_model']}").status == 404


def leave(s, seed):
    rng = random.Random(seed)
    with Raw(s) as raw:
        raw.send(request("/v1/completions", {"model": "tiny", "prompt": "a b", "max_tokens": 60, "ignore_eos": True,
                                             "stream": True, "seed": seed}))
        if rng.random() < 0.7:
            raw.more()
        raw.close(rudely=rng.random() < 0.5)


def slope(points):
    """MiB a thing, by least squares."""
    half = points[len(points) // 2:]
    x, y = (sum(p[i] for p in half) / len(half) for i in (0, 1))
    over = sum((p[0] - x) ** 2 for p in half)
    return sum((p[0] - x) * (p[1] - y) for p in half) / over if over else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--jobs", type=int, default=0)
    ap.add_argument("--leaves", type=int, default=0)
    ap.add_argument("--every", type=int, default=20)
    opt = ap.parse_args()
    points = []
    with scratch() as tmp, Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                                  "--kv-memory", "8M", "--max-lora-rank", "16") as s:
        file = Client(s, {}).file(rows(12))
        for n in range(0, opt.jobs or opt.leaves, opt.every):
            if opt.jobs:
                for _ in range(opt.every):
                    one_job(s, file)
            else:
                with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                    list(pool.map(lambda i: leave(s, i), range(n, n + opt.every)))
            points.append((n + opt.every, resident(s)))
            print(f"{points[-1][0]}: {points[-1][1]:.1f} MiB", flush=True)
        left = Client(s, {}).say("tiny")
        assert left.status == 200, left
    print(f"slope of the second half: {slope(points) * 1024:.2f} KiB for each")


if __name__ == "__main__":
    main()
