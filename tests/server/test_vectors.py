#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of the methods x_embedding and x_classification over loopback: from the file's texts to a model that
is asked for vectors, scores and labels; what is wrong with a job's fields or a file's rows; a server that
is killed on the way; all of a model trained; and the same by `tandem train`.

Faults they can catch: a loss that is not that of the vectors which are served; an adapter of vectors that
is not served, or that another's text in the same request gets; a row of another format, or a label that
the model has not, that is trained; a job that goes on after a kill to other losses or another adapter.

TEST_FAULTS=full kills 100 times; otherwise 4. Standard library only."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402
from test_scores import GOLDEN, model_of  # noqa: E402
from test_tuning import JOBS, Client  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
KILLS = 100 if os.environ.get("TEST_FAULTS") == "full" else 4
HYPER = {"n_epochs": 2, "batch_size": 4, "learning_rate": 2e-3, "lora_rank": 4}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def anchor(i, has_negative=False):
    row = {"anchor": f"where is lamp {i}", "positive": f"lamp {i} stands in room {i * 7 % 12}"}
    return {**row, "negative": f"a cat of {i} years"} if has_negative else row


PAIRS = lines(anchor(i) for i in range(12))
TRIPLETS = lines(anchor(i, True) for i in range(12))
LABELLED = lines({"text": "a b c"[: 1 + 2 * (i % 3)], "label": ["no", "yes", "maybe"][i % 3]}
                 for i in range(12))
SCORED = lines({"text": f"lamp {i}", "text_pair": f"room {i % 2}", "label": i % 2} for i in range(12))


def method(kind, **hyper):
    return {"type": kind, kind: {"hyperparameters": {**HYPER, **hyper}}}


def embedding(**hyper):
    return method("x_embedding", **hyper)


def labels(**hyper):
    return method("x_classification", **hyper)


def serve(model, tmp, *options):
    return Tandem(model, "--name", "tiny", "--data-dir", tmp, "--no-access-log", "--max-adapters", "16",
                  *options)


def vectors(s, model, texts):
    r = s.post("/v1/embeddings", {"model": model, "input": texts})
    assert r.status == 200, r
    return [d["embedding"] for d in r.json["data"]]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def contrast(s, model, rows, batch=4, scale=20):
    """The mean loss over a file, as evaluation takes it: so many examples at a time."""
    total = 0
    for at in range(0, len(rows), batch):
        some = rows[at:at + batch]
        a = vectors(s, model, [x["anchor"] for x in some])
        others = vectors(s, model, [x["positive"] for x in some] + [x["negative"] for x in some
                                                                     if "negative" in x])
        for i, v in enumerate(a):
            scores = [scale * cosine(v, o) for o in others]
            total += math.log(sum(math.exp(x) for x in scores)) - scores[i]
    return total / len(rows)


def last_valid(c, job):
    return c.get(f"{JOBS}/{job}/checkpoints").json["data"][0]["metrics"]["full_valid_loss"]


def learns(s, c, file, rows):
    """The last validation loss is that of the vectors which the result is asked for."""
    job = c.job(file, validation_file=file, seed=5, method=embedding(n_epochs=6))
    j = c.done(job)
    assert j["method"]["x_embedding"]["hyperparameters"]["scale"] == 20, j
    before, after = (contrast(s, m, rows) for m in ("tiny", j["fine_tuned_model"]))
    assert after < before and abs(after - last_valid(c, job)) < 1e-4, (before, after, last_valid(c, job))
    head, *steps = c.curve(j).decode().splitlines()
    assert head == "step,train_loss,train_accuracy,valid_loss,valid_accuracy" and len(steps) == 18, head
    return j["fine_tuned_model"]


def bits_stay(s, model):
    """Texts of two models together, and each alone."""
    texts = ["where is lamp 3", "a cat"]
    alone = [vectors(s, m, [t])[0] for m in ("tiny", model) for t in texts]
    assert vectors(s, "tiny", texts) + vectors(s, model, texts) == alone
    assert alone[0] != alone[2]


def refused(c, file):
    for more, param in (
            ({"method": embedding(scale=0)}, "method.x_embedding.hyperparameters.scale"),
            ({"method": embedding(batch_size=1)}, "method.x_embedding.hyperparameters.batch_size"),
            ({"method": embedding(beta=1)}, "method.x_embedding.hyperparameters.beta"),
            ({"method": labels(scale=2)}, "method.x_classification.hyperparameters.scale"),
            ({"method": labels()}, "method.type"), ({}, "method.type"),
            ({"method": {"type": "embedding"}}, "method.type")):
        r = c.make(file, **more)
        assert r.status == 400 and r.error["param"] == param, (more, r)


def bad_rows(c, kind, good, rows):
    for row, words in rows:
        j = c.wait(c.job(c.file(good + b"\n" + lines([row])), method=method(kind)))
        assert j["status"] == "failed" and j["error"]["code"] == "invalid_training_file", j
        assert all(w in j["error"]["message"] for w in ("Example 13 (line 14)", *words)), j["error"]
        r = c.ask("POST", "/v1/fine_tuning/check", {"training_file": c.file(good + lines([row])),
                                                    "method": {"type": kind}})
        assert r.status == 200 and [f["line"] for f in r.json["faults"]] == [13], r


