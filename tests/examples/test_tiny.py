#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundled model, as a newcomer meets it: `tandem serve` without a model, questions that it can
answer and one that it cannot, a job. That the job of the quick start teaches it the answer is shown by
tests/docs, which types README's blocks. An answer counts when it is right to the last character.

Faults it can catch: a model that is not found beside the program, or that nobody could make again
(rows or a tokenizer other than the scripts write); commands, options or routes that it was taught and
that are not there any more; a job whose defaults are not for a small model, or that costs it what it
knew; a base that was changed by it; tools that are not called, or called for what they are not for.

TEST_TINY=full examines it as a whole, which is what its README tells of; a part is always asked, in the
release build. Standard library only."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
TINY = ROOT / "examples/tiny"
sys.path[:0] = [str(HERE.parents[1] / "lib"), str(HERE.parents[1] / "clients/remote"), str(TINY)]
import evaluate  # noqa: E402
import knowledge  # noqa: E402
from corpus import UNKNOWN, bare  # noqa: E402
from serving import BIN, MODE, Cases, Tandem, scratch  # noqa: E402
from shell import Shell  # noqa: E402

KINDS = ("tandem", "sums", "stories", "unknown", "calls", "results", "spared", "forms")  # the others are exercises
LEAST, LOST = 95, 3  # percent right, and points that tuning may cost a kind
LR_MULTIPLIER = 10  # what "auto" is for 128 columns
QUESTION = "What is my dog called?"


def script(name, *words):
    return subprocess.run([sys.executable, TINY / name, *map(str, words)], check=True,
                          capture_output=True, text=True).stdout


def made_by_its_scripts(tmp):
    """Rows and tokenizer; the weights take their time, and are made by make -C examples/tiny."""
    script("corpus.py", tmp)
    script("bpe.py", tmp / "train.jsonl", 1792, tmp / "tokenizer.json")
    assert (tmp / "tokenizer.json").read_bytes() == (TINY / "model/tokenizer.json").read_bytes()
    for path in (TINY / "shape").iterdir():
        assert path.read_bytes() == (TINY / "model" / path.name).read_bytes(), path
    assert script("facts.py", TINY / "facts.txt") == (TINY / "facts.jsonl").read_text()
    assert sum(p.stat().st_size for p in (TINY / "model").iterdir()) < 8e6


def nothing_held_out_is_taught(tmp):
    taught = set()
    for line in (tmp / "train.jsonl").read_text().splitlines():
        taught |= {bare(m["content"] or "") for m in json.loads(line).get("messages", ())}
    for item in evaluate.read(str(tmp / "heldout.jsonl")):
        if item["kind"] not in ("told", "echo"):  # words drawn anew
            assert bare(item["question"]) not in taught, item


def true_of_the_program():
    """Whatever it says of Tandem is there."""
    helped = subprocess.run([BIN, "help"], capture_output=True, text=True, check=True).stdout
    commands = {m[1].strip() for m in re.finditer(r"^  (tandem [a-z ]+)", helped, re.M)}
    options = set()
    for name in commands:
        page = subprocess.run([BIN, *name.split()[1:], "--help"], capture_output=True, text=True,
                              check=False).stdout
        options |= set(re.findall(r"--[a-z][a-z-]+", page.replace("[no-]", "")))
    routes = set(re.findall(r'"([A-Z]+)", "([^"]+)"', (ROOT / "server/http/routes.def").read_text()))
    for name, _ in knowledge.COMMANDS:
        assert name in commands, name
    for name, _ in knowledge.OPTIONS:
        assert name in options, name
    for name, _ in knowledge.ROUTES:
        assert tuple(name.split()) in routes, name
    for _, command in knowledge.TASKS:
        words = re.match(r"(tandem [a-z ]+?)(?= [^a-z]|$)", command)[1]
        assert words in commands, command
        assert set(re.findall(r"--[a-z-]+", command)) <= options, command


def shares(score):
    return {kind: 100 * right / n for kind, (right, n) in score.items()}


