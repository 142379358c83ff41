#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forms of a request that HTTP allows and clients rarely send, and bodies that are not what they seem.
Catches: a target with a name in it that is not found, or that comes past the check of names; a body that
is packed and read as JSON; one of no bytes in chunks; an upload of exactly the limit; an answer that is packed and is
another one, comes to who did not ask for it, or is a stream."""
import gzip
import json
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

BODY = b'{"prompt":"a","max_tokens":1}'
JSON = b"Content-Type: application/json\r\n"
LIMIT = 5000


def raw(s, target, headers=b"", body=None, before=b"", method=None, host=b"localhost"):
    """Status and text of the answer to bytes that are sent as they are."""
    method = method or (b"GET" if body is None else b"POST")
    text = (before + method + b" " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n" + headers
            + b"\r\n" + (body or b""))
    with socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) as k:
        k.sendall(text)
        said = b""
        while piece := k.recv(65536):
            said += piece
    assert said.startswith(b"HTTP/1.1 "), said
    return int(said.split()[1]), said


def sized(body):
    return b"Content-Length: %d\r\n" % len(body)


def absolute_form(s):
    here = b"http://localhost:%d" % s.port
    assert raw(s, here + b"/livez")[0] == 200
    assert raw(s, b"HTTP://localhost/livez")[0] == 200
    assert raw(s, here)[0] == 200, "no path is the root's"
    status, text = raw(s, here + b"/v1/models?limit=1")
    assert status == 200 and b'"list"' in text, text
    assert raw(s, here + b"/v1/completions", JSON + sized(BODY), BODY)[0] == 200
    # the target's name counts, not Host's
    assert raw(s, b"http://evil.example/livez")[0] == 403
    assert raw(s, b"http://evil.example")[0] == 403
    assert raw(s, here + b"/livez", host=b"evil.example")[0] == 200
    assert raw(s, b"http:///livez")[0] == 403
    assert raw(s, b"ftp://localhost/livez")[0] in (400, 404)


def an_empty_line_first(s):
    assert raw(s, b"/livez", before=b"\r\n")[0] == 200


def packed_bodies(s):
    packed = gzip.compress(BODY)
    for coding in (b"gzip", b"deflate", b"br", b"identity, gzip"):
        status, text = raw(s, b"/v1/completions", JSON + sized(packed) + b"Content-Encoding: " + coding + b"\r\n", packed)
        assert status == 415 and b"Content-Encoding" in text, (coding, text)
    assert raw(s, b"/v1/completions", JSON + sized(BODY) + b"Content-Encoding: identity\r\n", BODY)[0] == 200


def answer(s, body, headers=b"", target=b"/v1/completions"):
    status, said = raw(s, target, headers + (JSON + sized(body) if body else b""), body)
    head, _, body = said.partition(b"\r\n\r\n")
    names = {k.lower(): v for k, _, v in (line.partition(b": ") for line in head.split(b"\r\n")[1:])}
    return status, names, body


def packed_answers(s):
    long = b'{"prompt":"a","max_tokens":60,"logprobs":5,"seed":1,"temperature":0,"ignore_eos":true,"stream":false}'
    takes = b"Accept-Encoding: br, gzip;q=0.5\r\n"
    plain = answer(s, long)[2]
    status, names, body = answer(s, long, takes)
    assert status == 200 and names[b"content-encoding"] == b"gzip" and names[b"vary"] == b"Accept-Encoding", names
    assert len(body) == int(names[b"content-length"]) < len(plain) / 2
    choices = [json.loads(x)["choices"] for x in (plain, gzip.decompress(body))]
    assert choices[0] == choices[1]
    for more, headers in ((b"", b""), (b"", b"Accept-Encoding: gzip;q=0\r\n"), (b'"stream":true', takes), (b'"max_tokens":1', takes)):
        asked = long.replace(b'"stream":false', more or b'"stream":false')
        if b"max_tokens" in more:
            asked = BODY
        status, names, body = answer(s, asked, headers)
        assert status == 200 and b"content-encoding" not in names, (asked, names)
        assert (b"vary" in names) == (not more), names


def packed_page(s):
    status, names, body = answer(s, None, b"Accept-Encoding: gzip\r\n", b"/")
    plain = answer(s, None, target=b"/")
    assert status == 200 and gzip.decompress(body) == plain[2], names
    tag = names[b"etag"]
    assert tag == b"W/" + plain[1][b"etag"]
    status, names, body = answer(s, None, b"Accept-Encoding: gzip\r\nIf-None-Match: " + tag + b"\r\n", b"/")
    assert status == 304 and not body and names[b"etag"] == tag, names


def no_bytes_in_chunks(s):
    status, text = raw(s, b"/v1/completions", JSON + b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n")
    assert status == 400 and b"invalid_json" in text, text
    status, text = raw(s, b"/livez", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", method=b"GET")
    assert status == 413, text
    status, _ = raw(s, b"/v1/completions", JSON + b"Transfer-Encoding: chunked\r\n",
                    b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
    assert status == 200


def a_file_of_the_limit(s):
    def upload(n):
        bound = b"--b\r\nContent-Disposition: form-data; name="
        body = (bound + b'"purpose"\r\n\r\nfine-tune\r\n' + bound + b'"file"; filename="f"\r\n\r\n' + b"x" * n
                + b"\r\n--b--\r\n")
        return s.ask("POST", "/v1/files", body, **{"Content-Type": "multipart/form-data; boundary=b"})
    r = upload(LIMIT)
    assert r.status == 200 and r.json["bytes"] == LIMIT, r
    r = upload(LIMIT + 1)
    assert r.status == 413 and str(LIMIT) in r.error["message"], r


cases = Cases()
with scratch() as tmp, Tandem(make_model(tmp / "m"), "--data-dir", tmp / "data", "--file-bytes-max", LIMIT) as server:
    for case in (absolute_form, an_empty_line_first, packed_bodies, packed_answers, packed_page, no_bytes_in_chunks,
                 a_file_of_the_limit):
        cases.run(case.__name__, lambda case=case: case(server))
raise SystemExit(cases.end())
