# SPDX-License-Identifier: Apache-2.0
"""What a running server's texts must be, by every name that clients have for it, at temperatures that
make nonsense of all else. The judges are the jsonschema package, Python's re and the texts themselves.
Run by ../test_constrained.py. SCHEMAS says how many random schemas (default 120), SEED which."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import sys
import threading

import jsonschema
from serving import Cases, Tandem, make_model, scratch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "engine/grammar/schemas"))
from draw import Draw  # noqa: E402

N_SCHEMA, SEED = int(os.environ.get("SCHEMAS", "120")), int(os.environ.get("SEED", "1"))
KEYS = "a inference key-of-a\nb inference key-of-b\nroot all key-of-root\n"
WARM = {"temperature": 1.5, "max_tokens": 400}
ASK = [{"role": "user", "content": "Say something."}]
REGEXES = [r"(yes|no)+!?", r"[a-f0-9]{8}-[a-f0-9]{4}", r"\d{1,3}(\.\d{1,3}){3}", r"[A-Z][a-z]{2,9}( [A-Z]\.)?",
           r"(é|ü|日本){1,4}", r"[^a-z]{3}", r"x?", r"\+?[0-9 ]{3,12}", r"(a|ab)(c|bcd)(d*)", r" leading [a-z]{3}"]
PET = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0,
       "maximum": 30}}, "required": ["kind", "age"], "additionalProperties": False}


def pattern(validator, regex, instance, _schema):
    """The package's own reads \\w, \\d and \\s by Unicode, which ECMA-262 does not."""
    if validator.is_type(instance, "string") and not re.search(regex, instance, re.ASCII):
        yield jsonschema.ValidationError(f"{instance!r} does not match {regex!r}")


VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def form(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def said(choice):
    return choice["message"]["content"] if "message" in choice else choice["text"]


class Constrained:
    def __init__(self, server):
        self.server = server

    def chat(self, key="key-of-a", **more):
        return self.server.post("/v1/chat/completions", {"messages": ASK, **WARM, **more},
                                Authorization=f"Bearer {key}")

    def text(self, key="key-of-a", **more):
        return self.server.post("/v1/completions", {"prompt": "Once", **WARM, **more},
                                Authorization=f"Bearer {key}")

    def good(self, reply):
        assert reply.status == 200, reply
        return reply.json["choices"]

    def streamed(self, **more):
        """(text, finish_reason) as events tell it."""
        r = self.chat(stream=True, **more)
        assert r.status == 200, r
        events = [json.loads(line[6:]) for line in r.body.decode().splitlines()
                  if line.startswith("data: {")]
        choices = [c for e in events for c in e["choices"]]
        return ("".join(c["delta"].get("content") or "" for c in choices),
                [c["finish_reason"] for c in choices if c["finish_reason"]][0])

    # ---- what texts are

    def one_schema(self, i, schema):
        """What is wrong with its texts: '' for nothing; None: refused, with a path."""
        r = self.chat(response_format=form(schema), seed=i, n=2)
        if r.status == 400:
            told = r.error["param"] == "response_format" and re.search("#|no text can", r.error["message"])
            assert told, (r, schema)
            return None
        check = VALIDATOR(schema, format_checker=VALIDATOR.FORMAT_CHECKER)
        for c in self.good(r):
            if c["finish_reason"] == "stop":
                fault = next(check.iter_errors(json.loads(said(c))), None)
                if fault:
                    return f"{schema}: {said(c)!r}: {fault.message}"
        return "" if any(c["finish_reason"] == "stop" for c in self.good(r)) else "cut"

    def case_schemas(self):
        """Catches: a mask that lets through what the schema does not, beside others in the batch; a
        text that ends before it is whole."""
        rnd = random.Random(SEED)
        schemas = [Draw(rnd).root() for _ in range(N_SCHEMA)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            came = list(pool.map(lambda at: self.one_schema(*at), enumerate(schemas)))
        bad = [c for c in came if c not in (None, "", "cut")]
        assert not bad, bad[:3]
        n_good = came.count("")
        assert n_good > N_SCHEMA // 2, f"{n_good} ended, {came.count(None)} refused, {came.count('cut')} cut"
        return f"{n_good} with whole texts, {came.count('cut')} cut, {came.count(None)} refused"

    def case_regexes(self):
        """Catches: a text that the whole regex does not match, a first space that is lost."""
        for seed in range(8):
            for regex in REGEXES:
                key = ["guided_regex", "regex"][seed % 2]
                more = {key: regex} if seed % 4 < 2 else {"structured_outputs": {"regex": regex}}
                ask = self.chat if seed % 3 else self.text
                c = self.good(ask(seed=seed, **more))[0]
                assert c["finish_reason"] == "stop" and re.fullmatch(regex, said(c)), (regex, c)

    def case_names(self):
        """Catches: one of a constraint's names that means nothing, or something else."""
        schema, choice = {"enum": ["x1", 7]}, ["left", "left over", "right"]
        grammar = 'root ::= "<" [a-c]+ ">"'
        for more in ({"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"json_schema": schema},
                     {"structured_outputs": {"json": schema, "disable_any_whitespace": True}},
                     {"structured_outputs": {"json": json.dumps(schema)}},
                     {"response_format": {"type": "json_object", "schema": schema}},
                     {"response_format": {"type": "json_schema", "schema": schema}}):
            assert json.loads(said(self.good(self.chat(**more))[0])) in schema["enum"], more
        for more in ({"guided_choice": choice}, {"structured_outputs": {"choice": choice}}):
            assert said(self.good(self.chat(**more))[0]) in choice, more
        for more in ({"grammar": grammar}, {"ebnf": grammar}, {"guided_grammar": grammar},
                     {"structured_outputs": {"grammar": grammar}}):
            c = self.good(self.chat(**more))[0]
            assert re.fullmatch("<[a-c]+>" if c["finish_reason"] == "stop" else "<[a-c]*>?", said(c)), c
        for more in ({"response_format": {"type": "json_object"}}, {"guided_json_object": True},
                     {"structured_outputs": {"json_object": True}}):
            c = self.good(self.chat(**more, max_tokens=900))[0]
            assert said(c).lstrip()[:1] == "{", c
            if c["finish_reason"] == "stop":
                assert isinstance(json.loads(said(c)), dict), c
        assert self.good(self.chat(response_format={"type": "text"}, guided_json_object=False))

    def case_streams(self):
        """Catches: a stream that says something else than the whole answer does."""
        for seed in range(6):
            ask = {"response_format": form(PET), "seed": seed}
            c = self.good(self.chat(**ask))[0]
            assert self.streamed(**ask) == (said(c), c["finish_reason"]), c

    def case_cut(self):
        """Catches: a text that max_tokens changes, or one cut that is told as whole."""
        whole = self.good(self.chat(response_format=form(PET), seed=3))[0]
        for n in range(1, 12, 3):
            c = self.good(self.chat(response_format=form(PET), seed=3, max_tokens=n))[0]
            assert c["finish_reason"] == "length" and said(whole).startswith(said(c)), (c, whole)
        stop = self.good(self.chat(response_format=form(PET), seed=3, stop=["age"]))[0]
        assert said(whole).startswith(said(stop)) and "age" not in said(stop), stop

    def case_alone(self):
        """Catches: a text that hangs on who else is in its batch, on n, or on a prefix found."""
        asks = [{"response_format": form(PET), "seed": i, "temperature": 1 + i % 2} for i in range(24)]
        alone = [said(self.good(self.chat(**a))[0]) for a in asks]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            free = [pool.submit(self.chat, seed=i, max_tokens=60) for i in range(4)]
            beside = list(pool.map(lambda a: said(self.good(self.chat(**a))[0]), asks))
        assert beside == alone
        assert all(f.result().status == 200 for f in free)
        two = self.good(self.chat(**asks[0], n=2))
        assert said(two[0]) == alone[0] and said(two[1]) != alone[0], two

    def case_logprobs(self):
        """Catches: log-probabilities that are of the masked row: of two tokens that are all that may
        come they would sum to 1."""
        c = self.good(self.chat(guided_choice=["qzx", "vjw"], logprobs=True, top_logprobs=5))[0]
        first = c["logprobs"]["content"][0]
        free = self.good(self.chat(max_tokens=1, logprobs=True, top_logprobs=5))[0]["logprobs"]["content"][0]
        assert first["top_logprobs"] == free["top_logprobs"], (first, free)
        assert first["logprob"] < -0.7, first

    # ---- what is refused

    def refused(self, param, what, **more):
        for ask in (self.chat, self.text):
            r = ask(**more)
            assert r.status == 400 and r.error["param"] == param and what in r.error["message"], (r, what)

    def case_refusals(self):
        """Catches: a constraint that is dropped, or half kept; a refusal that names no place."""
        self.refused("response_format", "#/properties/a/contains",
                     response_format=form({"type": "object", "properties": {"a": {"contains": {}}}}))
        self.refused("response_format", "type", response_format={"type": "xml"})
        self.refused("response_format", "schema", response_format={"type": "json_schema", "json_schema": {"name": "x"}})
        self.refused("guided_regex", "byte", guided_regex="(a")
        self.refused("guided_regex", "", guided_regex="(a)\\1")
        self.refused("guided_choice", "choose", guided_choice=[])
        self.refused("guided_choice", "strings", guided_choice=[1])
        self.refused("grammar", "", grammar="root ::= root")
        self.refused("grammar", "", grammar="x ::= \"a\"")
        self.refused("guided_json", "JSON", guided_json="{")
        self.refused("structured_outputs", "structural_tag", structured_outputs={"structural_tag": "{}"})
        self.refused("regex", "another", guided_regex="a", regex="a")
        self.refused("structured_outputs", "another", structured_outputs={"regex": "a", "choice": ["a"]})

    def case_hostile(self):
        """Catches: a constraint that takes the server down, or holds up who else is served."""
        deep, cycle = {}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
        for _ in range(26):
            deep = {"type": "object", "properties": {"a": deep}}
        asks = [{"guided_regex": "(" * 60000 + ")" * 60000}, {"guided_regex": "(a{1000}){1000}"},
                {"guided_regex": "((a?){200}a{200}){200}"}, {"guided_regex": "(\\pL|\\pN){900}x"},
                {"guided_regex": "x{0}" * 5000 + "(?:(?:a*)*)*" * 50}, {"guided_choice": [f"{i}" * 9 for i in range(100000)]},
                {"response_format": form({"enum": [f"v{i}" for i in range(100000)]})},
                {"response_format": form(deep)}, {"response_format": form(cycle)},
                {"response_format": form({"pattern": "(.*a){400}", "type": "string"})},
                {"response_format": form({"type": "array", "minItems": 10**9, "items": {"type": "string"}})},
                {"grammar": "root ::= a\n" + "".join(f"a ::= a{i} a\n" for i in range(1))},
                {"grammar": "root ::= " + "(" * 60000 + "\"a\"" + ")" * 60000},
                {"grammar": "root ::= a | a\na ::= root"}, {"guided_json": "[" * 100000}]
        body = b'{"messages":[{"role":"user","content":"x"}],"guided_json":' + b'{"items":' * 10000 + b"{}" \
            + b"}" * 10000 + b"}"
        ends, beats = threading.Event(), []

        def beat():
            while not ends.is_set():
                beats.append(self.chat(key="key-of-b", max_tokens=4).status)

        other = threading.Thread(target=beat)
        other.start()
        try:
            before = self.server.rss()
            for ask in asks:
                r = self.chat(**ask, max_tokens=8)
                assert r.status in (200, 400), (r, str(ask)[:80])
                if r.status == 400:
                    assert r.error["param"] in ask and r.error["message"], r
            r = self.server.post("/v1/chat/completions", body, Authorization="Bearer key-of-a")
            assert r.status == 400 and "deep" in r.error["message"], r
            n_before = len(beats)
            grown = self.server.rss() - before
        finally:
            ends.set()
            other.join()
        assert n_before > 0 and set(beats) == {200}, beats
        assert grown < 1 << 30, f"{grown >> 20} MB more"
        return f"{len(asks)} constraints, {len(beats)} answers beside them"

    def case_leave(self):
        """Catches: a client that goes away while its constraint is compiled and takes something along."""
        for i in range(12):
            c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            c.request("POST", "/v1/chat/completions", json.dumps(
                {"messages": ASK, "guided_choice": [f"{i} {k} {'x' * 9}" for k in range(20000)]}),
                {"Content-Type": "application/json", "Authorization": "Bearer key-of-a"})
            c.close()
        root = {"Authorization": "Bearer key-of-root"}
        self.server.wait_idle(**root)
        assert self.good(self.chat(guided_choice=["a"]))

    def case_tenants(self):
        """Catches: a constraint of one key that another's request is held to."""
        for i in range(10):
            for key in ("key-of-a", "key-of-b"):
                regex = f"{key[-1]}{i}[xyz]"
                assert re.fullmatch(regex, said(self.good(self.chat(key=key, guided_regex=regex))[0]))


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        keys = ["--api-key-file", tmp / "keys"]
        tiny = [make_model(tmp / "m"), "--ctx", 2048]
        with Tandem(*tiny, *keys) as server:
            at = Constrained(server)
            cases.run_all(at)
        for name, more in (("few cells", ["--kv-memory", "4M"]), ("bundled", None)):
            with Tandem(*(tiny + more if more else [None]), *keys) as server:
                at = Constrained(server)
                for case in ("schemas", "regexes", "alone", "streams"):
                    cases.run(f"{name}, {case}", getattr(at, "case_" + case))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
