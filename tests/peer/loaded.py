#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Directories that are written here, read by transformers: the log-probabilities are ours.

    tests/peer/loaded.py [--to int4,int8,fp8] [--group 32,128] [--family llama,qwen3] [--model MODEL]

A tiny model of each family, of drawn numbers, is quantised to each kind (`tandem quantize`), and both compute a
prompt of drawn tokens in f32. What is shown is how far the log-probabilities of the likeliest tokens are apart,
and how far those of the original are from ours: more than 1e-3 apart, or an original that is as near, is a failure.
Experts of int4 and int8 are rounded by transformers to the type of their scales, here f16: those may be 2e-2 apart.

Needs transformers and compressed-tensors, on the CPU (PyTorch), and a built program.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
import serving  # noqa: E402

WORDS = ROOT / "tests/golden/models/llama_tied"  # whose tokenizer they have
SIZES = dict(vocab_size=320, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2, bos_token_id=1,
             eos_token_id=2, pad_token_id=0)
MIXTURE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
# family: the class of its config, what is beside SIZES, type of the file's numbers
FAMILY = {
    "llama": ("LlamaConfig", dict(tie_word_embeddings=True), torch.float32),
    "mistral": ("MistralConfig", dict(sliding_window=None, tie_word_embeddings=False), torch.bfloat16),
    "qwen2": ("Qwen2Config", dict(tie_word_embeddings=True), torch.float16),
    "qwen3": ("Qwen3Config", dict(head_dim=64, tie_word_embeddings=False), torch.bfloat16),
    "phi3": ("Phi3Config", dict(tie_word_embeddings=False), torch.bfloat16),
    "gemma2": ("Gemma2Config", dict(head_dim=32, query_pre_attn_scalar=32), torch.float32),
    "smollm3": ("SmolLM3Config", {}, torch.bfloat16),
    "qwen3_moe": ("Qwen3MoeConfig", MIXTURE | dict(head_dim=64, decoder_sparse_step=1), torch.float32),
}
MOST, MOST_EXPERTS = 1e-3, 2e-2


def quieten():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def parse():
    p = argparse.ArgumentParser(description="directories of ours, read by transformers")
    p.add_argument("--to", default="int4,int8,fp8")
    p.add_argument("--group", default="32,128")
    p.add_argument("--family", default=",".join(FAMILY))
    p.add_argument("--model", type=pathlib.Path, help="this one in place of the families")
    p.add_argument("--tokens", type=int, default=48)
    return p.parse_args()


def make(family, out):
    name, more, dtype = FAMILY[family]
    torch.manual_seed(7)
    config = getattr(transformers, name)(**SIZES | more)
    transformers.AutoModelForCausalLM.from_config(config).to(dtype).save_pretrained(out, max_shard_size="300KB")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(WORDS / file, out / file)
    return out


def ours(model, ids):
    """The likeliest tokens behind each of the ids, and their log-probabilities."""
    with serving.Tandem(model, "--quantize", "f32", "--kv-type", "f32") as s:
        r = s.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 5})
        assert r.status == 200, r
        told = r.json["choices"][0]["prompt_logprobs"][1:]
        return [{int(token): x["logprob"] for token, x in at.items()} for at in told]


def theirs(model, ids):
    m = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return m.eval()(torch.tensor([ids])).logits[0].float().log_softmax(-1)


def apart(told, logprobs):
    return max(abs(x - float(logprobs[i][token])) for i, at in enumerate(told) for token, x in at.items())


def is_same(model, to, group, a, tmp):
    """to: a kind; group: inputs that share a scale."""
    out, what = tmp / "out", f"{model.name} {to} {group}"
    shutil.rmtree(out, ignore_errors=True)
    ids = [random.Random(i).randrange(3, 300) for i in range(a.tokens)]
    p = subprocess.run([serving.BIN, "quantize", str(model), str(out), "--to", to, "--group", group, "--no-report"],
                       capture_output=True, text=True)
    if p.returncode:
        print(f"{what}: {p.stderr.strip()}", flush=True)
        return False
    told = ours(out, ids)
    try:
        far = apart(told, theirs(out, ids))
    except Exception as fault:  # whatever the loader throws is what is to be seen
        print(f"{what}: {type(fault).__name__}: {fault}", flush=True)
        return False
    was = apart(told, theirs(model, ids))
    print(f"{what}: {far:.1e} apart, the original {was:.1e}", flush=True)
    return far <= (MOST_EXPERTS if "_moe" in model.name and to != "fp8" else MOST) < was


def main():
    a = parse()
    quieten()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        models = [a.model] if a.model else [make(f, tmp / f) for f in a.family.split(",")]
        groups = a.group.split(",")  # of which fp8 knows none
        kinds = [(to, g) for to in a.to.split(",") for g in (groups[:1] if to == "fp8" else groups)]
        same = [is_same(m, *kind, a, tmp) for m in models for kind in kinds]
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
