#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the model learns from, and what it is examined on: OUT/train.jsonl, rows as a
fine-tuning job takes them, and OUT/heldout.jsonl, a question a line with its kind and answer.

    examples/tiny/corpus.py OUT

No held-out question is in the training rows, in any of its wordings where it is a sum:

  tandem   questions about Tandem: of the wordings of each subject two are held out
  sums     a + b, a - b to two digits and not below 0, products to 10 * 10: of sums and differences the pairs
  stories  of an animal and a thing: pairs that never met
  echo     words to be said again
  told     what was said earlier in a conversation, and is asked for again
  unknown  questions that the model is to say it cannot answer: about people it never heard of
  calls    questions that a tool is to answer, which is offered among others
  results  what a tool has given, put into an answer
  spared   questions beside tools that are not for them
  renamed  as calls, of tools whose names are of a form that was never met
  forms    sentences, of which a schema asks what they say

Every draw is by a generator of our own, so the files are the same wherever they are made."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import forms  # noqa: E402
import knowledge  # noqa: E402
import stories  # noqa: E402
import told  # noqa: E402
import tools  # noqa: E402
from draw import Draw  # noqa: E402
from told import fresh_name  # noqa: E402

SEED = 20
ROWS, TEXTS, EXCHANGES_MAX = 84000, 1680, 5
COPIES, WITH_TOOLS, WITH_FORMS = 0.06, 0.28, 0.13  # of the rows; the others are of SHARES
HELD_OUT = {"tandem": 250, "sums": 300, "stories": 100, "echo": 100, "told": 100, "unknown": 100,
            "calls": 200, "results": 100, "spared": 100, "renamed": 100, "forms": 200}
SHARES = (("sums", 0.36), ("tandem", 0.15), ("stories", 0.08), ("told", 0.22), ("echo", 0.06),
          ("unknown", 0.13))
SYSTEM = ("You are a helpful assistant.", "You are Tandem's small model.", "Answer briefly.",
          "You are a helpful assistant with tools.", "Use the tools.")
UNKNOWN = "I do not know that. You can teach me with tandem tune."
MINE = ("name dog cat horse sister brother mother father friend teacher boss neighbour job town "
        "street house car bike boat garden birthday age hobby game song book film food drink soup "
        "fruit colour number team school office desk lamp phone password shoe size coat hat bag "
        "ring watch guitar piano river lake mountain island tree flower bird dream plan").split()
OF = ("name", "age", "job", "town", "birthday", "colour", "size", "weight", "song", "food")
TOWNS = ("the capital", "the king", "the weather", "the oldest house", "the mayor", "the river")


def ask_stranger(draw):
    """A question about somebody of whom nothing was said."""
    name = fresh_name(draw)
    full = name + " " + fresh_name(draw) if draw.chance(0.5) else name
    return draw.one((
        f"Who is {full}?", f"Where does {full} live?", f"How old is {full}?",
        f"What does {full} eat?", f"When was {full} born?", f"What is {full}?",
        f"Tell me about {full}.", f"What is the {draw.one(OF)} of {full}?",
        f"What is {draw.one(TOWNS)} of {full}?", f"What does {full} like?",
        f"What does {full} do?"))


def ask_mine(draw):
    """A question about the one who asks, of whom nothing was said either."""
    mine = draw.one(MINE)
    return draw.one((
        told.fact(draw, told.MINE)[1], told.fact(draw, told.MINE)[1], told.fact(draw, told.MINE)[1],
        f"What is my {mine} called?", f"What is my {mine}?", f"Where is my {mine}?",
        f"Who is my {mine}?", f"What do I call my {mine}?", f"How old is my {mine}?",
        f"Do you know my {mine}?", f"When is my {mine}?", f"What colour is my {mine}?",
        f"Which {mine} do I like best?", f"Where did I get my {mine}?", "Who am I?",
        "When was I born?"))


