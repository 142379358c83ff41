#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows with a teacher's log-probabilities over loopback: what a server answered is a row as it is, its kept chat too;
what a job, a preview and `tandem train` make of such rows; a server that is killed on the way; what is refused.

Faults they can catch: a loss from itself that is not nothing, so tokens or masses that are not what was served; a
teacher that is dropped without a word, or asked for where there is none; a row in another cut; a job that goes on
after a kill to other losses; a command whose option means something else. Standard library only."""
import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, scratch  # noqa: E402
from test_preferences import kill, lines, metrics, outcome, said, same  # noqa: E402
from test_tuning import JOBS, MODEL, Client  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
HYPER = {"n_epochs": 3, "batch_size": 4, "learning_rate_multiplier": 20, "lora_rank": 4, "lora_alpha": 8}
N = 12


def supervised(**hyper):
    return {"type": "supervised", "supervised": {"hyperparameters": {**HYPER, **hyper}}}


def serve(tmp):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log", "--kv-memory", "8M",
                  "--max-lora-rank", "16", "--max-adapters", "32")


def entry(text, p, *others):
    return {"token": text, "logprob": p, "bytes": list(text.encode()),
            "top_logprobs": [{"token": t, "logprob": q, "bytes": None} for t, q in others]}


def taught(i):
    """An answer in letters, of which the next one of the alphabet is half as likely."""
    text = "abcdefgh"[i % 5:i % 5 + 3]
    content = [entry(t, -0.5, (t, -0.5), (chr(ord(t) + 1), -1.2)) for t in text]
    return {"messages": said("user", f"Is it {i}?") + said("assistant", text), "logprobs": {"content": content}}


TAUGHT = lines(taught(i) for i in range(24))


def float32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def answers(c):
    """Rows of what this server drew: request and answer in one object."""
    rows = []
    for i in range(N):
        ask = said("user", f"Say {i}.")
        r = c.ask("POST", "/v1/chat/completions", {
            "model": "tiny", "messages": ask, "max_tokens": 9, "temperature": 1.3, "seed": i, "logprobs": True,
            "top_logprobs": 20, "store": True, "guided_regex": "[a-z ]{4,12}"})
        assert r.status == 200, r
        rows.append({"messages": ask, **r.json})
        content = r.json["choices"][0]["logprobs"]["content"]
        assert len(content) > 1 and len(content[0]["top_logprobs"]) == 20, r.json
    return rows


def of_itself(c, kept):
    """The served model is its own teacher: nothing is lost but at the token that ends a turn, of which it said
    nothing, and which is learned as text is."""
    rows = kept["rows"] = answers(c)
    job = c.job(c.file(lines(rows)), seed=3, method=supervised(n_epochs=1, batch_size=N, row_logprobs=True))
    j = c.done(job)
    assert j["hyperparameters"]["distill_weight"] == 1, j
    head, *said_rows = c.get(f"/v1/files/{j['result_files'][1]}/content").body.decode().splitlines()
    assert head.endswith("trained_tokens,loss,logprobs") and len(said_rows) == N, head
    for line in said_rows:
        _, _, example, _, n, loss, logprobs = line.split(",")
        drawn = [x["logprob"] for x in rows[int(example) - 1]["choices"][0]["logprobs"]["content"]]
        got, drawn = [float32(x) for x in logprobs.split()], [float32(x) for x in drawn]
        assert len(got) == int(n) == len(drawn) + 1, (line, drawn)
        assert got[:-1] == drawn, (line, drawn)  # trained is served, to the bit
        assert abs(float(loss) * int(n) + got[-1]) < 2e-5, line


def as_kept(c, kept):
    """The same rows from what the server keeps: a chat and its messages."""
    for row in kept["rows"][:3]:
        chat = c.get(f"/v1/chat/completions/{row['id']}").json
        asked = c.get(f"/v1/chat/completions/{row['id']}/messages").json["data"]
        previews = [c.ask("POST", "/v1/fine_tuning/preview", {"row": x})
                    for x in (row, {"messages": asked, "choices": chat["choices"]})]
        assert all(p.status == 200 for p in previews), previews
        assert previews[0].json["tokens"] == previews[1].json["tokens"], previews


def previewed(c):
    """The tokens are the teacher's: by itself the tokenizer joins them."""
    whole = {"messages": said("user", "Hi?") + said("assistant", "The cat")}
    cut = {**whole, "logprobs": {"content": [entry(t, -0.1) for t in ("T", "h", "e", " c", "at")]}}
    texts = [c.ask("POST", "/v1/fine_tuning/preview", {"row": r}).json["texts"] for r in (whole, cut)]
    assert ["The", " cat"] == [t for t in texts[0] if t in ("The", " cat")], texts
    at = texts[1].index("T")
    assert texts[1][at:at + 6] == ["T", "h", "e", " c", "at", "<|end|>"], texts


def learns(c, kept):
    file = c.file(TAUGHT)
    curves = {}
    for weight in (0.25, 1):
        j = c.done(c.job(file, validation_file=file, seed=5, method=supervised(distill_weight=weight)))
        assert j["method"]["supervised"]["hyperparameters"]["distill_weight"] == weight, j
        steps = metrics(c, j["id"])
        assert len(steps) == 18 and steps[-1]["train_loss"] < 0.7 * steps[0]["train_loss"], steps
        points = c.get(f"{JOBS}/{j['id']}/checkpoints").json["data"]
        assert points[0]["metrics"]["full_valid_loss"] < steps[0]["train_loss"], points
        assert c.say(j["fine_tuned_model"]).status == 200
        curves[weight] = c.curve(j)
        kept["job"] = j
    plain = lines({"messages": taught(i)["messages"]} for i in range(24))
    j = c.done(c.job(c.file(plain), seed=5, method=supervised()))
    assert j["hyperparameters"]["distill_weight"] == "auto", j
    first = {c_.decode().splitlines()[1].split(",")[1] for c_ in (*curves.values(), c.curve(j))}
    assert len(first) == 3, first  # three losses of the same rows


