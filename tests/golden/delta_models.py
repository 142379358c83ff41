# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py with gated delta rules, or with experts beside one that all rows go
to, as far as this transformers has them: by
name what makes (class, config), and the options of their LoRA runs. Qwen3.5 came with transformers 5;
requirements_delta.txt says with which versions they were made."""
import transformers

SIZES = dict(vocab_size=203, hidden_size=48, intermediate_size=75, num_hidden_layers=4,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
             linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12,
             linear_value_head_dim=10, linear_conv_kernel_dim=4, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
THREEFOLD = ROPE | {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "out_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]


def qwen3_5(**kw):
    return (transformers.Qwen3_5ForCausalLM,
            transformers.Qwen3_5TextConfig(**(SIZES | {"rope_parameters": THREEFOLD} | kw)))


def qwen3_5_vision():
    text = SIZES | {"rope_parameters": THREEFOLD, "num_hidden_layers": 2,
                    "layer_types": ["linear_attention", "full_attention"]}
    vision = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=48,
                  num_position_embeddings=16, patch_size=4)
    return (transformers.Qwen3_5ForConditionalGeneration,
            transformers.Qwen3_5Config(text_config=text, vision_config=vision,
                                       image_token_id=200,
                                       video_token_id=201, vision_start_token_id=198,
                                       vision_end_token_id=199))


MIXTURE = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=21,
               shared_expert_intermediate_size=19)
NARROW = {k: v for k, v in SIZES.items() if k != "intermediate_size"} | MIXTURE


def qwen3_5_moe(**kw):
    rope = {"rope_parameters": THREEFOLD, "layer_types": ["linear_attention", "full_attention"],
            "num_hidden_layers": 2}
    return (transformers.Qwen3_5MoeForCausalLM,
            transformers.Qwen3_5MoeTextConfig(**(NARROW | rope | kw)))


def qwen3_5_moe_vision():
    text = NARROW | {"rope_parameters": THREEFOLD, "num_hidden_layers": 2,
                     "layer_types": ["linear_attention", "full_attention"]}
    vision = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=48,
                  num_position_embeddings=16, patch_size=4)
    return (transformers.Qwen3_5MoeForConditionalGeneration,
            transformers.Qwen3_5MoeConfig(text_config=text, vision_config=vision,
                                          image_token_id=200, video_token_id=201,
                                          vision_start_token_id=198, vision_end_token_id=199))


def qwen3_next(**kw):
    rope = {"rope_parameters": ROPE, "num_hidden_layers": 3, "mlp_only_layers": [1],
            "layer_types": ["linear_attention", "linear_attention", "full_attention"]}
    return (transformers.Qwen3NextForCausalLM,
            transformers.Qwen3NextConfig(**(SIZES | MIXTURE | rope | kw)))


def qwen2_moe(**kw):
    sizes = {k: v for k, v in SIZES.items() if not k.startswith("linear_") and k != "head_dim"}
    return (transformers.Qwen2MoeForCausalLM,
            transformers.Qwen2MoeConfig(**(sizes | MIXTURE | {"rope_theta": 10000.0} | kw)))


# of AdamW: keys and queries of length one turn by much at a step of make_models.py's, and what is a last
# bit at the first step of it is a thousandth of the norm at the sixth
LR = 2e-4

MODELS, LORA = {}, {}
if hasattr(transformers, "Qwen3_5ForCausalLM"):
    MODELS |= {
        "qwen3_5": lambda: qwen3_5(num_hidden_layers=3,
                                   layer_types=["linear_attention", "full_attention",
                                                "linear_attention"]),
        "qwen3_5_tied": lambda: qwen3_5(tie_word_embeddings=True, linear_num_key_heads=3,
                                        linear_num_value_heads=3, linear_conv_kernel_dim=3,
                                        num_hidden_layers=3,
                                        layer_types=["full_attention", "linear_attention",
                                                     "linear_attention"]),
        "qwen3_5_vision": qwen3_5_vision,
    }
    MODELS |= {
        "qwen3_5_moe": lambda: qwen3_5_moe(),
        "qwen3_5_moe_vision": qwen3_5_moe_vision,
        "qwen3_next": lambda: qwen3_next(),
        "qwen2_moe": lambda: qwen2_moe(num_hidden_layers=3, decoder_sparse_step=2,
                                       use_sliding_window=True, sliding_window=9),
    }
    # what balances counts as much as what is learned
    MODELS["qwen2_moe_balanced"] = lambda: qwen2_moe(num_hidden_layers=2, output_router_logits=True,
                                                     router_aux_loss_coef=0.7)
    LORA["qwen2_moe_balanced"] = dict(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"])
    # of this one PEFT takes gate_proj and the like for the experts', whatever else is called so
    LORA["qwen3_next"] = dict(r=3, lora_alpha=8, target_modules=LINEARS + [
        "in_proj_qkvz", "in_proj_ba", "shared_expert_gate"])
    LORA["qwen3_5_moe"] = dict(r=4, lora_alpha=8, target_modules=LINEARS + MLP)
    LORA["qwen3_5"] = dict(r=4, lora_alpha=8, target_modules=LINEARS + MLP + [
        "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"])
