# SPDX-License-Identifier: Apache-2.0
"""Tools that the model is to call: what they are of, how people name and describe them, how they are asked
for, and what comes back. A tool is of one noun, which its name or its description has and the question too:
so what is learned is to copy, and nouns that were never met are called as well.

A row of KINDS is a noun, what is to be filled in, and phrases with a blank for each."""
import json

import told

CITIES = ("Paris London Berlin Madrid Rome Vienna Oslo Prague Lisbon Dublin Athens Warsaw Budapest Zurich Geneva "
          "Munich Hamburg Lyon Milan Naples Venice Porto Seville Bergen Helsinki Stockholm Copenhagen Brussels "
          "Amsterdam Tokyo Osaka Kyoto Seoul Beijing Shanghai Delhi Mumbai Bangkok Hanoi Manila Jakarta Sydney "
          "Melbourne Perth Auckland Cairo Tunis Lagos Nairobi Accra Dakar Lima Bogota Quito Santiago Boston "
          "Chicago Denver Dallas Houston Seattle Austin Miami Toronto Montreal Vancouver Leeds York Oxford "
          "Cambridge Bristol Glasgow Cardiff Belfast Istanbul Moscow Kiev Riga Tallinn Sofia Zagreb").split()
CITIES += ["New York", "San Francisco", "Los Angeles", "Hong Kong", "Mexico City", "Cape Town", "Buenos Aires",
           "New Delhi", "Las Vegas", "Tel Aviv"]
COUNTRIES = ("France Germany Spain Italy Norway Sweden Poland Greece Japan China India Brazil Peru Chile Canada "
             "Mexico Egypt Kenya Ghana Turkey Ireland Portugal Austria Denmark Finland Iceland").split()
LANGUAGES = "French German Spanish Italian Norwegian Polish Greek Japanese Chinese Czech Dutch English".split()
ROOMS = "kitchen bedroom bathroom hall garden office garage cellar attic living-room".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday tomorrow".split()

KEYS = {"city": ("city", "location", "place", "town", "where"), "country": ("country", "place", "name", "state"),
        "person": ("name", "person", "who", "user", "contact"), "to": ("to", "name", "recipient", "person"),
        "item": ("item", "name", "product", "thing", "what", "query"), "word": ("word", "text", "term", "query"),
        "title": ("title", "name", "query", "song"), "number": ("number", "id", "n", "code"),
        "amount": ("amount", "value", "level", "n", "number"), "language": ("language", "lang", "target"),
        "room": ("room", "place", "where"), "state": ("state", "mode", "action"), "day": ("day", "date", "when"),
        "time": ("time", "at", "when"), "about": ("text", "about", "topic", "subject", "message", "body"),
        "from": ("from", "origin", "start", "source", "a"),
        "goal": ("to", "destination", "end", "target", "b")}
NUMBERS = ("number", "amount")

CITY = ("{n} in {0}", "{n} in {0}", "{n} for {0}", "{n} of {0}")
OF = ("{n} of {0}", "{n} of {0}", "{n} for {0}")
KINDS = (
    [(n, ("city",), ["the " + p for p in CITY]) for n in
     "weather temperature time forecast traffic population humidity wind rain sunrise mayor".split()] +
    [(n, ("country",), ["the " + p for p in OF]) for n in "capital currency flag president area".split()] +
    [(n, ("city",), ["a " + p for p in CITY[:2]]) for n in "hotel restaurant museum park pharmacy concert".split()] +
    [(n, ("person",), ["the " + p for p in OF]) for n in
     "birthday address age salary manager email phone office calendar account balance".split()] +
    [(n, ("item",), ["the " + p for p in OF]) for n in
     "price stock weight size colour calories rating cost".split()] +
    [(n, ("word",), ["the " + p for p in OF]) for n in "meaning definition synonym spelling".split()] +
    [(n, ("title",), ["the " + p for p in OF]) for n in "author lyrics director length".split()] +
    [(n, ("item",), ["a {n} for {0}", "a {n} of {0}"]) for n in "recipe picture".split()] +
    [(n, ("number",), ["the status of {n} {0}", "{n} {0}", "{n} number {0}"]) for n in
     "order invoice parcel ticket train flight bus".split()] +
    [(n, ("from", "goal"), ["the {n} from {0} to {1}", "the {n} between {0} and {1}"]) for n in
     "distance route connection".split()] +
    [("translation", ("word", "language"), ["the {n} of {0} into {1}", "the {n} of {0} to {1}"])])
