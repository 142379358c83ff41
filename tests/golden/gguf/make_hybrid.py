#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files of tiny models whose tensors llama.cpp's converter changes on the way, in F32,
with the package gguf (0.19.0: names and keys are its own).

    python3 tests/golden/gguf/make_hybrid.py [MODEL OUT.gguf ARCH]

Without arguments those beside this file. What is changed, as convert_hf_to_gguf.py does it:
norms by 1 + weight are written with the 1, A_log as -exp(A_log), taps as matrices; in qwen35 and
qwen35moe heads of values go by turns of the heads of keys; in qwen3next in_proj_qkvz is attn_qkv and
attn_gate. qwen3_next.gguf is qwen3_5_moe under Qwen3-Next's names: the arithmetic is one.
hybrid_coded.gguf has blocks of kinds whose codes are formats'.
"""
import json
import pathlib
import sys

import gguf
import numpy as np

from make_files import KIND, finish, read_tensors, there

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
FILES = (("qwen3_5", "qwen35"), ("qwen3_5_moe", "qwen35moe"), ("qwen3_5_moe", "qwen3next"),
         ("qwen2_moe", "qwen2moe"), ("gpt_oss", "gpt-oss"), ("packed_mxfp4", "gpt-oss"),
         ("lfm2", "lfm2"))
OUT = {"qwen3next": "qwen3_next"}


def arch_of(name):
    return next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == name)


def add_keys(w, arch, c):
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    rope = c.get("rope_parameters") or {}
    scaling = c.get("rope_scaling") or rope
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_vocab_size(c["vocab_size"])
    w.add_head_count(c["num_attention_heads"])
    kv = c["num_key_value_heads"]
    w.add_head_count_kv([kv if t != "conv" else 0 for t in c["layer_types"]] if arch == "lfm2" else kv)
    w.add_layer_norm_rms_eps(c.get("norm_eps") or c["rms_norm_eps"])
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_freq_base(rope.get("rope_theta") or c["rope_theta"])
    w.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1)))
    if scaling.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(scaling["factor"])
        w.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if "mrope_section" in rope:
        w.add_rope_dimension_sections(rope["mrope_section"] + [0])
    w.add_bos_token_id(c["bos_token_id"])
    w.add_eos_token_id(c["eos_token_id"])
    if arch == "lfm2":
        w.add_shortconv_l_cache(c["conv_L_cache"])
    if arch == "gpt-oss":
        w.add_sliding_window(c["sliding_window"])
    if experts := c.get("num_experts") or c.get("num_local_experts"):
        w.add_expert_count(experts)
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c.get("moe_intermediate_size") or c["intermediate_size"])
    if shared := c.get("shared_expert_intermediate_size"):
        w.add_expert_shared_feed_forward_length(shared)
    if c.get("linear_num_value_heads"):
        w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
        w.add_ssm_state_size(c["linear_key_head_dim"])
        w.add_ssm_group_count(c["linear_num_key_heads"])
        w.add_ssm_time_step_rank(c["linear_num_value_heads"])
        w.add_ssm_inner_size(c["linear_value_head_dim"] * c["linear_num_value_heads"])
        w.add_full_attention_interval(c["layer_types"].index("full_attention") + 1)


def by_turns(x, c, lo, head):
    """Rows from lo on, which are heads of values."""
    k = c["linear_num_key_heads"]
    v = x[lo:].reshape(k, -1, head, *x.shape[1:]).swapaxes(0, 1).reshape(x[lo:].shape)
    return np.concatenate([x[:lo], v])


def reordered(name, x, c):
    qk, head = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"], c["linear_value_head_dim"]
    part = name.split("linear_attn.")[-1]
    if part.startswith(("in_proj_qkv.", "conv1d.")):
        return by_turns(x, c, qk, head)
    if part.startswith("in_proj_z."):
        return by_turns(x, c, 0, head)
    if part.startswith(("in_proj_b.", "in_proj_a.")) or part in ("A_log", "dt_bias"):
        return by_turns(x, c, 0, 1)
    return by_turns(x.T, c, 0, head).T if part.startswith("out_proj.") else x


def joined(b, a, c):
    """in_proj_ba: of each head of keys first those of b."""
    k = c["linear_num_key_heads"]
    both = [x.reshape(k, -1, x.shape[1]) for x in (b, a)]
    return np.concatenate(both, axis=1).reshape(-1, b.shape[1])


def changed(name, x, arch, c):
    """name, numbers: as the converter gives them to the table of names."""
    if "linear_attn." in name and arch.startswith("qwen35"):
        x = reordered(name, x, c)
    if name.endswith("A_log"):
        return name, -np.exp(x)
    if name.endswith("dt_bias"):
        return name.replace("dt_bias", "dt_proj.bias"), x
    if ".conv" in name and x.ndim == 3:
        return name, x[:, 0]
    is_plus_one = arch.startswith(("qwen35", "qwen3next"))
    if is_plus_one and name.endswith("norm.weight") and "linear_attn.norm" not in name:
        return name, x + 1
    return (name + ".weight" if name.endswith("sinks") else name), x


def unstacked(tensors, arch):
    """Experts of a layer in one tensor for each of their matrices."""
    parts = {}
    for name, x in tensors:
        base, _, end = name.partition(".experts.")
        if not end:
            yield name, x
        elif end[0].isdigit():
            expert, rest = end.split(".", 1)
            parts.setdefault(f"{base}.experts.{rest}", {})[int(expert)] = x
        elif arch == "gpt-oss":
            kind = "bias" if end.endswith("_bias") else "weight"
            codes = end.rsplit("_", 1)[-1] if end.endswith(("_blocks", "_scales")) else ""
            x = x if kind == "bias" or codes else x.swapaxes(1, 2)
            end = end.removesuffix("_bias").removesuffix("_blocks").removesuffix("_scales")
            both = {"gate_proj": x[:, ::2], "up_proj": x[:, 1::2]} if end == "gate_up_proj" else {end: x}
            for one, y in both.items():
                yield f"{base}.experts.{one}.{kind}" + (":" + codes if codes else ""), y
        else:
            n = x.shape[1] // 2
            both = {"gate_proj": x[:, :n], "up_proj": x[:, n:]} if end == "gate_up_proj" else {end: x}
            for one, y in both.items():
                yield f"{base}.experts.{one}.weight", y
    for name, one in parts.items():
        yield name, np.stack([one[i] for i in range(len(one))])


def mxfp4(blocks, scales):
    """Codes side by side of two numbers each to ggml's: the first half in the low halves."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    data = codes[..., :16] | codes[..., 16:] << 4
    both = np.concatenate([scales[..., None], data], axis=-1)
    return both.reshape(*both.shape[:2], -1)


