# SPDX-License-Identifier: Apache-2.0
"""Random schemas: each keyword that is honoured, in the combinations that people and machines write."""

WORDS = ["name", "id", "a", "b", "kind", "x\"y", "é", "items", "value", "n", "tags", "when"]
PATTERNS = ["^[a-z]+$", "^[A-Z]{2}[0-9]{3}$", "b", "^(foo|bar)", "[0-9]$", "^a.*z$", "^\\d{3}-\\d{4}$",
            "^[\\w.-]{1,9}$", "^.{2,4}$", "\"", "^[^a-m\"]*$", "(ab|c)+", "^$|^x", "^\\S+$"]
FORMATS = ["date", "date-time", "time", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "duration",
           "json-pointer", "uri-reference", "regex"]


class Draw:
    def __init__(self, rnd):
        self.rnd = rnd

    def some(self, p):
        return self.rnd.random() < p

    def string(self):
        s = {"type": "string"}
        if self.some(.3):
            s["pattern"] = self.rnd.choice(PATTERNS)
        elif self.some(.3):
            s["format"] = self.rnd.choice(FORMATS)
            return s
        if self.some(.3):
            s["minLength"] = self.rnd.randint(0, 3)
        if self.some(.3):
            s["maxLength"] = self.rnd.randint(3, 12)
        if self.some(.05):
            s["not"] = {"enum": ["", "a"]}
        return s

    def number(self):
        s = {"type": self.rnd.choice(["integer", "number"])}
        whole = s["type"] == "integer"
        lo = self.rnd.randint(-120, 150) if whole or self.some(.5) else round(self.rnd.uniform(-20, 20), 2)
        hi = lo + (self.rnd.randint(0, 300) if whole or self.some(.5) else round(self.rnd.uniform(0.5, 9), 3))
        if self.some(.5):
            s[self.rnd.choice(["minimum", "exclusiveMinimum"])] = lo
        if self.some(.5):
            s[self.rnd.choice(["maximum", "exclusiveMaximum"])] = hi + 2
        if whole and self.some(.2):
            s["multipleOf"] = self.rnd.randint(1, 12)
        return s

    def value(self):
        return self.rnd.choice([None, True, False, 0, 1, -7, 2.5, 1e-7, "", "a", "red", "line\nbreak", "\"q\\",
                                [], [1, "x"], {}, {"a": [None]}])

    def values(self):
        if self.some(.3):
            return {"const": self.value()}
        return {"enum": [self.value() for _ in range(self.rnd.randint(1, 4))]}

    def array(self, depth):
        s = {"type": "array"}
        if self.some(.2):
            s["prefixItems"] = [self.schema(depth - 1) for _ in range(self.rnd.randint(1, 3))]
        if self.some(.85):
            s["items"] = self.schema(depth - 1)
        if self.some(.3):
            s["minItems"] = self.rnd.randint(0, 2)
        if self.some(.5):
            s["maxItems"] = self.rnd.randint(2, 4)
        if self.some(.1) and "prefixItems" not in s:
            s["items"], s["uniqueItems"] = {"enum": ["a", "b", "c", 1]}, True
        return s

    def object(self, depth):
        s = {"type": "object"}
        names = self.rnd.sample(WORDS, self.rnd.randint(0, 5))
        if names:
            s["properties"] = {n: self.schema(depth - 1) for n in names}
            s["required"] = [n for n in names if self.some(.5)]
        if self.some(.5):
            s["additionalProperties"] = self.rnd.choice([False, False, True, {"type": "integer"}])
        if self.some(.15):
            s["patternProperties"] = {self.rnd.choice(["^x-", "id$", "^[a-c]"]): self.schema(0)}
        if self.some(.15):
            s["minProperties"] = self.rnd.randint(0, 1)
        if self.some(.15):
            s["maxProperties"] = self.rnd.randint(2, 5)
        if self.some(.1):
            s["propertyNames"] = {"maxLength": self.rnd.randint(4, 9)}
        if self.some(.1) and len(names) > 1:
            s["dependentRequired"] = {names[0]: [names[1]]}
        if self.some(.1) and names:
            s["if"] = {"properties": {names[0]: {"const": "a"}}, "required": [names[0]]}
            s["then"] = {"required": [names[-1]]}
        return s

    def schema(self, depth):
        kind = self.rnd.random()
        if depth <= 0 or kind < .4:
            return self.rnd.choice([self.string, self.number, self.values, lambda: {"type": "boolean"},
                                    lambda: {"type": ["null", "string"], "maxLength": 4}])()
        if kind < .55:
            return self.array(depth)
        if kind < .8:
            return self.object(depth)
        if kind < .88:
            return {"anyOf": [self.schema(depth - 1) for _ in range(self.rnd.randint(1, 3))]}
        if kind < .92:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "v": self.schema(depth - 1)},
                               "required": ["kind"]} for k in ("p", "q")]}
        if kind < .96:
            return {"allOf": [self.object(depth), {"properties": {"n": {"type": "integer", "minimum": 3}}}]}
        return {"$ref": "#/$defs/node"}

    def root(self):
        s = self.schema(3)
        if self.some(.3):
            s = {"type": "object", "properties": {"top": s}, "required": ["top"]}
        s["$defs"] = {"node": {"type": "object", "properties": {
            "v": self.schema(0), "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v"]}}
        return s
