#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policy gradients as TRL takes them: twenty steps of each kind on the tiny model llama_tied.

Into tests/golden/policy go
    golden.json          of each kind its options and batches: rows of drawn ids with a reward each,
                         in groups, the log-probabilities that they began with, the advantages; and
                         of the four steps over a batch the loss, the gradient's norm, what was clipped
    KIND.safetensors     the adapter that came of it, by PEFT's names

All begin with tests/golden/preference/first.safetensors. Losses, of rows that are given in place of
sampled ones, are those of TRL's trainers as they are (_compute_loss); advantages are its formulas.

What they ran with: torch 2.15.0, transformers 5.23.0, peft 0.21.2, trl 1.16.0, on a CPU."""
import json
import random

import peft
import torch
import transformers
import trl
from datasets import Dataset
from safetensors.torch import load_file, save_file

import make_preferences as pairs

OUT = pairs.HERE / "policy"
GROUP, N_GROUP, PER_BATCH, BATCHES, MOST, SEED = 4, 2, 4, 5, 16, 11
LR = 1e-3
KINDS = {"grpo": dict(beta=0.04, clip_low=0.2, clip_high=0.2),
         "dr_grpo": dict(beta=0.0, clip_low=0.1, clip_high=0.2),
         "rloo": dict(beta=0.0, clip_low=0.2, clip_high=0.2)}


def rows(draw):
    """Groups that share their prompt, rewards that are told apart by what is in the row."""
    ids = lambda lo, hi: [draw.randrange(3, 200) for _ in range(draw.randint(lo, hi))]
    out = []
    for _ in range(N_GROUP):
        prompt = ids(1, 10)
        out += [dict(prompt_ids=prompt, sample_ids=ids(2, MOST), reward=round(draw.random(), 3))
                for _ in range(GROUP)]
    return out


def advantages(kind, batch):
    r = torch.tensor([x["reward"] for x in batch], dtype=torch.float64).view(N_GROUP, GROUP)
    mean = r.mean(1, keepdim=True)
    if kind == "rloo":
        return (r - (r.sum(1, keepdim=True) - r) / (GROUP - 1)).view(-1)
    return ((r - mean) / (r.std(1, keepdim=True) + 1e-4) if kind == "grpo" else r - mean).view(-1)


def trainer(kind, first):
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(pairs.MODEL / "tokenizer.json"), pad_token="<|end|>", eos_token="<|end|>")
    of = KINDS[kind]
    common = dict(output_dir="/tmp/make_policy", per_device_train_batch_size=GROUP * N_GROUP,
                  num_generations=GROUP, max_completion_length=MOST, beta=of["beta"],
                  epsilon=of["clip_low"], epsilon_high=of["clip_high"], report_to=[], use_cpu=True,
                  bf16=False, gradient_checkpointing=False, temperature=1.0)
    data = Dataset.from_list([dict(prompt="a")] * 8)
    if kind == "rloo":
        t = trl.RLOOTrainer(model=pairs.base(), reward_funcs=lambda **k: [0.0], train_dataset=data,
                            args=trl.RLOOConfig(**common), processing_class=words, peft_config=pairs.lora())
    else:
        t = trl.GRPOTrainer(model=pairs.base(), reward_funcs=lambda **k: [0.0], train_dataset=data,
                            args=trl.GRPOConfig(loss_type=kind, **common), processing_class=words,
                            peft_config=pairs.lora())
    t.current_gradient_accumulation_steps = 1
    pairs.begin(t.model, first)
    return t


def padded(lists, left):
    n = max(map(len, lists))
    pad = [[0] * (n - len(x)) for x in lists]
    ids = [p + x if left else x + p for p, x in zip(pad, lists)]
    mask = [[0] * len(p) + [1] * len(x) if left else [1] * len(x) + [0] * len(p)
            for p, x in zip(pad, lists)]
    return torch.tensor(ids), torch.tensor(mask)


def logprobs(t, x):
    ids = torch.cat([x["prompt_ids"], x["completion_ids"]], 1)
    mask = torch.cat([x["prompt_mask"], x["completion_mask"]], 1)
    with torch.no_grad():
        return t._get_per_token_logps_and_entropies(t.model, ids, mask, x["completion_ids"].size(1))[0]


def inputs(t, kind, batch):
    x = {}
    x["prompt_ids"], x["prompt_mask"] = padded([r["prompt_ids"] for r in batch], True)
    x["completion_ids"], x["completion_mask"] = padded([r["sample_ids"] for r in batch], False)
    x["advantages"] = advantages(kind, batch).float()
    x["old_per_token_logps"] = logprobs(t, x)
    x["old_logps"] = (x["old_per_token_logps"] * x["completion_mask"]).sum(1)
    with t.model.disable_adapter():
        x["ref_per_token_logps"] = logprobs(t, x)
    x["num_items_in_batch"] = x["completion_mask"].sum()
    return x


def clipped(t, kind, x):
    """TRL counts rows of rloo, and shares of grpo: all of them as labels, here."""
    of, lp = KINDS[kind], logprobs(t, x)
    ratio = ((lp - x["old_per_token_logps"]) * x["completion_mask"])
    ratio = (ratio.sum(1, keepdim=True).expand_as(ratio) if kind == "rloo" else ratio).exp()
    a = x["advantages"][:, None]
    is_so = ((ratio < 1 - of["clip_low"]) & (a < 0)) | ((ratio > 1 + of["clip_high"]) & (a > 0))
    return int((is_so * x["completion_mask"]).sum())


def run(kind, first):
    draw, t = random.Random(SEED), trainer(kind, first)
    t.model.train()
    optim = torch.optim.AdamW([p for p in t.model.parameters() if p.requires_grad], lr=LR,
                              eps=pairs.OPTIONS["eps"], weight_decay=pairs.OPTIONS["weight_decay"])
    batches = []
    for _ in range(BATCHES):
        batch = rows(draw)
        x, steps = inputs(t, kind, batch), []
        for r, lp, a in zip(batch, x["old_per_token_logps"], x["advantages"]):
            r["logprobs"], r["advantage"] = lp[:len(r["sample_ids"])].tolist(), a.item()
        for _ in range(PER_BATCH):
            n_clipped = clipped(t, kind, x)
            loss = t._compute_loss(t.model, x)
            optim.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(t.model.parameters(), pairs.OPTIONS["max_grad_norm"])
            optim.step()
            steps.append(dict(loss=loss.item(), grad_norm=norm.item(), n_clipped=n_clipped))
        batches.append(dict(rows=batch, steps=steps))
    return batches, pairs.halves(t.model)


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    first = load_file(pairs.OUT / "first.safetensors")
    OUT.mkdir(exist_ok=True)
    golden = dict(options={**pairs.OPTIONS, "lr": LR}, group=GROUP, most=MOST, kinds={})
    for kind, of in KINDS.items():
        batches, final = run(kind, first)
        golden["kinds"][kind] = dict(**of, batches=batches)
        save_file(final, OUT / f"{kind}.safetensors")
        print(kind, [s for b in batches for s in b["steps"]])
    (OUT / "golden.json").write_text(json.dumps(golden, indent=None) + "\n")


if __name__ == "__main__":
    main()
