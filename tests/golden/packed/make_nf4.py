#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes matrices and a small model that bitsandbytes packed as nf4, with its own functions, on the CPU;
made with bitsandbytes 0.50.2 and transformers 4.57.3.

    python3 tests/golden/packed/make_nf4.py      (../requirements.txt, and bitsandbytes and accelerate)

nf4_NAME/                a matrix m0, and m0.want, what bitsandbytes takes it for in f32
../models/packed_nf4/    a tiny Llama that transformers quantised as it loaded it, with nested scales, and
                         saved; golden.json has a prompt, golden.safetensors what transformers computes
                         with bitsandbytes' values in f32 (logits), and these of the second layer
                         (want.TENSOR)
../../fuzz/corpus/packed seeds
"""
import json
import pathlib
import shutil
import tempfile

import torch
from bitsandbytes import functional as F
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from safetensors.torch import load_file, save, save_file
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
MODELS, SEEDS = HERE.parent / "models", HERE.parent.parent / "fuzz" / "corpus" / "packed"
# name: outputs, inputs, numbers to a scale, whether scales are nested
LAYOUT = {
    "nf4": (40, 192, 64, False),
    "nf4_nested": (72, 320, 64, True),
    "nf4_wide": (40, 192, 128, True),  # a block begins in the middle of a row
    "nf4_short": (40, 96, 64, False),  # blocks go over the ends of rows
}


def means(codes, state):
    """By the formula of bitsandbytes' default backend: its CPU library's takes other scales than were
    written where blocks go over the ends of rows."""
    absmax = state.absmax
    if state.nested:
        absmax = F.dequantize_blockwise(state.absmax, state.state2) + state.offset
    return _dequantize_4bit_compute(codes.reshape(-1), absmax, state.code, state.blocksize, state.shape,
                                    torch.float32).contiguous()


def matrix(name, n, k, size, is_nested):
    w = torch.randn(n, k) * torch.rand(n, 1)
    codes, state = F.quantize_4bit(w, blocksize=size, compress_statistics=is_nested, quant_type="nf4")
    parts = {name + ".weight": codes} | {f"{name}.weight.{key}": v for key, v in state.as_dict(packed=True).items()}
    return parts, means(codes, state)


def make_layout(name, n, k, size, is_nested):
    parts, want = matrix("m0", n, k, size, is_nested)
    (HERE / name).mkdir(exist_ok=True)
    save_file(parts | {"m0.want": want}, HERE / name / "model.safetensors")
    (SEEDS / name).write_bytes(b"n\0" + save(matrix("m0", 4, k, size, is_nested)[0]))


def make_model():
    out = MODELS / "packed_nf4"
    shutil.rmtree(out, ignore_errors=True)
    config = LlamaConfig(**json.loads((MODELS / "packed_gptq" / "config.json").read_text()))
    model = LlamaForCausalLM(config)
    for key, p in model.named_parameters():
        p.data = torch.randn(p.shape) * (0.7 if "embed" in key else 0.2) + ("norm" in key)
    with tempfile.TemporaryDirectory() as plain:
        model.to(torch.bfloat16).save_pretrained(plain)
        how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                 bnb_4bit_compute_dtype=torch.float32)
        packed = LlamaForCausalLM.from_pretrained(plain, quantization_config=how, device_map="cpu",
                                                  dtype=torch.bfloat16)
        packed.save_pretrained(out)
    files = load_file(out / "model.safetensors")
    state, want = {}, {}
    for key, m in packed.named_modules():
        if hasattr(getattr(m, "weight", None), "quant_state"):
            state[key + ".weight"] = means(m.weight.data, m.weight.quant_state)
            if ".layers.1." in key:
                want[f"want.{key}.weight"] = state[key + ".weight"]
    for key, x in files.items():
        if key.endswith("embed_tokens.weight") or "norm" in key:
            state[key] = x.float()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    config._attn_implementation = "eager"
    plain = LlamaForCausalLM(config).float().eval()
    plain.load_state_dict(state)
    prompt = torch.randint(3, 320, (24,)).tolist()
    with torch.no_grad():
        want["logits"] = plain(torch.tensor([prompt]), use_cache=False).logits[0].contiguous()
    (out / "golden.json").write_text(json.dumps({"prompt": prompt}) + "\n")
    save_file(want, out / "golden.safetensors")
    (out / "generation_config.json").unlink(missing_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODELS / "llama_tied" / name, out / name)


if __name__ == "__main__":
    torch.manual_seed(11)
    for name, (n, k, size, is_nested) in LAYOUT.items():
        make_layout(name, n, k, size, is_nested)
    make_model()