def bad_anchors(c):
    bad_rows(c, "x_embedding", PAIRS, (
        ({"anchor": "a"}, ("'positive'", "needed")),
        ({"positive": "a"}, ("'anchor'", "needed")),
        ({"anchor": 3, "positive": "a"}, ("'anchor'", "string")),
        ({"prompt": "a", "completion": "b"}, ("'anchor'",)),
        (anchor(1, True), ("'negative'", "first example"))))


def bad_labels(c):
    bad_rows(c, "x_classification", LABELLED, (
        ({"text": "a"}, ("'label'", "needed")),
        ({"text": "a", "label": "perhaps"}, ("perhaps", "no, yes, maybe")),
        ({"text": "a", "label": 3}, ("3 is no place",)), ({"text": "a", "label": 1e300}, ("is no place",)),
        ({"text": "a", "label": ["no"]}, ("no list",)),
        ({"label": "no"}, ("'text'", "needed"))))


def newest(data):
    """The bytes of what was made last, an adapter or a whole model."""
    files = sorted((p for n in ("adapters", "models") for p in (data / n).rglob("*model.safetensors")),
                   key=lambda p: p.stat().st_mtime_ns)
    return files[-1].read_bytes()


def killed(model, tmp, data, method):
    """To the bit what a straight one comes to, which is halted between."""
    how = {"seed": 9, "method": method}
    with serve(model, tmp / "straight") as s:
        c = Client(s, key={})
        want = c.curve(c.done(c.job(c.file(data), **how)))
    for i in range(KILLS):
        with serve(model, tmp / "killed") as s:
            c = Client(s, key={})
            job = c.job(c.file(data), **how) if i == 0 else job
            time.sleep(0.02 + 0.04 * (i % 7))
            s.process.kill()
            s.process.wait()
            s.process.returncode = 0
    with serve(model, tmp / "killed") as s:
        c = Client(s, key={})
        if c.ask("POST", f"{JOBS}/{job}/pause").status == 200:
            assert c.ask("POST", f"{JOBS}/{job}/resume").status == 200
        assert c.curve(c.done(job)) == want
    assert newest(tmp / "killed") == newest(tmp / "straight")
    return f"{KILLS} kills"


def over_another(model, other, tmp, data, method):
    """A job of a model is not gone on with over another's weights, or what is cancelled there is over."""
    long = {"seed": 9, "method": {**method, method["type"]: {"hyperparameters": {
        **method[method["type"]]["hyperparameters"], "n_epochs": 50, "batch_size": 2}}}}
    with serve(model, tmp / "another") as s:
        c = Client(s, key={})
        jobs = [c.job(c.file(data), **long) for _ in range(2)]
        c.wait_step(jobs[0], 3)
        s.process.kill()
        s.process.wait()
        s.process.returncode = 0
    with serve(other, tmp / "another") as s:
        c = Client(s, key={})
        j = c.wait(jobs[0])
        assert j["status"] == "failed" and j["error"]["code"] == "base_mismatch", j
        r = c.ask("POST", f"{JOBS}/{jobs[1]}/cancel")
        assert r.status == 200 and r.json["status"] == "cancelled", r
    with serve(model, tmp / "another") as s:
        assert [Client(s, key={}).look(j)["status"] for j in jobs] == ["failed", "cancelled"]


def whole(s, c, tmp):
    """All of a model trained: what it is published as gives the vectors that were trained."""
    rows = [json.loads(x) for x in PAIRS.splitlines()]
    job = c.job(c.file(PAIRS), validation_file=c.file(PAIRS), seed=5,
                method={"type": "x_embedding", "x_embedding": {"hyperparameters": {
                    "training_type": "full", "n_epochs": 3, "batch_size": 4, "learning_rate": 1e-3}}})
    c.done(job)
    folder = next(p.parent for p in (tmp / "data").rglob("modules.json"))
    with Tandem(folder, "--name", "whole") as other:
        got, want = contrast(other, "whole", rows), last_valid(c, job)
        assert abs(got - want) < 2e-2 * want, (got, want)


def train(model, tmp, kind, data, *words):
    (tmp / "rows.jsonl").write_bytes(data)
    return subprocess.run([TANDEM, "train", "--model", model, "--data", tmp / "rows.jsonl", "--out", tmp / "out",
                           "--method", kind, "--epochs", "2", "--batch", "4", "--rank", "4", "--alpha", "8",
                           "--lr", "2e-3", "--seed", "5", *words], capture_output=True, text=True)


def at_home(s, c, model, tmp):
    """The same losses as of a job."""
    r = train(model, tmp, "x_embedding", PAIRS)
    assert r.returncode == 0, r.stderr
    job = c.done(c.job(c.file(PAIRS), seed=5, method=embedding(lora_alpha=8)))
    mine = [x.split(",")[1] for x in (tmp / "out/steps.csv").read_text().splitlines()[1:]]
    assert mine == [x.split(",")[1] for x in c.curve(job).decode().splitlines()[1:]], mine
    config = json.loads((tmp / "out/adapter/adapter_config.json").read_text())
    assert config["task_type"] == "FEATURE_EXTRACTION", config
    for kind in ("supervised", "x_classification"):
        r = train(model, tmp, kind, PAIRS)
        assert r.returncode and "--method x_embedding" in r.stderr, r


