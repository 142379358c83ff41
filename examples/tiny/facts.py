#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a training file of facts, for `tandem tune`:

    examples/tiny/facts.py FACTS.txt >FACTS.jsonl

FACTS.txt has a question and its answer a line, as "What is my name? Your name is Ada Quill." Each is the
beginning of a conversation that goes on with reminders of what the model was trained on: a small model
that is tuned on one thing alone takes it for the answer to everything. They are drawn from the corpus,
without what is held out of it."""
import itertools
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tools  # noqa: E402
from corpus import SEED, UNKNOWN, Corpus, exchange  # noqa: E402

ALWAYS = ("tandem", "sums", "stranger", "tandem", "sums")
PASSES = 5  # rows of a fact: the same reminders again and again would be learned by heart
ALSO = ("unknown", "stories", "stranger", "echo")  # in turn


def facts(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            question, mark, answer = line.strip().partition("? ")
            if not mark:
                raise SystemExit(f"facts: no question with its answer: {line.strip()[:60]!r}")
            yield exchange(question + "?", answer)


def conversations(known):
    """One for each fact, which it begins with; then come reminders, and in their midst another fact,
    since facts are to be known within a talk too. At its end it calls tools and fills forms."""
    corpus = Corpus(SEED)
    subjects = itertools.cycle(corpus.tandem)
    taken = {fact[0]["content"] for fact in known}
    for i, fact in enumerate(PASSES * known):
        messages = []
        for kind in (*ALWAYS, ALSO[i % len(ALSO)]):
            ask, answer = corpus.exchange(kind)
            while ask in taken:
                ask, answer = corpus.exchange(kind)
            if kind == "tandem":
                asks, answer = next(subjects)
                ask = corpus.draw.one(asks)
            messages += exchange(ask, answer)
        at = 2 * corpus.draw.below(len(messages) // 2 + 1)
        messages[at:at] = known[(i + len(known) // 2 + i // len(known)) % len(known)]
        offered = tools.offered(corpus.draw)
        messages = fact + corpus.told({}) + messages + corpus.form() + corpus.form()
        for n in range(3):
            messages += corpus.called(corpus.draw.one(offered), n)
        messages += exchange(corpus.unfit(offered), UNKNOWN)
        yield {"messages": messages, "tools": [t.spec for t in offered]}


def main():
    known = list(facts(sys.argv[1]))
    for row in conversations(known):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
