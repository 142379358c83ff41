# SPDX-License-Identifier: Apache-2.0
"""Schemas as public descriptions of APIs, tools and configuration files write them: our own, drawn from
the shapes that such descriptions share. Each is of one dialect, from OpenAI's strict tools to draft-07
files that hold a program's settings. What we cannot honour is among them as often as it is met."""

WORDS = ("account address amount archive article attachment author balance batch booking branch campaign carrier cart "
         "category channel charge city client cluster comment commit company contact container country coupon course "
         "customer dataset delivery device discount document domain driver employee endpoint environment event feature "
         "file folder forecast gateway guest host image incident instance invoice issue item job label lead ledger "
         "license listing location member message metric milestone model node notification offer order owner package "
         "participant patient payment payout permission phone pipeline plan policy post price product profile project "
         "quote rate receipt record refund region release report reservation resource review role room route rule "
         "schedule segment seller server session shipment site sku snapshot source station status store subscription "
         "supplier task tax team template tenant ticket token topic track transaction transfer trigger unit upload user "
         "vehicle vendor version volume wallet warehouse webhook worker workflow workspace zone").split()
STATES = ["active", "inactive", "pending", "draft", "archived", "open", "closed", "paid", "failed", "queued", "in_progress",
          "cancelled", "succeeded", "requires_action", "past_due", "unknown", "on-hold", "N/A"]
NOTES = ["Unique identifier for the object.", "The time at which it was created.", "Set by the server; clients cannot change it.",
         "Human-readable; shown in lists.", "See the guide \"Getting started\" for the meaning of each value."]
IDS = ["^[a-z]{2,4}_[A-Za-z0-9]{14,24}$", "^[0-9a-f]{24}$", "^\\d{6,12}$", "^[A-Z]{2,5}-\\d{1,6}$", "^arn:aws:[a-z0-9]+:[a-z0-9-]*:\\d{12}:.+$",
       "^[A-Za-z0-9_-]{1,64}$"]
