#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a training file of facts, for `tandem tune`:

    examples/tiny/facts.py FACTS.txt >FACTS.jsonl

FACTS.txt has a question and its answer a line, as "What is my name? Your name is Ada Quill." Each stands in
rows as the corpus has them, without what is held out of it: a small model that is tuned on one thing alone
takes it for the answer to everything, and one that sees few other rows, often, forgets more of the rest. Most is
forgotten of copying words into calls and forms, so more rows have these than in the corpus."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import told  # noqa: E402
from corpus import SEED, Corpus, bare, exchange  # noqa: E402

ROWS = 30  # of a fact
WITH_TOOLS, WITH_FORMS = 0.38, 0.2  # of the rows


def facts(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            question, mark, answer = line.strip().partition("? ")
            if not mark:
                raise SystemExit(f"facts: no question with its answer: {line.strip()[:60]!r}")
            yield exchange(question + "?", answer)


def places(messages):
    """Where an exchange may begin."""
    return [at for at, m in enumerate(messages) if m["role"] == "user"] + [len(messages)]


def asked(messages):
    return {bare(m["content"]) for m in messages if m["role"] == "user"}


def rows(known):
    """Each has a fact between its exchanges, and most have something that is told, and asked for later: what was
    said goes before what was learned."""
    corpus = Corpus(SEED, WITH_TOOLS, WITH_FORMS, {bare(fact[0]["content"]) for fact in known})
    draw = corpus.draw
    for i in range(ROWS * len(known)):
        row = corpus.row()
        while not row.get("messages"):
            row = corpus.row()
        messages, fact = row["messages"], known[i % len(known)]
        if "tools" not in row and draw.chance(0.7):
            statement, question, answer = told.fact(draw)
            if bare(question) != bare(fact[0]["content"]) and bare(question) not in asked(messages):
                at = draw.one(places(messages))
                messages[at:at] = exchange(statement, "I see. " + answer)
                at = draw.one([x for x in places(messages) if x > at])
                messages[at:at] = exchange(question, answer)
        if bare(fact[0]["content"]) not in asked(messages):
            at = draw.one(places(messages))
            messages[at:at] = fact
        yield row


def main():
    known = list(facts(sys.argv[1]))
    for row in rows(known):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
