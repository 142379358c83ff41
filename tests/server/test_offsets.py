#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where tokens stand in the text: `text_offset` of completions, whole and streamed, with echo, stop
strings, several choices and characters of several tokens; and where `prompt_logprobs` stands.

Faults they can catch: offsets counted in the names of tokens, which are not what the text has of
them; offsets behind the end of the text; a stream that counts otherwise than a whole answer; a
prompt's token without its rank, or behind its rivals.

Standard library only."""
import contextlib
import http.client
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

HOT = {"temperature": 2, "seed": 5, "max_tokens": 48, "logprobs": 0, "ignore_eos": True}
PROMPT = "h\u00e9llo \u4e16\u754c \U0001f600!"


def check_choice(c):
    """Each token that is text stands where it is said to; the rest within the text, in order."""
    text, lp = c["text"], c["logprobs"]
    assert len(lp["tokens"]) == len(lp["text_offset"]) == len(lp["token_logprobs"])
    assert lp["text_offset"] == sorted(lp["text_offset"]), lp["text_offset"]
    n_text = 0
    for name, at in zip(lp["tokens"], lp["text_offset"]):
        assert 0 <= at <= len(text), (at, len(text))
        if name.startswith(("bytes:", "<|")):  # a part of a character; one that is not shown
            continue
        assert text[at:].startswith(name) or name.startswith(text[at:]), (name, at, text)
        n_text += at < len(text)
    return n_text


def events(server, path, body):
    reply = server.post(path, {**body, "stream": True})
    assert reply.status == 200, reply
    return [json.loads(line[6:]) for line in reply.body.decode().split("\n\n") if line.startswith("data: {")]


def streamed(server, body):
    """The choices of a stream put together."""
    found = {}
    for event in events(server, "/v1/completions", body):
        for c in event["choices"]:
            at = found.setdefault(c["index"], {"text": "", "logprobs": {}})
            at["text"] += c["text"]
            for key, values in c["logprobs"].items():
                at["logprobs"].setdefault(key, []).extend(values)
    return [found[i] for i in sorted(found)]


def offsets(server):
    plain = server.post("/v1/completions", {"prompt": PROMPT, **HOT}).json["choices"][0]["text"]
    stops = [plain[10:12], plain[30:31]]
    n_text = 0
    for prompt in (PROMPT, [PROMPT, "x"], [[85, 86, 87, 200, 201]]):
        for more in ({}, {"echo": True}, {"n": 2}, {"echo": True, "n": 2, "max_tokens": 9},
                     {"stop": stops}, {"stop": stops, "echo": True},
                     {"stop": stops, "include_stop_str_in_output": True},
                     {"skip_special_tokens": False, "echo": True}):
            body = {"prompt": prompt, **HOT, **more}
            reply = server.post("/v1/completions", body)
            assert reply.status == 200, reply
            whole = reply.json["choices"]
            for c in whole:
                n_text += check_choice(c)
            for a, b in zip(whole, streamed(server, body), strict=True):
                assert a["text"] == b["text"], (body, a["text"], b["text"])
                assert a["logprobs"]["text_offset"] == b["logprobs"]["text_offset"], (body, a, b)
    assert n_text > 100, n_text


def prompts(server):
    body = {"prompt": [85, 86, 87, 88], "prompt_logprobs": 2, "max_tokens": 1}
    v = server.post("/v1/completions", body).json
    lists = [v["choices"][0]["prompt_logprobs"]]
    chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1, "n": 2,
            "return_token_ids": True}
    v = server.post("/v1/chat/completions", {**chat, "prompt_logprobs": 2}).json
    assert "prompt_logprobs" not in v["choices"][0], v
    lists.append(v["prompt_logprobs"])
    ids = [body["prompt"], v["choices"][0]["prompt_token_ids"]]
    for entries, tokens in zip(lists, ids, strict=True):
        assert entries[0] is None and len(entries) == len(tokens)
        for entry, token in zip(entries[1:], tokens[1:], strict=True):
            assert list(entry)[0] == str(token), (token, entry)
            ranks = [e["rank"] for e in entry.values()]
            assert all(isinstance(r, int) and r >= 1 for r in ranks), entry
            assert sorted(ranks)[:2] == [1, 2] and 2 <= len(ranks) <= 3, entry
            by_rank = sorted(entry.values(), key=lambda e: e["rank"])
            assert [e["logprob"] for e in by_rank] == sorted((e["logprob"] for e in by_rank), reverse=True)
    # all of a rank's elders are likelier: asked for as many, they are there, and it is the last
    entry = lists[0][2]
    rank = entry["87"]["rank"]
    if rank <= 20:
        body["prompt_logprobs"] = rank
        again = server.post("/v1/completions", body).json["choices"][0]["prompt_logprobs"][2]
        assert len(again) == rank and again["87"] == entry["87"], (entry, again)
    body["prompt_logprobs"] = 0
    alone = server.post("/v1/completions", body).json["choices"][0]["prompt_logprobs"]
    assert all(len(e) == 1 for e in alone[1:]) and alone[2]["87"]["rank"] == rank


def prompts_in_streams(server):
    """Catches: a prompt's list that comes with no event, with each, or with another choice's."""
    for path, more in (("/v1/completions", {"prompt": [[85, 86, 87], [88, 89, 90, 91]], "logprobs": 1}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]})):
        body = {**more, "max_tokens": 6, "n": 2, "temperature": 0, "prompt_logprobs": 2, "ignore_eos": True}
        whole = server.post(path, body).json
        told, begun = {}, set()
        for event in events(server, path, body):
            first = {c["index"] for c in event["choices"]} - begun
            begun |= first
            if "prompt_logprobs" in event:
                assert first == {0} and "chat" in path, event
                told[0] = event["prompt_logprobs"]
            for c in event["choices"]:
                assert ("prompt_logprobs" in c) == (c["index"] in first and "chat" not in path), event
                told.update({c["index"]: c["prompt_logprobs"]} if "prompt_logprobs" in c else {})
        want = [c["prompt_logprobs"] for c in whole["choices"]] if "chat" not in path else [whole["prompt_logprobs"]]
        assert told == dict(enumerate(want)), (told, want)


def computed_once(server):
    """Catches: a prompt that each of several choices computes anew to score it, which no limit of a key counts."""
    n, keys = 4, ("text", "logprobs", "prompt_logprobs")
    for k, more in enumerate(({"prompt_logprobs": 2}, {"echo": True, "logprobs": 2}, {"prompt_logprobs": 0, "best_of": n})):
        body = {"prompt": [85 + k] * 400, "max_tokens": 4, "temperature": 1, "seed": 3, "ignore_eos": True, **more}
        before = server.metrics()["tandem_prefix_cache_hits_total"]
        several = server.post("/v1/completions", {**body, "n": n}).json["choices"]
        hits = server.metrics()["tandem_prefix_cache_hits_total"] - before
        assert hits >= 300 * (n - 1), (hits, more)
        alone = server.post("/v1/completions", {**body, "best_of": 1}).json["choices"][0]
        assert any(all(c.get(x) == alone.get(x) for x in keys) for c in several), more
        first = [c.get("prompt_logprobs") or [c["logprobs"][x][:400] for x in ("token_logprobs", "top_logprobs")] for c in several]
        assert all(x == first[0] for x in first), more


def too_many(server):
    """Catches: a prompt scored once and told so often that the answer takes all memory, and a thread with it."""
    for more, param in (({"prompt_logprobs": 20}, "prompt_logprobs"), ({"echo": True, "logprobs": 20, "prompt_logprobs": 20}, "prompt_logprobs")):
        steps = server.metrics()["tandem_steps_total"]
        r = server.post("/v1/completions", {"prompt": [85] * 3500, "max_tokens": 1, "n": 128, **more})
        assert r.status == 400 and r.error["param"] == param and "choices" in r.error["message"], r
        assert server.metrics()["tandem_steps_total"] == steps


@contextlib.contextmanager
def held_open(server, body):
    """A stream that has begun, and has not ended."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60 * SLOW)
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    assert r.status == 200, r.read()
    r.readline()
    try:
        yield
    finally:
        r.close()
        c.close()


