#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes matrices and small models in the layouts of GPTQ's and AWQ's tools, and with codes of a byte. The
tools' packages want a GPU, so codes are drawn and packed here by the loops of

    GPTQ  AutoGPTQ 0.7.1, auto_gptq/nn_modules/qlinear/qlinear_cuda.py, QuantLinear.pack
          (GPTQModel, gptqmodel/nn_modules/qlinear/__init__.py, has the same; `gptq_v2` without the 1
          that is taken from zero points)
    AWQ   AutoAWQ 0.2.9, awq/modules/linear/gemm.py, WQLinear_GEMM.from_linear

and what they mean is computed in f32 as their forward functions do: scales * (codes - zeros). e4m3 is
PyTorch's, multiplied with scales by blocks as DeepSeek-V3's inference/kernel.py (weight_dequant), by rows
or as a whole as compressed-tensors' naive_quantized does.

    python3 tests/golden/packed/make.py      (../requirements.txt)

NAME/                    a matrix m0 of one layout, with the tool's own config file where it has one, and
                         m0.want
../models/packed_NAME/   a tiny Llama of such matrices with the tokenizer of llama_tied; golden.json
                         has a prompt, golden.safetensors what transformers computes with the weights
                         in f32 (logits), and these of the second layer (want.TENSOR)
