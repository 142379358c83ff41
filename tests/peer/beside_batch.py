#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a batch costs those who wait: streams of a server, quiet and beside a batch, in turn.

    tests/peer/beside_batch.py MODEL [--tandem build/tandem] [--rounds 7] [--clients 4] [--streams 64] [--lines 5000]
                               [--batch-floor 0.5]

A round is the same load twice (`tandem bench serve`): while the batch's requests are answered, and while none is. A
line for each figure: the median over the rounds of beside over quiet, with the quarter and three quarters of them.
Meant for a machine that does nothing else. Standard library only, and a built program.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import serving  # noqa: E402

BOUNDARY = "----batch"


def upload(server, lines):
    part = (f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n"
            f"Content-Disposition: form-data; name=\"file\"; filename=\"b.jsonl\"\r\n\r\n{lines}\r\n--{BOUNDARY}--\r\n")
    r = server.ask("POST", "/v1/files", part.encode(), **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
    assert r.status == 200, r
    return r.json["id"]


def begin(server, n):
    """A batch that answers now."""
    lines = "\n".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {
        "prompt": f"Request {i} of a batch: ", "max_tokens": 64, "seed": i, "ignore_eos": True}}) for i in range(n))
    r = server.post("/v1/batches", {"input_file_id": upload(server, lines), "endpoint": "/v1/completions",
                                    "completion_window": "24h"})
    assert r.status == 200, r
    while server.get(f"/v1/batches/{r.json['id']}").json["request_counts"]["completed"] == 0:
        pass
    return r.json["id"]


def answered(server, batch):
    return server.get(f"/v1/batches/{batch}").json["request_counts"]["completed"]


def end(server, batch):
    server.post(f"/v1/batches/{batch}/cancel", {})
    while server.get(f"/v1/batches/{batch}").json["status"] not in ("cancelled", "completed", "failed"):
        pass


def load(tandem, server, a):
    words = [tandem, "bench", "serve", "--url", server.url, "-c", a.clients, "-n", a.streams, "--input-tokens", 64,
             "--output-tokens", 64, "--json"]
    out = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def figures(line):
    """Times by name, in milliseconds."""
    return {f"{kind} {p}": line[kind][p] for kind in ("first_token_ms", "between_tokens_ms", "whole_ms") if line.get(kind)
            for p in ("p50", "p99") if p in line[kind]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--tandem", default="build/tandem")
    for name, value in (("rounds", 7), ("clients", 4), ("streams", 64), ("lines", 5000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--batch-floor", type=float, default=0.5)
    a = parser.parse_args()
    ratios, n_batch = {}, 0
    options = ("--ctx", 1024, "--batch-floor", a.batch_floor)
    with serving.scratch() as tmp, serving.Tandem(a.model, *options, "--data-dir", tmp / "data") as server:
        load(a.tandem, server, a)  # warm
        for _ in range(a.rounds):
            quiet = figures(load(a.tandem, server, a))
            batch = begin(server, a.lines)
            before = answered(server, batch)
            beside = figures(load(a.tandem, server, a))
            n_batch += answered(server, batch) - before
            end(server, batch)
            for name, value in beside.items():
                ratios.setdefault(name, []).append(value / quiet[name])
    for name, values in ratios.items():
        low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
        print(f"{name}: {median:.3f} ({low:.3f} to {high:.3f})")
    print(f"the batch had {n_batch} answers beside the streams")


if __name__ == "__main__":
    main()