ACTIONS = (
    ("lamp", ("room", "state"), ("Turn {1} the {n} in the {0}.", "Turn the {n} in the {0} {1}.",
                                 "Switch {1} the {n} in the {0}.", "Please turn {1} the {n} in the {0}.")),
    ("heating", ("room", "amount"), ("Set the {n} in the {0} to {1}.", "Turn the {n} in the {0} to {1} degrees.",
                                     "Please set the {n} in the {0} to {1}.")),
    ("volume", ("amount",), ("Set the {n} to {0}.", "Turn the {n} to {0}.", "Please set the {n} to {0}.")),
    ("song", ("title",), ("Play the {n} {0}.", "Please play the {n} {0}.", "Start the {n} {0}.")),
    ("email", ("to", "about"), ("Send an {n} to {0} about {1}.", "Write an {n} to {0} about {1}.",
                                "Please send an {n} to {0} about {1}.")),
    ("message", ("to", "about"), ("Send a {n} to {0} about {1}.", "Send a {n} to {0}: {1}",
                                  "Write a {n} to {0}: {1}")),
    ("meeting", ("person", "day"), ("Book a {n} with {0} on {1}.", "Make a {n} with {0} on {1}.",
                                    "I need a {n} with {0} on {1}.")),
    ("table", ("amount", "time"), ("Book a {n} for {0} at {1}.", "I need a {n} for {0} at {1}.",
                                   "Please book a {n} for {0} at {1}.")),
    ("alarm", ("time",), ("Set an {n} for {0}.", "Set the {n} to {0}.", "I need an {n} at {0}.")),
    ("timer", ("amount",), ("Set a {n} for {0} minutes.", "Start a {n} of {0} minutes.",
                               "I need a {n} for {0} minutes.")),
    ("note", ("about",), ("Write a {n} about {0}.", "Make a {n}: {0}", "Take a {n} about {0}.")),
    ("joke", (), ("Tell me a {n}.", "A {n}, please.", "Do you know a {n}?", "I want to hear a {n}.")),
    ("date", (), ("What is the {n} today?", "Tell me the {n}.", "Which {n} is it?", "What is the {n}?")),
    ("battery", (), ("How full is the {n}?", "Check the {n}.", "Show me the {n}.")),
)
# ways of asking that do not have the phrase; the first answers to it
ALSO = {
    "weather": ("How is the weather in {0}?", "What is the weather like in {0}?", "How will the weather be in {0}?"),
    "time": ("What time is it in {0}?",), "price": ("What price has {0}?", "What is the price for {0}?"),
    "temperature": ("What temperature is it in {0}?", "Which temperature does {0} have?"),
    "birthday": ("When is the birthday of {0}?", "When does {0} have a birthday?"),
    "distance": ("What distance is it from {0} to {1}?",),
    "order": ("Where is order {0}?", "Where is my order {0}?"), "parcel": ("Where is parcel {0}?",),
    "flight": ("When does flight {0} leave?",), "train": ("When does train {0} leave?",),
    "bus": ("When does bus {0} leave?",)}
ASK_THE = ("What is {}?", "What is {}?", "What is {}?", "Tell me {}.", "Can you tell me {}?", "Please tell me {}.",
           "Show me {}.", "Give me {}.", "I need {}.", "I want to know {}.", "Do you know {}?", "Find {}.",
           "Look up {}.", "Can you look up {}?", "Can you find {}?", "Check {}.", "What about {}?", "Get {}.",
           "Could you check {}?", "{}?", "{}, please.", "Please look up {}.", "What's {}?", "I would like to know {}.")
ASK_A = ("Find me {}.", "I need {}.", "Get me {}.", "Can you find {}?", "Do you know {}?", "I want {}.",
         "Show me {}.", "Give me {}.", "{}, please.", "Look for {}.", "Search for {}.", "Is there {}?")
LATER = (" today", " now", " right now", " at the moment")

