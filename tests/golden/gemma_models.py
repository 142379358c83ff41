# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py of the later Gemmas, made by a later transformers
(requirements_delta.txt): by name what makes (class, config), and the options of their LoRA runs."""
try:
    from transformers import (Gemma3nForCausalLM, Gemma3nTextConfig, Gemma4Config,
                              Gemma4ForCausalLM, Gemma4ForConditionalGeneration, Gemma4TextConfig)
except ImportError:  # the versions of requirements.txt have none
    Gemma4Config = None

SLIDES, FULL = "sliding_attention", "full_attention"
SIZES = dict(vocab_size=203, vocab_size_per_layer_input=203, hidden_size=44, intermediate_size=51,
             num_attention_heads=4, num_key_value_heads=2, head_dim=10, global_head_dim=14,
             max_position_embeddings=64, sliding_window=9, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
ROPE = {FULL: dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=5000.0),
        SLIDES: dict(rope_type="default", rope_theta=300.0)}
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
              "per_layer_input_gate", "per_layer_projection", "per_layer_model_projection"]


def gemma4(**kw):
    base = dict(num_hidden_layers=4, hidden_size_per_layer_input=10, num_kv_shared_layers=2,
                use_double_wide_mlp=True, final_logit_softcapping=25.0, rope_parameters=ROPE,
                layer_types=[SLIDES, FULL, SLIDES, FULL])
    return Gemma4ForCausalLM, Gemma4TextConfig(**(SIZES | base | kw))


def gemma4_wide():
    """As the larger ones are: keys that are values, no embeddings of layers' own."""
    return gemma4(num_hidden_layers=3, hidden_size_per_layer_input=0, num_kv_shared_layers=0,
                  use_double_wide_mlp=False, final_logit_softcapping=None, attention_k_eq_v=True,
                  num_global_key_value_heads=1, layer_types=[SLIDES, FULL, FULL],
                  tie_word_embeddings=False, use_bidirectional_attention="vision")


def gemma4_experts():
    """As the one with experts: a mixture beside what every row goes through."""
    return gemma4(num_hidden_layers=3, hidden_size_per_layer_input=0, num_kv_shared_layers=0,
                  use_double_wide_mlp=False, attention_k_eq_v=True, num_global_key_value_heads=1,
                  layer_types=[SLIDES, SLIDES, FULL], enable_moe_block=True, num_experts=5,
                  top_k_experts=2, moe_intermediate_size=21)


def gemma4_vision():
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, head_dim=8,
                  num_attention_heads=2, num_key_value_heads=2, patch_size=4, pooling_kernel_size=2,
                  position_embedding_size=16)
    text = gemma4(num_hidden_layers=3, num_kv_shared_layers=1, layer_types=[FULL, SLIDES, FULL])
    return Gemma4ForConditionalGeneration, Gemma4Config(
        text_config=text[1].to_dict(), vision_config=vision, eos_token_id=[2, 5],
        image_token_id=300, video_token_id=301, audio_token_id=302)  # in no text


def gemma3n(**kw):
    base = dict(num_hidden_layers=4, hidden_size_per_layer_input=10, num_kv_shared_layers=2,
                laurel_rank=7, activation_sparsity_pattern=[0.6, 0.0, 0.3, 0.0],
                rope_parameters={FULL: dict(rope_type="default", rope_theta=5000.0),
                                 SLIDES: dict(rope_type="default", rope_theta=300.0)},
                intermediate_size=[51, 51, 60, 51], layer_types=[SLIDES, FULL, SLIDES, FULL])
    sizes = {k: v for k, v in SIZES.items() if k != "global_head_dim"}
    return Gemma3nForCausalLM, Gemma3nTextConfig(**(sizes | base | kw))


LR = 5e-5  # of AdamW: the same reason as in delta_models.py
LORA_LR = {"gemma3n": 2e-4}  # for the same reason

MODELS = {
    "gemma4": lambda: gemma4(),
    "gemma4_wide": gemma4_wide,
    "gemma4_experts": gemma4_experts,
    "gemma4_vision": gemma4_vision,
    "gemma3n": lambda: gemma3n(),
    "gemma3n_plain": lambda: gemma3n(num_hidden_layers=3, num_kv_shared_layers=0,
                                     altup_correct_scale=False, tie_word_embeddings=False,
                                     activation_sparsity_pattern=[0.0, 0.9, 0.0],
                                     intermediate_size=43, layer_types=[FULL, SLIDES, FULL],
                                     vocab_size_per_layer_input=120),  # tokens behind have the first's
} if Gemma4Config else {}
LORA = {
    "gemma4": dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
    "gemma4_wide": dict(r=4, lora_alpha=6, target_modules=ALL_LINEAR[:7]),
    "gemma3n": dict(r=3, lora_alpha=6, target_modules=[
        *ALL_LINEAR, "linear_left", "linear_right", "modality_router", "prediction_coefs",
        "correction_coefs"]),
    "gemma4_experts": dict(r=4, lora_alpha=6, target_modules=ALL_LINEAR[:7]),
}
