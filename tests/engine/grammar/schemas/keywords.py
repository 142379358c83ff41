# SPDX-License-Identifier: Apache-2.0
"""Schemas of each keyword of JSON Schema, draft 2020-12, one idea each, written from the specification:
alone, at their bounds, beside others, where they say nothing, spelt as older drafts did."""
import itertools

POOL = [None, True, False, 0, 1, -1, 2, 3, 5, 10, 1.5, -2.25, 0.1, 100, 12345678901234567890, "", "a", "ab", "abc",
        "foo", "bar", "1", "é", "😀", "a\nb", "x\"y", "2024-02-29", "2023-02-29", [], [1], ["a"], [1, 1], [1, 2],
        [1, "a", None], [[]], [{}], {}, {"a": 1}, {"a": "x"}, {"b": 2}, {"a": 1, "b": 2}, {"a": None, "b": "y"},
        {"foo": 1}, {"foo": 1, "bar": 2}, {"foo": {"bar": 1}}, {"x-1": 1}, {"": 1}, {"kind": "p"}, {"kind": "q", "v": 1}]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
VALUES = [None, True, False, 0, 1, -1, 1.0, 2.5, 1e-7, 123456789012, "", "a", "é\n\"\\", "\u0000", [], [1, "b"], [False],
          [0], {}, {"a": [None]}, {"a": False}, {"a": 0}]


def types():
    for t in TYPES:
        yield {"type": t}
        yield {"type": [t]}
    for a, b in itertools.combinations(TYPES, 2):
        yield {"type": [a, b]}
    yield {"type": TYPES}
    yield {}
    yield True
    yield False


def values():
    for v in VALUES:
        yield {"const": v}
        yield {"enum": [v]}
    for a, b in itertools.combinations(VALUES, 2):
        if VALUES.index(b) - VALUES.index(a) in (1, 3, 7):
            yield {"enum": [a, b]}
            yield {"enum": [a, b], "type": ["string", "integer", "array"]}
    yield {"enum": [f"value {i}" for i in range(300)]}
    yield {"enum": ["a", "ab", "abc"], "minLength": 2}
    yield {"enum": [1, 2, 3, 4.5], "minimum": 2, "multipleOf": 1}
    yield {"enum": ["a1", "b"], "pattern": "^[a-z][0-9]$"}
    yield {"const": "a", "enum": ["a", "b"]}
    yield {"enum": []}


def numbers():
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        for bound in (0, -1, 3, 3.0, 1.1, -2.5, 300, 1e6, -1234.5678, 0.001):
            yield {key: bound}
            yield {"type": "integer", key: bound}
    for lo, hi in ((0, 0), (1, 2), (-3, 3), (-0.5, 0.5), (0.1, 0.2), (99, 101), (-1000, -998), (1.5, 1.5), (2, 1),
                   (0, 255), (-90, 90), (1e-3, 1e-2)):
        yield {"type": "number", "minimum": lo, "maximum": hi}
        yield {"type": "integer", "minimum": lo, "maximum": hi}
        yield {"type": "number", "exclusiveMinimum": lo, "exclusiveMaximum": hi}
        yield {"type": "integer", "exclusiveMinimum": lo, "maximum": hi}
    for m in (1, 2, 3, 5, 7, 10, 12, 25, 100, 0.5, 0.25, 0.1, 0.01, 0.0001, 1.5, 1e-8, 2.0):
        yield {"multipleOf": m}
        yield {"type": "integer", "multipleOf": m}
        yield {"type": "number", "multipleOf": m, "minimum": 0, "maximum": 50}
        yield {"type": "integer", "multipleOf": m, "minimum": -20, "maximum": 100}
    yield {"minimum": 1, "exclusiveMinimum": True}
    yield {"maximum": 3.0, "exclusiveMaximum": True}
    yield {"minimum": 1, "exclusiveMinimum": False, "type": "integer"}
    yield {"allOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"}
    yield {"minimum": 5, "exclusiveMinimum": 2, "type": "number"}


