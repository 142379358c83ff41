#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of preferences as TRL trains them: twenty steps of each on the tiny model llama_tied.

Into tests/golden/preference go
    golden.json          pairs of drawn ids, the options, and of each loss the steps: the pairs in it,
                         its loss and the gradient's norm
    first.safetensors    the adapter that all begin with, its second halves zeros
    LOSS.safetensors     what came of it, by PEFT's names

dpo and x_ipo are TRL's DPOTrainer as it is, with ids in place of texts. The trainers of x_orpo and
x_simpo take text alone, and TRL's orpo counts the prompt's tokens in its likelihood, which its paper
does not: these are a loop over TRL's own functions of log-probabilities. x_kto is TRL's KTOTrainer as
it is, over rows with labels: `--only x_kto` adds it to what is there.

What they ran with: torch 2.15.0, transformers 5.23.0, peft 0.21.2, trl 1.16.0, on a CPU; x_kto with torch
2.6.0 and transformers 5.24.0."""
import json
import pathlib
import random
import sys
import types

import peft
import torch
import torch.nn.functional as F
import transformers
import trl
from datasets import Dataset
from safetensors.torch import load_file, save_file
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

HERE = pathlib.Path(__file__).resolve().parent
MODEL, OUT = HERE / "models/llama_tied", HERE / "preference"
N_PAIR, BATCH, STEPS, SEED = 16, 2, 20, 7
OPTIONS = dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                  "up_proj", "down_proj"],
               lr=1e-3, weight_decay=0.01, max_grad_norm=1.0, eps=1e-8)
LOSSES = {"dpo": dict(beta=0.1, gamma=0.0), "x_ipo": dict(beta=0.5, gamma=0.0),
          "x_orpo": dict(beta=0.25, gamma=0.0), "x_simpo": dict(beta=2.0, gamma=0.5),
          "x_kto": dict(beta=0.5, gamma=0.0, desirable=1.5, undesirable=0.75)}
KTO_BATCH = 4


def pairs():
    """Both ends of a pair have lengths of their own."""
    draw = random.Random(SEED)
    ids = lambda lo, hi: [draw.randrange(3, 200) for _ in range(draw.randint(lo, hi))]
    return [dict(prompt_ids=ids(1, 14), chosen_ids=ids(1, 17), rejected_ids=ids(1, 17))
            for _ in range(N_PAIR)]


def base():
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


def lora():
    return peft.LoraConfig(r=OPTIONS["r"], lora_alpha=OPTIONS["lora_alpha"], lora_dropout=0.0,
                           bias="none", target_modules=OPTIONS["target_modules"],
                           task_type="CAUSAL_LM")


def halves(model):
    return {k: v.detach().clone().contiguous()
            for k, v in peft.get_peft_model_state_dict(model).items()}


def begin(model, first):
    peft.set_peft_model_state_dict(model, first)


def sequential(base_trainer, seen):
    """TRL's trainer over ids, in the order of the file, that keeps each step's loss unrounded."""

    class Trainer(base_trainer):
        def _prepare_dataset(self, dataset, *args):
            return dataset

        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            seen.append((loss[0] if isinstance(loss, tuple) else loss).item())
            return loss

    return Trainer


def by_trainer(trainer, config, rows, first, **own):
    seen = []
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(MODEL / "tokenizer.json"), pad_token="<|end|>", eos_token="<|end|>")
    options = config(
        output_dir="/tmp/make_preferences", max_steps=STEPS, learning_rate=OPTIONS["lr"],
        lr_scheduler_type="constant", warmup_steps=0, weight_decay=OPTIONS["weight_decay"],
        max_grad_norm=OPTIONS["max_grad_norm"], adam_epsilon=OPTIONS["eps"], optim="adamw_torch",
        logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False, max_length=None, disable_tqdm=True, dataloader_num_workers=0, **own)
    t = sequential(trainer, seen)(model=base(), args=options, train_dataset=Dataset.from_list(rows),
                                  processing_class=words, peft_config=lora())
    begin(t.model, first)
    t.train()
    norms = [h["grad_norm"] for h in t.state.log_history if "grad_norm" in h]
    return list(zip(seen, norms)), halves(t.model)


def of_pairs(loss, rows, first):
    return by_trainer(trl.DPOTrainer, trl.DPOConfig, rows, first,
                      loss_type=[{"dpo": "sigmoid", "x_ipo": "ipo"}[loss]], beta=LOSSES[loss]["beta"],
                      per_device_train_batch_size=BATCH)


def verdicts(rows):
    """Of each pair both rows; three of four steps have both labels, one has a label alone."""
    both = [dict(prompt_ids=r["prompt_ids"], completion_ids=r[end], label=end == "chosen_ids")
            for r in rows for end in ("chosen_ids", "rejected_ids")]
    return both[:12] + both[12:24:2] + both[13:24:2] + both[24:]


def of_verdicts(loss, rows, first):
    """Each batch's rows with the ends of the rows before them, as TRL's own preparation makes them."""
    of = LOSSES[loss]
    for at in range(0, len(rows), KTO_BATCH):
        batch = rows[at:at + KTO_BATCH]
        for i, row in enumerate(batch):
            row["KL_completion_ids"] = batch[i - 1]["completion_ids"]
    return by_trainer(trl.KTOTrainer, trl.KTOConfig, rows, first, beta=of["beta"],
                      desirable_weight=of["desirable"], undesirable_weight=of["undesirable"],
                      per_device_train_batch_size=KTO_BATCH, train_sampling_strategy="sequential")


def logprobs(model, row, end):
    """The mean log-probability of an end's tokens."""
    ids = torch.tensor([row["prompt_ids"] + row[end]])
    lp = F.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
    return lp[len(row["prompt_ids"]) - 1:].mean()


