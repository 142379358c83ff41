# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_models.py with state-space scans (Granite 4), as far as this transformers has
them: by name what makes (class, config), and the options of their LoRA runs. requirements_delta.txt says
with which versions they were made."""
import transformers

SIZES = dict(vocab_size=199, hidden_size=48, intermediate_size=21, shared_intermediate_size=37,
             num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, mamba_n_heads=8, mamba_d_head=12, mamba_d_state=10,
             mamba_n_groups=1, mamba_chunk_size=16, num_local_experts=4, num_experts_per_tok=2,
             embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.2,
             logits_scaling=2.0, bos_token_id=1, eos_token_id=2, pad_token_id=0,
             layer_types=["linear_attention", "full_attention", "linear_attention"])


def granite_hybrid(**kw):
    return (transformers.GraniteMoeHybridForCausalLM,
            transformers.GraniteMoeHybridConfig(**(SIZES | kw)))


MODELS, LORA = {}, {}
if hasattr(transformers, "Qwen3_5ForCausalLM"):  # transformers 5
    MODELS |= {
        "granite_hybrid": lambda: granite_hybrid(),
        "granite_hybrid_dense": lambda: granite_hybrid(
            num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True,
            position_embedding_type="rope", attention_bias=True, mamba_conv_bias=False,
            mamba_proj_bias=True, mamba_d_conv=3, time_step_limit=[0.3, 1.1],
            embedding_multiplier=0.4, residual_multiplier=1.2,
            layer_types=["full_attention", "linear_attention", "linear_attention"]),
        "granite_hybrid_groups": lambda: granite_hybrid(mamba_n_groups=4),
    }
    LORA["granite_hybrid"] = dict(r=4, lora_alpha=8, target_modules=[
        "q_proj", "k_proj", "v_proj", "o_proj", "in_proj", "out_proj", "input_linear",
        "output_linear"])


def parts(name, x):
    """What the engine calls the parts of a tensor: all experts of a layer are in one, the outputs of
    gate before those of up."""
    base, _, end = name.rpartition(".block_sparse_moe.")
    if end == "router.weight":
        return {f"{base}.block_sparse_moe.router.layer.weight": x}
    if end not in ("experts.gate_up_proj", "experts.down_proj"):
        return {name: x}
    halves = dict(zip(("gate_proj", "up_proj"), x.chunk(2, dim=1)))
    halves = halves if end.endswith("gate_up_proj") else {"down_proj": x}
    return {f"{base}.block_sparse_moe.experts.{e}.{half}.weight": y[e]
            for half, y in halves.items() for e in range(len(y))}
