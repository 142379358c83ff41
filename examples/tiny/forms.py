# SPDX-License-Identifier: Apache-2.0
"""Sentences, and the JSON that says the same: what somebody asks for with a schema. The model does not see the
schema, which holds its answer: it learns which words of the sentence a member's name is about."""
import json

import told
from tools import CITIES, DAYS

COLOURS = "red green blue white black brown silver orange purple yellow grey pink".split()
ITEMS = ("apples books lamps chairs cups plates pens shirts shoes tickets flowers candles eggs lemons pears rings "
         "hats coats boxes bottles clocks mirrors tables spoons").split()
PETS = "dog cat horse parrot rabbit goat hamster turtle".split()
# what a blank may be called as a member
MEMBERS = {"name": ("name", "name", "name", "person", "user", "first_name", "full_name"),
           "age": ("age", "age", "age", "years"), "city": ("city", "city", "location", "town", "place"),
           "job": ("job", "job", "occupation", "profession", "work"), "n": ("count", "number", "quantity"),
           "price": ("price", "cost", "total", "amount"), "item": ("item", "product", "thing"),
           "colour": ("colour", "color"), "day": ("day", "date", "when"), "pet": ("pet", "animal"),
           "called": ("pet_name", "called"), "event": ("name", "event", "title"),
           "who": ("participants", "people", "names")}
NUMBERS = ("age", "n", "price")
SENTENCES = (
    "{name} is {age} years old.", "{name} is {age} years old.", "{name} is {age}.",
    "{name} is {age} and lives in {city}.", "{name} is {age} years old and lives in {city}.",
    "My name is {name} and I am {age} years old.", "I am {name}, {age} years old.",
    "{name}, {age}, lives in {city}.", "{name}, a {job} from {city}, is {age} years old.",
    "{name} is a {age} year old {job} from {city}.", "{name} is a {job} in {city}.",
    "{name} works as a {job} in {city}.", "{name} lives in {city}.", "My name is {name} and I live in {city}.",
    "I am {name}, a {job}.", "{name} bought {n} {item} for {price} euros.", "{name} ordered {n} {item}.",
    "{n} {item} for {price} dollars.", "I would like {n} {colour} {item}.",
    "{name} has a {pet} called {called}.", "{name} has {n} {colour} {item}.", "{name} comes on {day}.",
    "{name} is in {city} on {day}.", "{who} are going to a {event} on {day}.",
    "{who} go to a {event} on {day}.", "{who} meet in {city} on {day}.", "Send {n} {item} to {name} in {city}.",
    "The {colour} {item} cost {price} euros.")
BEFORE = ("Extract the person: ", "Extract: ", "Fill the form: ", "As JSON: ", "Extract the information: ",
          "Extract the data from this text: ", "Read this: ")
SYSTEM = ("Extract the information.", "Extract the event information.", "Answer in JSON.", "Fill in the form.")


def fill(draw, blank):
    if blank in ("name", "called"):
        name = told.fresh_name(draw) if draw.chance(0.15) else draw.one(told.NAMES)
        return name + " " + told.fresh_name(draw) if blank == "name" and draw.chance(0.15) else name
    if blank in NUMBERS:
        return 1 + draw.below(99 if blank != "price" or draw.chance(0.6) else 999)
    if blank == "city":
        return draw.one(CITIES) if draw.chance(0.8) else told.fresh_name(draw)
    if blank == "who":
        names = [draw.one(told.NAMES)]
        while len(names) < 2 or draw.chance(0.2) and len(names) < 3:
            name = draw.one(told.NAMES)
            names += [name] if name not in names else []
        return names
    if blank == "event":
        return " ".join(draw.one(told.MORE) for _ in range(1 + draw.below(2)))
    return draw.one({"job": told.JOBS, "colour": COLOURS, "item": ITEMS, "day": DAYS[:7], "pet": PETS}[blank])


def written(v):
    return v if isinstance(v, str) else str(v) if isinstance(v, int) else ", ".join(v[:-1]) + " and " + v[-1]


def form(draw):
    """(sentence, {member: value} in the order of the schema)."""
    text = draw.one(SENTENCES)
    blanks = [b for b in MEMBERS if "{" + b + "}" in text]
    blanks.sort(key=lambda b: text.index("{" + b + "}"))
    values = {b: fill(draw, b) for b in blanks}
    said = text.format(**{b: written(v) for b, v in values.items()})
    if draw.chance(0.3):
        draw.shuffle(blanks)
    if len(blanks) > 1 and draw.chance(0.15):
        blanks.pop()
    members = {}
    for b in blanks:
        key = draw.one(MEMBERS[b])
        members[key if key not in members else b] = values[b]
    return (draw.one(BEFORE) if draw.chance(0.3) else "") + said, members


def schema(members):
    def of(v):
        if isinstance(v, list):
            return {"type": "array", "items": {"type": "string"}}
        return {"type": "string" if isinstance(v, str) else "integer"}
    return {"type": "object", "additionalProperties": False, "required": list(members),
            "properties": {k: of(v) for k, v in members.items()}}


def answer(members):
    return json.dumps(members)
