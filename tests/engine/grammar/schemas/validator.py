# SPDX-License-Identifier: Apache-2.0
"""A validator of JSON Schema, draft 2020-12, written from the specification alone: the second opinion on
texts beside the jsonschema package, and the only one where that package is not.

errors(schema, value) gives the first fault, or None. Numbers are exact where texts are read with
parse(). A keyword that it does not know how to check is an Unknown, never taken as kept."""
import datetime
import decimal
import functools
import ipaddress
import json
import re
import unicodedata
import urllib.parse
import uuid


class Unknown(Exception):
    """The schema asks for what this validator cannot tell."""


def parse(text):
    return json.loads(text, parse_float=decimal.Decimal)


def is_number(v):
    return isinstance(v, (int, float, decimal.Decimal)) and not isinstance(v, bool)


TYPES = {"null": lambda v: v is None, "boolean": lambda v: isinstance(v, bool), "number": is_number,
         "string": lambda v: isinstance(v, str), "array": lambda v: isinstance(v, list),
         "object": lambda v: isinstance(v, dict), "integer": lambda v: is_number(v) and v == int(v)}


def exact(v):
    """A schema's own numbers come as floats: as they were written."""
    return decimal.Decimal(repr(v)) if isinstance(v, float) else decimal.Decimal(v)