def told(score):
    return ", ".join(f"{kind} {share:.1f}%" for kind, share in score.items())


@contextlib.contextmanager
def bundled(tmp, *options):
    with Tandem(None, "--data-dir", tmp / "data", "--kv-memory", "64M", "--threads", 1,
                "--no-access-log", *options) as server:
        yield server, Shell(server.url)


def says(shell, question, *options):
    return shell.good("chat", "--temperature", 0, *options, question).out.strip()


def asked(tmp):
    """A part of the questions; what a job chooses, and that it leaves the base as it was. One that
    teaches is run by README's blocks (tests/docs)."""
    items = [x for x in evaluate.read(str(tmp / "heldout.jsonl")) if x["kind"] in KINDS][::8]
    rows = (TINY / "facts.jsonl").read_text().splitlines(keepends=True)
    (tmp / "some.jsonl").write_text("".join(rows[:20]))
    with bundled(tmp) as (server, shell):
        base = server.get("/v1/models").json["data"][0]["id"]
        assert base == "tandem-tiny", base
        before = shares(evaluate.examine(server.url, base, items))
        assert all(share >= LEAST for share in before.values()), told(before)
        assert says(shell, QUESTION) == UNKNOWN
        model = shell.good("tune", tmp / "some.jsonl", "--epochs", 1, "--follow").out.strip()
        job = server.get("/v1/fine_tuning/jobs").json["data"][0]
        chosen = job["method"]["supervised"]["hyperparameters"]["learning_rate_multiplier"]
        assert chosen == LR_MULTIPLIER, chosen
        assert says(shell, QUESTION, "--model", model)
        assert says(shell, QUESTION) == UNKNOWN
        return told(before)


def examination(tmp):
    """All of both."""
    items = [*evaluate.read(str(tmp / "heldout.jsonl")), *evaluate.read(str(TINY / "facts.txt"))]
    with bundled(tmp) as (server, shell):
        before = shares(evaluate.examine(server.url, "tandem-tiny", items))
        tune = shell.popen("tune", TINY / "facts.jsonl", "--seed", 1, "--follow", stderr=None)
        model = tune.communicate()[0].strip()
        after = shares(evaluate.examine(server.url, model, items))
    seen = f"before: {told(before)}; after: {told(after)}"
    assert before["facts"] == 0 and after["facts"] >= LEAST, seen
    for kind in KINDS:
        assert before[kind] >= LEAST and after[kind] >= before[kind] - LOST, seen
    return seen


def a_little(tmp):
    with bundled(tmp) as (_, shell):
        said = says(shell, "What is 47 + 38?")
        assert said.endswith("so 85"), said


def installed(tmp):
    """As `make install` lays it out."""
    (tmp / "bin").mkdir()
    shutil.copy(BIN, tmp / "bin/tandem")
    shutil.copytree(TINY / "model", tmp / "share/tandem/tiny")
    p = subprocess.run([tmp / "bin/tandem", "run", "-p", "Once upon a time", "-n", "4"], cwd=tmp,
                       capture_output=True, text=True, check=False)
    assert p.returncode == 0 and p.stdout.strip(), p
    shutil.rmtree(tmp / "share")
    p = subprocess.run([tmp / "bin/tandem", "run", "-p", "Once"], cwd=tmp, capture_output=True,
                       text=True, check=False)
    assert p.returncode == 2 and "which model" in p.stderr, p


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run("made by its scripts", lambda: made_by_its_scripts(tmp))
        cases.run("nothing held out is taught", lambda: nothing_held_out_is_taught(tmp))
        cases.run("true of the program", true_of_the_program)
        cases.run("installed", lambda: installed(tmp))
        if os.environ.get("TEST_TINY") == "full":
            cases.run("examination", lambda: examination(tmp))
        elif MODE == "release":
            cases.run("asked", lambda: asked(tmp))
        else:
            cases.run("asked a little", lambda: a_little(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
