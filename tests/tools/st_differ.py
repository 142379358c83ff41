#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our safetensors reader with the reference implementation on generated files.

    python3 tests/tools/st_differ.py build/release/tests/tools/st_verdict [COUNT [SEED]]

Needs the package of tests/golden/requirements.txt. Half of the files are good ones, spelled in many
ways; the others are good ones with one to three faults. Where both take a file, names, types,
shapes and bytes must be the same. We may refuse what the reference takes only for a reason of
STRICTER; the other way round never. Exit 1 on any difference; the last line counts.
"""
import collections
import json
import random
import struct
import subprocess
import sys

from safetensors import SafetensorError, deserialize

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
        "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
NUMBERS = ["0", "1", "2", "3", "7", "-1", "-0", "1.0", "1e0", "01", "2147483647", "2147483648",
           "4294967295", "4294967296", "9007199254740991", "9007199254740992", "9007199254740993",
           "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "18446744073709551616", "1e400", "\"1\"", "null", "true", "[]", "{}"]
STRICTER = {  # part of our message: why we refuse what the reference takes
    "holds a NUL": "NUL in a name or in metadata",
    "a control character": "a control character in a name",
    "stands twice": "a key twice in one object",
    "below 2^53": "a number of 2^53 or more",
    "without sign, point or exponent": "such a number in a field that the format does not have",
    "a number with": "digits beyond any size, in such a field",
    "does not begin with": "white space before the header",
    "expected an object, found an array": "a tensor as an array of its three fields",
    "more than 8 dimensions": "rank",
    "a tensor's name of": "length of a name",
    "nested too deeply": "depth in a field that the format does not have",
}


def text_of(rng, s):
    """A JSON string, sometimes with escapes where none are needed."""
    out = json.dumps(s, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1 and s and s[0] < "\x7f" and s[0] not in "\"\\":
        out = '"\\u%04x' % ord(s[0]) + json.dumps(s[1:])[1:]
    return out


def name_of(rng):
    pool = ["model.layers.%d.w" % rng.randrange(50), "é" * rng.randrange(1, 5), "😀x", "a\"b\\c\n/",
            "", "x" * rng.choice([1, 200, 511, 512, 513]), "\u2028", "__metadata_", "\x01\x7f", "A",
            "a"]
    return rng.choice(pool) + str(rng.randrange(1000)) * (rng.random() < 0.7)


def space(rng):
    return rng.choice(["", "", "", "", " ", "\n", "\t ", "\r\n"])


def good(rng):
    """Members as (name text, fields as texts), and the number of data bytes."""
    names, at, members = set(), 0, []
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 9])):
        name = name_of(rng)
        if name in names:
            continue
        names.add(name)
        dtype = rng.choice(list(BITS))
        shape = [rng.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(rng.choice([0, 1, 2, 2, 3, 8, 9]))]
        n = BITS[dtype]
        for d in shape:
            n *= d
        if n % 8 or n > 80000:
            shape, n = [8], BITS[dtype] * 8
        fields = {"dtype": json.dumps(dtype), "shape": json.dumps(shape),
                  "data_offsets": "[%d,%s%d]" % (at, space(rng), at + n // 8)}
        at += n // 8
        members.append([text_of(rng, name), fields])
    rng.shuffle(members)
    return members, at


def spoil_member(rng, members):
    """One fault in one tensor's fields, or in their list."""
    m = rng.choice(members)
    if isinstance(m[1], list):
        return
    kind = rng.randrange(8)
    if kind == 0:
        m[1].pop(rng.choice(list(m[1])), None)
    elif kind == 1:
        m[1]["dtype"] = rng.choice(['"F33"', '"f32"', "1", "null", '""'] + ['"%s"' % d for d in BITS])
    elif kind == 2:
        m[1]["shape"] = "[" + ",".join(rng.choice(NUMBERS) for _ in range(rng.randrange(4))) + "]"
    elif kind == 3:
        m[1]["data_offsets"] = "[%s,%s]" % (rng.choice(NUMBERS), rng.choice(NUMBERS))
    elif kind == 4:
        m[1]["extra"] = rng.choice(NUMBERS + ['{"a":[1,2,{"b":null}]}', '"x"', "-1.5e3"])
    elif kind == 5:
        members.append([m[0], dict(m[1])])
    elif kind == 6:
        a, b = m[1], rng.choice(members)[1]
        if "data_offsets" in a and "data_offsets" in b:
            a["data_offsets"], b["data_offsets"] = b["data_offsets"], a["data_offsets"]
    else:
        m[1] = [m[1].get(k, "0") for k in ("dtype", "shape", "data_offsets")]