NAMES = ("get_{}", "get_{}", "get_{}", "{}", "{}", "find_{}", "{}_lookup", "lookup_{}", "fetch_{}", "show_{}",
         "search_{}", "{}_search", "check_{}", "get_{}_info", "{}_of", "{}_tool", "read_{}", "get_current_{}",
         "query_{}")
NAMES_DO = ("set_{}", "make_{}", "create_{}", "{}", "{}", "start_{}", "add_{}", "{}_control", "do_{}", "new_{}",
            "send_{}", "change_{}")
NAMES_NEW = ("retrieve_{}", "{}_service", "ask_{}", "{}_api", "load_{}", "my_{}")  # never in training
OPAQUE = ("lookup", "query", "tool_a", "tool_b", "tool_c", "f1", "f2", "f3", "fn", "run", "call", "get_info", "search")
DESCRIBED = ("Get the {n}", "Get the {n} of a {k}", "Get the current {n} for a given {k}", "Returns the {n}",
             "The {n} of a {k}", "Looks up the {n} for a {k}", "Find the {n}", "Look up the {n} by {k}")


def value(draw, slot):
    if slot in ("city", "from", "goal"):
        return draw.one(CITIES) if draw.chance(0.8) else told.fresh_name(draw)
    if slot == "country":
        return draw.one(COUNTRIES) if draw.chance(0.8) else told.fresh_name(draw)
    if slot in ("person", "to"):
        name = told.fresh_name(draw) if draw.chance(0.15) else draw.one(told.NAMES)
        return name + " " + told.fresh_name(draw) if draw.chance(0.12) else name
    if slot in NUMBERS:
        return str(1 + draw.below(draw.one((9, 99, 99, 999, 9999)) if slot == "number" else 99))
    lists = {"language": LANGUAGES, "room": ROOMS, "state": ("on", "off"), "day": DAYS}
    if slot in lists:
        return draw.one(lists[slot])
    if slot == "time":
        hour = 1 + draw.below(23)
        return draw.one((f"{hour}:{draw.below(6)}{draw.below(10)}", f"{hour}", "noon", "midnight"))
    words = [told.letters(draw) if draw.chance(0.05) else draw.one(told.MORE)
             for _ in range(1 + draw.chance(0.2) + (slot in ("about", "title")) * draw.below(2))]
    return " ".join(w.capitalize() for w in words) if slot == "title" else " ".join(words)


def articled(draw, word):
    """As things are asked for: "the price of a lamp", whose argument is the lamp."""
    return f"a {word}" if word[0] not in "aeiou" and draw.chance(0.15) else word


