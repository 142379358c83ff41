# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py whose feed-forwards are mixtures of experts: by name what makes
(class, config), and the options of their LoRA runs."""
from transformers import (GptOssConfig, GptOssForCausalLM, MixtralConfig, MixtralForCausalLM,
                          OlmoeConfig, OlmoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

SIZES = dict(vocab_size=199, hidden_size=44, intermediate_size=75, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rope_theta=10000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def qwen3_moe(**kw):
    sizes = dict(head_dim=14, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=21,
                 norm_topk_prob=True)
    return Qwen3MoeForCausalLM, Qwen3MoeConfig(**(SIZES | sizes | kw))


def mixtral(**kw):
    sizes = dict(hidden_size=48, intermediate_size=37, num_local_experts=4, num_experts_per_tok=2)
    return MixtralForCausalLM, MixtralConfig(**(SIZES | sizes | kw))


def olmoe(**kw):
    sizes = dict(hidden_size=48, intermediate_size=25, num_experts=8, num_experts_per_tok=3)
    return OlmoeForCausalLM, OlmoeConfig(**(SIZES | sizes | kw))


def gpt_oss(**kw):
    sizes = dict(head_dim=14, intermediate_size=21, num_local_experts=5, num_experts_per_tok=2,
                 sliding_window=9, attention_bias=True,
                 rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                   truncate=False, original_max_position_embeddings=16))
    return GptOssForCausalLM, GptOssConfig(**(SIZES | sizes | kw))


MODELS = {
    "qwen3_moe": lambda: qwen3_moe(),
    "qwen3_moe_dense": lambda: qwen3_moe(num_hidden_layers=4, mlp_only_layers=[3],
                                         decoder_sparse_step=2, num_experts=5,
                                         num_experts_per_tok=2, norm_topk_prob=False,
                                         tie_word_embeddings=True),
    "mixtral": lambda: mixtral(sliding_window=11),
    "olmoe": lambda: olmoe(),
    "gpt_oss": lambda: gpt_oss(),
    "olmoe_normed": lambda: olmoe(norm_topk_prob=True, num_key_value_heads=4),
}
LORA = {
    "qwen3_moe": dict(r=4, lora_alpha=8, target_modules=ATTENTION),
    "gpt_oss": dict(r=4, lora_alpha=8, target_modules=ATTENTION),
    "mixtral": dict(r=3, lora_alpha=8, target_modules=ATTENTION),
}

NEAR_IN_BF16 = ("gpt_oss", "qwen2_moe", "qwen2_moe_balanced", "qwen3_next", "qwen3_5_moe",
                "qwen3_5_moe_vision")


def parts(name, x, by_turns):
    """What the engine calls the parts of a tensor that has all experts of a layer: gpt-oss has the
    outputs of gate and up by turns, and matrices by inputs; others first all of the gate."""
    base, _, end = name.rpartition(".experts.")
    if not base or end.split("_bias")[0] not in ("gate_up_proj", "down_proj"):
        return {name: x}
    kind = "bias" if end.endswith("_bias") else "weight"
    halves = {"gate_proj": x[..., ::2], "up_proj": x[..., 1::2]}
    if not by_turns:
        x = x.transpose(-1, -2)
        halves = dict(zip(("gate_proj", "up_proj"), x.chunk(2, dim=-1)))
    halves = halves if end.startswith("gate_up") else {"down_proj": x}
    return {f"{base}.experts.{e}.{half}.{kind}": y[e].T if kind == "weight" else y[e]
            for half, y in halves.items() for e in range(len(y))}


def is_bias(name, x):
    """AdamW leaves biases alone: vectors, and stacks of them."""
    return x.dim() < 2 or name.endswith("_bias")