def same(a, b):
    if is_number(a) and is_number(b):
        return exact(a) == exact(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


# ---- texts ----

@functools.lru_cache
def of_category(name):
    own = (chr(c) for c in range(0x110000) if unicodedata.category(chr(c)).startswith(name))
    return "[" + "".join(re.escape(c) for c in own) + "]"


def found(pattern, text):
    """ECMA-262's regexes in Python's words: $ is the very end, classes are ASCII."""
    out, i, in_class = [], 0, False
    while i < len(pattern):
        c = pattern[i]
        m = c == "\\" and re.compile(r"\\(?:p\{(\w+)\}|c([A-Za-z])|(/)|(?![pPkc]).)", re.DOTALL).match(pattern, i)
        if m:
            out.append(of_category(m[1]) if m[1] else "\\x%02x" % (ord(m[2]) % 32) if m[2] else m[3] or m[0])
            i = m.end()
            continue
        if c == "\\":
            raise Unknown(f"pattern {pattern}")
        if c == "[" and not in_class:
            in_class = True
            if pattern[i:i + 3] == "[^]":
                out.append(r"[\s\S]")
                i, in_class = i + 3, False
                continue
        elif c in "[&|~" and in_class:
            c = "\\" + c
        elif c == "]":
            in_class = False
        elif c == "$" and not in_class:
            c = r"\Z"
        out.append(c)
        i += 1
    return re.search("".join(out), text, re.ASCII) is not None


def is_date(t):
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", t, re.ASCII)) and bool(datetime.date.fromisoformat(t))


def is_time(t):
    m = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(\.\d+)?([zZ]|[+-](\d\d):(\d\d))", t, re.ASCII)
    if not m or int(m[1]) > 23 or int(m[2]) > 59 or int(m[3]) > 59:
        return False
    return not m[6] or (int(m[6]) < 24 and int(m[7]) < 60)


def is_host(t):
    return len(t) <= 253 and all(re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", p) for p in t.split("."))


def is_email(t):
    local, _, host = t.rpartition("@")
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    return len(local) <= 64 and bool(re.fullmatch(rf"{atom}(\.{atom})*", local)) and is_host(host)


def is_reference(t):
    if not re.fullmatch(r"([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*", t):
        return False
    p = urllib.parse.urlsplit(t)
    _ = p.port
    return t.count("#") <= 1


def is_uri(t):
    return is_reference(t) and bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", t))


def is_duration(t):
    clock = r"T(?=\d)(\d+H)?(\d+M)?(\d+S)?"
    return bool(re.fullmatch(rf"P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?({clock})?)", t, re.ASCII))


def is_pointer(t):
    return bool(re.fullmatch(r"(/([^~/]|~[01])*)*", t, re.DOTALL))


def is_regex(t):
    return bool(re.compile(t)) or True


def is_base64(t):
    return len(t) % 4 == 0 and bool(re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", t))


FORMATS = {"date": is_date, "time": is_time, "email": is_email, "idn-email": is_email, "hostname": is_host,
           "idn-hostname": is_host, "uri": is_uri, "iri": is_uri, "uri-reference": is_reference,
           "iri-reference": is_reference, "uri-template": is_uri, "duration": is_duration,
           "json-pointer": is_pointer, "regex": is_regex, "byte": is_base64,
           "host-name": is_host, "char": lambda t: len(t) == 1,
           "color": lambda t: bool(re.fullmatch(r"#[0-9A-Fa-f]{6}", t)),
           "phone": lambda t: bool(re.fullmatch(r"\+[1-9]\d{6,14}", t)),
           "ip-address": lambda t: bool(ipaddress.IPv4Address(t)) or True,
           "base64url": lambda t: bool(re.fullmatch(r"[A-Za-z0-9_-]*={0,2}", t)),
           "ipv4": lambda t: bool(ipaddress.IPv4Address(t)) or True,
           "ipv6": lambda t: bool(ipaddress.IPv6Address(t)) or True,
           "uuid": lambda t: len(t) == 36 and bool(uuid.UUID(t)) or True,
           "date-time": lambda t: t[10:11] in ("T", "t") and is_date(t[:10]) and is_time(t[11:]),
           "relative-json-pointer": lambda t: bool(re.match(r"(0|[1-9]\d*)(#$|(?=/|$))", t))
           and (t.endswith("#") or is_pointer(t.lstrip("0123456789")))}
# of numbers, and names that ask nothing of a text
WHOLE = {"int8": (-2**7, 2**7), "int16": (-2**15, 2**15), "int32": (-2**31, 2**31), "int64": (-2**63, 2**63),
         "uint8": (0, 2**8), "uint16": (0, 2**16), "uint32": (0, 2**32), "uint64": (0, 2**64)}
PLAIN = {"password", "binary", "string", "text", "float", "double", "decimal", "number", "integer",
         "commonmark", "html", "unixtime"}


def is_of_format(name, v):
    if name in WHOLE:
        return not is_number(v) or WHOLE[name][0] <= v < WHOLE[name][1]
    if name in PLAIN or not isinstance(v, str):
        return True
    if name not in FORMATS:
        raise Unknown(f"format {name}")
    try:
        return bool(FORMATS[name](v))
    except (ValueError, re.error):
        return False


# ---- one schema over one value ----

class Validator:
    def __init__(self, root):
        self.root = root

    def at(self, ref):
        if not ref.startswith("#"):
            raise Unknown(f"$ref {ref}")
        step = urllib.parse.unquote(ref[1:])
        if step and not step.startswith("/"):
            return self.anchor(step)
        at = self.root
        for part in step.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            at = at[int(part)] if isinstance(at, list) else at[part]
        return at

    def anchor(self, name):
        todo = [self.root]
        while todo:
            at = todo.pop()
            if isinstance(at, dict):
                if at.get("$anchor") == name:
                    return at
                todo += [v for k, v in at.items() if k not in ("const", "enum", "default", "examples")]
            elif isinstance(at, list):
                todo += at
        raise Unknown(f"$anchor {name}")

    def fault(self, s, v, seen):
        """The first fault or None; `seen` takes the names and places that were looked at."""
        if s is True or s is False:
            return None if s else "nothing is admitted"
        for check in (self.refs, self.values, self.numbers, self.strings, self.arrays, self.objects,
                      self.choices, self.rest):
            why = check(s, v, seen)
            if why:
                return why
        return None

    def holds(self, s, v, seen=None):
        own = set()
        why = self.fault(s, v, own)
        if why is None and seen is not None:
            seen |= own
        return why is None

    def refs(self, s, v, seen):
        for key in ("$dynamicRef", "$recursiveRef"):
            if key in s:
                raise Unknown(key)
        if "$ref" in s:
            return self.fault(self.at(s["$ref"]), v, seen)
        return None

    def values(self, s, v, _seen):
        types = s.get("type")
        if types is not None:
            types = types if isinstance(types, list) else [types]
            if not any(TYPES[t](v) for t in types) and not (v is None and s.get("nullable")):
                return f"type is not {types}"
        if "const" in s and not same(s["const"], v):
            return "const"
        if "enum" in s and not any(same(e, v) for e in s["enum"]):
            return "enum"
        return None

    def numbers(self, s, v, _seen):
        if not is_number(v):
            return None
        v = exact(v)
        low, high = s.get("exclusiveMinimum"), s.get("exclusiveMaximum")
        bounds = [("minimum", lambda b: v <= b if low is True else v < b),
                  ("maximum", lambda b: v >= b if high is True else v > b),
                  ("exclusiveMinimum", lambda b: v <= b), ("exclusiveMaximum", lambda b: v >= b),
                  ("multipleOf", lambda b: v % b != 0)]
        for key, is_wrong in bounds:
            if key in s and not isinstance(s[key], bool) and is_wrong(exact(s[key])):
                return key
        return None

    def strings(self, s, v, _seen):
        if not is_of_format(s.get("format", "string"), v):
            return f"format {s['format']}"
        if not isinstance(v, str):
            return None
        if not s.get("minLength", 0) <= len(v) <= s.get("maxLength", len(v)):
            return "length"
        return "pattern" if "pattern" in s and not found(s["pattern"], v) else None

    def arrays(self, s, v, seen):
        if not isinstance(v, list):
            return None
        if not s.get("minItems", 0) <= len(v) <= s.get("maxItems", len(v)):
            return "number of items"
        if s.get("uniqueItems") and any(same(a, b) for i, a in enumerate(v) for b in v[:i]):
            return "uniqueItems"
        items, first = s.get("items"), s.get("prefixItems", [])
        if isinstance(items, list):
            first, items = items, s.get("additionalItems")
        for i, item in enumerate(v):
            rule = first[i] if i < len(first) else items
            if rule is not None:
                seen.add(i)
                if not self.holds(rule, item):
                    return f"item {i}"
        if "contains" in s:
            hits = [i for i, item in enumerate(v) if self.holds(s["contains"], item)]
            seen.update(hits)
            if not s.get("minContains", 1) <= len(hits) <= s.get("maxContains", len(v)):
                return "contains"
        return None

    def objects(self, s, v, seen):
        if not isinstance(v, dict):
            return None
        if not s.get("minProperties", 0) <= len(v) <= s.get("maxProperties", len(v)):
            return "number of members"
        for name in s.get("required", []):
            if name not in v:
                return f"required {name}"
        for name, item in v.items():
            rules = [s["properties"][name]] if name in s.get("properties", {}) else []
            rules += [r for p, r in s.get("patternProperties", {}).items() if found(p, name)]
            if not rules and "additionalProperties" in s:
                rules = [s["additionalProperties"]]
            if rules:
                seen.add(name)
            if not all(self.holds(r, item) for r in rules):
                return f"member {name}"
            if "propertyNames" in s and not self.holds(s["propertyNames"], name):
                return f"name {name}"
        return self.dependents(s, v, seen)

    def dependents(self, s, v, seen):
        for key in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, asked in s.get(key, {}).items():
                if name not in v:
                    continue
                if isinstance(asked, list) and not all(n in v for n in asked):
                    return f"{key} {name}"
                if not isinstance(asked, list) and not self.holds(asked, v, seen):
                    return f"{key} {name}"
        return None

    def choices(self, s, v, seen):
        for part in s.get("allOf", []):
            why = self.fault(part, v, seen)
            if why:
                return why
        if "anyOf" in s and not sum(self.holds(p, v, seen) for p in s["anyOf"]):
            return "anyOf"
        if "oneOf" in s and sum(self.holds(p, v, seen) for p in s["oneOf"]) != 1:
            return "oneOf"
        if "not" in s and self.holds(s["not"], v):
            return "not"
        if "if" in s:
            branch = s.get("then" if self.holds(s["if"], v, seen) else "else", True)
            return self.fault(branch, v, seen)
        return None

    def rest(self, s, v, seen):
        for key, kind, places in (("unevaluatedItems", list, lambda: range(len(v))),
                                  ("unevaluatedProperties", dict, lambda: list(v))):
            if key not in s or not isinstance(v, kind):
                continue
            for at in places():
                if at not in seen and not self.holds(s[key], v[at]):
                    return f"{key} at {at}"
                seen.add(at)
        return None


def errors(schema, value):
    return Validator(schema).fault(schema, value, set())
