#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""POST /v1/fine_tuning/preview: what it shows of a row is what serving renders and what a job
trains.

Faults they can catch: a row that is rendered or cut into tokens otherwise than the conversation that
is served; a mask that teaches the user's words, or a message of weight 0; a cut that is not told; a
bad row that is shown, or refused without its field; a file of another key.

Standard library only."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, scratch  # noqa: E402
from test_routes import Description  # noqa: E402
from test_tuning import BOB, KEYS, LOW, Client, serve  # noqa: E402

PATH = "/v1/fine_tuning/preview"
# What is tested here of server/http/routes.def: tuning_preview. Of schema.def: PreviewRequest is asked.


def said(*texts, role="user"):
    """A conversation whose turns alternate and end with the assistant's."""
    other = {"user": "assistant", "assistant": "user"}
    out = []
    for text in texts:
        out.append({"role": role, "content": text})
        role = other[role]
    return out


def show(c, **ask):
    r = c.ask("POST", PATH, ask)
    assert r.status == 200, (ask, r)
    p = r.json
    assert len(p["tokens"]) == len(p["texts"]) == len(p["weights"]) == p["total_tokens"], p
    assert sum(p["weights"]) == p["trained_tokens"] and set(p["weights"]) <= {0, 1}, p
    return p


def learned(p):
    return "".join(t for t, w in zip(p["texts"], p["weights"]) if w)


def as_served(c):
    for messages in (said("a b", "c d"), said("a", "b", "c", "d"), said("é ü", "ß 你好 🙂"),
                     [{"role": "system", "content": "Be\nbrief."}, *said("<|end|> a", "<|bos|>")],
                     [{"role": "developer", "content": "x"}, *said("a", "b")]):
        p = show(c, row={"messages": messages})
        assert p["format"] == "chat" and p["model"] == "tiny" and p["cut_tokens"] == 0, p
        whole = c.ask("POST", "/tokenize", {"messages": messages, "add_generation_prompt": False})
        assert p["tokens"] == whole.json["tokens"], (messages, p, whole)
        text = c.ask("POST", "/apply-template", {"messages": messages,
                                                 "add_generation_prompt": False})
        assert "".join(p["texts"]) == text.json["prompt"], (p, text)
        asked = c.ask("POST", "/v1/chat/completions", {
            "model": "tiny", "messages": messages[:-1], "max_tokens": 1, "return_token_ids": True})
        prompt = asked.json["choices"][0]["prompt_token_ids"]
        last = len(prompt)
        assert p["tokens"][:last] == prompt, (messages, p, asked)
        assert p["weights"][last] == 1 and 0 in p["weights"][:last], p
        assert learned(p).endswith(messages[-1]["content"] + "<|end|>"), p


def pairs(c):
    """A prompt has the tokens that /v1/completions gives it, wherever its completion begins."""
    for text in ("the cat sat", "a  b\n\nc", "12345", "don't", "<|end|> a <|bos|>", "ß 你好 🙂"):
        for at in range(1, len(text)):
            p = show(c, row={"prompt": text[:at], "completion": text[at:]})
            asked = c.ask("POST", "/v1/completions", {
                "model": "tiny", "prompt": text[:at], "max_tokens": 1, "return_token_ids": True})
            prompt = asked.json["choices"][0]["prompt_token_ids"]
            assert p["tokens"][:len(prompt)] == prompt, (text, at, p, asked)
            assert p["weights"] == [0] * len(prompt) + [1] * (len(p["tokens"]) - len(prompt)), p
            assert "".join(p["texts"]).startswith(text), (text, at, p)


def mask(c):
    talk = said("a", "b", "c", "d")
    assert learned(show(c, row={"messages": talk})) == "b<|end|>d<|end|>"
    talk[1]["weight"] = 0
    assert learned(show(c, row={"messages": talk})) == "d<|end|>"
    talk[1]["weight"], talk[3]["weight"] = 1, 0
    assert learned(show(c, row={"messages": talk})) == "b<|end|>"
    talk[1]["weight"] = 0
    p = show(c, row={"messages": talk})
    assert p["trained_tokens"] == 0 and "nothing to learn" in p["notes"][0], p
    p = show(c, row={"prompt": "a b", "completion": " c d"})
    assert p["format"] == "completion" and learned(p).startswith(" c d") and not p["notes"], p


def cut(c):
    p = show(c, row={"prompt": "a b " * 10, "completion": " c d" * 1000})
    assert p["total_tokens"] == p["max_tokens"] == 64 and p["cut_tokens"] > 100, p
    assert f"{p['cut_tokens']} are left out" in p["notes"][0], p
    p = show(c, row={"prompt": "a b " * 100, "completion": " c d"})
    assert p["trained_tokens"] == 0 and len(p["notes"]) == 2, p


