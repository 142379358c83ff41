#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beam search of completions through a running server: what is told of it, and what it may not be had with.
tests/engine/serve/test_beams.c has what is found. Standard library only."""
import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

ASK = {"prompt": "Once upon", "max_tokens": 24, "use_beam_search": True, "return_token_ids": True, "ignore_eos": True}


class Beams:
    def __init__(self, server):
        self.server = server

    def ask(self, **more):
        r = self.server.post("/v1/completions", {**ASK, **more})
        assert r.status == 200, r
        return r.json["choices"]

    @staticmethod
    def score(choice):
        return sum(choice["logprobs"]["token_logprobs"])

    def case_best_first(self):
        """Catches: choices in another order than their scores', more of them than were asked for, two that are one."""
        for more in ({"n": 4}, {"n": 2, "best_of": 8}, {"best_of": 5}):
            got = self.ask(logprobs=0, **more)
            scores = [self.score(c) for c in got]
            assert len(got) == more.get("n", 1) and scores == sorted(scores, reverse=True), scores
            assert len({tuple(c["token_ids"]) for c in got}) == len(got)
            assert [c["index"] for c in got] == list(range(len(got)))
            assert all(len(c["token_ids"]) == 24 and c["finish_reason"] == "length" for c in got)

    def case_likelier_than_greedy(self):
        """Catches: a search that is none."""
        greedy = self.score(self.ask(use_beam_search=False, temperature=0, logprobs=0)[0])
        one = self.ask(logprobs=0)[0]
        assert abs(self.score(one) - greedy) < 1e-4, (self.score(one), greedy)  # a single beam
        assert self.score(self.ask(best_of=8, logprobs=0)[0]) > greedy

    def case_ends(self):
        """Catches: a token that ends texts and is followed or shown; a length penalty that counts nothing."""
        id = self.ask(best_of=4)[0]["token_ids"][3]
        got = self.ask(n=4, stop_token_ids=[id], length_penalty=-3)
        assert all(id not in c["token_ids"] for c in got)
        assert got[0]["finish_reason"] == "stop" and got[0]["stop_reason"] == id
        short, long = (self.ask(n=4, stop_token_ids=[id], length_penalty=p)[0]["token_ids"] for p in (-10, 10))
        assert len(short) < len(long), (short, long)

    def case_together(self):
        """Catches: a search that hangs on who else runs; prompts that share one."""
        alone = [self.ask(prompt=p, n=3, best_of=4) for p in ("Once", "A dog", "The end of")]
        whole = self.ask(prompt=["Once", "A dog", "The end of"], n=3, best_of=4)
        ids = [c["token_ids"] for one in alone for c in one]
        assert [c["token_ids"] for c in whole] == ids
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            crowd = [pool.submit(self.ask, use_beam_search=False, seed=i, max_tokens=100) for i in range(4)]
            again = [pool.submit(self.ask, prompt=p, n=3, best_of=4) for p in ("Once", "A dog", "The end of")]
            assert [c["token_ids"] for one in again for c in one.result()] == ids
            [c.result() for c in crowd]

    def case_refused(self):
        """Catches: a field that means something and is left aside."""
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
        for more, word in (({"stream": True}, "stream"), ({"stop": "a"}, "stop"), ({"min_tokens": 2}, "min_tokens"),
                           ({"logprobs": 1}, "logprobs"), ({"logit_bias": {"5": 1}}, "logit_bias"), ({"regex": "a*"}, "held to"),
                           ({"response_format": schema}, "held to"), ({"presence_penalty": 1}, "presence_penalty"),
                           ({"dry_multiplier": 1}, "dry_multiplier"), ({"prompt_logprobs": 1}, "the prompt"),
                           ({"echo": True, "logprobs": 0}, "the prompt"), ({"best_of": 17}, "best_of"), ({"n": 17}, "best_of"),
                           ({"length_penalty": 11}, "length_penalty"), ({"early_stopping": "now"}, "early_stopping"),
                           ({"use_beam_search": 1}, "use_beam_search")):
            r = self.server.post("/v1/completions", {**ASK, **more})
            assert r.status == 400 and word in r.error["message"] + str(r.error["param"]), (more, r)
        for more in ({"length_penalty": 2}, {"early_stopping": True}):
            r = self.server.post("/v1/completions", {**ASK, "use_beam_search": False, **more})
            assert r.status == 400 and r.error["param"] in more, r
        r = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "use_beam_search": True})
        assert r.status == 400 and r.error["param"] == "use_beam_search", r


def main():
    cases = Cases()
    with scratch() as tmp, Tandem(make_model(tmp / "m"), "--ctx", 512) as server:
        cases.run_all(Beams(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