TEXTS = [{"pattern": "^\\+[1-9]\\d{7,14}$"}, {"pattern": "^[A-Z]{3}$"}, {"pattern": "^[A-Z]{2}$"}, {"pattern": "^#[0-9a-fA-F]{6}$"},
         {"pattern": "^\\d{5}(-\\d{4})?$"}, {"pattern": "^(v?)\\d+\\.\\d+\\.\\d+(-[0-9A-Za-z.-]+)?$"}, {"minLength": 1, "maxLength": 255},
         {"maxLength": 5000}, {"minLength": 1}, {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
         {"pattern": "^([01]\\d|2[0-3]):[0-5]\\d$"}, {"pattern": "^[^\\s@]+@[^\\s@]+$"}, {"pattern": "^(\\d+(\\.\\d+)?)(px|em|rem|%)$"},
         {"pattern": "^s3://[a-z0-9.-]{3,63}/.*$"}, {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}, {"enum": ["asc", "desc"]}]
FORMATS = ["date-time"] * 6 + ["date", "date", "uuid", "uuid", "uri", "uri", "email", "email", "ipv4", "ipv6", "hostname", "time", "byte",
                              "password", "uri-reference", "duration", "binary"]


class Shapes:
    def __init__(self, rnd):
        self.rnd = rnd
        self.dialect = rnd.choice(["tool", "strict", "openapi30", "openapi31", "draft07", "settings"])
        self.defs = {}
        self.begun = set()  # those of them that lead to themselves where they are used

    def some(self, p):
        return self.rnd.random() < p

    def name(self):
        a, b = self.rnd.sample(WORDS, 2)
        style = self.rnd.random()
        if style < .4:
            return a
        joined = f"{a}_{b}" if self.dialect in ("tool", "strict") or style < .7 else a + b.capitalize()
        return joined + self.rnd.choice(["", "", "", "_id", "Id", "s", "-" + b, ".name"] if self.dialect == "settings" else ["", "", "s"])

    # ---- annotations ----

    def noted(self, s):
        if self.some(.5):
            s["description"] = self.rnd.choice(NOTES)
        if self.some(.1):
            s["title"] = self.name().capitalize()
        if self.dialect == "openapi30" and self.some(.2):
            s["example"] = self.rnd.choice([1, "x", {"a": 1}, None, [1]])
        if self.dialect in ("openapi30", "openapi31") and self.some(.1):
            s[self.rnd.choice(["readOnly", "writeOnly", "deprecated", "x-internal", "x-nullable"])] = True
        if self.dialect in ("draft07", "settings") and self.some(.15):
            s["default"] = self.rnd.choice([None, "", 0, False, [], {}])
        if self.dialect in ("draft07", "openapi31") and self.some(.1):
            s["examples"] = ["one", 2]
        return s

    def nullable(self, s):
        if self.dialect == "openapi30":
            return {**s, "nullable": True}
        if isinstance(s.get("type"), str) and "enum" not in s and self.some(.6):
            return {**s, "type": [s["type"], "null"]}
        return {"anyOf": [s, {"type": "null"}]}

    # ---- leaves ----

    def text(self):
        kind = self.rnd.random()
        if kind < .4:
            return {"type": "string"}
        if kind < .65:
            return {"type": "string", "format": self.rnd.choice(FORMATS)}
        if kind < .75:
            return {"type": "string", "pattern": self.rnd.choice(IDS)}
        if kind < .754:  # what is met, and is not honoured
            return {"type": "string", **self.rnd.choice([{"format": "cron"}, {"pattern": "^(?!con)\\w+$"}, {"format": "color"},
                                                           {"pattern": "^(?=.*[A-Z])(?=.*\\d).{8,64}$"}, {"pattern": "(?<=a)b"}])}
        return {"type": "string", **self.rnd.choice(TEXTS)}

    def number(self):
        kind = self.rnd.random()
        if kind < .4:
            s = {"type": "integer"}
            if self.dialect.startswith("openapi") and self.some(.7):
                s["format"] = self.rnd.choice(["int32", "int64"])
        else:
            s = {"type": self.rnd.choice(["integer", "number", "number"])}
        bounds = [{}, {}, {"minimum": 0}, {"minimum": 1, "maximum": 100}, {"minimum": 0, "maximum": 1}, {"exclusiveMinimum": 0},
                  {"minimum": -90, "maximum": 90}, {"minimum": 1, "maximum": 65535}, {"minimum": 1900, "maximum": 2100}]
        if self.dialect == "openapi30":
            bounds.append({"minimum": 0, "exclusiveMinimum": True})
        s.update(self.rnd.choice(bounds))
        if self.some(.05):
            s["multipleOf"] = self.rnd.choice([1, 5, 100] if s["type"] == "integer" else [0.01, 0.5, 1])
        if s["type"] == "number" and self.dialect.startswith("openapi") and self.some(.5):
            s["format"] = self.rnd.choice(["double", "float"])
        return s

    def choice(self):
        values = self.rnd.sample(STATES, self.rnd.randint(1, 6))
        if self.dialect == "draft07" and self.some(.2):
            return {"enum": values + self.rnd.choice([[None], [0, 1], [True]])}
        if len(values) == 1 and self.dialect != "openapi30":
            return {"const": values[0]}
        return {"type": "string", "enum": values}

    def leaf(self):
        kind = self.rnd.random()
        s = self.text() if kind < .5 else self.number() if kind < .72 else {"type": "boolean"} if kind < .84 else self.choice()
        if self.some(.15):
            s = self.nullable(s)
        return self.noted(s)

    # ---- what holds others ----

    def ref(self, depth):
        place = "definitions" if self.dialect in ("draft07", "settings") else "$defs"
        if self.dialect == "openapi30":
            place = "components/schemas"
        if self.defs and (depth <= 0 or self.some(.4)):
            name = self.rnd.choice(list(self.defs))
        else:
            name = self.name().replace(".", "").capitalize()
            self.defs.setdefault(name, {"type": "object"})
            self.begun.add(name)
            self.defs[name] = self.entity(depth - 1)
            self.begun.discard(name)
        ref = {"$ref": f"#/{place}/{name}"}
        if name in self.begun:
            return {"type": "array", "items": ref}
        if self.dialect == "openapi30" and self.some(.1):
            return {"allOf": [ref], "nullable": True, "description": NOTES[0]}
        return ref

    def array(self, depth):
        s = {"type": "array", "items": self.value(depth - 1)}
        if self.some(.2):
            s["minItems"] = self.rnd.choice([0, 1, 1, 2])
        if self.some(.25):
            s["maxItems"] = self.rnd.choice([3, 10, 100, 1000])
        if self.some(.08 if self.dialect == "settings" else .03):
            s["uniqueItems"] = True
            if self.some(.6):
                s["items"] = {"type": "string", "enum": self.rnd.sample(STATES, 4)}
        return self.noted(s)

    def table(self, depth):
        value = self.value(depth - 1) if self.some(.4) else {"type": "string", "maxLength": 500}
        s = {"type": "object", "additionalProperties": self.rnd.choice([value, value, True])}
        if self.some(.2):
            s["maxProperties"] = 50
        if self.some(.1):
            s["propertyNames"] = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
        if self.dialect == "settings" and self.some(.5):
            s = {"type": "object", "patternProperties": {self.rnd.choice(["^[a-z-]+$", "^x-", "^\\d+$", "^.+$"]): value},
                 "additionalProperties": False}
        return self.noted(s)

    def tagged(self, depth):
        tag, ways = self.rnd.choice(["type", "kind", "object"]), []
        for word in self.rnd.sample(WORDS, self.rnd.randint(2, 4)):
            one = self.entity(depth - 2)
            fixed = {"enum": [word]} if self.dialect == "openapi30" else {"const": word}
            one["properties"] = {tag: {"type": "string", **fixed}, **one["properties"]}
            one["required"] = [tag] + [n for n in one.get("required", []) if n != tag]
            ways.append(one)
        s = {self.rnd.choice(["oneOf", "anyOf"]): ways}
        if self.dialect.startswith("openapi") and self.some(.5):
            s["discriminator"] = {"propertyName": tag}
        return s

    def either(self, depth):
        """One or many, a name or the whole, a number or a text: as settings and webhooks have it."""
        one = self.rnd.choice([lambda: {"type": "string"}, lambda: self.ref(depth - 1), self.leaf])()
        key = self.rnd.choice(["anyOf", "oneOf"])
        return {key: self.rnd.choice([[{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                                      [one, {"type": "array", "items": one}] if key == "anyOf" else [{"type": "integer"}, {"type": "boolean"}],
                                      [{"type": "boolean"}, {"type": "object", "properties": {self.name(): self.leaf()}, "additionalProperties": False}],
                                      [{"type": "integer"}, {"type": "string", "pattern": "^\\d+%$"}],
                                      [{"type": "string", "enum": ["auto"]}, {"type": "integer", "minimum": 1}]])}

    def grown(self, depth):
        """A base and what is added to it."""
        more = self.entity(depth - 1)
        more.pop("additionalProperties", None)
        base = self.ref(depth - 1)
        target = self.defs.get(base["$ref"].split("/")[-1]) if "$ref" in base else None
        if target:
            target.pop("additionalProperties", None)
        return {"allOf": [base, more]}

    def value(self, depth):
        kind = self.rnd.random()
        if depth <= 0 or kind < .55:
            return self.leaf()
        if kind < .67:
            return self.array(depth)
        if kind < .75:
            return self.entity(depth - 1)
        if kind < .84:
            return self.ref(depth)
        if kind < .89 or self.dialect == "strict":
            return self.nullable(self.entity(depth - 1)) if self.dialect == "strict" else self.table(depth)
        if kind < .93:
            return self.either(depth)
        return self.tagged(depth) if kind < .97 else self.grown(depth)

    def entity(self, depth):
        names = {self.name(): None for _ in range(self.rnd.randint(1, 7 if depth > 0 else 4))}
        s = {"type": "object", "properties": {n: self.value(depth) for n in names}}
        if self.dialect == "strict":
            return {**s, "required": list(names), "additionalProperties": False}
        if self.some(.8):
            s["required"] = [n for n in names if self.some(.5)]
        if self.some({"tool": .3, "settings": .6, "draft07": .5}.get(self.dialect, .1)):
            s["additionalProperties"] = self.rnd.choice([False, False, False, True])
        self.conditions(s, list(names))
        return self.noted(s)

    def conditions(self, s, names):
        if self.dialect not in ("draft07", "settings", "openapi31") or len(names) < 2:
            return
        a, b = names[:2]
        if self.some(.03):
            s["dependentRequired" if self.dialect == "openapi31" else "dependencies"] = {a: [b]}
        elif self.some(.03):
            s["if"], s["then"] = {"properties": {a: {"const": "a"}}, "required": [a]}, {"required": [b]}
        elif self.some(.03):
            s[self.rnd.choice(["anyOf", "oneOf"])] = [{"required": [a]}, {"required": [b]}]
        elif self.some(.02) and not {a, b} <= set(s.get("required", [])):
            s["not"] = {"required": [a, b]}
        elif self.some(.01):
            s["patternProperties"] = {"^x-": {}}

    def root(self):
        s = self.entity(3)
        if self.dialect == "draft07":
            s = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/schema.json", **s}
        if self.defs:
            place = {"draft07": "definitions", "settings": "definitions"}.get(self.dialect, "$defs")
            if self.dialect == "openapi30":
                s["components"] = {"schemas": self.defs}
            else:
                s[place] = self.defs
        return s


def schemas(rnd, n):
    for i in range(n):
        shapes = Shapes(rnd)
        root = shapes.root()
        yield f"{shapes.dialect} {i}", root