def charged(server):
    """Catches: answers many times their bodies that count nowhere; one that alone is too large and is called so for
    now, so that its client asks for ever. --body-memory has room for one and not for two."""
    body = {"prompt": [85] * 300, "prompt_logprobs": 20, "max_tokens": 1, "n": 3}
    assert server.post("/v1/completions", body).status == 200
    with held_open(server, {**body, "max_tokens": 3000, "stream": True, "ignore_eos": True}):
        r = server.post("/v1/completions", body)
        assert r.status == 503 and r.headers["Retry-After"] == "1", r
    server.wait_idle()
    for path, alone in (("/v1/completions", {**body, "n": 8}), ("/v1/embeddings", {"input": "x" * (3 << 20)})):
        r = server.post(path, alone)
        assert r.status == 413 and "--body-memory" in r.error["message"] and not r.headers["Retry-After"], r
    assert server.post("/v1/completions", body).status == 200


def batched(server):
    """Catches: a batch's line that fits never, asked again and again until the batch expires."""
    form = "".join(f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in (
        ("purpose", "batch"), ('file"; filename="lines.jsonl', "".join(json.dumps({
            "custom_id": str(n), "method": "POST", "url": "/v1/completions",
            "body": {"prompt": [85] * 300, "prompt_logprobs": 20, "max_tokens": 1, "n": n}}) + "\n" for n in (8, 3)))))
    r = server.ask("POST", "/v1/files", f"{form}--x--\r\n".encode(), **{"Content-Type": "multipart/form-data; boundary=x"})
    assert r.status == 200, r
    b = server.post("/v1/batches", {"input_file_id": r.json["id"], "endpoint": "/v1/completions",
                                    "completion_window": "24h"}).json
    end = time.monotonic() + 120 * SLOW
    while b["status"] != "completed":
        assert time.monotonic() < end, b
        time.sleep(0.02)
        b = server.get(f"/v1/batches/{b['id']}").json
    assert b["request_counts"] == {"total": 2, "completed": 1, "failed": 1}, b


def main():
    cases = Cases()
    with scratch() as tmp:
        with Tandem(make_model(tmp / "model"), "--threads", 2, "--ctx", 4096) as server:
            for f in (offsets, prompts, prompts_in_streams, computed_once, too_many):
                cases.run(f.__name__, lambda f=f: f(server))
        with Tandem(tmp / "model", "--ctx", 4096, "--body-memory", "2M", "--data-dir", tmp / "data") as server:
            cases.run("charged", lambda: charged(server))
            cases.run("batched", lambda: batched(server))
    sys.exit(cases.end())


if __name__ == "__main__":
    main()