def spell(rng, members):
    parts = []
    for name, fields in members:
        if isinstance(fields, list):
            value = "[" + ",".join(fields) + "]"
        else:
            items = list(fields.items())
            rng.shuffle(items)
            value = "{" + ",".join(f'{space(rng)}"{k}"{space(rng)}:{space(rng)}{v}'
                                   for k, v in items) + space(rng) + "}"
        parts.append(f"{space(rng)}{name}{space(rng)}:{space(rng)}{value}")
    if rng.random() < 0.4:
        meta = rng.choice(['{"format":"pt"}', "{}", '{"a":"b","c":"\\u00e9"}', '{"a":"b"}'] * 4
                          + ["null", '{"a":1}', "[]", '{"a":null}', '{"a":"b","a":"c"}', '"x"',
                             '{"a":"\\u0000"}', '{"a":"\\ud800"}'])
        parts.insert(rng.randrange(len(parts) + 1), '"__metadata__":' + meta)
    return ("{" + ",".join(parts) + space(rng) + "}" + " " * rng.choice([0, 0, 1, 7])).encode()


def spoil_bytes(rng, b):
    kind = rng.randrange(6)
    at = rng.randrange(len(b) + 1)
    if kind == 0:
        return b[:at]
    if kind == 1:
        return b[:at] + bytes([rng.randrange(256)]) + b[at:]
    if kind == 2:
        return b[:at] + b[at + 1:]
    if kind == 3 and at < len(b):
        return b[:at] + bytes([b[at] ^ 1 << rng.randrange(8)]) + b[at + 1:]
    if kind == 4:
        return b[:at] + rng.choice([b"\\ud83d", b"\xed\xa0\x80", b"\xc0\x80", b"\\u0000", b"\xf4\x90",
                                    b"\\x", b"//", b",", b"]", b"}", b"\xef\xbb\xbf"]) + b[at:]
    return rng.choice([b" ", b"\xef\xbb\xbf", b""]) + b + rng.choice([b"\0", b"x", b"\n", b""])


def file_of(rng):
    members, n_data = good(rng)
    is_good = rng.random() < 0.5
    for _ in range(0 if is_good or not members else rng.randrange(3)):
        spoil_member(rng, members)
    header = spell(rng, members)
    if not is_good:
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            header = spoil_bytes(rng, header)
        n_data = max(0, n_data + rng.choice([0, 0, 0, 0, -1, 1, 4]))
    length = len(header)
    if not is_good and rng.random() < 0.05:
        length = rng.choice([0, length - 1, length + 1, 2**31, 2**32, 2**53 + 1, 2**63, 2**64 - 1,
                             100000001])
    return struct.pack("<Q", length % 2**64) + header + bytes(rng.randrange(256)
                                                               for _ in range(n_data))


def reference(data):
    try:
        return {n: (v["dtype"], tuple(v["shape"]), bytes(v["data"])) for n, v in deserialize(data)}
    except SafetensorError:
        return None


def ours(line, data):
    if not line.startswith("ok"):
        return None
    at, out = 8 + struct.unpack("<Q", data[:8])[0], {}
    for part in line.split(" ")[1:]:
        name, dtype, shape, begin, end = part.split(":")
        out[bytes.fromhex(name).decode()] = (
            dtype, tuple(int(d) for d in shape.split(",") if d), data[at + int(begin):at + int(end)])
    return out


def has_twins(data):
    """A name stands twice. The reference keeps the last and never looks at the first."""
    length = struct.unpack("<Q", data[:8])[0]
    names = json.loads(data[8:8 + length], object_pairs_hook=lambda pairs: [k for k, _ in pairs])
    return len(names) != len(set(names))


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    seen, bad = collections.Counter(), 0
    for lo in range(0, count, 10000):
        files = [file_of(rng) for _ in range(min(10000, count - lo))]
        said = subprocess.run([program], input=b"".join(struct.pack("<I", len(f)) + f for f in files),
                              stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]
        assert len(said) == len(files)
        for data, line in zip(files, said):
            want, got = reference(data), ours(line, data)
            why = next((w for part, w in STRICTER.items() if part in line), None)
            if want == got:
                seen["both take it, the same" if got is not None else "both refuse it"] += 1
            elif got is None and why:
                seen["stricter: " + why] += 1
            elif got is None and has_twins(data):
                seen["stricter: " + STRICTER["stands twice"]] += 1
            else:
                bad += 1
                print("DIFFERENT", line[:200], "| reference:", "takes" if want else "refuses",
                      data[:300])
    for what, n in sorted(seen.items(), key=lambda x: -x[1]):
        print(f"{n:8} {what}")
    print(f"{count - bad} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
