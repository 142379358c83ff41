#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samplers that few requests ask for, through a running server: they do what they say, and hang on nothing
but the request. Standard library only."""
import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

WARM = {"prompt": "Once upon", "temperature": 1.2, "max_tokens": 40, "return_token_ids": True, "ignore_eos": True}
RARE = [{"top_n_sigma": 1.0}, {"typical_p": 0.4}, {"typical_p": 0.9, "top_p": 0.8, "min_p": 0.01, "top_k": 100},
        {"xtc_probability": 1, "xtc_threshold": 0.001}, {"xtc_probability": 0.5, "xtc_threshold": 0.001},
        {"dynatemp_range": 0.8, "dynatemp_exponent": 2}, {"allowed_token_ids": list(range(40, 90))},
        {"bad_words": ["a", "the end"], "top_n_sigma": 2, "frequency_penalty": 0.5},
        {"mirostat": 2, "mirostat_tau": 2}, {"mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.5, "regex": "[a-z ]*"},
        {"dry_multiplier": 5, "dry_allowed_length": 0}, {"dry_multiplier": 5, "dry_allowed_length": 0, "dry_sequence_breakers": ["e "]}]


class Samplers:
    def __init__(self, server):
        self.server = server

    def ids(self, **more):
        r = self.server.post("/v1/completions", {**WARM, **more})
        assert r.status == 200, r
        return r.json["choices"][0]["token_ids"]

    def all(self):
        return [self.ids(seed=seed, **rare) for rare in RARE for seed in (1, 2)]

    def case_alone(self):
        """Catches: a draw that hangs on who else runs, a field that changes nothing."""
        alone = self.all()
        plain = [self.ids(seed=seed) for seed in (1, 2)]
        assert all(alone[i] != plain[i % 2] for i in range(len(alone)) if i // 2 != 4), alone
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            crowd = [pool.submit(self.ids, seed=50 + i, max_tokens=150) for i in range(8)]
            assert self.all() == alone
            [c.result() for c in crowd]

    def case_neutral(self):
        """Catches: a value that is to change nothing and does."""
        want = self.ids(seed=5)
        for more in ({"top_n_sigma": -1}, {"typical_p": 1}, {"xtc_probability": 0, "xtc_threshold": 0.2},
                     {"dynatemp_range": 0, "dynatemp_exponent": 3}, {"bad_words": []}, {"xtc_probability": 1, "xtc_threshold": 1},
                     {"mirostat": 0, "mirostat_tau": 1}, {"dry_multiplier": 0, "dry_base": 3}, {"dry_multiplier": 1, "dry_penalty_last_n": 0},
                     {"dry_multiplier": 1, "dry_allowed_length": 5000}, {"mirostat": 2, "temperature": 0},
                     {"dynatemp_range": 0.5, "temperature": 0}, {"xtc_probability": 1, "xtc_threshold": 0, "temperature": 0}):
            assert self.ids(seed=5, **more) == (self.ids(temperature=0) if "temperature" in more else want), more

    def case_allowed(self):
        """Catches: a token that was not allowed, in a greedy text too."""
        for ids in ([77], [300, 41, 41, 60]):
            for heat in (0, 2):
                assert set(self.ids(seed=1, temperature=heat, allowed_token_ids=ids)) <= set(ids)

    def case_bad_words(self):
        """Catches: a word that comes though it was shut out, guesses that go by another text than the
        answer's."""
        for heat in (0, 1.2):
            free = self.ids(seed=3, temperature=heat)
            text = self.server.post("/detokenize", {"tokens": free[10:12]}).json["prompt"]
            for word in (text, self.server.post("/detokenize", {"tokens": free[4:5]}).json["prompt"]):
                if "\ufffd" in word or not word.strip():
                    continue
                bad = [self.server.post("/tokenize", {"prompt": w, "add_special_tokens": False}).json["tokens"]
                       for w in (word, " " + word)]
                got = self.ids(seed=3, temperature=heat, bad_words=[word])
                for b in bad:
                    assert not any(got[i:i + len(b)] == b for i in range(len(got))), (word, b, got)

    def case_dry(self):
        """Catches: a repetition that goes on, one that goes on behind a breaker and is held."""
        def repeats(ids):
            pieces = [tuple(ids[i:i + 4]) for i in range(len(ids) - 3)]
            return len(pieces) > len(set(pieces))
        greedy = {"temperature": 0, "max_tokens": 100}
        free, dry = self.ids(**greedy), {"dry_multiplier": 50, "dry_allowed_length": 3}
        held = self.ids(**greedy, **dry, dry_sequence_breakers=[])
        assert repeats(free) and not repeats(held), (free, held)
        a, b, c, d, e = (self.server.post("/tokenize", {"prompt": x, "add_special_tokens": False}).json["tokens"][-1] for x in "abcde")
        one = {"prompt": [a, b, c, d, e, a, b, c, d], "temperature": 0, "max_tokens": 1, "logit_bias": {str(e): 100}}
        for breakers, goes_on in (([], False), (["x", "bd"], False), (["c"], True), (["bc"], True), (["ab"], False), (["e"], True)):
            got = self.ids(**one, dry_multiplier=100, dry_sequence_breakers=breakers)
            assert (got == [e]) == goes_on, (breakers, got)

    def case_refused(self):
        """Catches: a value out of its bounds that is taken."""
        for name, value in (("top_n_sigma", 101), ("typical_p", 1.1), ("xtc_probability", -0.1), ("xtc_threshold", 2),
                            ("dynatemp_range", -1), ("dynatemp_exponent", 101), ("allowed_token_ids", [1 << 30]),
                            ("allowed_token_ids", list(range(9000))), ("bad_words", [""]), ("bad_words", "a"),
                            ("bad_words", ["a"] * 129), ("bad_words", ["ab " * 341] * 128), ("mirostat", 1), ("mirostat", 3),
                            ("mirostat_tau", -1), ("mirostat_eta", "a"), ("dry_multiplier", -0.5), ("dry_base", 0.9),
                            ("dry_allowed_length", -1), ("dry_penalty_last_n", -2), ("dry_sequence_breakers", [""]),
                            ("dry_sequence_breakers", ["a" * 41]), ("dry_sequence_breakers", ["a"] * 65)):
            r = self.server.post("/v1/completions", {**WARM, name: value})
            assert r.status == 400 and r.error["param"] == name, (name, r)


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m")
        with Tandem(model, "--ctx", 2048) as server:
            at = Samplers(server)
            cases.run_all(at)
            want = at.all()
        with Tandem(model, "--ctx", 2048, "--speculate", "off") as server:
            def same():
                """Catches: a guess that changes a text."""
                assert Samplers(server).all() == want
            cases.run("without guesses", same)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