def worked(a, op, b):
    """The answer with its working, ones before tens: a model this small learns that from a few
    thousand sums, and the bare result not from a hundred thousand."""
    if op == "*":
        return f"{a} * {b} = {a * b}"
    ones, tens = (a % 10, b % 10), (a // 10, b // 10)
    if op == "+":
        carry = sum(ones) > 9
        steps = (f"{ones[0]} + {ones[1]} = {sum(ones)}, "
                 f"{tens[0]} + {tens[1]}{' + 1' if carry else ''} = {sum(tens) + carry}")
        return f"{a} + {b}: {steps}, so {a + b}"
    lent = ones[0] < ones[1]
    steps = (f"{ones[0] + 10 * lent} - {ones[1]} = {ones[0] + 10 * lent - ones[1]}, "
             f"{tens[0]} - {tens[1]}{' - 1' if lent else ''} = {tens[0] - tens[1] - lent}")
    return f"{a} - {b}: {steps}, so {a - b}"


class Sums:
    """Pairs of operands, some of which are never shown in training."""

    def __init__(self, draw):
        self.pairs = [(a, b) for a in range(100) for b in range(a, 100)]
        draw.shuffle(self.pairs)
        n = len(self.pairs) // 12
        self.held_out = [p for p in self.pairs[:n] if p[1] > 9]
        out = set(self.held_out)
        self.shown = [p for p in self.pairs if p not in out]

    @staticmethod
    def ask(draw, pair, op):
        a, b = pair if draw.chance(0.5) else pair[::-1]
        if op == "-" and a < b:
            a, b = b, a
        words = {"+": (f"Add {a} and {b}.", f"{a} plus {b}", f"What is {a} plus {b}?"),
                 "-": (f"Subtract {b} from {a}.", f"{a} minus {b}", f"What is {a} minus {b}?"),
                 "*": (f"Multiply {a} by {b}.", f"{a} times {b}", f"What is {a} times {b}?")}[op]
        ask = draw.one((f"What is {a} {op} {b}?", f"What is {a} {op} {b}?", f"{a} {op} {b}",
                        f"Compute {a} {op} {b}.", f"How much is {a} {op} {b}?", f"{a} {op} {b} = ?",
                        f"{a}{op}{b}") + words)
        return ask, worked(a, op, b)

    def question(self, draw, pairs):
        if draw.chance(0.12):
            return self.ask(draw, (draw.below(11), draw.below(11)), "*")
        return self.ask(draw, draw.one(pairs), "+" if draw.chance(0.5) else "-")


def story_question(draw, pair):
    animal, thing = pair
    return draw.one(("Tell me a story about {} and {}.", "Tell a story about {} and {}.",
                     "I want a story about {} and {}.", "Write a story about {} and {}.",
                     "Please tell me a story about {} and {}.",
                     "Do you know a story about {} and {}?")).format(
                         stories.a(animal), stories.a(thing))


def free_story(draw):
    """A question that leaves the thing, or both, to the model."""
    if draw.chance(0.5):
        return draw.one(("Tell me a story.", "Tell me another story.", "Do you know a story?",
                         "I want a story.", "A story, please.")), stories.story(draw)
    animal = draw.one(stories.ANIMALS)
    ask = draw.one(("Tell me a story about {}.", "I want a story about {}.",
                    "Write a story about {}.", "Do you know a story about {}?"))
    return ask.format(stories.a(animal)), stories.story(draw, animal)


def spoken(draw, ask):
    """As people type: some without a capital, some without the mark at the end."""
    if draw.chance(0.12) and ask[:4] not in ("POST", "GET "):
        ask = ask[0].lower() + ask[1:]
    if draw.chance(0.12) and ask[-1] in "?.":
        ask = ask[:-1]
    return ask


def bare(ask):
    """What two ways of typing the same have in common."""
    return ask.lower().rstrip("?.")


def exchange(ask, answer):
    return [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]


def system(draw, share, texts):
    return [{"role": "system", "content": draw.one(texts)}] if draw.chance(share) else []


class Corpus:
    def __init__(self, seed, with_tools=WITH_TOOLS, with_forms=WITH_FORMS, apart=()):
        """apart: questions that are not asked, unless what they ask was told."""
        self.with_tools, self.with_forms, self.apart = with_tools, with_forms, apart
        self.draw = draw = Draw(seed)
        self.sums = Sums(draw)
        subjects = {}
        for about, ask, answer in knowledge.questions():
            subjects.setdefault((about, answer), []).append(ask)
        self.tandem, self.tandem_out = [], []
        for (about, answer), asks in subjects.items():
            draw.shuffle(asks)
            out = 2 if len(asks) >= 7 else 0
            self.tandem_out += [(ask, answer) for ask in asks[:out]]
            self.tandem.append((asks[out:], answer))
        pairs = [(x, y) for x in stories.ANIMALS for y in stories.THINGS]
        draw.shuffle(pairs)
        self.stories_out, self.stories = pairs[:120], pairs[120:]
        self.unknown_out = set()
        while len(self.unknown_out) < HELD_OUT["unknown"]:
            self.unknown_out.add(ask_stranger(draw))
        self.out = set()
        self.items_out = [*self.calls_out(), *self.forms_out()]
        self.out = {bare(item["question"]) for item in self.items_out}

    def calls_out(self):
        """Held-out questions beside tools; those whose answer is known without are of other kinds' held-out ones."""
        draw = self.draw
        for kind in ("calls", "results", "spared", "renamed"):
            for i in range(HELD_OUT[kind]):
                offered = tools.offered(draw, tools.NAMES_NEW if kind == "renamed" else None)
                item = {"kind": kind, "tools": [t.spec for t in offered]}
                tool = draw.one(offered)
                ask, args, phrase = tool.ask(draw)
                call = tools.call(tool, args, 1)
                if kind == "results":
                    given, answer = tool.result(draw, phrase)
                    item.update(question=ask, after=[call, tools.given(1, given)], answer=answer)
                elif kind != "spared":
                    item.update(question=ask, call={"name": tool.name, "arguments": args})
                elif i % 2:
                    item.update(question=self.unfit(offered), answer=UNKNOWN)
                else:
                    ask, answer = draw.one((draw.one(self.tandem_out), self.sums.question(draw, self.sums.held_out)))
                    item.update(question=ask, answer=answer)
                yield item

    def forms_out(self):
        for _ in range(HELD_OUT["forms"]):
            ask, members = forms.form(self.draw)
            yield {"kind": "forms", "question": ask, "schema": forms.schema(members), "members": members}

    def unfit(self, offered):
        """A question that none of these tools is for."""
        tool = tools.Tool(self.draw, tools.any_kind(self.draw))
        while tool.noun in [t.noun for t in offered]:
            tool = tools.Tool(self.draw, tools.any_kind(self.draw))
        ask = tool.ask(self.draw)[0]
        return ask if bare(ask) not in self.out else self.unfit(offered)

    def exchange(self, kind):
        draw = self.draw
        if kind == "sums":
            return self.sums.question(draw, self.sums.shown)
        if kind == "tandem":
            asks, answer = draw.one(self.tandem)
            return draw.one(asks), answer
        if kind == "stories":
            if draw.chance(0.25):
                return free_story(draw)
            pair = draw.one(self.stories)
            return story_question(draw, pair), stories.story(draw, *pair)
        if kind == "echo":
            return told.echo(draw)
        if kind == "unknown" and draw.chance(0.15):
            return self.unfit(()), UNKNOWN
        is_mine = kind != "stranger" and draw.chance(0.55)
        ask = ask_mine(draw) if is_mine else ask_stranger(draw)
        while ask in self.unknown_out:
            ask = ask_stranger(draw)
        return ask, UNKNOWN

    def kind(self):
        at = self.draw.below(1000) / 1000
        for kind, share in SHARES:
            if at < share:
                return kind
            at -= share
        return SHARES[0][0]

    def row(self):
        draw = self.draw
        if draw.chance(COPIES):
            return {"prompt": "", "completion": told.copies(draw)}
        if draw.chance(self.with_tools):
            return self.row_with_tools()
        if draw.chance(self.with_forms / (1 - self.with_tools)):
            said = system(draw, 0.2, forms.SYSTEM) + self.form()
            return {"messages": said + (self.form() if draw.chance(0.3) else [])}
        messages, facts = system(draw, 0.1, SYSTEM), {}
        for _ in range(1 + draw.below(EXCHANGES_MAX)):
            kind = self.kind()
            messages += self.told(facts) if kind == "told" else self.asked(kind, facts)
        return {"messages": messages}

    def row_with_tools(self):
        draw = self.draw
        offered = tools.offered(draw)
        messages = system(draw, 0.1, SYSTEM)
        for n in range(1 + draw.below(4)):
            if draw.chance(0.66):
                messages += self.called(draw.one(offered), n)
            elif draw.chance(0.4):
                messages += exchange(spoken(draw, self.unfit(offered)), UNKNOWN)
            else:
                messages += self.asked(draw.one(("sums", "sums", "tandem", "unknown")), {})
        return {"messages": messages, "tools": [t.spec for t in offered]}

    def called(self, tool, n):
        """A tool is asked for, called, and its result told."""
        draw = self.draw
        ask, args, phrase = tool.ask(draw)
        while bare(ask) in self.out and args:
            ask, args, phrase = tool.ask(draw)
        given, answer = tool.result(draw, phrase)
        return [{"role": "user", "content": spoken(draw, ask)}, tools.call(tool, args, n), tools.given(n, given),
                {"role": "assistant", "content": answer}]

    def form(self):
        ask, members = forms.form(self.draw)
        while bare(ask) in self.out:
            ask, members = forms.form(self.draw)
        return exchange(ask, forms.answer(members))

    def told(self, facts):
        """Something is said, or something that was said is asked for."""
        draw = self.draw
        statement, question, answer = told.fact(draw)
        while question in self.unknown_out:
            statement, question, answer = told.fact(draw)
        if facts and draw.chance(0.3):
            question = draw.one(list(facts))
            return exchange(spoken(draw, question), facts[question])
        if question in facts:
            return []
        facts[question] = answer
        said = exchange(spoken(draw, statement), "I see. " + answer)
        return said + exchange(spoken(draw, question), answer) if draw.chance(0.5) else said

    def asked(self, kind, facts):
        ask, answer = self.exchange(kind)
        while ask in facts or bare(ask) in self.apart:
            ask, answer = self.exchange(kind)
        return exchange(spoken(self.draw, ask), answer)

    def rows(self):
        for i in range(ROWS + TEXTS):
            row = self.row() if i % (ROWS // TEXTS + 1) else None
            if row and row.get("messages", True):
                yield row
            else:
                yield {"prompt": "", "completion": stories.story(self.draw)}

    def held_out(self):
        draw, n = self.draw, HELD_OUT
        asked = set()
        draw.shuffle(self.tandem_out)
        for ask, answer in self.tandem_out[:n["tandem"]]:
            yield {"kind": "tandem", "question": ask, "answer": answer}
        while len(asked) < n["sums"]:
            ask, answer = self.sums.question(draw, self.sums.held_out)
            if ask not in asked and "*" not in answer:
                asked.add(ask)
                yield {"kind": "sums", "question": ask, "answer": answer}
        for animal, thing in self.stories_out[:n["stories"]]:
            yield {"kind": "stories", "question": story_question(draw, (animal, thing)),
                   "animal": animal, "thing": thing}
        for _ in range(n["echo"]):
            ask, answer = told.echo(draw)
            yield {"kind": "echo", "question": ask, "answer": answer}
        for _ in range(n["told"]):
            statement, question, answer = told.fact(draw)
            sums = self.sums.question(draw, self.sums.shown)
            before = exchange(statement, "I see. " + answer)
            yield {"kind": "told", "before": before + (exchange(*sums) if draw.chance(0.5) else []),
                   "question": question, "answer": answer}
        for ask in sorted(self.unknown_out):
            yield {"kind": "unknown", "question": ask, "answer": UNKNOWN}
        yield from self.items_out


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def noted(rows, said):
    for row in rows:
        said |= {bare(m["content"] or "") for m in row.get("messages", ())}
        yield row


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    corpus, said = Corpus(SEED), set()
    held_out = list(corpus.held_out())
    write(out / "train.jsonl", noted(corpus.rows(), said))
    # what is asked in few ways alone, as for the date, has been said, and is not held out
    write(out / "heldout.jsonl", (item for item in held_out if item["kind"] in ("told", "echo") or
                                  bare(item["question"]) not in said))


if __name__ == "__main__":
    main()
