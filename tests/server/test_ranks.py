#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve` over ranks that share the model.

Faults it can catch: text that is not that of one rank, with an adapter or without; a job that is
taken where nobody can train; a server over ranks that does not drain or does not end well.

Standard library only."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import Cases, Tandem, scratch  # noqa: E402

MODEL = "tests/golden/models/llama_plain"
NAMES = ("llama_plain", "tuned")
PROMPTS = [[1 + (7 * i + k) % 150 for k in range(5 + i)] for i in range(6)]
OPTIONS = ("--quantize", "f32", "--threads", "2", "--adapter", f"tuned={MODEL}/lora",
           "--max-adapters", "4")


def texts(server):
    """What the server writes, of each model, and how sure it was."""
    said = []
    for name in NAMES:
        for prompt in PROMPTS:
            r = server.post("/v1/completions", {
                "model": name, "prompt": prompt, "max_tokens": 12, "temperature": 0, "logprobs": 1})
            assert r.status == 200, r
            choice = r.json["choices"][0]
            said.append((choice["text"], choice["logprobs"]["token_logprobs"]))
    return said


def same(got, want):
    assert len(got) == len(want)
    for (text, sure), (want_text, want_sure) in zip(got, want):
        assert text == want_text, (text, want_text)
        assert all(abs(a - b) < 1e-4 for a, b in zip(sure, want_sure)), (sure, want_sure)


def refuses_jobs(server):
    r = server.post("/v1/fine_tuning/jobs", {"model": NAMES[0], "training_file": "file-x"})
    assert r.status == 400 and r.error["param"] == "model", r
    assert "2 ranks share" in r.error["message"], r


def main():
    cases = Cases()
    with scratch() as tmp:
        with Tandem(MODEL, *OPTIONS) as one:
            want = texts(one)
        with Tandem(MODEL, *OPTIONS, "--tp", 2, "--data-dir", tmp / "data") as two:
            cases.run("threads: text of one rank", lambda: same(texts(two), want))
            cases.run("threads: jobs are refused", lambda: refuses_jobs(two))
            cases.run("threads: ends well", two.stop)
    return cases.end()


sys.exit(main())