PATTERNS = ["^a*$", "a+", "^[a-z]{2,4}$", "^\\d+$", "\\d", "^\\S+$", "^\\w+\\s\\w+$", "^(a|bc)*$", "^.$", "^..?$", "^[^a]$",
            "^[^\"\\\\]*$", "^\\u00e9?$", "^(?:ab){2}$", "^a?b?c?$", "^$", "", "b$", "^c", "^[A-Z][a-z]+( [A-Z][a-z]+)*$",
            "^#[0-9a-fA-F]{6}$", "^v?\\d+\\.\\d+\\.\\d+$", "^\\+?[1-9]\\d{1,14}$", "^[-+]?\\d*\\.?\\d+$", "^\\{.*\\}$",
            "^[\\w.+-]+@[\\w-]+\\.[\\w.]+$", "^x|y$", "^[\\s\\S]{3}$", "^\\D\\W$", "^\\cA$", "^\\x41$", "^[a-c&&b]$", "^(a+)+$",
            "^\\p{Lu}$", "(?=a)b", "^(?=.*[A-Z])(?=.*\\d).{3,8}$", "^(?!con$|nul)[a-z]+$", "^(?!a)b|c", "^(?=[)])\\)x$", "^(?!x)*y", "^(?!a)", "^(a)\\1$", "\\bfoo\\b", "^a{0}$", "^a{2,}$", "^[\\d-]{3}$", "^\\/api\\/v[12]$", "^a{1000}$"]
FORMATS = ["date", "time", "date-time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
           "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
           "byte", "base64url", "char", "color", "phone", "host-name", "ip-address", "int8", "uint8", "int32", "uint64", "int64",
           "double", "password", "unheard-of"]


def strings():
    for n in (0, 1, 2, 3, 7, 40, 2.0):
        yield {"minLength": n}
        yield {"maxLength": n}
        yield {"type": "string", "minLength": n, "maxLength": n}
        yield {"type": "string", "minLength": n, "maxLength": n + 2}
    yield {"type": "string", "minLength": 3, "maxLength": 2}
    yield {"minLength": 2, "maxLength": 1}
    for p in PATTERNS:
        yield {"pattern": p}
        yield {"type": "string", "pattern": p}
        yield {"type": "string", "pattern": p, "minLength": 1, "maxLength": 5}
        yield {"type": "object", "patternProperties": {p: {"type": "integer"}}, "additionalProperties": False}
    for f in FORMATS:
        yield {"format": f}
        yield {"type": "string", "format": f}
        yield {"type": "integer", "format": f}
        yield {"type": "array", "items": {"type": "string", "format": f}, "maxItems": 2}
    for f in ("date", "email", "ipv4", "uuid", "hostname"):
        yield {"type": "string", "format": f, "maxLength": 36}
        yield {"type": "string", "format": f, "pattern": "1"}
        yield {"type": "string", "format": f, "not": {"const": "1.1.1.1"}}
    yield {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}
    yield {"allOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"pattern": "c"}], "type": "string"}


def arrays():
    s, i = {"type": "string"}, {"type": "integer"}
    for n in (0, 1, 2, 4, 2.0):
        yield {"minItems": n}
        yield {"maxItems": n}
        yield {"type": "array", "items": i, "minItems": n, "maxItems": n + 1}
        yield {"type": "array", "prefixItems": [s, i], "minItems": n}
        yield {"type": "array", "prefixItems": [s, i], "maxItems": n}
        yield {"type": "array", "prefixItems": [s, i], "items": False, "minItems": n}
        yield {"type": "array", "prefixItems": [s, i], "items": {"type": "null"}, "maxItems": n, "minItems": n}
    for item in (True, False, {}, s, i, {"enum": [1, 2]}, {"type": "array", "items": i}, {"type": "object"}, {"$ref": "#"}):
        yield {"items": item}
        yield {"type": "array", "items": item}
        yield {"type": "array", "prefixItems": [i], "items": item}
        yield {"type": "array", "prefixItems": [item, i]}
        yield {"type": "array", "items": item, "uniqueItems": True}
        yield {"type": "array", "items": item, "uniqueItems": False, "maxItems": 3}
        yield {"type": "array", "items": item, "contains": i}
        yield {"type": "array", "prefixItems": [i], "unevaluatedItems": item}
        yield {"items": [i, s], "additionalItems": item}
    for u in ([1, 1.0, 2], [True, 1], ["a", "b", "c"], [[1], [1, 2]], [None, False, 0, ""]):
        yield {"type": "array", "items": {"enum": u}, "uniqueItems": True}
        yield {"type": "array", "items": {"enum": u}, "uniqueItems": True, "minItems": 2}
        yield {"type": "array", "items": {"enum": u}, "uniqueItems": True, "maxItems": 2}
    yield {"uniqueItems": True}
    yield {"type": "array", "uniqueItems": True, "maxItems": 1}
    yield {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}
    yield {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False, "uniqueItems": True}
    for low, high in ((0, 1), (1, 1), (2, 3)):
        yield {"type": "array", "contains": {"const": 1}, "minContains": low, "maxContains": high}
    yield {"minContains": 2}
    yield {"type": "array", "unevaluatedItems": False}
    yield {"type": "array", "allOf": [{"prefixItems": [s]}], "unevaluatedItems": False}
    yield {"allOf": [{"items": i}, {"items": {"minimum": 3}}], "type": "array"}
    yield {"allOf": [{"prefixItems": [i]}, {"items": {"type": ["integer", "null"]}}], "type": "array"}


def objects():
    s, i = {"type": "string"}, {"type": "integer"}
    for extra in ({}, {"additionalProperties": False}, {"additionalProperties": True}, {"additionalProperties": i},
                  {"patternProperties": {"^x-": s}}, {"unevaluatedProperties": False}, {"minProperties": 1},
                  {"maxProperties": 1}, {"minProperties": 2, "maxProperties": 2}, {"propertyNames": {"maxLength": 3}},
                  {"propertyNames": {"pattern": "^[a-z]+$"}}, {"propertyNames": {"enum": ["a", "c"]}}, {"propertyNames": False},
                  {"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": {"required": ["b"]}}},
                  {"dependencies": {"a": ["b"], "b": {"properties": {"a": {"minimum": 2}}}}}, {"not": {"required": ["a"]}},
                  {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["b"], "properties": {"b": {"minLength": 2}}}}):
        yield {"type": "object", **extra}
        yield {"properties": {"a": i, "b": s}, **extra}
        yield {"type": "object", "properties": {"a": i, "b": s}, **extra}
        yield {"type": "object", "properties": {"a": i, "b": s}, "required": ["a"], **extra}
        yield {"type": "object", "properties": {"a": i}, "required": ["b", "c"], **extra}
    for name in ("", " ", "a b", "é", "\"", "\\", "\n", "a/b", "a~b", "%41", "$ref", "__proto__", "constructor", "😀", "\u0000"):
        yield {"type": "object", "properties": {name: i}, "required": [name]}
        yield {"type": "object", "required": [name]}
        yield {"type": "object", "properties": {name: i}, "additionalProperties": False}
    yield {"type": "object", "properties": {"a": True, "b": False}}
    yield {"type": "object", "properties": {"a": False}, "required": ["a"]}
    yield {"type": "object", "properties": {"$ref": s, "type": i, "required": {"type": "array", "items": s}}}
    yield {"type": "object", "patternProperties": {"a": i, "b": {"minimum": 3}, "^c$": True, "d": False}}
    yield {"type": "object", "patternProperties": {"^a": {"minimum": 5}}, "properties": {"ab": i}, "required": ["ab"]}
    yield {"type": "object", "properties": {"a": i}, "patternProperties": {"b": s}, "additionalProperties": {"type": "null"}}
    for n in (0, 1, 2, 3, 5):
        yield {"minProperties": n}
        yield {"maxProperties": n}
        yield {"type": "object", "additionalProperties": i, "minProperties": n, "maxProperties": n + 1}
        yield {"type": "object", "properties": {k: i for k in "abcd"}, "additionalProperties": False, "minProperties": n}
        yield {"type": "object", "properties": {k: i for k in "abcd"}, "additionalProperties": False, "maxProperties": n}


