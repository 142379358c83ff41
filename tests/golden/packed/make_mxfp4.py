#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny gpt-oss whose experts are packed in MXFP4 as OpenAI publishes them: codes and scales are
drawn, what they mean is said by transformers (integrations/mxfp4.py, convert_moe_packed_tensors).

    python3 tests/golden/packed/make_mxfp4.py      (../requirements.txt)

../models/packed_mxfp4/  with the tokenizer of llama_tied; golden.json has a prompt, golden.safetensors what
                         transformers computes with the weights in f32 (logits), and the tensors that the
                         packed ones stand for (want.TENSOR)
"""
import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
PACKED = ("gate_up_proj", "down_proj")
QUANTIZATION = dict(quant_method="mxfp4", modules_to_not_convert=[
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])


def draw_packed(rng, shape):
    """Of a stack [E, k, outputs]: codes of all kinds."""
    experts, k, outputs = shape
    blocks = rng.integers(0, 256, (experts, outputs, k // 32, 16), np.uint8)
    scales = rng.integers(121, 126, blocks.shape[:-1], np.uint8)
    return torch.from_numpy(blocks), torch.from_numpy(scales)


def main():
    out, rng = MODELS / "packed_mxfp4", np.random.default_rng(5)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    config = GptOssConfig(vocab_size=320, hidden_size=64, intermediate_size=32, num_hidden_layers=2,
                          num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                          num_local_experts=4, num_experts_per_tok=2, sliding_window=9,
                          max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                          rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                            truncate=False, original_max_position_embeddings=16))
    config._attn_implementation = "eager"
    model = GptOssForCausalLM(config).float().eval()
    parts, want, state = {}, {}, {}
    for key, p in model.state_dict().items():
        if key.endswith(PACKED):
            blocks, scales = draw_packed(rng, p.shape)
            parts |= {key + "_blocks": blocks, key + "_scales": scales}
            state[key] = convert_moe_packed_tensors(blocks, scales).float().contiguous()
            want["want." + key] = state[key]
        else:
            x = rng.normal(size=p.shape) * (0.7 if "embed" in key else 0.2) + ("norm" in key)
            parts[key] = torch.from_numpy(x).to(torch.bfloat16)
            state[key] = parts[key].float()
            if key.endswith("_proj_bias"):
                want["want." + key] = state[key]
    model.load_state_dict(state)
    prompt = rng.integers(3, 320, 24).tolist()
    with torch.no_grad():
        want["logits"] = model(torch.tensor([prompt]), use_cache=False).logits[0].contiguous()
    said = json.loads(config.to_json_string()) | dict(
        architectures=["GptOssForCausalLM"], torch_dtype="bfloat16", quantization_config=QUANTIZATION)
    for key in ("_attn_implementation_autoset", "transformers_version", "_name_or_path"):
        said.pop(key, None)
    (out / "config.json").write_text(json.dumps(said, indent=2, sort_keys=True) + "\n")
    (out / "golden.json").write_text(json.dumps({"prompt": prompt}) + "\n")
    save_file(parts, out / "model.safetensors")
    save_file(want, out / "golden.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODELS / "llama_tied" / name, out / name)


if __name__ == "__main__":
    main()