def by_hand(loss, rows, first):
    of = LOSSES[loss]
    model = peft.get_peft_model(base(), lora())
    begin(model, first)
    model.train()
    optim = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=OPTIONS["lr"],
                              eps=OPTIONS["eps"], weight_decay=OPTIONS["weight_decay"])
    me = types.SimpleNamespace(beta=of["beta"], simpo_gamma=of["gamma"], loss_type="simpo",
                               label_smoothing=0.0, alpha=0.0,
                               accelerator=types.SimpleNamespace(device=torch.device("cpu")))
    said = []
    for step in range(STEPS):
        batch = [rows[(step * BATCH + i) % N_PAIR] for i in range(BATCH)]
        chosen = torch.stack([logprobs(model, r, "chosen_ids") for r in batch])
        rejected = torch.stack([logprobs(model, r, "rejected_ids") for r in batch])
        if loss == "x_simpo":
            total = CPOTrainer.cpo_loss(me, chosen, rejected)[0].mean()
        else:
            total = -chosen.mean() - ORPOTrainer.odds_ratio_loss(me, chosen, rejected)[0].mean()
        optim.zero_grad()
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIONS["max_grad_norm"])
        optim.step()
        said.append((total.item(), norm.item()))
    return said, halves(model)


def run(loss, rows, first):
    if loss == "x_kto":
        return of_verdicts(loss, verdicts(rows), first)
    return of_pairs(loss, rows, first) if loss in ("dpo", "x_ipo") else by_hand(loss, rows, first)


def main():
    only = sys.argv[2] if sys.argv[1:2] == ["--only"] else None
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rows = pairs()
    OUT.mkdir(exist_ok=True)
    if only:
        golden, first = json.loads((OUT / "golden.json").read_text()), load_file(OUT / "first.safetensors")
    else:
        first = halves(peft.get_peft_model(base(), lora()))
        save_file(first, OUT / "first.safetensors")
        golden = dict(options=OPTIONS, pairs=rows, losses={})
    for loss, of in LOSSES.items():
        if only not in (None, loss):
            continue
        said, final = run(loss, rows, first)
        assert len(said) == STEPS, len(said)
        steps = [dict(loss=loss_, grad_norm=norm) for loss_, norm in said]
        for s, step in enumerate(steps):
            if loss != "x_kto":
                step["pairs"] = [(s * BATCH + i) % N_PAIR for i in range(BATCH)]
        golden["losses"][loss] = dict(**of, steps=steps)
        if loss == "x_kto":
            golden["losses"][loss]["rows"] = [dict(r) for r in verdicts(rows)]
        save_file(final, OUT / f"{loss}.safetensors")
        print(loss, steps[0], steps[-1])
    (OUT / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