def files(c, other):
    lines = [{"prompt": f"a {i}", "completion": " b"} for i in range(3)]
    text = "\ufeff" + "\r\n\n".join(json.dumps(x) for x in lines) + "\n{bad\n"
    file = c.file(text.encode())
    for i, row in enumerate(lines):
        assert show(c, training_file=file, example=i + 1) == show(c, row=row)
    assert show(c, training_file=file) == show(c, row=lines[0])
    for ask, param, word in (({"example": 5}, "example", "4 examples"),
                             ({"example": 4}, "training_file", "Example 4 (line 6)"),
                             ({"example": 0}, "example", ""), ({"example": "x"}, "example", ""),
                             ({"row": {}}, "row", "not both")):
        r = c.ask("POST", PATH, {"training_file": file, **ask})
        assert r.status == 400 and r.error["param"] == param and word in r.error["message"], (ask, r)
    for who, name in ((other, file), (c, "file-none"), (c, ""), (c, "../store.db"),
                      (c, c.send(b"x", {"purpose": "batch"}).json["id"])):
        r = who.ask("POST", PATH, {"training_file": name})
        assert r.status == 400 and r.error["param"] == "training_file", (name, r)


def trained(c):
    """The sum of what is shown is what a job counts."""
    lines = [{"messages": said(f"a {i}", "b " * i)} for i in range(12)]
    job = c.done(c.job(c.file("\n".join(map(json.dumps, lines)).encode()),
                       hyperparameters={"n_epochs": 3}))
    n = sum(show(c, row=row)["total_tokens"] for row in lines)
    assert job["trained_tokens"] == 3 * n, (job, n)


def dialects(c):
    """A row as other trainers write it is the row that it means, to the token."""
    for other, ours in (
            ({"conversations": [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "b a"}]},
             {"messages": said("a b", "b a")}),
            ({"instruction": "a", "input": "b", "output": "b a"}, {"messages": said("a\n\nb", "b a")}),
            ({"text": "a b a"}, {"prompt": "", "completion": "a b a"})):
        a, b = show(c, row=other), show(c, row=ours)
        assert (a["tokens"], a["weights"]) == (b["tokens"], b["weights"]), (a, b)


def bad_rows(c):
    for row, word in (({}, "prompt/completion"), ({"messages": []}, "messages"),
                      ({"messages": [{"content": "x"}]}, "role"),
                      ({"messages": said("a")}, "assistant"),
                      ({"prompt": "a", "completion": 7}, "completion"),
                      ({"input": {}, "preferred_output": []}, "preference")):
        r = c.ask("POST", PATH, {"row": row})
        assert r.status == 400 and r.error["param"] == "row" and word in r.error["message"], (row, r)
        assert "Example" not in r.error["message"], r
    for body, param in (({}, "row"), ({"row": []}, "row"), ({"row": "x"}, "row"),
                        ({"training_file": 7}, "training_file")):
        r = c.ask("POST", PATH, body)
        assert r.status == 400 and r.error["param"] == param, (body, r)
    long = c.file(json.dumps({"prompt": "x" * (1 << 20), "completion": ""}).encode())
    r = c.ask("POST", PATH, {"training_file": long})
    assert r.status == 400 and "1048576 bytes" in r.error["message"], r
    r = c.ask("POST", PATH, {"row": {"prompt": "a", "completion": "b"}, "more": 1})
    assert r.status == 200 and r.headers["x-tandem-ignored"] == "more", r


def fits(c, low):
    api = Description(c.get("/openapi.json").json)
    api.check(show(c, row={"prompt": "a", "completion": "b"}),
              {"$ref": "#/components/schemas/Preview"})
    assert api.met == {"Preview"}
    assert low.ask("POST", PATH, {}).status == 403


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with serve(tmp) as s:
            c, other, low = Client(s), Client(s, BOB), Client(s, LOW)
            cases.run("as it is served", lambda: as_served(c))
            cases.run("a prompt and its completion", lambda: pairs(c))
            cases.run("the mask", lambda: mask(c))
            cases.run("a cut", lambda: cut(c))
            cases.run("rows of files", lambda: files(c, other))
            cases.run("as it is trained", lambda: trained(c))
            cases.run("dialects", lambda: dialects(c))
            cases.run("bad rows", lambda: bad_rows(c))
            cases.run("answers fit", lambda: fits(c, low))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
