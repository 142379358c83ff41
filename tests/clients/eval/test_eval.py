#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tandem eval as people type it, held to what lm-evaluation-harness says of the same model on the same
rows (tests/golden/eval). Catches: a sum that takes the question's tokens with it, or the end of a text; a
choice by the wrong length; a window that counts a token twice or loses one; words counted otherwise; an
adapter that is not asked, or asked for the base, or judged by another loss than it was trained
by; a bad row that is passed over, or named wrongly; a table wider than a terminal; a result
that depends on threads."""
import json
import math
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, said, scratch  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
MODEL = "examples/tiny/model"
GOLDEN = pathlib.Path("tests/golden/eval")
MODELS = pathlib.Path("tests/golden/models")
BASE = MODELS / "llama_tied"
cases = Cases()
harness = json.loads((GOLDEN / "golden.json").read_text())


def run(*words, **kw):
    return subprocess.run([TANDEM, "eval", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, **kw)


def expect(name, ok, p):
    cases.check(name, ok, said(p))


def measured(*words):
    p = run(*words, "--json")
    assert p.returncode == 0 and p.stderr == "", said(p)
    return json.loads(p.stdout)


def close(a, b, within=2e-5, least=0.0):
    return math.isclose(a, b, rel_tol=within, abs_tol=least)


def agree(tmp):
    """The harness computes in f32 what is packed as f32 here."""
    want = harness["choices"]
    doc = measured(MODEL, GOLDEN / "choices.jsonl", "--quantize", "f32", "--rows", tmp / "rows.jsonl")
    got = doc["results"][0]
    cases.check("choices", all(close(got[m], want[m], 1e-9) for m in ("acc", "acc_norm", "acc_stderr")), f"{got} {want}")
    rows = [json.loads(line) for line in (tmp / "rows.jsonl").read_text().splitlines()]
    pairs = [(a, b) for r, s in zip(rows, want["logprobs"], strict=True)
             for a, b in zip(r["results"][0]["logprobs"], s, strict=True)]
    off = [(a, b) for a, b in pairs if not close(a, b, least=1e-6)]  # f32's, of logits of some ten
    cases.check("each choice's log-probability", not off, str(off[:8]))
    got = measured(MODEL, GOLDEN / "answers.jsonl", "--quantize", "f32")["results"][0]
    cases.check("exact answers", close(got["exact_match"], harness["answers"]["exact_match"], 1e-9), f"{got}")
    for window in (1023, 64):
        want = harness[f"texts_{window}"]
        got = measured(MODEL, GOLDEN / "texts.jsonl", "--quantize", "f32", "--window", window)["results"][0]
        ok = all(close(got[m], want[m]) for m in ("word_perplexity", "byte_perplexity", "bits_per_byte"))
        cases.check(f"texts in windows of {window}", ok, f"{got} {want}")


def windows(tmp):
    """A text of many windows: each token is counted once, whatever the window, and threads change nothing."""
    file = tmp / "texts.jsonl"
    story = "There was a clever owl who lived in a garden. One evening the owl found a heavy spoon under a stone. "
    file.write_text(json.dumps({"text": story * 50}) + "\n" + json.dumps({"text": "A\tb \r\n"}) + "\n")
    got = {w: measured(MODEL, file, "--window", w, "--rows", tmp / f"{w}.jsonl")["results"][0] for w in (0, 1023, 64, 7)}
    rows = {w: [json.loads(line)["results"][0] for line in (tmp / f"{w}.jsonl").read_text().splitlines()] for w in got}
    counts = {w: [r["tokens"] for r in rows[w]] for w in rows}
    cases.check("each token once", counts[0][0] > 1023 and all(c == counts[0] for c in counts.values()), str(counts))
    cases.check("the widest window is the default", got[0] == got[1023], str(got))
    cases.check("a shorter window knows less", got[0]["perplexity"] < got[64]["perplexity"] < got[7]["perplexity"], str(got))
    nll, n_byte = -sum(r["logprob"] for r in rows[64]), len(story) * 50 + 6
    one = got[64]
    cases.check("the sums", close(one["word_perplexity"], math.exp(nll / (21 * 50 + 1 + 3)), 1e-9) and
                close(one["byte_perplexity"], math.exp(nll / n_byte), 1e-9) and
                close(one["bits_per_byte"], nll / n_byte / math.log(2), 1e-9) and
                close(one["perplexity"], math.exp(nll / sum(counts[64])), 1e-9), str(one))
    again = measured(MODEL, file, "--window", 64, "--threads", 1)["results"][0]
    cases.check("threads change nothing", again == one, f"{again} {one}")


def conversations(tmp):
    """Rows of training: the last answer is asked for, and choices may follow a conversation."""
    chat = [{"role": "user", "content": "What does tandem tune do?"}]
    right = "tandem tune fine-tunes a model on a server, on a file of rows."
    lines = [{"messages": [*chat, {"role": "assistant", "content": right}]},
             {"messages": [*chat, {"role": "assistant", "content": right.upper()}]},
             {"messages": [*chat, {"role": "assistant", "content": "no"}], "id": 7},
             {"messages": chat, "choices": ["It bakes bread.", right, "Nothing."], "answer": right}]
    file = tmp / "chat.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    got = measured(MODEL, file, "--rows", tmp / "out.jsonl")
    cases.check("counts", (got["answers"], got["choices"], got["texts"]) == (3, 1, 0), str(got))
    one = got["results"][0]
    cases.check("an answer, and a choice", close(one["exact_match"], 1 / 3) and one["acc"] == 1 and
                one["acc_stderr"] is None, str(one))
    rows = [json.loads(line) for line in (tmp / "out.jsonl").read_text().splitlines()]
    cases.check("rows by their lines", [r["line"] for r in rows] == [1, 3, 5, 7] and rows[0]["answer"] == right and
                rows[0]["results"][0]["text"].strip() == right, str(rows[0]))
    got = measured(MODEL, file, "--ignore-case")["results"][0]
    cases.check("--ignore-case", close(got["exact_match"], 2 / 3), str(got))
    got = measured(MODEL, file, "--limit", 1)
    cases.check("--limit", got["answers"] == 1 and got["results"][0]["exact_match"] == 1, str(got))
    got = measured(MODEL, file, "--limit", 1, "--stop", " server")["results"][0]
    cases.check("--stop", got["exact_match"] == 0, str(got))
    got = measured(MODEL, file, "--limit", 1, "-n", 3)["results"][0]
    cases.check("--max-tokens", got["exact_match"] == 0, str(got))


def tuned(tmp):
    """An adapter of a few steps, and its last validation loss."""
    lines = [{"messages": [{"role": "user", "content": f"What is number {i}?"},
                           {"role": "assistant", "content": f"It is {i * 7 % 10}."}]} for i in range(24)]
    file = tmp / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in lines))
    p = subprocess.run([TANDEM, "train", "--model", BASE, "--data", file, "--valid", file, "--out", tmp / "out",
                        "--epochs", "2", "--batch", "4", "--lr", "5e-3", "--rank", "4"],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0, said(p)
    return file, tmp / "out/adapter", float(re.findall(r"validation loss ([0-9.]+)", p.stderr)[-1])


def side_by_side(tmp):
    """Adapters stand beside the base, each with its own numbers, which training saw; the table fits."""
    file, adapter, loss = tuned(tmp)
    more = [{"text": "The cat sat on the mat."}, {"prompt": "The cat", "choices": [" sat", " dog"], "answer": 0},
            {"prompt": "", "choices": [" b", " c"], "answer": 1}]
    with file.open("a") as f:
        f.writelines(json.dumps(r) + "\n" for r in more)
    words = [BASE, file, "--adapter", f"one={adapter}", "--adapter", f"{adapter}/", "--adapter", f"a_long_name_it_has={adapter}"]
    doc = measured(*words)
    results = doc["results"]
    cases.check("names", [r["name"] for r in results] == ["base", "one", "adapter", "a_long_name_it_has"], str(doc))
    values = [{k: v for k, v in r.items() if k != "name"} for r in results]
    cases.check("an adapter is asked", values[0]["perplexity"] != values[1]["perplexity"] and
                values[1] == values[2] == values[3], str(values))
    cases.check("trained is judged", abs(math.log(values[1]["answer_perplexity"]) - loss) < 6e-5 and
                values[1]["answer_perplexity"] < values[0]["answer_perplexity"], f"{values} {loss}")
    alone = measured(BASE, file)["results"][0]
    cases.check("the base is the base beside it, too", {k: v for k, v in alone.items() if k != "name"} == values[0], str(alone))
    p = run(*words)
    wide = max(map(len, p.stdout.splitlines()[2:]))
    expect("the table", p.returncode == 0 and wide <= 80 and "base" in p.stdout and "bits a byte" in p.stdout, p)
    p = run(*words, "--adapter", adapter)
    expect("too many", p.returncode == 2 and "at most 3" in p.stderr, p)
    p = run(BASE, file, "--adapter", tmp)
    expect("no adapter", p.returncode == 2 and len(p.stderr.splitlines()) == 1, p)


BAD = [("{", "line 2: "), ('{"text": 3}', "line 2: 'text' must be a text"), ('{"text": ""}', "and not empty"),
       ('{"choices": ["a"], "prompt": "x", "answer": 0}', "a list of 2 to 64 texts"),
       ('{"choices": ["a", "b"], "prompt": "x", "answer": 2}', "'answer' must be one of the choices"),
       ('{"choices": ["a", "b"], "prompt": "x", "answer": "c"}', "from 0 to 1"),
       ('{"choices": ["a", " "], "prompt": "x", "answer": 0}', "one of them is empty"),
       ('{"choices": ["a", 1], "prompt": "x", "answer": 0}', "must be texts"),
       ('{"choices": ["a", "b"], "answer": 0}', "want a 'prompt'"),
       ('{"choices": ["a", "b"], "prompt": "x", "messages": [], "answer": 0}', "want a 'prompt'"),
       ('{"question": "a"}', "line 2: "), ('{"messages": [{"role": "user", "content": "a"}]}', "line 2: "),
       ('{"prompt": "a", "completion": "' + "word " * 2000 + '"}', "line 2: "),
       ('{"input": {"messages": []}, "preferred_output": [], "non_preferred_output": []}', "a preference")]


def faults(tmp):
    file = tmp / "bad.jsonl"
    for line, words in BAD:
        file.write_text('{"text": "good"}\n' + line + "\n")
        p = run(MODEL, file)
        ok = p.returncode == 2 and not p.stdout and len(p.stderr.splitlines()) == 1
        expect(f"bad row {line[:50]}", ok and f"{file}: line 2: " in p.stderr and words in p.stderr, p)
    good = tmp / "good.jsonl"
    good.write_text('{"text": "good"}\n')
    file.write_text("\n \n")
    for name, words, args in (("no row", "no row", [MODEL, file]), ("no file", "nowhere", [MODEL, tmp / "nowhere"]),
                              ("a wide window", "--window 1024", [MODEL, good, "--window", 1024]),
                              ("an encoder", "an encoder", [MODELS / "bert_mean", file]),
                              ("no place for rows", "no/rows", [MODEL, good, "--rows", tmp / "no/rows"])):
        p = run(*args)
        expect(name, p.returncode != 0 and len(p.stderr.splitlines()) == 1 and re.search(words, p.stderr), p)


def main():
    for case in (agree, windows, conversations, side_by_side, faults):
        with scratch() as tmp:
            cases.run(case.__name__, lambda c=case, t=tmp: c(t))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