../../fuzz/corpus/packed seeds
"""
import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save, save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
MODELS, SEEDS = HERE.parent / "models", HERE.parent.parent / "fuzz" / "corpus" / "packed"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
AWQ = dict(zero_point=True, q_group_size=128, w_bit=4, version="GEMM")
GPTQ = dict(bits=4, group_size=128, damp_percent=0.01, desc_act=False, sym=True,
            true_sequential=True, quant_method="gptq", checkpoint_format="gptq")
FP8 = dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=[128, 128])
W8A8 = dict(quant_method="compressed-tensors", format="int-quantized", quantization_status="compressed",
            config_groups=dict(group_0=dict(
                targets=["Linear"], input_activations=dict(num_bits=8, type="int", dynamic=True),
                weights=dict(num_bits=8, type="int", strategy="channel", symmetric=True))))
# name: outputs, inputs, what the config says
LAYOUT = {
    "gptq_32": (40, 256, GPTQ | dict(group_size=32)),
    "gptq_zero": (40, 256, GPTQ | dict(sym=False, desc_act=True)),  # inputs are in order all the same
    "gptq_zero_v2": (40, 192, GPTQ | dict(sym=False, group_size=64, checkpoint_format="gptq_v2")),
    "gptq_row": (40, 96, GPTQ | dict(group_size=-1)),
    "gptq_short": (40, 288, GPTQ),  # the last group has 32 inputs
    "gptq_8": (40, 256, GPTQ | dict(bits=8, group_size=32)),
    "gptq_8_row": (40, 256, GPTQ | dict(bits=8, group_size=-1)),  # with -128 beside its zero point
    "gptq_8_zero": (40, 128, GPTQ | dict(bits=8, sym=False, group_size=64)),
    "gptq_order": (40, 256, GPTQ | dict(sym=False, desc_act=True, group_size=32)),
    "awq_128": (40, 256, AWQ),
    "awq_64": (40, 192, AWQ | dict(q_group_size=64)),
    "gptq_order_zero": (40, 256, GPTQ | dict(sym=False, desc_act=True)),
    "gptq_order_short": (40, 288, GPTQ | dict(desc_act=True)),  # a group of 32 inputs anywhere
}


def pack_gptq(name, codes, zeros, scales, g_idx, cfg):
    """codes [k, n], zeros and scales [groups, n]."""
    bits, k, n = cfg["bits"], *codes.shape
    per = 32 // bits
    qweight = np.zeros((k // per, n), np.uint32)
    qzeros = np.zeros((zeros.shape[0], n // per), np.uint32)
    for j in range(k):
        qweight[j // per] |= codes[j].astype(np.uint32) << np.uint32(bits * (j % per))
    stored = zeros - (cfg["checkpoint_format"] == "gptq")
    for j in range(n):
        qzeros[:, j // per] |= stored[:, j].astype(np.uint32) << np.uint32(bits * (j % per))
    return {f"{name}.qweight": qweight.view(np.int32), f"{name}.qzeros": qzeros.view(np.int32),
            f"{name}.scales": scales, f"{name}.g_idx": g_idx.astype(np.int32)}


def pack_awq(name, codes, zeros, scales):
    def pack(x):
        out = np.zeros((x.shape[0], x.shape[1] // 8), np.uint32)
        for col in range(out.shape[1]):
            for i in range(8):
                out[:, col] |= x[:, col * 8 + AWQ_ORDER[i]].astype(np.uint32) << np.uint32(i * 4)
        return out.view(np.int32)
    return {f"{name}.qweight": pack(codes), f"{name}.qzeros": pack(zeros), f"{name}.scales": scales}


def draw(rng, n, k, cfg):
    """Codes, zero points, scales and groups of inputs, as such a config lets them be."""
    bits = cfg.get("bits", 4)
    group = cfg.get("group_size", cfg.get("q_group_size"))
    group = k if group < 0 else group
    is_v1, half = cfg.get("checkpoint_format") == "gptq", 1 << (bits - 1)
    groups = -(-k // group)
    # groups of 8 bits: never -128 beside the zero point, which the format int8g does not keep
    codes = rng.integers(bits == 8 and group < k, 2 * half, (k, n))
    zeros = np.full((groups, n), half)
    if not cfg.get("sym"):
        zeros = rng.integers(is_v1, 2 * half, (groups, n))
    scales = rng.uniform(0.002, 0.02, (groups, n)).astype(np.float16)
    g_idx = np.arange(k) // group
    return codes, zeros, scales, g_idx


def matrix(rng, name, n, k, cfg, is_shuffled=False, order=None):
    """Its tensors, and its values as [n, k]."""
    codes, zeros, scales, g_idx = draw(rng, n, k, cfg)
    if is_shuffled:
        g_idx = rng.permutation(g_idx)
    if order is not None:
        g_idx = g_idx[order]
    if "w_bit" in cfg:
        parts = pack_awq(name, codes, zeros, scales)
    else:
        parts = pack_gptq(name, codes, zeros, scales, g_idx, cfg)
    want = scales.astype(np.float32)[g_idx] * (codes - zeros[g_idx]).astype(np.float32)
    return parts, np.ascontiguousarray(want.T)


BYTES = {  # name: outputs, inputs, outputs and inputs that share a scale, its type
    "fp8_block": (136, 256, (128, 128), torch.float32),
    "fp8_block_half": (40, 160, (32, 32), torch.bfloat16),
    "fp8_channel": (40, 256, (1, 256), torch.bfloat16),
    "fp8_tensor": (40, 128, (40, 128), torch.float32),
    "int8_channel": (40, 256, (1, 256), torch.bfloat16),
    "int8_group": (40, 256, (1, 128), torch.float32),
}


def byte_matrix(rng, name, n, k, block, dtype, is_int):
    """With all bytes that there are, but e4m3's NaN."""
    codes = torch.from_numpy(rng.integers(-128, 128, (n, k)).astype(np.int8))
    if not is_int:
        codes[(codes & 0x7f) == 0x7f] = 0x7e
        codes = codes.view(torch.float8_e4m3fn)
    shape = (-(-n // block[0]), -(-k // block[1]))
    scale = torch.from_numpy(rng.uniform(1e-4, 1e-3, shape).astype(np.float32)).to(dtype)
    wide = scale.float().repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:n, :k]
    parts = {f"{name}.weight": codes}
    if 1 < block[0] < n or 1 < block[1] < k and not is_int:
        parts[f"{name}.weight_scale_inv"] = scale
    else:
        parts[f"{name}.weight_scale"] = scale.reshape(()) if scale.numel() == 1 else scale
    if is_int:
        parts[f"{name}.weight_zero_point"] = torch.zeros(shape, dtype=torch.int8)
    return parts, (codes.float() * wide).numpy()


def make_bytes(name, n, k, block, dtype, seed):
    out = HERE / name
    out.mkdir(exist_ok=True)
    parts, want = byte_matrix(np.random.default_rng(seed), "m0", n, k, block, dtype, "int8" in name)
    write(out / "model.safetensors", parts | {"m0.want": want})


def tensors(parts):
    return {k: x if torch.is_tensor(x) else torch.from_numpy(x) for k, x in parts.items()}


def write(path, parts):
    save_file(tensors(parts), path)


def config_name(cfg):
    return "quant_config.json" if "w_bit" in cfg else "quantize_config.json"


def make_layout(name, n, k, cfg, seed):
    rng, out = np.random.default_rng(seed), HERE / name
    out.mkdir(exist_ok=True)
    parts, want = matrix(rng, "m0", n, k, cfg, is_shuffled="order" in name)
    write(out / "model.safetensors", parts | {"m0.want": want})
    (out / config_name(cfg)).write_text(json.dumps(cfg, indent=2) + "\n")


def order_of(orders, base, k, rng):
    """One of a layer's for q, k and v, as tools find it by their inputs; others have their own."""
    key = base[:-len("q_proj")] + "qkv" if base.endswith(("q_proj", "k_proj", "v_proj")) else base
    if key not in orders:
        orders[key] = rng.permutation(k)
    return orders[key]


def make_model(name, cfg, seed, is_beside=False, shuffled=()):
    out, rng = MODELS / f"packed_{name}", np.random.default_rng(seed)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    config = LlamaConfig(vocab_size=320, hidden_size=128, intermediate_size=256,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
                         tie_word_embeddings=True, attn_implementation="eager")
    model = LlamaForCausalLM(config).float().eval()
    state, parts, orders = {}, {}, {}
    for key, p in model.state_dict().items():
        if key == "lm_head.weight":
            continue
        if key.endswith("proj.weight"):
            base = key[:-len(".weight")]
            if "quant_method" in cfg and cfg["quant_method"] in ("fp8", "compressed-tensors"):
                is_int = cfg["quant_method"] != "fp8"
                block = (1, p.shape[1]) if is_int else (128, 128)
                some, state[key] = byte_matrix(rng, base, *p.shape, block, torch.bfloat16, is_int)
            else:
                order = order_of(orders, base, p.shape[1], rng) if name == "gptq_act" else None
                some, state[key] = matrix(rng, base, *p.shape, cfg,
                                          any(s in base for s in shuffled), order)
            parts |= some
        else:
            x = rng.normal(size=p.shape) * (0.7 if "embed" in key else 0.2) + ("norm" in key)
            parts[key] = x.astype(np.float16)
            state[key] = parts[key].astype(np.float32)
    model.load_state_dict({k: torch.from_numpy(x) for k, x in state.items()}, strict=False)
    prompt = rng.integers(3, 320, 24).tolist()
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0].numpy()
    said = json.loads(config.to_json_string())
    said["architectures"] = ["LlamaForCausalLM"]
    if is_beside:
        (out / config_name(cfg)).write_text(json.dumps(cfg, indent=2) + "\n")
    else:
        said["quantization_config"] = cfg if "w_bit" not in cfg else dict(
            quant_method="awq", bits=4, group_size=cfg["q_group_size"], version="gemm",
            zero_point=True)
    (out / "config.json").write_text(json.dumps(said, indent=2) + "\n")
    write(out / "model.safetensors", parts)
    write(out / "golden.safetensors",
          {"logits": logits} | {f"want.{k}": x for k, x in state.items()
                                if k.startswith("model.layers.1") and "proj" in k})
    (out / "golden.json").write_text(json.dumps(dict(prompt=prompt)) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(MODELS / "llama_tied" / file, out / file)


def make_seeds():
    """A byte that says how it is packed (fuzz_packed.c), then a file."""
    shutil.rmtree(SEEDS, ignore_errors=True)
    SEEDS.mkdir(parents=True)
    for seed, (name, (_, _, cfg)) in enumerate(LAYOUT.items()):
        parts, _ = matrix(np.random.default_rng(seed), "m", 8, 256 if "short" not in name else 160,
                          cfg, is_shuffled="order" in name)
        kind = b"a" if "w_bit" in cfg else b"2" if cfg["checkpoint_format"] == "gptq_v2" else b"1"
        group = cfg.get("group_size", cfg.get("q_group_size"))
        (SEEDS / name).write_bytes(kind + bytes([group & 255]) + save(tensors(parts)))
    for seed, (name, (_, _, block, dtype)) in enumerate(BYTES.items()):
        block = (min(block[0], 8), min(block[1], 128))
        parts, _ = byte_matrix(np.random.default_rng(seed), "m", 8, 128, block, dtype, "int8" in name)
        (SEEDS / name).write_bytes(b"b" + bytes([block[1]]) + save(tensors(parts)))


def main():
    for seed, (name, (n, k, cfg)) in enumerate(LAYOUT.items()):
        make_layout(name, n, k, cfg, seed)
    make_model("gptq", GPTQ | dict(group_size=32), 31, is_beside=True)
    make_model("gptq_order", GPTQ | dict(sym=False, group_size=32, desc_act=True), 32,
               shuffled=("o_proj", "down_proj"))
    make_model("gptq_act", GPTQ | dict(group_size=32, desc_act=True), 36)
    make_model("awq", AWQ, 33)
    for seed, (name, row) in enumerate(BYTES.items()):
        make_bytes(name, *row, 100 + seed)
    make_model("fp8", FP8, 34)
    make_model("w8a8", W8A8, 35)
    make_seeds()


main()
