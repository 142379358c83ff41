# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py of families whose layers differ from Llama's in what they norm,
scale or turn: by name what makes (class, config), and the options of their LoRA runs."""
import transformers
from transformers import (CLIPVisionConfig, Gemma2Config, Gemma2ForCausalLM, Gemma3Config,
                          Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Gemma3TextConfig,
                          GraniteConfig, GraniteForCausalLM, LlamaConfig, LlavaConfig,
                          LlavaForConditionalGeneration, Olmo2Config, Olmo2ForCausalLM,
                          Phi3Config, Phi3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

SIZES = dict(vocab_size=199, hidden_size=48, intermediate_size=75, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rope_theta=10000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Beside the text model others have products of the same names.
LANGUAGE = r".*language_model\..*\.(q_proj|v_proj|down_proj)"


def olmo2(**kw):
    return Olmo2ForCausalLM, Olmo2Config(**(SIZES | kw))


YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=16)


def olmo3(**kw):
    rope = {"full_attention": YARN | {"attention_factor": 1.2},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    return transformers.Olmo3ForCausalLM, transformers.Olmo3Config(**(SIZES | dict(
        sliding_window=11, layer_types=types, rope_parameters=rope) | kw))


def ministral3(**kw):
    rope = YARN | dict(mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)
    return transformers.Ministral3ForCausalLM, transformers.Ministral3Config(**(SIZES | dict(
        head_dim=14, rope_parameters=rope) | kw))


def smollm3(**kw):
    return SmolLM3ForCausalLM, SmolLM3Config(**(SIZES | kw))


def granite(**kw):
    scales = dict(embedding_multiplier=3.0, attention_multiplier=0.21, residual_multiplier=0.37,
                  logits_scaling=0.3)
    return GraniteForCausalLM, GraniteConfig(**(SIZES | scales | kw))


def gemma2(**kw):
    sizes = dict(head_dim=14, sliding_window=11, query_pre_attn_scalar=9, attn_logit_softcapping=3.0,
                 final_logit_softcapping=6.0, tie_word_embeddings=False)
    return Gemma2ForCausalLM, Gemma2Config(**(SIZES | sizes | kw))


def gemma3(**kw):
    sizes = dict(head_dim=14, sliding_window=11, sliding_window_pattern=3, query_pre_attn_scalar=9,
                 rope_theta=50000.0, rope_local_base_freq=300.0, tie_word_embeddings=False)
    return Gemma3ForCausalLM, Gemma3TextConfig(**(SIZES | sizes | kw))


def phi3(**kw):
    return Phi3ForCausalLM, Phi3Config(**(SIZES | dict(sliding_window=None) | kw))


VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
              image_size=28, patch_size=14)


def gemma3_vision():
    text = gemma3()[1].to_dict()
    return Gemma3ForConditionalGeneration, Gemma3Config(
        text_config=text, vision_config=VISION, mm_tokens_per_image=4, eos_token_id=[2, 5],
        image_token_index=198, boi_token_index=197, eoi_token_index=196)


def llava():
    text = LlamaConfig(**(SIZES | dict(num_key_value_heads=4, rms_norm_eps=1e-5)))
    return LlavaForConditionalGeneration, LlavaConfig(
        text_config=text, vision_config=CLIPVisionConfig(**VISION), image_token_index=198)


def qwen_vision(kind, **kw):
    """A text model around which there is a tower for pictures: its positions are threefold."""
    vision = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=48, patch_size=4)
    text = SIZES | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 2, 2]}}
    ids = dict(image_token_id=198, video_token_id=197, vision_start_token_id=196, vision_end_token_id=195)
    config = getattr(transformers, f"{kind}Config")(text_config=text | kw.pop("text"), vision_config=vision | kw, **ids)
    return getattr(transformers, f"{kind}ForConditionalGeneration"), config


LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.05, 1.2, 1.4],
            "long_factor": [1.0, 1.7, 3.1, 5.5]}
MODELS = {
    "olmo2": lambda: olmo2(),
    "olmo2_bias": lambda: olmo2(attention_bias=True, num_key_value_heads=4),
    "smollm3": lambda: smollm3(no_rope_layers=[1, 0, 1]),
    "smollm3_window": lambda: smollm3(use_sliding_window=True, sliding_window=9,
                                      no_rope_layer_interval=2, mlp_bias=True),
    "granite": lambda: granite(),
    "gemma2": lambda: gemma2(),
    "gemma3": lambda: gemma3(),
    "gemma3_scaled": lambda: gemma3(rope_scaling={"rope_type": "linear", "factor": 3.0},
                                    layer_types=["full_attention", "sliding_attention",
                                                 "sliding_attention"], attention_bias=True),
    "gemma3_vision": gemma3_vision,
    "llava": llava,
    "phi3": lambda: phi3(sliding_window=11, num_key_value_heads=4),
    "phi3_longrope": lambda: phi3(intermediate_size=64, partial_rotary_factor=0.7,
                                  tie_word_embeddings=True, max_position_embeddings=128,
                                  original_max_position_embeddings=64, rope_scaling=LONGROPE),
}
if hasattr(transformers, "Ministral3ForCausalLM"):  # with transformers 5, which has the new OLMo too
    MODELS |= {"olmo3": olmo3, "ministral3": ministral3,
               "qwen2_5_vl": lambda: qwen_vision("Qwen2_5_VL", text={}, fullatt_block_indexes=[0], window_size=16),
               "qwen3_vl": lambda: qwen_vision("Qwen3VL", text={"head_dim": 14}, num_position_embeddings=16,
                                               deepstack_visual_indexes=[0])}
LORA = {
    "olmo2": dict(r=4, lora_alpha=8, target_modules=ALL_LINEAR),
    "olmo3": dict(r=3, lora_alpha=8, target_modules=ALL_LINEAR),
    "ministral3": dict(r=4, lora_alpha=8, target_modules=ALL_LINEAR),
    "smollm3": dict(r=3, lora_alpha=8, target_modules=ALL_LINEAR),
    "granite": dict(r=4, lora_alpha=6, target_modules=ALL_LINEAR),
    "gemma2": dict(r=4, lora_alpha=6, target_modules=ALL_LINEAR),
    "gemma3": dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
    "qwen2_5_vl": dict(r=3, lora_alpha=6, target_modules=LANGUAGE),
    "gemma3_vision": dict(r=3, lora_alpha=6, target_modules=LANGUAGE),
    "phi3_longrope": dict(r=4, lora_alpha=6, target_modules=[
        "qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
}