def together():
    s, i = {"type": "string"}, {"type": "integer"}
    a, b = {"type": "object", "properties": {"a": i}, "required": ["a"]}, {"properties": {"b": s}, "required": ["b"]}
    parts = [s, i, {"minimum": 2}, {"maxLength": 2}, {"const": "foo"}, {"enum": [1, "a", None]}, a, b, True, False, {},
             {"type": ["integer", "null"]}, {"required": ["foo"]}, {"type": "object"}, {"type": "array", "items": i}]
    for key in ("allOf", "anyOf", "oneOf"):
        for one in parts:
            yield {key: [one]}
        for x, y in zip(parts, parts[1:] + parts[:1]):
            yield {key: [x, y]}
        for x, y in zip(parts, parts[4:] + parts[:4]):
            yield {key: [x, y], "type": ["object", "string", "integer"]}
        yield {key: [a, b, {"type": "null"}], "minProperties": 1}
    for one in parts:
        yield {"not": one}
        yield {"type": ["string", "object"], "not": one}
        yield {"not": {"not": one}}
        yield {"if": one, "then": {"type": "string", "minLength": 1}, "else": {"type": "integer"}}
        yield {"if": one, "then": {"minLength": 1}}
        yield {"if": one}
    yield {"then": i}
    yield {"else": i}
    yield {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": i, "b": s}}
    yield {"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "type": "integer"}
    yield {"anyOf": [{"allOf": [{"oneOf": [i, s]}]}, {"type": "null"}]}
    yield {"allOf": [{"anyOf": [i, s]}, {"anyOf": [s, {"type": "null"}]}]}
    yield {"allOf": [a, b], "additionalProperties": False}
    yield {"allOf": [a, b], "unevaluatedProperties": False, "type": "object"}
    yield {"anyOf": [{"properties": {"a": i}}, {"properties": {"a": s}}], "type": "object", "required": ["a"]}
    yield {"not": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    yield {"not": {"type": "object", "required": ["a"]}}
    yield {"not": {"properties": {"a": s}, "required": ["a"]}, "type": "object"}
    yield {"not": {"properties": {"a": s}}, "type": "object"}


def references():
    i = {"type": "integer"}
    yield {"$defs": {"a": i}, "$ref": "#/$defs/a"}
    yield {"$defs": {"a": i}, "$ref": "#/$defs/a", "minimum": 3}
    yield {"$defs": {"a": i, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/b"}
    yield {"definitions": {"a": i}, "items": {"$ref": "#/definitions/a"}, "type": "array"}
    for name, step in (("a/b", "a~1b"), ("a~b", "a~0b"), ("a%b", "a%25b"), ("é", "%C3%A9"), ("a b", "a%20b"), ("", ""), ("\"", "%22")):
        yield {"$defs": {name: i}, "$ref": "#/$defs/" + step}
    yield {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False, "type": "object"}
    yield {"properties": {"a": i, "b": {"$ref": "#/properties/a"}}, "type": "object", "required": ["b"]}
    yield {"prefixItems": [i, {"$ref": "#/prefixItems/0"}], "items": False, "type": "array"}
    yield {"$defs": {"t": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}}}}, "$ref": "#/$defs/t"}
    yield {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"}
    yield {"$defs": {"a": {"enum": [{"$anchor": "here"}]}, "b": {"$anchor": "here", "type": "null"}}, "$ref": "#here"}
    yield {"$ref": "#nowhere"}
    yield {"$ref": "#/$defs/none"}
    yield {"$ref": "#"}
    yield {"allOf": [{"$ref": "#"}]}
    yield {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
    yield {"$ref": "other.json"}
    yield {"$ref": "https://example.org/schema"}
    yield {"$id": "https://example.org/root", "$ref": "#/$defs/a", "$defs": {"a": i}}
    yield {"$id": "https://example.org/root", "$ref": "https://example.org/root#/$defs/a", "$defs": {"a": i}}
    yield {"$id": "https://example.org/root", "$ref": "leaf", "$defs": {"a": {"$id": "leaf", "type": "integer"}}}
    yield {"$defs": {"a": {"$id": "https://example.org/leaf", "$defs": {"x": {"type": "string"}}, "$ref": "#/$defs/x"},
                     "x": i}, "$ref": "#/$defs/a"}
    yield {"$defs": {"x": i}, "properties": {"p": {"$id": "inner", "$defs": {"x": {"type": "null"}},
                                                   "properties": {"q": {"$ref": "#/$defs/x"}}}}, "type": "object"}
    yield {"$dynamicRef": "#node", "$defs": {"n": {"$dynamicAnchor": "node", "type": "integer"}}}
    yield {"$recursiveRef": "#"}
    yield {"$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, i]}}, "$ref": "#/$defs/a"}
    yield {"$ref": "#/$defs/a", "$defs": {"a": True}}
    yield {"$ref": "#/$defs/a", "$defs": {"a": False}}
    yield {"properties": {"$ref": i}, "type": "object"}
    yield {"const": {"$ref": "#/nowhere"}}
    yield {"enum": [{"$ref": "#/nowhere"}, 1]}
    yield {"default": {"$ref": "#/nowhere"}, "type": "integer"}
    yield {"type": "integer", "$comment": "c", "title": "t", "description": "d", "default": "x", "examples": [1], "deprecated": True,
           "readOnly": True, "writeOnly": False, "x-anything": {"type": 3}}
    yield {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}
    yield {"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}
    yield {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": i}, "$ref": "#/definitions/a", "maximum": 3}
    yield {"nullable": True, "type": "integer", "minimum": 1}
    yield {"type": "integer", "nullable": False}
    yield {"typo": "integer"}
    yield {"min_length": 3}


def schemas():
    for group in (types, values, numbers, strings, arrays, objects, together, references):
        for i, schema in enumerate(group()):
            yield f"{group.__name__} {i}", schema