def make(folder, out, arch, tokenizer=None):
    c = json.loads((folder / "config.json").read_text())
    w = gguf.GGUFWriter(str(out), arch)
    add_keys(w, arch, c)
    tensors = list(read_tensors(folder / "model.safetensors"))
    width = [x.shape[0] for name, x in tensors if name.endswith("feed_forward.w1.weight")]
    if width or c.get("intermediate_size"):
        w.add_feed_forward_length(width[0] if width else c["intermediate_size"])
    if tokenizer:
        w.add_tokenizer_model(tokenizer)
    names = gguf.get_tensor_name_map(arch_of(arch), c["num_hidden_layers"])
    held = {}
    for name, x in unstacked(tensors, arch):
        if arch == "qwen3next" and (".in_proj_b." in name or ".in_proj_a." in name):
            held[name] = x
            continue
        name, _, codes = name.partition(":")
        name, x = changed(name, x, arch, c)
        # of layers without experts among others the package has no names
        at = names.get_name(name, try_suffixes=(".weight", ".bias")) or there(name)
        if not codes:
            w.add_tensor(at, np.ascontiguousarray(x))
            continue
        if codes == "blocks":
            held[name] = x
        else:
            w.add_tensor(at, mxfp4(held[name], x), raw_dtype=KIND.MXFP4)
    for name, b in held.items():
        if ".in_proj_b." in name:
            a, layer = held[name.replace("in_proj_b", "in_proj_a")], name.split(".")[2]
            w.add_tensor(f"blk.{layer}.ssm_ba.weight", joined(b, a, c))
    finish(w)


CODED = {"attn_qkv": ((576, 256), "Q4_K"), "attn_gate": ((512, 256), "Q6_K"),
         "ssm_out": ((256, 512), "Q4_K"), "ssm_beta": ((4, 256), "Q8_0"),
         "ssm_alpha": ((4, 256), "Q8_0"), "ffn_gate": ((32, 256), "Q4_K"),
         "ffn_up": ((32, 256), "Q4_K"), "ffn_down": ((256, 32), "Q8_0")}


def make_coded():
    """A layer of random blocks, some of which span two heads of values."""
    c = dict(max_position_embeddings=64, hidden_size=256, intermediate_size=32, num_hidden_layers=1,
             num_attention_heads=4, num_key_value_heads=2, head_dim=64, vocab_size=32,
             rms_norm_eps=1e-6, rope_theta=10000.0, bos_token_id=1, eos_token_id=2,
             linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=128,
             linear_num_key_heads=2, linear_num_value_heads=4, layer_types=["linear_attention"] * 3
             + ["full_attention"])
    rng = np.random.default_rng(15)
    w = gguf.GGUFWriter(str(HERE / "hybrid_coded.gguf"), "qwen35")
    add_keys(w, "qwen35", c)
    w.add_feed_forward_length(32)
    for part, ((rows, cols), kind) in CODED.items():
        size, n_bytes = gguf.GGML_QUANT_SIZES[KIND[kind]]
        b = rng.integers(0, 128, (rows * cols // size, n_bytes), dtype=np.uint8)
        for at in {"Q8_0": [0], "Q6_K": [208], "Q4_K": [0, 2]}[kind]:
            b[:, at:at + 2] = rng.uniform(1e-5, 1e-4, (len(b), 1)).astype(np.float16).view(np.uint8)
        w.add_tensor(f"blk.0.{part}.weight", b.reshape(rows, -1), raw_dtype=KIND[kind])
    vectors = {"blk.0.attn_norm.weight": 256, "blk.0.post_attention_norm.weight": 256,
               "output_norm.weight": 256, "blk.0.ssm_norm.weight": 128, "blk.0.ssm_dt.bias": 4}
    for name, n in vectors.items():
        w.add_tensor(name, rng.uniform(0.5, 1.5, n).astype(np.float32))
    w.add_tensor("blk.0.ssm_a", -rng.uniform(0.1, 1, 4).astype(np.float32))
    w.add_tensor("blk.0.ssm_conv1d.weight", rng.normal(size=(576, 4)).astype(np.float32))
    w.add_tensor("token_embd.weight", rng.normal(size=(32, 256)).astype(np.float32))
    finish(w)


def main():
    if len(sys.argv) == 4:
        make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], "none")
        return
    for name, arch in FILES:
        make(MODELS / name, HERE / f"{OUT.get(arch, name)}.gguf", arch)
    make_coded()


if __name__ == "__main__":
    main()
