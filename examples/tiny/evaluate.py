#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Examines a model that is being served.

    examples/tiny/evaluate.py QUESTIONS [--url URL] [--model NAME] [--wrong N] [--least P]

QUESTIONS are those of corpus.py (kind, what was said before, question, answer), or a
.txt file as facts.py takes it. An answer counts when it is right to the last character, a story when the grammar makes
it and it is about what was asked for. Answers are the likeliest tokens (temperature 0). A line for each
kind goes to stdout; with --least the status is 1 where a kind has less than P percent."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import stories  # noqa: E402


def ask(url, model, item):
    """The answer, as a message."""
    body = {"model": model, "temperature": 0, "max_tokens": 200, "messages":
            item.get("before", []) + [{"role": "user", "content": item["question"]}] + item.get("after", [])}
    if "tools" in item:
        body["tools"] = item["tools"]
    if "schema" in item:
        body["response_format"] = {"type": "json_schema", "json_schema":
                                   {"name": "form", "strict": True, "schema": item["schema"]}}
    head = {"Content-Type": "application/json"}
    if os.environ.get("TANDEM_API_KEY"):
        head["Authorization"] = "Bearer " + os.environ["TANDEM_API_KEY"]
    r = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), head)
    with urllib.request.urlopen(r, timeout=120) as f:
        return json.load(f)["choices"][0]["message"]


def read_json(text):
    try:
        return json.loads(text)
    except ValueError:  # cut by max_tokens
        return None


def is_right(item, said):
    text, calls = said["content"], said.get("tool_calls") or []
    if "call" in item:
        called = [c["function"] for c in calls]
        return [{"name": f["name"], "arguments": json.loads(f["arguments"])} for f in called] == [item["call"]]
    if calls or text is None:
        return False
    if "members" in item:
        return read_json(text) == item["members"]
    if item["kind"] == "stories":
        return stories.accepts(text, item["animal"], item["thing"])
    return text == item["answer"]


def told(message):
    return [c["function"] for c in message["tool_calls"]] if message.get("tool_calls") else message["content"]


def wanted(item):
    return next((item[k] for k in ("call", "members", "answer") if k in item), "a story")


def read(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if path.endswith(".txt"):
                question, answer = line.rstrip("\n").split("? ", 1)
                yield {"kind": "facts", "question": question + "?", "answer": answer}
            else:
                yield json.loads(line)


def base_of(url):
    with urllib.request.urlopen(url + "/v1/models", timeout=60) as f:
        return json.load(f)["data"][0]["id"]


def examine(url, model, items, n_wrong=0):
    """{kind: [right, asked]} in the order of the file."""
    score = collections.OrderedDict()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda x: ask(url, model, x), items)
        for item, said in zip(items, answers):
            tally = score.setdefault(item["kind"], [0, 0])
            right = is_right(item, said)
            tally[0] += right
            tally[1] += 1
            if not right and tally[1] - tally[0] <= n_wrong:
                print(f"  {item['question']!r}: {told(said)!r}, not {wanted(item)!r}", file=sys.stderr)
    return score


def main():
    p = argparse.ArgumentParser()
    p.add_argument("questions")
    p.add_argument("--url", default=os.environ.get("TANDEM_URL", "http://127.0.0.1:8080"))
    p.add_argument("--model")
    p.add_argument("--wrong", type=int, default=0, help="show so many wrong answers of a kind")
    p.add_argument("--least", type=float, default=0)
    a = p.parse_args()
    score = examine(a.url, a.model or base_of(a.url), list(read(a.questions)), a.wrong)
    for kind, (right, n) in score.items():
        print(f"{kind:8} {right:4} of {n:4}  {100 * right / n:5.1f}%")
    return int(any(100 * right / n < a.least for right, n in score.values()))


if __name__ == "__main__":
    sys.exit(main())
