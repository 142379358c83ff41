#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files of the tiny models and tokenizers beside this folder, with the package gguf.

    python3 tests/golden/gguf/make_files.py      (requirements.txt beside this file)

NAME.gguf               models/NAME in F32, under llama.cpp's names and with llama.cpp's order of
                        queries and keys; qwen3 in four parts
quantised.gguf          a random model with a matrix of nearly every kind, and quantised/ with what the
                        package makes of it in f32, as a directory
experts.gguf, experts/  the same of a mixture, whose experts' matrices stand in stacks
coded.gguf, coded/      the same of kinds whose codes are a format's: a layer of Q4_0, one of Q8_0
nested.gguf             one layer of kinds whose scales have scales; q and k of another kind than v
mixed.gguf              one layer of kinds that an int8k holds, and of several in q, k and v
tok_NAME.gguf           tokenizer/NAME.json, and no tensor
../../fuzz/corpus/gguf  seeds
"""
import json
import pathlib
import shutil
import struct

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS, TOKENIZERS = HERE.parent / "models", HERE.parent / "tokenizer"
SEEDS = HERE.parent.parent / "fuzz" / "corpus" / "gguf"
KIND = gguf.GGMLQuantizationType
TYPE = gguf.TokenType
PARTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
         "block_sparse_moe.gate": "ffn_gate_inp"}
EXPERT = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps",
          "w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps"}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def read_tensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        dtype = {"F32": np.float32, "U8": np.uint8, "BF16": np.uint16}[t["dtype"]]
        x = np.frombuffer(data[8 + n + lo:8 + n + hi], dtype).reshape(t["shape"])
        if dtype == np.uint16:
            x = (x.astype(np.uint32) << 16).view(np.float32)
        yield name, x


def read_safetensors(path):
    for name, x in read_tensors(path):
        assert x.dtype == np.float32
        yield name, x


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        header[name] = dict(dtype="F32", shape=list(x.shape),
                            data_offsets=[len(data), len(data) + x.nbytes])
        data += x.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def there(name):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    part, end = rest.rsplit(".", 1)
    return f"blk.{layer}.{PARTS[part]}.{end}"


def stacked(tensors):
    """Tensors as they are, and behind them those of experts as llama.cpp has them: one of all."""
    stacks = {}
    for name, x in tensors:
        if ".experts." not in name:
            yield there(name), x
            continue
        _, _, layer, _, _, expert, part, _ = name.split(".")
        stacks.setdefault(f"blk.{layer}.{EXPERT[part]}.weight", {})[int(expert)] = x
    for name, one in stacks.items():
        yield name, np.stack([one[i] for i in range(len(one))])


def permute(x, n_head):
    """As LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py."""
    return (x.reshape(n_head, 2, x.shape[0] // n_head // 2, *x.shape[1:]).swapaxes(1, 2)
            .reshape(x.shape))


def llama3_factors(c):
    """As LlamaModel.generate_extra_tensors of llama.cpp's convert_hf_to_gguf.py."""
    r = c["rope_scaling"]
    dim, old = c["head_dim"], r["original_max_position_embeddings"]
    freqs = 1.0 / (c["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float32) / dim))
    low, high = r["low_freq_factor"], r["high_freq_factor"]
    out = []
    for freq in freqs:
        wavelen = 2 * np.pi / freq
        if wavelen < old / high:
            out.append(1)
        elif wavelen > old / low:
            out.append(r["factor"])
        else:
            smooth = (old / wavelen - low) / (high - low)
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def add_config(w, arch, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    rope = c.get("rope_parameters") or {}
    w.add_rope_freq_base(c.get("rope_theta") or rope["rope_theta"])
    scaling = c.get("rope_scaling") or {}
    if scaling.get("rope_type") == "linear" or scaling.get("type") == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(scaling["factor"])
    experts = c.get("num_experts") or c.get("num_local_experts")
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(c["num_experts_per_tok"])
    if c.get("moe_intermediate_size"):
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if c.get("bos_token_id") is not None:
        w.add_bos_token_id(c["bos_token_id"])
    if c.get("eos_token_id") is not None:
        w.add_eos_token_id(c["eos_token_id"])


def split_merges(merges):
    return [m if isinstance(m, str) else " ".join(m) for m in merges]


def add_tokenizer(w, t, model, pre=None):
    added = {a["content"]: a for a in t["added_tokens"]}
    vocab = dict(t["model"]["vocab"], **{a["content"]: a["id"] for a in t["added_tokens"]})
    tokens = [s for s, _ in sorted(vocab.items(), key=lambda x: x[1])]
    assert [vocab[s] for s in tokens] == list(range(len(tokens)))
    types = []
    for s in tokens:
        a = added.get(s)
        types.append(TYPE.UNKNOWN if model == "llama" and s == t["model"].get("unk_token") else
                     TYPE.CONTROL if a and a["special"] else TYPE.USER_DEFINED if a else
                     TYPE.BYTE if model == "llama" and s.startswith("<0x") else TYPE.NORMAL)
    w.add_tokenizer_model(model)
    if pre:
        w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if model == "llama":
        rank = {"".join(m if isinstance(m, list) else m.split(" ")): -i
                for i, m in reversed(list(enumerate(t["model"]["merges"])))}
        w.add_token_scores([float(rank.get(s, -1e6)) for s in tokens])
        w.add_unk_token_id(vocab[t["model"]["unk_token"]])
    else:
        w.add_token_merges(split_merges(t["model"]["merges"]))
    around = json.dumps(t.get("post_processor") or {})
    w.add_add_bos_token('"SpecialToken": {"id": "<s>"' in around)
    return vocab


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_model(name, arch, **kw):
    c = json.loads((MODELS / name / "config.json").read_text())
    w = gguf.GGUFWriter(str(HERE / f"{name}.gguf"), arch, **kw)
    add_config(w, arch, c)
    if arch == "llama" and c.get("sliding_window"):
        w.add_sliding_window(c["sliding_window"])
    tokenizer = MODELS / name / "tokenizer.json"
    if tokenizer.exists():
        add_tokenizer(w, json.loads(tokenizer.read_text()), "gpt2", "gpt-2")
        extra = json.loads((MODELS / name / "tokenizer_config.json").read_text())
        if isinstance(extra.get("chat_template"), str):
            w.add_chat_template(extra["chat_template"])
    if (c.get("rope_scaling") or {}).get("rope_type") == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(c))
    for tensor, x in stacked(read_safetensors(MODELS / name / "model.safetensors")):
        if arch == "llama" and (".attn_q." in tensor or ".attn_k." in tensor):
            heads = c["num_attention_heads" if ".attn_q." in tensor else "num_key_value_heads"]
            x = permute(x, heads)
        w.add_tensor(tensor, np.ascontiguousarray(x))
    finish(w)


QUANTISED = dict(attn_q="Q8_0", attn_k="Q4_0", attn_v="Q4_1", attn_output="Q5_1", ffn_gate="MXFP4",
                 ffn_up="Q5_0", ffn_down="Q4_K")


def random_blocks(rng, kind, rows, cols):
    """Blocks of random bytes with scales near 1/64: the package cannot quantise every kind."""
    size, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    b = rng.integers(0, 256, (rows * cols // size, n_bytes), dtype=np.uint8)
    if kind == KIND.MXFP4:
        b[:, 0] = rng.integers(118, 124, len(b))
    else:
        scale = rng.uniform(0.001, 0.01, (len(b), 1)).astype(np.float16)
        b[:, 0:2] = scale.view(np.uint8)
        if kind in (KIND.Q4_1, KIND.Q5_1, KIND.Q4_K):
            b[:, 2:4] = scale.view(np.uint8)
        if kind == KIND.Q8_0:  # whose makers write no -128
            b[:, 2:][b[:, 2:] == 0x80] = 0x81
    return b.reshape(rows, -1)


def make_quantised():
    c = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=96, hidden_size=64,
             intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6,
             rope_theta=10000.0, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    rng, plain = np.random.default_rng(11), {}
    w = gguf.GGUFWriter(str(HERE / "quantised.gguf"), "qwen2")
    add_config(w, "qwen2", c)
    shapes = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64),
              "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64), "mlp.gate_proj": (256, 64),
              "mlp.up_proj": (256, 64), "mlp.down_proj": (64, 256)}
    for part, (rows, cols) in shapes.items():
        name, kind = f"model.layers.0.{part}.weight", KIND[QUANTISED[PARTS[part]]]
        b = random_blocks(rng, kind, rows, cols)
        w.add_tensor(there(name), b, raw_dtype=kind)
        plain[name] = gguf.quants.dequantize(b, kind).reshape(rows, cols)
    for part, n in (("q", 64), ("k", 32), ("v", 32)):
        plain[f"model.layers.0.self_attn.{part}_proj.bias"] = rng.normal(size=n).astype(np.float32)
    for part in ("input_layernorm", "post_attention_layernorm"):
        plain[f"model.layers.0.{part}.weight"] = np.ones(64, np.float32)
    plain["model.norm.weight"] = np.ones(64, np.float32)
    embed = rng.normal(size=(96, 64)).astype(np.float16)
    w.add_tensor("token_embd.weight", embed)
    for name, x in plain.items():
        if x.ndim == 1:
            w.add_tensor(there(name), x)
    plain["model.embed_tokens.weight"] = embed.astype(np.float32)
    finish(w)
    out = HERE / "quantised"
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    write_safetensors(out / "model.safetensors", plain)


def unpermute(x, n_head):
    return (x.reshape(n_head, x.shape[0] // n_head // 2, 2, *x.shape[1:]).swapaxes(1, 2)
            .reshape(x.shape))


def make_coded():
    c = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=96, hidden_size=64,
             intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6,
             rope_theta=10000.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
    rng, plain = np.random.default_rng(12), {}
    w = gguf.GGUFWriter(str(HERE / "coded.gguf"), "llama")
    add_config(w, "llama", c)
    shapes = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64),
              "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64), "mlp.gate_proj": (160, 64),
              "mlp.up_proj": (160, 64), "mlp.down_proj": (64, 160)}
    tensors = [("model.embed_tokens", (96, 64), "Q8_0"), ("lm_head", (96, 64), "Q4_0")]
    for layer, kind in ((0, "Q4_0"), (1, "Q8_0")):
        tensors += [(f"model.layers.{layer}.{part}", shape, kind) for part, shape in shapes.items()]
    for part, (rows, cols), kind in tensors:
        b = random_blocks(rng, KIND[kind], rows, cols)
        if kind == "Q8_0":
            codes = b.reshape(-1, 34)[:, 2:]
            codes[codes == 128] = 129  # -128, which quantising never gives
        w.add_tensor(there(part + ".weight"), b, raw_dtype=KIND[kind])
        x = gguf.quants.dequantize(b, KIND[kind]).reshape(rows, cols)
        heads = {"q_proj": 4, "k_proj": 2}.get(part.rsplit(".")[-1])
        plain[part + ".weight"] = np.ascontiguousarray(unpermute(x, heads) if heads else x)
    for layer in range(2):
        for part in ("input_layernorm", "post_attention_layernorm"):
            plain[f"model.layers.{layer}.{part}.weight"] = np.ones(64, np.float32)
    plain["model.norm.weight"] = np.ones(64, np.float32)
    for name, x in plain.items():
        if x.ndim == 1:
            w.add_tensor(there(name), x)
    finish(w)
    out = HERE / "coded"
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    write_safetensors(out / "model.safetensors", plain)


NESTED = {"model.embed_tokens": ((96, 256), "Q6_K"), "lm_head": ((96, 256), "Q4_K"),
          "model.layers.0.self_attn.q_proj": ((256, 256), "Q4_K"),
          "model.layers.0.self_attn.k_proj": ((64, 256), "Q4_K"),
          "model.layers.0.self_attn.v_proj": ((64, 256), "Q6_K"),
          "model.layers.0.self_attn.o_proj": ((256, 256), "Q5_K"),
          "model.layers.0.mlp.gate_proj": ((256, 256), "Q4_K"),
          "model.layers.0.mlp.up_proj": ((256, 256), "Q4_K"),
          "model.layers.0.mlp.down_proj": ((256, 256), "Q3_K")}
MIXED = {"model.embed_tokens": ((96, 256), "Q4_1"), "lm_head": ((96, 256), "IQ4_XS"),
         "model.layers.0.self_attn.q_proj": ((256, 256), "IQ4_XS"),
         "model.layers.0.self_attn.k_proj": ((64, 256), "Q5_0"),
         "model.layers.0.self_attn.v_proj": ((64, 256), "Q5_K"),
         "model.layers.0.self_attn.o_proj": ((256, 256), "Q5_1"),
         "model.layers.0.mlp.gate_proj": ((256, 256), "Q4_K"),
         "model.layers.0.mlp.up_proj": ((256, 256), "Q4_0"),
         "model.layers.0.mlp.down_proj": ((256, 256), "Q2_K")}
HALVES = dict(Q3_K=[108], Q4_K=[0, 2], Q5_K=[0, 2], Q6_K=[208], Q4_0=[0], Q4_1=[0, 2], Q5_0=[0],
              Q5_1=[0, 2], Q2_K=[80, 82], IQ4_XS=[0])


def make_nested(name, tensors, seed):
    c = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=96, hidden_size=256,
             intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=1, max_position_embeddings=64, rms_norm_eps=1e-6,
             rope_theta=10000.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
    rng = np.random.default_rng(seed)
    w = gguf.GGUFWriter(str(HERE / name), "llama")
    add_config(w, "llama", c)
    for part, ((rows, cols), kind) in tensors.items():
        size, n_bytes = gguf.GGML_QUANT_SIZES[KIND[kind]]
        b = rng.integers(0, 256, (rows * cols // size, n_bytes), dtype=np.uint8)
        for at in HALVES[kind]:
            scale = rng.uniform(1e-5, 1e-4, (len(b), 1)).astype(np.float16)
            b[:, at:at + 2] = scale.view(np.uint8)
        w.add_tensor(there(part + ".weight"), b.reshape(rows, -1), raw_dtype=KIND[kind])
    for part in ("input_layernorm", "post_attention_layernorm"):
        w.add_tensor(there(f"model.layers.0.{part}.weight"), np.ones(256, np.float32))
    w.add_tensor(there("model.norm.weight"), np.ones(256, np.float32))
    finish(w)


EXPERT_KINDS = {"gate_proj": ((32, 64), "Q4_0"), "up_proj": ((32, 64), "Q8_0"),
                "down_proj": ((64, 32), "Q4_1")}


def make_experts():
    """A layer of three experts, whose matrices are blocks in a stack."""
    c = dict(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", vocab_size=96,
             hidden_size=64, intermediate_size=160, moe_intermediate_size=32, num_experts=3,
             num_experts_per_tok=2, norm_topk_prob=True, num_hidden_layers=1, head_dim=16,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-6, rope_theta=10000.0, tie_word_embeddings=True, bos_token_id=1,
             eos_token_id=2)
    rng, plain = np.random.default_rng(14), {}
    w = gguf.GGUFWriter(str(HERE / "experts.gguf"), "qwen3moe")
    add_config(w, "qwen3moe", c)
    layer = "model.layers.0"
    for part, shape in (("q", (64, 64)), ("k", (32, 64)), ("v", (32, 64)), ("o", (64, 64))):
        plain[f"{layer}.self_attn.{part}_proj.weight"] = rng.normal(size=shape).astype(np.float32)
    for part, n in (("self_attn.q_norm", 16), ("self_attn.k_norm", 16), ("input_layernorm", 64),
                    ("post_attention_layernorm", 64)):
        plain[f"{layer}.{part}.weight"] = np.ones(n, np.float32)
    plain[f"{layer}.mlp.gate.weight"] = rng.normal(size=(3, 64)).astype(np.float32)
    plain["model.norm.weight"] = np.ones(64, np.float32)
    plain["model.embed_tokens.weight"] = rng.normal(size=(96, 64)).astype(np.float32)
    for name, x in plain.items():
        w.add_tensor(there(name), x)
    for part, ((rows, cols), kind) in EXPERT_KINDS.items():
        blocks = random_blocks(rng, KIND[kind], 3 * rows, cols)
        if kind == "Q8_0":
            codes = blocks.reshape(-1, 34)[:, 2:]
            codes[codes == 128] = 129
        w.add_tensor(f"blk.0.{EXPERT[part]}.weight", blocks.reshape(3, rows, -1),
                     raw_dtype=KIND[kind])
        all_of_them = gguf.quants.dequantize(blocks, KIND[kind]).reshape(3, rows, cols)
        for i in range(3):
            plain[f"{layer}.mlp.experts.{i}.{part}.weight"] = all_of_them[i]
    finish(w)
    out = HERE / "experts"
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    write_safetensors(out / "model.safetensors", plain)


def make_tokenizer(name, model, pre=None):
    t = json.loads((TOKENIZERS / f"{name}.json").read_text())
    w = gguf.GGUFWriter(str(HERE / f"tok_{name}.gguf"), "llama")
    vocab = add_tokenizer(w, t, model, pre)
    w.add_bos_token_id(vocab["<s>"])
    finish(w)


def make_seed(name, arch, model, kind):
    rng = np.random.default_rng(3)
    w = gguf.GGUFWriter(str(SEEDS / name), arch)
    add_config(w, arch, dict(vocab_size=8, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                             num_attention_heads=2, num_key_value_heads=1,
                             max_position_embeddings=16, rms_norm_eps=1e-6, rope_theta=10000.0,
                             bos_token_id=1, eos_token_id=2))
    tokens = {"llama": ["<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "aa", "<0x41>"],
              "gpt2": ["a", "<s>", "</s>", "b", "\u0120", "\u0120a", "ab", "ba"]}[model]
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types([2, 3, 3, 1, 1, 1, 4, 6] if model == "llama" else [1, 3, 3, 1, 1, 1, 1, 4])
    if model == "llama":
        w.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, 0.0])
        w.add_unk_token_id(0)
    else:
        w.add_tokenizer_pre("llama-bpe")
        w.add_token_merges(["\u0120 a", "a b"])
    w.add_chat_template("{{ messages[0].content }}")
    for tensor, rows in (("token_embd", 8), ("blk.0.attn_q", 32), ("blk.0.ffn_down", 32)):
        b = random_blocks(rng, KIND[kind], rows, 32)
        w.add_tensor(f"{tensor}.weight", b, raw_dtype=KIND[kind])
    w.add_tensor("output_norm.weight", np.ones(32, np.float32))
    finish(w)


def main():
    shutil.rmtree(SEEDS, ignore_errors=True)
    SEEDS.mkdir(parents=True)
    make_model("llama_plain", "llama")
    make_model("llama_tied", "llama")
    make_model("llama_mha_bias", "llama")
    make_model("llama_rope_llama3", "llama")
    make_model("llama_rope_linear", "llama")
    make_model("qwen2", "qwen2")
    make_model("qwen3", "qwen3", split_max_tensors=10)
    make_model("qwen3_moe", "qwen3moe")
    make_model("mixtral", "llama")
    make_model("olmoe", "olmoe")
    make_experts()
    make_quantised()
    make_coded()
    make_nested("nested.gguf", NESTED, 13)
    make_nested("mixed.gguf", MIXED, 14)
    make_tokenizer("gpt2", "gpt2", "gpt-2")
    make_tokenizer("llama3", "gpt2", "llama-bpe")
    make_tokenizer("qwen2", "gpt2", "qwen2")
    make_tokenizer("llama2", "llama")
    make_seed("llama_q8", "llama", "llama", "Q8_0")
    make_seed("qwen_q4", "qwen2", "gpt2", "Q4_0")
    make_seed("qwen_q5", "qwen2", "gpt2", "Q5_0")
    make_seed("llama_iq4", "llama", "llama", "IQ4_NL")


if __name__ == "__main__":
    main()
