#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every number that a request may hold, at every value that breaks programs. Catches: one that is
taken and then overflows, is clipped without a word, or stops the engine; a refusal that does not
name the field."""
import sys

from attack import Cases, Holdings, Tandem, make_model, scratch

INT = {"max_tokens": 512, "max_completion_tokens": 512, "n": 128, "seed": 2 ** 53,
       "top_logprobs": 20, "min_tokens": 512, "top_k": 320}
REAL = {"temperature": 2, "top_p": 1, "min_p": 1, "presence_penalty": 2, "frequency_penalty": 2,
        "repetition_penalty": 2}
TEXT = {"max_tokens": 512, "n": 128, "best_of": 20, "logprobs": 20, "seed": 2 ** 53,
        "min_tokens": 512, "top_k": 320, **REAL}
NOT_NUMBERS = ("1", True, [], {})


def values(cap):
    return (-1, 0, 1, cap, cap + 1, 2 ** 31, 2 ** 53, 2 ** 63, 10 ** 30, 1e308, 0.5, None, *NOT_NUMBERS)


def try_one(server, path, base, field, value):
    body = {**base, field: value}
    if field == "top_logprobs":
        body["logprobs"] = True
    if field == "best_of":
        body["n"] = 1
    r = server.post(path, body)
    assert r.status in (200, 400, 422, 413), (field, value, r)
    if r.status != 200:
        named = r.error["param"] or ""
        also = {"n": ("best_of",), "min_tokens": ("max_tokens", "max_completion_tokens")}
        assert r.error["code"] == "context_length_exceeded" or named.startswith(
            (field, *also.get(field, ()))), (field, value, r)
    if isinstance(value, (str, list, dict)):
        assert r.status != 200, f"{field}: {value!r} was taken for a number"
    return r.status


def sweep(server, path, base, fields):
    n = {}
    for field, cap in fields.items():
        for value in values(cap):
            status = try_one(server, path, base, field, value)
            n[status] = n.get(status, 0) + 1
    return str(n)


def bias(server, path, base):
    """The map of biases: keys are token ids, values from -100 to 100."""
    for key in ("-1", "320", "2147483648", "9007199254740992", "1e3", "", "a"):
        r = server.post(path, {**base, "logit_bias": {key: 1}})
        assert r.status == 400 and r.error["param"].startswith("logit_bias"), (key, r)
    for value in (-101, 101, 1e308, "1", None, True):
        r = server.post(path, {**base, "logit_bias": {"5": value}})
        assert r.status == 400 and r.error["param"].startswith("logit_bias"), (value, r)
    for value in (-100, 0, 100, 0.5):
        assert server.post(path, {**base, "logit_bias": {"5": value}}).status == 200, value


def steps(server, before):
    """The engine went on stepping through all of it."""
    r = server.post("/v1/completions", {"prompt": "x", "max_tokens": 4, "ignore_eos": True})
    assert r.status == 200, r
    now = server.metrics()["tandem_steps_total"]
    assert now > before, (before, now)
    m = server.metrics()
    assert m["tandem_step_size_sequences_count"] == m["tandem_steps_total"], m
    assert m["tandem_step_size_sequences_sum"] > m["tandem_steps_total"], m  # n was above 1
    return f"{now - before:.0f} steps"


def main():
    cases = Cases()
    chat = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}],
                                     "max_tokens": 2})
    text = ("/v1/completions", {"prompt": "x", "max_tokens": 2})
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", 512)
        with Tandem(model) as server:
            for request in (chat, text):
                server.post(request[0], {**request[1], "n": 8})
            held, before = Holdings(server), server.metrics()["tandem_steps_total"]
            cases.run("chat", lambda: sweep(server, *chat, {**INT, **REAL}))
            cases.run("completions", lambda: sweep(server, *text, TEXT))
            cases.run("biases of chat", lambda: bias(server, *chat))
            cases.run("biases of completions", lambda: bias(server, *text))
            cases.run("the engine runs", lambda: steps(server, before))
            cases.run("memory is flat", held.check)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
