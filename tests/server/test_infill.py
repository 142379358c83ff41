#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gaps that are filled, by `suffix`, by llama.cpp's /infill and by Ollama's: the same text as for a prompt
that has the model's marks written out. Random weights, whose vocabulary has Qwen's marks; standard library
only."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, rename_special, scratch  # noqa: E402

MARKS = (("<|system|>", "<|fim_prefix|>"), ("<|user|>", "<|fim_suffix|>"), ("<|assistant|>", "<|fim_middle|>"),
         ("<|pad|>", "<|fim_pad|>"))
BEFORE, BEHIND = "def f(a):\n    return ", "\n\nprint(f('<|fim_middle|>'))\n"
WARM = {"temperature": 1.1, "max_tokens": 40, "seed": 5}


class Infill:
    def __init__(self, server):
        self.server = server

    def whole(self, begun="", **more):
        """What comes of the same as ids: the marks as tokens, all else as text that makes none."""
        def ids(text):
            found = self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"]
            return found if text else []
        mark = {new: ids(new) for _, new in MARKS}
        assert all(len(x) == 1 for x in mark.values()), mark
        first = self.server.post("/tokenize", {"prompt": ""}).json["tokens"]
        quoted = self.server.post("/tokenize", {"messages": [{"role": "user", "content": BEHIND}]}).json["tokens"]
        at = self.find(quoted, BEHIND)
        prompt = [*first, *mark["<|fim_prefix|>"], *ids(BEFORE), *mark["<|fim_suffix|>"], *at, *mark["<|fim_middle|>"],
                  *ids(begun)]
        r = self.server.post("/v1/completions", {"prompt": prompt, **WARM, **more})
        assert r.status == 200, r
        return r.json, len(prompt)

    def find(self, ids, text):
        """Of a rendered conversation the ids of a message's text."""
        for n in range(len(ids)):
            for k in range(n + 1, len(ids) + 1):
                if self.server.post("/detokenize", {"tokens": ids[n:k]}).json["prompt"] == text:
                    return ids[n:k]
        raise AssertionError("the text is not among its tokens")

    def case_suffix(self):
        """Catches: other marks or another order, a text that makes marks, a space that is lost."""
        want, n = self.whole()
        r = self.server.post("/v1/completions", {"prompt": BEFORE, "suffix": BEHIND, **WARM})
        assert r.status == 200 and r.json["choices"][0]["text"] == want["choices"][0]["text"], (r, want)
        assert r.json["usage"]["prompt_tokens"] == n, (r, n)
        r = self.server.post("/v1/completions", {"prompt": BEFORE, "suffix": BEHIND, "stream": True, **WARM})
        text = "".join(json.loads(x[6:])["choices"][0]["text"] for x in r.body.decode().split("\n\n")
                       if x.startswith("data: {"))
        assert text == want["choices"][0]["text"], text
        r = self.server.post("/v1/completions", {"prompt": [BEFORE, "x"], "suffix": BEHIND, "n": 2, **WARM})
        assert r.json["choices"][0]["text"] == want["choices"][0]["text"] and len(r.json["choices"]) == 4, r

    def case_infill(self):
        """Catches: an answer that editors cannot read; a prompt that does not stand where the answer begins."""
        ask = {"input_prefix": BEFORE, "input_suffix": BEHIND, "n_predict": 40, "temperature": 1.1, "seed": 5}
        for begun in ("", "a + "):
            want, n = self.whole(begun)
            r = self.server.post("/infill", {**ask, "prompt": begun, "input_extra": [], "cache_prompt": True})
            a, text = r.json, want["choices"][0]["text"]
            assert r.status == 200 and a["content"] == text and a["stop"] is True, (r, want)
            assert (a["tokens_evaluated"], a["tokens_predicted"]) == (n, want["usage"]["completion_tokens"]), a
            assert a["stop_type"] == ("limit" if want["choices"][0]["finish_reason"] == "length" else "eos"), a
            assert r.headers["x-tandem-ignored"] == "cache_prompt", r.headers
            r = self.server.post("/infill", {**ask, "prompt": begun, "stream": True})
            events = [json.loads(x[6:]) for x in r.body.decode().split("\n\n")[:-1]]
            assert "".join(x["content"] for x in events) == text, events
            assert [x["stop"] for x in events] == [False] * (len(events) - 1) + [True], events
            assert events[-1]["timings"]["predicted_n"] == a["tokens_predicted"], events[-1]
        stop = text[3:6]
        a = self.server.post("/infill", {**ask, "prompt": begun, "stop": [stop]}).json
        assert a["content"] == text[:text.index(stop)] and (a["stop_type"], a["stopping_word"]) == ("word", stop), a

    def case_ollama(self):
        """Catches: a suffix that is rendered into a conversation."""
        want, n = self.whole()
        r = self.server.post("/api/generate", {"prompt": BEFORE, "suffix": BEHIND, "stream": False, "options": {
            "temperature": 1.1, "num_predict": 40, "seed": 5}})
        assert r.status == 200 and r.json["response"] == want["choices"][0]["text"], (r, want)
        assert r.json["prompt_eval_count"] == n, r
        assert "insert" in self.server.post("/api/show", {"model": "m"}).json["capabilities"]

    def case_ends(self):
        """Catches: a mark of the end that is written into the text."""
        pad = self.server.post("/tokenize", {"prompt": "<|fim_pad|>", "add_special_tokens": False}).json["tokens"][0]
        bias = {"logit_bias": {str(pad): 100}}
        r = self.server.post("/v1/completions", {"prompt": BEFORE, "suffix": BEHIND, **WARM, **bias}).json
        assert (r["choices"][0]["text"], r["choices"][0]["finish_reason"]) == ("", "stop"), r
        r = self.server.post("/v1/completions", {"prompt": BEFORE, **WARM, **bias}).json
        assert r["choices"][0]["finish_reason"] == "length", r

    def case_empty(self):
        """Catches: an empty suffix that makes a gap where nobody asked for one."""
        a, b = (self.server.post("/v1/completions", {"prompt": BEFORE, **more, **WARM}).json["choices"][0]["text"]
                for more in ({}, {"suffix": ""}))
        assert a == b
        r = self.server.post("/infill", {"input_prefix": BEFORE, "n_predict": 4})
        assert r.status == 200 and r.json["tokens_predicted"] <= 4, r

    def case_refusals(self):
        """Catches: what is half understood."""
        def refused(path, param, **body):
            r = self.server.post(path, body)
            assert r.status == 400 and r.error["param"] == param, (body, r)
        text = "/v1/completions"
        refused(text, "suffix", prompt="x", suffix=7)
        refused(text, "suffix", prompt="x", suffix=["y"])
        refused(text, "suffix", prompt=[1, 2], suffix="y")
        refused(text, "echo", prompt="x", suffix="y", echo=True)
        refused(text, "truncate_prompt_tokens", prompt="x", suffix="y", truncate_prompt_tokens=4)
        refused(text, "prompt", prompt="x", suffix="a b " * 20000)
        refused("/v1/chat/completions", "suffix", messages=[{"role": "user", "content": "x"}], suffix="y")
        refused("/infill", "input_prefix")
        refused("/infill", "input_prefix", input_prefix=["x"], input_suffix="y")
        refused("/infill", "input_suffix", input_prefix="x", input_suffix={})
        refused("/infill", "prompt", input_prefix="x", input_suffix="y", prompt=7)
        refused("/infill", "input_extra", input_prefix="x", input_suffix="y", input_extra=[{"text": "z"}])
        refused("/infill", "n_predict", input_prefix="x", input_suffix="y", n_predict="z")
        refused("/infill", "input_prefix", input_prefix="a b " * 20000, input_suffix="y")


def without(tmp):
    """Catches: marks written into a prompt of a model that does not know them."""
    with Tandem(make_model(tmp / "plain")) as s:
        for path, param, body in (("/v1/completions", "suffix", {"prompt": "x", "suffix": "y"}),
                                  ("/infill", "input_suffix", {"input_prefix": "x", "input_suffix": "y"})):
            r = s.post(path, body)
            assert r.status == 400 and r.error["param"] == param and "no tokens that mark" in r.error["message"], r
        assert "insert" not in s.post("/api/show", {"model": "plain"}).json["capabilities"]


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m")
        rename_special(model, *MARKS)
        with Tandem(model, "--ctx", 4096) as server:
            at = Infill(server)
            cases.run_all(at)
        cases.run("a model without", lambda: without(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