def refused(c):
    file = c.file(TAUGHT)
    for more, param in (({"method": supervised(distill_weight=0)}, "method.supervised.hyperparameters.distill_weight"),
                        ({"method": supervised(distill_weight=2)}, "method.supervised.hyperparameters.distill_weight"),
                        ({"hyperparameters": {"distill_weight": "much"}}, "hyperparameters.distill_weight"),
                        ({"method": {"type": "dpo", "dpo": {"hyperparameters": {"distill_weight": 1}}}},
                         "method.dpo.hyperparameters.distill_weight")):
        r = c.make(file, **more)
        assert r.status == 400 and r.error["param"] == param, (more, r)
    odd = taught(1)
    for change, words in (
            ({"logprobs": {"content": [entry("bcd", -0.1)]}}, ("\"bcd\"", "none of the model's")),
            ({"logprobs": {"content": [entry("b", -0.1)]}, "messages": said("user", "a") + said("assistant", "c")},
             ("not the text",)),
            ({"logprobs": {"content": [entry("b", -0.1), entry("c", -0.1)]}}, ("not the text",)),
            ({"logprobs": {"content": [entry("b", -0.1, ("c", -0.1)), entry("c", -1), entry("d", -1)]}}, ("sum to",)),
            ({"logprobs": {"content": [{"token": "b"}]}}, ("logprobs.content[0]", "logprob")),
            ({"logprobs": {"content": [entry("b", -1, *[("c", -9)] * 64)]}}, ("64 'top_logprobs'",))):
        j = c.wait(c.job(c.file(TAUGHT + b"\n" + lines([{**odd, **change}])), method=supervised()))
        assert j["status"] == "failed" and j["error"]["code"] == "invalid_training_file", j
        assert all(w in j["error"]["message"] for w in ("Example 25 (line 26)", *words)), j
    r = c.ask("POST", "/v1/fine_tuning/check", {
        "training_file": c.file(TAUGHT + lines([{**odd, "logprobs": {"content": [entry("bcd", -0.1)]}}]))})
    assert [f["line"] for f in r.json["faults"]] == [25], r
    plain = lines({"messages": taught(i)["messages"]} for i in range(24))
    j = c.wait(c.job(c.file(plain), method=supervised(distill_weight=0.5)))
    assert j["status"] == "failed" and "distill_weight" in j["error"]["message"], j
    assert j["error"]["param"] == "training_file", j


def by_command(c, tmp, kept):
    """The same numbers as the job's: its multiplier of 20 is of 2e-4."""
    (tmp / "taught.jsonl").write_bytes(TAUGHT)
    (tmp / "plain.jsonl").write_bytes(lines({"messages": taught(i)["messages"]} for i in range(24)))

    def train(*words):
        return subprocess.run([TANDEM, "train", "--model", MODEL, *map(str, words)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
    p = train("--data", tmp / "taught.jsonl", "--out", tmp / "out", "--epochs", 3, "--batch", 4, "--lr", 4e-3,
              "--rank", 4, "--alpha", 8, "--seed", 5, "--distill-weight", 1)
    assert p.returncode == 0, p
    mine = [row.split(",")[:3] for row in (tmp / "out/steps.csv").read_text().splitlines()]
    assert mine == [row.split(",")[:3] for row in c.curve(kept["job"]).decode().splitlines()]
    p = train("--data", tmp / "plain.jsonl", "--out", tmp / "bad", "--distill-weight", 0.5)
    assert p.returncode != 0 and "--distill-weight" in p.stderr, p


def by_tune(server, tmp):
    p = subprocess.run([TANDEM, "tune", tmp / "taught.jsonl", "--url", f"http://127.0.0.1:{server.port}", "--epochs", "1",
                        "--distill-weight", "0.5", "--follow"], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0 and p.stdout.startswith("ft:tiny:"), p


LONG = supervised(n_epochs=12, checkpoint_steps=5, distill_weight=0.75)


def killed(tmp, want):
    """Killed at moments of its life, each after a little more of it than the last."""
    with serve(tmp) as s:
        job = Client(s, key={}).job(Client(s, key={}).file(TAUGHT), seed=9, method=LONG)
        kill(s, 0.02)
    for i in range(3):
        with serve(tmp) as s:
            kill(s, 0.05 + 0.05 * i)
    with serve(tmp) as s:
        same(outcome(Client(s, key={}), tmp, job), want)


def lives(tmp, cases):
    kept = {}
    with serve(tmp) as s:
        c = Client(s, key={})
        cases.run("of itself nothing is learned", lambda: of_itself(c, kept))
        cases.run("kept chats are rows", lambda: as_kept(c, kept))
        cases.run("previewed", lambda: previewed(c))
        cases.run("learns", lambda: learns(c, kept))
        cases.run("refused", lambda: refused(c))
        cases.run("tandem train", lambda: by_command(c, tmp, kept))
        cases.run("tandem tune", lambda: by_tune(s, tmp))
        kept["want"] = outcome(c, tmp, c.job(c.file(TAUGHT), seed=9, method=LONG))
    cases.run("killed", lambda: killed(tmp, kept["want"]))


if __name__ == "__main__":
    every = Cases()
    with scratch() as folder:
        lives(folder, every)
    sys.exit(every.end())
