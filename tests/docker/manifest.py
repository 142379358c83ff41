# SPDX-License-Identifier: Apache-2.0
"""Reads manifests, and holds them to what the API knows of their types.

documents() takes the part of YAML that people write manifests in: blocks of two sorts, the same in brackets, plain and
double-quoted texts, comments, anchors. What else there is it refuses. differences() says which members a type does not
have, which it wants, and which are of another type: types are as tests/golden/kubernetes/types.json has them."""
import json
import re

KEY = re.compile(r'("[^"]*"|[\w./-]+):(?: +|$)')


class Flow:
    """A value in brackets, or a plain one, of a line."""

    def __init__(self, text, anchors):
        self.text, self.at, self.anchors = text, 0, anchors

    def take_mark(self, mark=""):
        """Whether the mark is next, behind spaces, which are passed over."""
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1
        found = bool(mark) and self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def take(self, pattern):
        m = re.compile(pattern).match(self.text, self.at)
        if not m:
            raise ValueError(f"no YAML that is read here: {self.text!r}")
        self.at = m.end()
        return m[0]

    def value(self, end=""):
        if self.take_mark("&"):
            name = self.take(r"[\w-]+")
            self.take_mark()
            self.anchors[name] = found = self.value(end)
            return found
        if self.take_mark("*"):
            return self.anchors[self.take(r"[\w-]+")]
        if self.take_mark("["):
            return self.several("]", lambda: self.value(",]"))
        if self.take_mark("{"):
            return dict(self.several("}", lambda: (self.take(r"[\w./-]+(?=: )"), self.take_mark(":"), self.value(",}"))[::2]))
        if self.text[self.at:self.at + 1] == '"':
            return json.loads(self.take(r'"(\\.|[^"\\])*"'))
        return plain(self.take(f"[^{re.escape(end)}]+" if end else r".+").strip())

    def several(self, end, one):
        found = []
        while not self.take_mark(end):
            found.append(one())
            self.take_mark(",")
        return found


def plain(text):
    if text[0] in "'|>%@`!":
        raise ValueError(f"no YAML that is read here: {text!r}")
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


class Block:
    def __init__(self, lines):
        self.lines, self.at, self.anchors = lines, 0, {}

    def deep(self):
        return self.lines[self.at][0] if self.at < len(self.lines) else -1

    def whole(self, text):
        flow = Flow(text, self.anchors)
        found = flow.value()
        if flow.at != len(text):
            raise ValueError(f"more behind a value: {text!r}")
        return found

    def behind(self, text, deep):
        """What a key or a dash has: the rest of its line, or the lines below."""
        anchor = re.fullmatch(r"&([\w-]+)", text)
        if text and not anchor:
            return self.whole(text)
        found = self.value(deep)
        if anchor:
            self.anchors[anchor[1]] = found
        return found

    def value(self, least):
        deep = self.deep()
        if deep < least:
            return None
        return self.list(deep) if self.lines[self.at][1].startswith("- ") else self.map(deep)

    def list(self, deep):
        found = []
        while self.deep() == deep and self.lines[self.at][1].startswith("- "):
            text = self.lines[self.at][1][2:]
            anchor = re.fullmatch(r"&[\w-]+", text)
            if not anchor and KEY.match(text):
                self.lines[self.at] = deep + 2, text
                found.append(self.map(deep + 2))
            else:
                self.at += 1
                found.append(self.behind(text, deep + 1))
        return found

    def map(self, deep):
        found = {}
        while self.deep() == deep:
            text = self.lines[self.at][1]
            m = KEY.match(text)
            if not m or m[1].strip('"') in found:
                raise ValueError(f"no key, or one twice: {text!r}")
            self.at += 1
            # a list may stand as deep as its key
            is_list = self.deep() == deep and self.lines[self.at][1].startswith("- ")
            found[m[1].strip('"')] = self.behind(text[m.end():], deep + (not is_list))
        return found


def documents(text):
    """Values of the documents of a file."""
    for part in re.split(r"^---$", text, flags=re.M):
        bare = (re.sub(r"(^| +)#.*$", "", line).rstrip() for line in part.split("\n"))
        block = Block([(len(x) - len(x.lstrip()), x.lstrip()) for x in bare if x])
        if block.lines:
            yield block.value(0)
            if block.at != len(block.lines):
                raise ValueError(f"line out of place: {block.lines[block.at][1]!r}")


def is_of(value, kind):
    return {"string": isinstance(value, str), "boolean": isinstance(value, bool), "object": isinstance(value, dict),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "array": isinstance(value, list), "any": True}[kind]


def differences(value, of, types, where):
    """of: a type's name or a list of kinds; in brackets each item's, behind `{}` each member's."""
    if of in types:
        known = types[of]
        if not isinstance(value, dict):
            yield f"{where}: no {of}"
            return
        for name in known.get("required", []):
            if name not in value:
                yield f"{where}.{name}: missing"
        for name, x in value.items():
            if name in known["members"]:
                yield from differences(x, known["members"][name], types, f"{where}.{name}")
            else:
                yield f"{where}.{name}: {of} has no such member"
    elif of[0] == "[" or of.startswith("{}"):
        if not isinstance(value, list if of[0] == "[" else dict):
            yield f"{where}: of another type"
            return
        for i, x in enumerate(value) if of[0] == "[" else value.items():
            yield from differences(x, of[1:-1] if of[0] == "[" else of[2:], types, f"{where}.{i}")
    elif of[0] == "=":
        if value not in of[1:].split("|"):
            yield f"{where}: {value!r}, not one of {of[1:]}"
    elif not any(is_of(value, kind) for kind in of.split("|")):
        yield f"{where}: {value!r} is no {of}"
