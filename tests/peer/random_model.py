#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model directory of a family that make_model does not write, with random weights, to be measured.

    tests/peer/random_model.py SHAPE DIR [--layers N] [--no-weights]

SHAPE is one of those below: real widths, few layers where a whole model would be large. The tensors are
those that transformers' own model of the config has, in bf16; the tokenizer is make_model's, of bytes. Without
weights it is one for `tandem bench engine --weights random`.

Needs transformers, torch (CPU) and safetensors.
"""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
MAKE_MODEL = HERE.parents[2] / "build/release/tests/tools/make_model"

MOST = {"vocab_size": 32000, "max_position_embeddings": 40960, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
HYBRID = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8, "head_dim": 256,
          "num_key_value_heads": 2, "intermediate_size": 3584, "linear_num_key_heads": 16,
          "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}
SHAPES = {
    # 16 experts of which 4 are taken: a token passes through 1.2 thousand million weights
    "experts": ("Qwen3Moe", {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
                             "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 4,
                             "moe_intermediate_size": 2048, "intermediate_size": 8192, "norm_topk_prob": True}),
    # the same with one feed-forward as wide as what a token passes through
    "dense": ("Qwen3", {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
                        "num_key_value_heads": 8, "intermediate_size": 8192}),
    # Qwen3.5-0.8B's widths: three layers of the gated delta rule to one of attention; all of one kind
    "hybrid": ("Qwen3_5Text", HYBRID),
    "recurrent": ("Qwen3_5Text", HYBRID | {"layer_types": ["linear_attention"] * 24}),
    "attended": ("Qwen3_5Text", HYBRID | {"layer_types": ["full_attention"] * 24}),
    # Gemma 3's order of windows: five of 512 to one layer that sees all
    "windows": ("Gemma3Text", {"hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4, "head_dim": 256,
                               "num_key_value_heads": 1, "intermediate_size": 2048, "sliding_window": 512}),
}


def fill(model):
    """Norms of one, and matrices of draws that are used again and again: they cost no time."""
    import torch

    drawn = torch.randn(1 << 20, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.dim() < 2:
                tensor.fill_(1.0)
                continue
            scale = tensor.shape[-1] ** -0.5
            for part in tensor.view(-1).split(drawn.numel()):
                part.copy_(drawn[:part.numel()] * scale)


def main():
    import transformers

    p = argparse.ArgumentParser(description="a model with random weights")
    p.add_argument("shape", choices=sorted(SHAPES))
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--layers", type=int)
    p.add_argument("--no-weights", action="store_true")
    args = p.parse_args()
    name, keys = SHAPES[args.shape]
    n = args.layers or keys["num_hidden_layers"]
    keys = MOST | keys | {"num_hidden_layers": n}
    if "layer_types" in keys:
        keys["layer_types"] = keys["layer_types"][:n]
    config = getattr(transformers, f"{name}Config")(**keys)
    config.torch_dtype = "bfloat16"
    done = subprocess.run([MAKE_MODEL, args.dir, "--vocab", str(MOST["vocab_size"]), "--no-weights"])
    if done.returncode:
        return done.returncode
    config.architectures = [f"{name.removesuffix('Text')}ForCausalLM"]
    config.save_pretrained(args.dir)
    return 0 if args.no_weights else save(config, args.dir)


def save(config, path):
    import torch
    import transformers

    kind = getattr(transformers, config.architectures[0])
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = kind(config)
    model.to_empty(device="cpu")
    model.tie_weights()
    fill(model)
    model.save_pretrained(path, max_shard_size="100GB")
    print(f"{path}: {sum(t.numel() for t in model.parameters())} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