def of_vectors(cases, tmp):
    model = tmp / "bge_m3"
    shutil.copytree(GOLDEN / "encoder" / "bge_m3", model)
    shutil.copy(GOLDEN / "tokenizer" / "xlmr.json", model / "tokenizer.json")
    with serve(model, tmp / "data") as s:
        c = Client(s, key={})
        file = c.file(PAIRS)
        cases.run("pairs", lambda: bits_stay(s, learns(s, c, file, [anchor(i) for i in range(12)])))
        cases.run("triplets", lambda: learns(s, c, c.file(TRIPLETS), [anchor(i, True) for i in range(12)]))
        cases.run("fields", lambda: refused(c, file))
        cases.run("bad rows", lambda: bad_anchors(c))
        cases.run("all of it", lambda: whole(s, c, tmp))
        cases.run("at home", lambda: at_home(s, c, model, tmp))
    long = {"n_epochs": 12, "checkpoint_steps": 3}
    cases.run("killed", lambda: killed(model, tmp / "killed", TRIPLETS, embedding(**long)))
    full = {"training_type": "full", "n_epochs": 4, "batch_size": 4, "learning_rate": 1e-3}
    cases.run("killed, all of it", lambda: killed(model, tmp / "killed_all", PAIRS, {
        "type": "x_embedding", "x_embedding": {"hyperparameters": full}}))


def labelled_model(tmp):
    folder = tmp / "classes"
    shutil.copytree(GOLDEN / "models" / "xlmr_label", folder)
    words = make_model(tmp / "words", "--family", "bert")
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, **{c: i + 4 for i, c in enumerate("abcdefg")}}
    shutil.copy(words / "tokenizer_config.json", folder)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}}))
    return folder


def classes(s, c):
    """The last validation loss is that of the shares which the result is asked for."""
    file = c.file(LABELLED)
    job = c.job(file, validation_file=file, seed=5, method=labels(n_epochs=6))
    name = c.done(job)["fine_tuned_model"]
    rows = [json.loads(x) for x in LABELLED.splitlines()]
    r = s.post("/v1/classify", {"model": name, "input": [x["text"] for x in rows]})
    assert r.status == 200, r
    names = ["no", "yes", "maybe"]
    loss = -sum(math.log(d["probs"][names.index(x["label"])]) for d, x in zip(r.json["data"], rows)) / len(rows)
    assert abs(loss - last_valid(c, job)) < 1e-4, (loss, last_valid(c, job))
    points = [m["data"]["train_loss"] for m in c.get(f"{JOBS}/{job}/events?limit=100").json["data"]
              if m["type"] == "metrics"]
    assert points[0] < points[-1], points


def scores(s, c):
    """A reranker of one label: two texts in one row."""
    file = c.file(SCORED)
    job = c.job(file, validation_file=file, seed=5, method=labels(n_epochs=4))
    name = c.done(job)["fine_tuned_model"]
    rows = [json.loads(x) for x in SCORED.splitlines()]
    r = s.post("/v1/score", {"model": name, "text_1": [x["text"] for x in rows],
                             "text_2": [x["text_pair"] for x in rows]})
    assert r.status == 200, r
    loss = -sum(math.log(d["score"] if x["label"] else 1 - d["score"])
                for d, x in zip(r.json["data"], rows)) / len(rows)
    assert abs(loss - last_valid(c, job)) < 1e-4, (loss, last_valid(c, job))
    j = c.wait(c.job(c.file(SCORED + lines([{"text": "a", "label": 2}])), method=labels()))
    assert "must be 0 to 1" in j["error"]["message"], j


def of_labels(cases, tmp):
    classifier = labelled_model(tmp)
    with serve(classifier, tmp / "data2") as s:
        c = Client(s, key={})
        cases.run("classes", lambda: classes(s, c))
        cases.run("bad labels", lambda: bad_labels(c))
    model, _ = model_of(tmp, "bge_rank", "xlmr")
    with serve(model, tmp / "data3") as s:
        cases.run("scores", lambda: scores(s, Client(s, key={})))
    cases.run("labels, killed", lambda: killed(classifier, tmp / "killed_labels", LABELLED,
                                               labels(n_epochs=12, checkpoint_steps=3)))
    cases.run("labels, over another base", lambda: over_another(classifier, model, tmp, LABELLED, labels()))


def of_others(tmp):
    with serve(make_model(tmp / "writer", "--family", "llama"), tmp / "data4") as s:
        c = Client(s, key={})
        for how in (embedding(), labels()):
            r = c.make(c.file(PAIRS), method=how)
            assert r.status == 400 and r.error["param"] == "method.type", r


def main():
    cases = Cases()
    with scratch() as tmp:
        of_vectors(cases, tmp)
        of_labels(cases, tmp)
        cases.run("others", lambda: of_others(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
