# SPDX-License-Identifier: Apache-2.0
"""Small stories by a grammar. The same rules make a story and say whether one could have been made:
`story` draws, `accepts` matches the whole text with the animal and the thing that were asked for.

A rule is sentences with names in braces. {animal}, {thing}, {friend} and {place} are the same
wherever they stand in a story; words behind the others are drawn anew each time."""
import re

ANIMALS = ("fox bear cat dog hen goat owl mouse rabbit horse duck frog pig cow wolf deer crow "
           "mole otter badger").split()
THINGS = ("lamp key bell drum boat kite ball book hat spoon cup coin map rope basket ladder mirror "
          "whistle blanket wheel").split()
FRIENDS = ("miller baker king queen teacher sailor farmer smith hunter child giant witch painter "
           "fisherman princess gardener").split()
PLACES = ("in the wood", "by the river", "on a hill", "near the sea", "in a garden", "on a farm",
          "in a cave", "under a bridge")
WORDS = {
    "size": ("small", "big", "old", "young", "brave", "shy", "clever", "tired"),
    "look": ("red", "blue", "golden", "broken", "shiny", "dusty", "tiny", "heavy"),
    "when": ("One day", "One morning", "One evening", "In the spring", "After the rain"),
    "where": ("under a stone", "behind a tree", "in the grass", "at the gate", "beside the road"),
    "mood": ("happy", "glad", "proud", "curious"),
    "deed": ("They took turns with it.", "They carried it home together.",
             "They hid it where nobody would look.", "They showed it to everyone."),
    "end": ("From that day on they were friends.", "And they slept well that night.",
            "And that was the best day of all.", "And they still talk about it."),
}
RULES = (
    ("Once upon a time there was a {size} {animal} who lived {place}.",
     "There was a {size} {animal} who lived {place}."),
    ("{when} the {animal} found a {look} {thing} {where}.",),
    ("The {animal} was {mood} and showed the {thing} to the {friend}.",
     "The {animal} was {mood}, but the {friend} wanted the {thing} too."),
    ("{deed}",),
    ("{end}",),
)


def a(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def articles(text):
    """An article before a vowel, as in "an owl"."""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def story(draw, animal=None, thing=None):
    same = {"animal": animal or draw.one(ANIMALS), "thing": thing or draw.one(THINGS),
            "place": draw.one(PLACES), "friend": draw.one(FRIENDS)}
    text = []
    for rule in RULES:
        line = re.sub(r"{(\w+)}", lambda m: same.get(m[1]) or draw.one(WORDS[m[1]]), draw.one(rule))
        text.append(articles(line))
    return " ".join(text)


def one_of(words):
    return "(?:" + "|".join(re.escape(w) for w in words) + ")"


def accepts(text, animal=None, thing=None):
    """Whether the grammar makes this story. Sentences are tried one by one, since a friend is bound
    by the first sentence that names it."""
    rest, same = re.sub(r"\b([Aa])n (?=[aeiou])", r"\1 ", text), {}
    if articles(rest) != text:
        return False
    same.update({k: v for k, v in (("animal", animal), ("thing", thing)) if v})
    for i, rule in enumerate(RULES):
        for line in rule:
            names = []

            def slot(name):
                if name in same:
                    return re.escape(same[name])
                if name in WORDS:
                    return one_of(WORDS[name])
                if name in names:
                    return f"(?P={name})"
                names.append(name)
                words = {"animal": ANIMALS, "thing": THINGS, "place": PLACES,
                         "friend": FRIENDS}[name]
                return f"(?P<{name}>{'|'.join(map(re.escape, words))})"

            parts = re.split(r"{(\w+)}", line)
            m = re.match("".join(slot(p) if k % 2 else re.escape(p) for k, p in enumerate(parts)) +
                         (r" " if i + 1 < len(RULES) else r"$"), rest)
            if m:
                same.update(m.groupdict())
                rest = rest[m.end():]
                break
        else:
            return False
    return rest == ""
