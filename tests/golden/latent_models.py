# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py whose attention goes through a latent: by name what makes
(class, config), and the options of their LoRA runs."""
from transformers import (DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config,
                          DeepseekV3ForCausalLM, Mistral4Config, Mistral4ForCausalLM)

SIZES = dict(vocab_size=193, hidden_size=52, intermediate_size=61, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
             kv_lora_rank=28, qk_nope_head_dim=14, qk_rope_head_dim=8, v_head_dim=10,
             n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=21,
             first_k_dense_replace=1, bos_token_id=1, eos_token_id=2, pad_token_id=0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=16)
ATTENTION = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]


def deepseek_v2(**kw):
    return DeepseekV2ForCausalLM, DeepseekV2Config(**(SIZES | dict(q_lora_rank=None) | kw))


def deepseek_v3(**kw):
    sizes = dict(q_lora_rank=22, n_group=4, topk_group=2, routed_scaling_factor=1.5)
    return DeepseekV3ForCausalLM, DeepseekV3Config(**(SIZES | sizes | kw))


def mistral4(**kw):
    sizes = dict(q_lora_rank=22, n_group=2, topk_group=1, v_head_dim=20, qk_nope_head_dim=12,
                 routed_scaling_factor=1.3, first_k_dense_replace=0, n_shared_experts=1,
                 rope_parameters=dict(**YARN, mscale=1.0, mscale_all_dim=1.0,
                                      llama_4_scaling_beta=0.3))
    return Mistral4ForCausalLM, Mistral4Config(**(SIZES | sizes | kw))


MODELS = {
    "deepseek_v2": lambda: deepseek_v2(),
    "deepseek_v2_groups": lambda: deepseek_v2(
        q_lora_rank=22, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=1.7, attention_bias=True, n_shared_experts=1,
        rope_parameters=dict(**YARN, mscale=0.707, mscale_all_dim=0.9)),
    "deepseek_v3": lambda: deepseek_v3(
        rope_parameters=dict(**YARN, mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v3_whole": lambda: deepseek_v3(
        q_lora_rank=None, n_group=1, topk_group=1, norm_topk_prob=False, v_head_dim=22,
        rope_interleave=False, rms_norm_eps=1e-5, n_shared_experts=2, first_k_dense_replace=0),
    "mistral4": lambda: mistral4(),
}
LORA = {
    "deepseek_v2": dict(r=3, lora_alpha=8, target_modules=ATTENTION + ["q_proj"]),
    "mistral4": dict(r=2, lora_alpha=6, target_modules=ATTENTION + ["q_a_proj", "q_b_proj"]),
    "deepseek_v3": dict(r=4, lora_alpha=8, target_modules=ATTENTION + ["q_a_proj", "q_b_proj"]),
}