class Tool:
    """One that may be offered: drawn once for a conversation."""

    def __init__(self, draw, kind, names=None):
        self.noun, self.slots, self.phrases = kind
        self.does = kind in ACTIONS
        self.ask_also = () if self.does else ALSO.get(self.noun, ())
        names = names or (NAMES_DO if self.does else NAMES)
        is_opaque = names is not NAMES_NEW and draw.chance(0.12)
        self.name = draw.one(OPAQUE) if is_opaque else draw.one(names).format(self.noun)
        self.keys = []
        for slot in self.slots:
            free = [k for k in KEYS[slot] if k not in self.keys]
            self.keys.append(draw.one(free) if draw.chance(0.6) else free[0])
        self.order = list(range(len(self.slots)))
        if self.does:
            draw.shuffle(self.order)
        self.is_number = [slot in NUMBERS and draw.chance(0.7) for slot in self.slots]
        self.spec = self._spec(draw, is_opaque)

    def _spec(self, draw, is_opaque):
        props = {}
        for i in self.order:
            props[self.keys[i]] = {"type": "integer" if self.is_number[i] else "string"}
        has_more = bool(props) and draw.chance(0.15)
        required = list(props)
        if has_more:
            props["unit"] = {"type": "string"}
        f = {"name": self.name}
        if is_opaque or draw.chance(0.7):
            f["description"] = draw.one(DESCRIBED).format(n=self.noun, k=(self.keys or ["day"])[0])
        f["parameters"] = {"type": "object", "properties": props}
        if has_more or draw.chance(0.8):
            f["parameters"]["required"] = required
        return {"type": "function", "function": f}

    def ask(self, draw):
        """(question, arguments, what the answer is of)."""
        values = []
        for slot in self.slots:
            v = value(draw, slot)
            while v in values:
                v = value(draw, slot)
            values.append(v)
        said = [articled(draw, v) if slot == "item" else v for slot, v in zip(self.slots, values)]
        phrase = draw.one(self.phrases).format(*said, n=self.noun)
        if self.does:
            ask = phrase
        elif self.ask_also and draw.chance(0.25):
            ask, phrase = draw.one(self.ask_also).format(*said), self.phrases[0].format(*said, n=self.noun)
        else:
            ask = draw.one(ASK_A if phrase.startswith("a ") else ASK_THE).format(
                phrase + draw.one(LATER) if draw.chance(0.08) else phrase)
            ask = ask[0].upper() + ask[1:]
        args = {self.keys[i]: int(values[i]) if self.is_number[i] else values[i] for i in self.order}
        return ask, args, phrase

    def result(self, draw, phrase):
        """(what it gives, the answer)."""
        if draw.chance(0.07):
            why = draw.one(("not found", "no connection", "unknown " + (self.keys or ["name"])[0], "timeout"))
            return draw.one(("error: {}", "Error: {}")).format(why), f"That did not work: {why}."
        if self.does and self.slots:
            return draw.one(("ok", "done", "OK", "Done.", '{"ok": true}', "success")), "Done."
        if self.does:
            said = some_text(draw)
            return said, f"It is {said}." if self.noun != "joke" else said
        phrase = phrase[0].upper() + phrase[1:]
        if draw.chance(0.25):
            many = {draw.one(told.MORE) if i else self.noun: int(value(draw, "amount")) if draw.chance(0.5) else
                    draw.one(told.MORE) for i in range(1 + draw.below(2))}
            return json.dumps(many), f"{phrase}: {', '.join(f'{k} {v}' for k, v in many.items())}."
        said = some_text(draw)
        return said, f"{phrase} is {said}." if phrase.startswith("The ") else f"{phrase}: {said}."


UNITS = ("degrees", "euros", "dollars", "kilometres", "minutes", "percent", "grams", "people", "pieces")
SKIES = ("sunny", "cloudy", "rainy", "windy", "cold", "warm", "dry", "foggy", "snow", "clear")


def some_text(draw):
    n = str(1 + draw.below(draw.one((30, 99, 999))))
    return draw.one((lambda: f"{n} {draw.one(UNITS)}", lambda: f"{n} degrees and {draw.one(SKIES)}",
                     lambda: f"{draw.one(SKIES)}, {n} degrees", lambda: draw.one(SKIES), lambda: n,
                     lambda: draw.one(CITIES), lambda: draw.one(told.NAMES),
                     lambda: draw.one(told.MORE), lambda: f"{draw.one(told.MORE)} {draw.one(told.MORE)}",
                     lambda: value(draw, "time"), lambda: f"{draw.one(told.MORE)}, {draw.one(told.MORE)}"))()


TAKEN = {k[0] for k in KINDS} | {a[0] for a in ACTIONS}
ANY_SLOTS = ("city", "person", "item", "word", "title", "number", "country")


def any_kind(draw):
    """A noun of any kind: what it is to be asked for is learned from the words themselves."""
    if draw.chance(0.22):
        return draw.one(ACTIONS)
    if draw.chance(0.62):
        return draw.one(KINDS)
    noun = draw.one(told.MORE)
    while noun in TAKEN:
        noun = draw.one(told.MORE)
    slot = draw.one(ANY_SLOTS)
    return noun, (slot,), ["the {n} of {0}", "the {n} in {0}" if slot == "city" else "the {n} for {0}"]


def offered(draw, names=None):
    """One to four tools of different nouns and names."""
    out = []
    for _ in range(1 + draw.below(4)):
        tool = Tool(draw, any_kind(draw), names)
        if tool.noun not in [t.noun for t in out] and tool.name not in [t.name for t in out]:
            out.append(tool)
    return out


def call(tool, args, n):
    return {"role": "assistant", "content": None, "tool_calls": [{
        "id": f"call_{n}", "type": "function",
        "function": {"name": tool.name, "arguments": json.dumps(args)}}]}


def given(n, text):
    return {"role": "tool", "tool_call_id": f"call_{n}", "content": text}
