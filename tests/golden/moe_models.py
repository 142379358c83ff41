# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py whose feed-forwards are mixtures of experts: by name what makes
(class, config), and the options of their LoRA runs."""
from transformers import (MixtralConfig, MixtralForCausalLM, OlmoeConfig, OlmoeForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM)

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


MODELS = {
    "qwen3_moe": lambda: qwen3_moe(),
    "qwen3_moe_dense": lambda: qwen3_moe(num_hidden_layers=4, mlp_only_layers=[3],
                                         decoder_sparse_step=2, num_experts=5,
                                         num_experts_per_tok=2, norm_topk_prob=False,
                                         tie_word_embeddings=True),
    "mixtral": lambda: mixtral(sliding_window=11),
    "olmoe": lambda: olmoe(),
    "olmoe_normed": lambda: olmoe(norm_topk_prob=True, num_key_value_heads=4),
}
LORA = {
    "qwen3_moe": dict(r=4, lora_alpha=8, target_modules=ATTENTION),
    "mixtral": dict(r=3, lora_alpha=8, target_modules=ATTENTION),
}
