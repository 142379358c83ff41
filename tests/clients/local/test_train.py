#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem train`: learns from a file, goes on after a kill with the same numbers, names the line
that is wrong; and the same from random weights. Catches: a resumed training that differs from a
straight one, a signal that does not stop it behind a step, a loss that does not fall, a config file
that is not read, a bad file that trains all the same; a pre-training that needs or uses the shape's own weights, is not that of its seed, begins
with other numbers when it goes on, or leaves a model that does not say what it learned; a file that
somebody else put where the training writes, and that goes."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, said  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
MODEL = pathlib.Path("tests/golden/models/llama_tied")
cases = Cases()


def run(*words):
    return subprocess.run([TANDEM, "train", *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False)


def expect(name, ok, p):
    cases.check(name, ok, said(p))


def write_rows(path, n=24):
    with open(path, "w", encoding="utf-8") as f:
        for i in range(n):
            f.write(json.dumps({"messages": [
                {"role": "user", "content": f"What is number {i}?"},
                {"role": "assistant", "content": f"It is {i * 7 % 10}."}]}) + "\n")


def config(tmp, out, **kw):
    path = tmp / f"{out}.conf"
    with open(path, "w", encoding="utf-8") as f:
        for key, value in {"model": MODEL, "data": tmp / "rows.jsonl", "out": tmp / out,
                           "epochs": 6, "batch": 4, "lr": "5e-3", "rank": 4, "lora-dropout": 0.1,
                           "checkpoint-steps": 2, **kw}.items():
            f.write(f"{key} = {value}\n")
    return path


def losses(tmp, out):
    return {line.split(",")[0]: line for line in
            (tmp / out / "steps.csv").read_text().splitlines()[1:]}


def straight_and_killed(tmp):
    p = run(config(tmp, "straight"))
    want = losses(tmp, "straight")
    expect("straight", p.returncode == 0 and len(want) == 36, p)
    first, last = (float(want[k].split(",")[1]) for k in ("1", "36"))
    expect("the loss falls", last < 0.7 * first, p)
    expect("adapter", (tmp / "straight/adapter/adapter_config.json").exists(), p)
    words = [TANDEM, "train", str(config(tmp, "killed"))]
    got = {}
    for i in range(40):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as q:
            time.sleep(0.03 + 0.02 * (i % 5))
            q.send_signal(signal.SIGKILL if i % 3 else signal.SIGINT)
            q.wait()
        if (tmp / "killed/steps.csv").exists():
            got.update(losses(tmp, "killed"))
    p = run(config(tmp, "killed"))
    got.update(losses(tmp, "killed"))
    expect("killed = straight", p.returncode == 0 and got == want, p)
    a, b = (tmp / d / "adapter/adapter_model.safetensors" for d in ("straight", "killed"))
    expect("the same adapter", a.read_bytes() == b.read_bytes(), p)


def stopped(tmp):
    """By a signal: behind a whole step, with a state to go on from, and it says so."""
    words = [TANDEM, "train", str(config(tmp, "stopped", epochs=5000, **{"checkpoint-steps": 10000}))]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as q:
        while q.poll() is None and not ((tmp / "stopped/steps.csv").exists() and losses(tmp, "stopped")):
            time.sleep(0.01)
        q.send_signal(signal.SIGTERM)
        text = q.stderr.read()
    cases.check("stopped by a signal", q.returncode == 0 and "stopped behind step" in text
                and any((tmp / "stopped/checkpoints").iterdir()), f"status {q.returncode}: {text[-500:]}")


def continued(tmp):
    """From an adapter: what it has may be said, in any order, and not what it lacks."""
    adapter = tmp / "straight/adapter"
    has = sorted(json.loads((adapter / "adapter_config.json").read_text())["target_modules"])
    for i, (target, ok) in enumerate(((has, True), (has[::-1], True), (has[1:], False), (has[:-1], False))):
        p = run(config(tmp, f"more{i}", epochs=1), "--from", adapter, *(x for t in target for x in ("--target", t)))
        expect(f"the targets {target} of {has}", (p.returncode == 0) == ok and ("--target" in p.stderr) != ok, p)


def tandem(*words):
    return subprocess.run([TANDEM, *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False)


def merged(tmp):
    """A trained adapter in the weights: another model, which runs by itself."""
    p = tandem("merge", MODEL, tmp / "straight/adapter", tmp / "merged")
    expect("merge", p.returncode == 0 and (tmp / "merged/config.json").exists(), p)
    words = "-p", "What is number 3?", "-n", "8", "--temperature", "0"
    base, p = tandem("run", MODEL, *words), tandem("run", tmp / "merged", *words)
    expect("merged runs", p.returncode == 0 and p.stdout != base.stdout, p)
    p = tandem("merge", MODEL, tmp / "straight/adapter", tmp / "merged")
    expect("merge over another", p.returncode != 0 and "is there already" in p.stderr, p)
    p = tandem("merge", MODEL, tmp, tmp / "merged2")
    expect("merge of nothing", p.returncode != 0 and "adapter_config.json" in p.stderr, p)


def pretrain(tmp, out, **kw):
    """From nothing: a directory with a shape and a tokenizer, but no weights."""
    shape = tmp / "shape"
    if not shape.exists():
        shape.mkdir()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json",
                     "generation_config.json"):
            shutil.copy(MODEL / name, shape)
        with open(tmp / "texts.jsonl", "w", encoding="utf-8") as f:
            for i in range(24):
                f.write(json.dumps({"prompt": f"{'abcd'[i % 4]}", "completion": f"{i % 4}!"}) + "\n")
    return config(tmp, out, **{"model": shape, "init": "random", "data": tmp / "texts.jsonl",
                               "epochs": 30, "lr": "1e-2", "schedule": "cosine", "warmup": 10,
                               "weight-decay": 0.1, "quantize": "f32", "lora-dropout": 0, **kw})


def from_nothing(tmp):
    p = run(pretrain(tmp, "first", seed=3))
    want = losses(tmp, "first")
    expect("pre-training", p.returncode == 0 and len(want) == 180, p)
    first, last = (float(want[k].split(",")[1]) for k in ("1", "180"))
    expect("it begins with no idea", first > 5, p)  # log 320 is 5.8
    expect("it learns", last < 0.3, p)
    words = "-n", "2", "--temperature", "0"
    said = [tandem("run", tmp / "first/model", "-p", c, *words).stdout for c in "abcd"]
    expect("it says what it learned", said == ["0!\n", "1!\n", "2!\n", "3!\n"], p)
    expect("nothing is left over", not (tmp / "first/first").exists(), p)
    file = "model/model.safetensors"
    p = run(pretrain(tmp, "again", seed=3))
    same = (tmp / "first" / file).read_bytes()
    expect("repeatable", (tmp / "again" / file).read_bytes() == same, p)
    p = run(pretrain(tmp, "other", seed=4))
    expect("by its seed", (tmp / "other" / file).read_bytes() != same, p)
    words = [TANDEM, "train", str(pretrain(tmp, "cut", seed=3))]
    for i in range(12):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as q:
            time.sleep(0.04 + 0.03 * (i % 4))
            q.send_signal(signal.SIGKILL)
            q.wait()
    p = run(*words[2:])
    expect("killed = straight from nothing", (tmp / "cut" / file).read_bytes() == same, p)
    p = run(pretrain(tmp, "wide", model=tmp))
    expect("no shape", p.returncode == 2 and "config.json" in p.stderr, p)


def bad_input(tmp):
    p = run()
    expect("nothing given", p.returncode == 2 and "--model is needed" in p.stderr, p)
    p = run(config(tmp, "a", lr="fast"))
    expect("bad value", p.returncode == 2 and "a.conf:6" in p.stderr, p)
    p = run(config(tmp, "b"), "--target", "z_proj")
    expect("unknown target", p.returncode == 2 and "z_proj" in p.stderr, p)
    (tmp / "bad.jsonl").write_text('{"prompt":"a","completion":"b"}\n\n{"prompt":"a"}\n')
    p = run(config(tmp, "c"), "--data", tmp / "bad.jsonl")
    expect("bad line", p.returncode == 2 and "Example 2" in p.stderr, p)
    (tmp / "none.jsonl").write_text('{"messages":[{"role":"user","content":"x"},'
                                    '{"role":"assistant","content":"y","weight":0}]}\n')
    p = run(config(tmp, "d"), "--data", tmp / "none.jsonl")
    expect("nothing to learn", p.returncode == 2 and "no row has a token" in p.stderr, p)
    os.mkfifo(tmp / "fifo")  # nobody writes: who opened it as a file would wait for ever
    p = run(config(tmp, "e"), "--data", tmp / "fifo")
    expect("a pipe", p.returncode == 2 and "no regular file" in p.stderr, p)
    p = run(config(tmp, "straight"), "--lr", "1e-3")
    expect("other options", p.returncode != 0 and "other options" in p.stderr, p)


def others_files(tmp):
    """What lies where the result goes, and was not made here, stays."""
    for name, file in (("theirs", "adapter/adapter_config.json"), ("notes", "checkpoints/list.tmp-012345")):
        (tmp / name / file).parent.mkdir(parents=True)
        (tmp / name / file).write_text("not ours")
    p = run(config(tmp, "theirs"))
    expect("another's adapter", p.returncode == 1 and "move away" in p.stderr and "adapter" in p.stderr, p)
    p = run(config(tmp, "notes"))
    expect("another's file", p.returncode == 0 and (tmp / "notes/checkpoints/list.tmp-012345").exists(), p)
    (tmp / "notes/adapter/notes.txt").write_text("not ours")
    p = run(config(tmp, "notes"))
    expect("a file put into ours", p.returncode == 1 and "'notes.txt'" in p.stderr, p)
    (tmp / "notes/adapter/notes.txt").unlink()
    p = run(config(tmp, "notes"))
    expect("our own is replaced", p.returncode == 0, p)
    expect("theirs stays", (tmp / "theirs/adapter/adapter_config.json").read_text() == "not ours", p)


def main():
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        write_rows(tmp / "rows.jsonl")
        straight_and_killed(tmp)
        stopped(tmp)
        continued(tmp)
        merged(tmp)
        from_nothing(tmp)
        bad_input(tmp)
        others_files(tmp)
    return cases.end()


sys.exit(main())
