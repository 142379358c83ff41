# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py some of whose layers do not attend: by name what makes
(class, config), and the options of their LoRA runs."""
from transformers import Lfm2Config, Lfm2ForCausalLM

SIZES = dict(vocab_size=203, hidden_size=48, intermediate_size=75, num_hidden_layers=4,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rope_theta=10000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def lfm2(**kw):
    return Lfm2ForCausalLM, Lfm2Config(**(SIZES | kw))


MODELS = {
    "lfm2": lambda: lfm2(full_attn_idxs=[2], block_multiple_of=16),
    "lfm2_bias": lambda: lfm2(hidden_size=40, conv_bias=True, conv_L_cache=4,
                              block_auto_adjust_ff_dim=False, tie_word_embeddings=False,
                              layer_types=["full_attention", "conv", "conv", "full_attention"]),
}
LORA = {
    "lfm2": dict(r=4, lora_alpha=8, target_modules=[
        "q_proj", "k_proj", "v_proj", "out_proj", "in_proj", "w1", "w2", "w3"]),
}
