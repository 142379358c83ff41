#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beam search as transformers has it, over tiny models of tests/golden/models, into tests/golden/beams/MODEL.json:
prompts of drawn ids, options, and of each text that was found its ids, its score and whether one of the tokens that
end texts ended it. Without a cache.

Scores are sums over a power of the length; where two ways to go on were within GAP of each other while it searched,
the case is left out, since rounding decides there.

    python3 tests/golden/make_beams.py [MODEL ...]
"""
import json
import pathlib
import random
import sys
import warnings

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "beams"
MODELS = {"llama_plain": 24, "lfm2": 12}
GAP = 2e-5


class Gaps(transformers.LogitsProcessor):
    """The least difference between candidates that a search had to tell apart."""

    def __init__(self, width, n_end):
        self.width, self.most, self.least, self.sums = width, width * (1 + max(1, n_end)) + 1, 1.0, None

    def __call__(self, ids, scores):
        top = scores.double().topk(min(self.most, scores.shape[-1]), dim=-1).values
        self.least = min(self.least, (top[:, :-1] - top[:, 1:]).min().item())
        return scores


def likely(model, prompt, n):
    """What a greedy text says, and what comes close: tokens that searches meet."""
    ids = list(prompt)
    for _ in range(n):
        ids.append(model(torch.tensor([ids])).logits[0, -1].topk(2).indices[int(len(ids) % 3 == 0)].item())
    return sorted(set(ids[len(prompt):]))


def case(model, draw, vocab):
    width = draw.choice([2, 3, 4, 4, 6, 8])
    want = {"prompt": [draw.randrange(3, vocab) for _ in range(draw.randint(1, 45))], "width": width, "ends": [],
            "max_new": draw.randint(1, 18), "length_penalty": draw.choice([1.0, 1.0, 0.0, 0.6, 2.0, -1.0]),
            "early": draw.choice([False, False, True, "never"])}
    with torch.no_grad():
        met = likely(model, want["prompt"], want["max_new"])
    want["ends"] = ends = sorted(draw.sample(met, min(len(met), draw.choice([0, 1, 2, 4, 8]))))
    gaps = Gaps(width, len(ends))
    # HF takes an absent end for the configuration's; one beyond the vocabulary never comes
    options = transformers.GenerationConfig(
        num_beams=width, num_return_sequences=width, max_new_tokens=want["max_new"], do_sample=False, use_cache=False,
        length_penalty=want["length_penalty"], early_stopping=want["early"], eos_token_id=ends or [vocab + 1],
        pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    with torch.no_grad():
        ids = torch.tensor([want["prompt"]])
        got = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=options, logits_processor=[gaps])
    if gaps.least < GAP or len({round(s, 4) for s in got.sequences_scores.tolist()}) < width:
        return None
    want["found"] = []
    for ids, score, way in zip(got.sequences.tolist(), got.sequences_scores.tolist(), got.beam_indices.tolist()):
        n = sum(w >= 0 for w in way)
        ids = ids[len(want["prompt"]):][:n]
        is_ended = ids[-1] in ends
        want["found"].append({"ids": ids[:-1] if is_ended else ids, "end": ids[-1] if is_ended else -1, "score": score})
    return want


def main():
    warnings.simplefilter("ignore")
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        n = MODELS[name]
        model = transformers.AutoModelForCausalLM.from_pretrained(
            HERE / "models" / name, dtype=torch.float32, attn_implementation="eager").eval()
        model.generation_config = transformers.GenerationConfig()
        draw, cases = random.Random(name), []
        while len(cases) < n:
            one = case(model, draw, model.config.vocab_size)
            cases += [one] if one else []
        text = json.dumps({"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                           "cases": cases})
        (OUT / f"{name}.json").write_text(text.replace('{"prompt"', '\n{"prompt"') + "\n")
        print(name, sum(f["end"] >= 0 for c in cases for f in c["found"]), "of",
              sum(len(c["found"]) for c in cases), "ended")


if __name__ == "__main__":
    main()
