/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of each family.
 */
#include "engine/model/spec.h"

#include "engine/load/config_layers.h"

#define MATRIX(slot_, name_, n_, k_, ...)                                                          \
    {                                                                                              \
        .slot = (slot_), .name = (name_), .n = (n_), .k = (k_), __VA_ARGS__                        \
    }
#define VECTOR(slot_, name_, n_, ...)                                                              \
    {                                                                                              \
        .slot = (slot_), .name = (name_), .n = (n_), __VA_ARGS__                                   \
    }

/* Of every family that can give vectors. Their files stand in folders of their own, which the
 * tensors' names say by number. */
#define DENSE_ROWS                                                                                 \
    MATRIX(SLOT_DENSE, "dense.0.linear.weight", DIM_OF_DENSE, DIM_OF_MODEL, .when = WHEN_DENSE),   \
        VECTOR(SLOT_DENSE_BIAS, "dense.0.linear.bias", DIM_OF_DENSE, .when = WHEN_DENSE_BIAS),     \
        MATRIX(SLOT_DENSE_2, "dense.1.linear.weight", DIM_OF_DENSE_2, DIM_OF_DENSE,                \
               .when = WHEN_DENSE_2),                                                              \
        VECTOR(SLOT_DENSE_2_BIAS, "dense.1.linear.bias", DIM_OF_DENSE_2,                           \
               .when = WHEN_DENSE_2_BIAS)

/* Of a mixture: `at` is what stands before an expert's number. */
#define EXPERT_ROWS(ff_, at)                                                                       \
    MATRIX(SLOT_EXPERT_GATE, at ".%d.gate_proj.weight", DIM_OF_EXPERT, DIM_OF_MODEL, .ff = (ff_),  \
           .is_each = true, .takes_lora = true, .stack = at ".gate_up_proj"),                      \
        MATRIX(SLOT_EXPERT_UP, at ".%d.up_proj.weight", DIM_OF_EXPERT, DIM_OF_MODEL, .ff = (ff_),  \
               .is_each = true),                                                                   \
        MATRIX(SLOT_EXPERT_DOWN, at ".%d.down_proj.weight", DIM_OF_MODEL, DIM_OF_EXPERT,           \
               .ff = (ff_), .is_each = true, .takes_lora = true, .stack = at ".down_proj")

static const struct spec_row llama_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.input_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_BEFORE),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_QUERY, DIM_OF_MODEL,
           .when = WHEN_APART, .group = 1, .takes_lora = true, .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_K, "layers.%d.self_attn.k_proj.weight", DIM_OF_KV, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 1, .takes_lora = true, .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_V, "layers.%d.self_attn.v_proj.weight", DIM_OF_KV, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 1, .takes_lora = true, .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_QKV, "layers.%d.self_attn.qkv_proj.weight", DIM_OF_QKV, DIM_OF_MODEL,
           .when = WHEN_JOINED, .takes_lora = true, .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_Q_BIAS, "layers.%d.self_attn.q_proj.bias", DIM_OF_QUERY, .when = WHEN_QKV_BIAS,
           .group = 3, .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_K_BIAS, "layers.%d.self_attn.k_proj.bias", DIM_OF_KV, .when = WHEN_QKV_BIAS,
           .group = 3, .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_V_BIAS, "layers.%d.self_attn.v_proj.bias", DIM_OF_KV, .when = WHEN_QKV_BIAS,
           .group = 3, .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_norm.weight", DIM_OF_HEAD, .when = WHEN_QK_NORM,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_norm.weight", DIM_OF_HEAD, .when = WHEN_QK_NORM,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_norm.weight", DIM_OF_Q, .when = WHEN_WHOLE_QK_NORM,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_norm.weight", DIM_OF_KV, .when = WHEN_WHOLE_QK_NORM,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_O, "layers.%d.self_attn.o_proj.weight", DIM_OF_MODEL, DIM_OF_Q, .takes_lora = true,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_O_BIAS, "layers.%d.self_attn.o_proj.bias", DIM_OF_MODEL, .when = WHEN_O_BIAS,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_SINK, "layers.%d.self_attn.sinks", DIM_OF_HEADS, .when = WHEN_SINKS,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_DELTA_QKV, "layers.%d.linear_attn.in_proj_qkv.weight", DIM_OF_STATE_QKV,
           DIM_OF_MODEL, .when = WHEN_DELTA_APART, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    MATRIX(SLOT_DELTA_Z, "layers.%d.linear_attn.in_proj_z.weight", DIM_OF_STATE_V, DIM_OF_MODEL,
           .when = WHEN_DELTA_APART, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    MATRIX(SLOT_DELTA_B, "layers.%d.linear_attn.in_proj_b.weight", DIM_OF_STATE_HEADS, DIM_OF_MODEL,
           .when = WHEN_DELTA_APART, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    MATRIX(SLOT_DELTA_A, "layers.%d.linear_attn.in_proj_a.weight", DIM_OF_STATE_HEADS, DIM_OF_MODEL,
           .when = WHEN_DELTA_APART, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    MATRIX(SLOT_DELTA_QKVZ, "layers.%d.linear_attn.in_proj_qkvz.weight", DIM_OF_DELTA_QKVZ,
           DIM_OF_MODEL, .when = WHEN_DELTA_JOINED, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    MATRIX(SLOT_DELTA_BA, "layers.%d.linear_attn.in_proj_ba.weight", DIM_OF_DELTA_BA, DIM_OF_MODEL,
           .when = WHEN_DELTA_JOINED, .mixers = MIXER_IS(MIXER_DELTA), .group = 5,
           .takes_lora = true),
    VECTOR(SLOT_CONV, "layers.%d.linear_attn.conv1d.weight", DIM_OF_TAPS,
           .mixers = MIXER_IS(MIXER_DELTA)),
    VECTOR(SLOT_STATE_DT_BIAS, "layers.%d.linear_attn.dt_bias", DIM_OF_STATE_HEADS,
           .mixers = MIXER_IS(MIXER_DELTA)),
    VECTOR(SLOT_STATE_A_LOG, "layers.%d.linear_attn.A_log", DIM_OF_STATE_HEADS,
           .mixers = MIXER_IS(MIXER_DELTA)),
    VECTOR(SLOT_STATE_NORM, "layers.%d.linear_attn.norm.weight", DIM_OF_STATE_HEAD,
           .mixers = MIXER_IS(MIXER_DELTA)),
    MATRIX(SLOT_STATE_OUT, "layers.%d.linear_attn.out_proj.weight", DIM_OF_MODEL, DIM_OF_STATE_V,
           .mixers = MIXER_IS(MIXER_DELTA), .takes_lora = true),
    VECTOR(SLOT_ATTN_OUT_NORM, "layers.%d.post_attention_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_AFTER),
    VECTOR(SLOT_MLP_NORM, "layers.%d.post_attention_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_BEFORE_ONLY),
    VECTOR(SLOT_MLP_NORM, "layers.%d.pre_feedforward_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_BOTH),
    VECTOR(SLOT_MLP_OUT_NORM, "layers.%d.post_feedforward_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_AFTER),
    MATRIX(SLOT_GATE, "layers.%d.mlp.gate_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 2, .takes_lora = true, .ff = FF_IS_PLAIN),
    MATRIX(SLOT_UP, "layers.%d.mlp.up_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 2, .takes_lora = true, .ff = FF_IS_PLAIN),
    MATRIX(SLOT_GATE_UP, "layers.%d.mlp.gate_up_proj.weight", DIM_OF_GATE_UP, DIM_OF_MODEL,
           .when = WHEN_JOINED, .takes_lora = true, .ff = FF_IS_PLAIN),
    MATRIX(SLOT_DOWN, "layers.%d.mlp.down_proj.weight", DIM_OF_MODEL, DIM_OF_FF, .takes_lora = true,
           .ff = FF_IS_PLAIN),
    VECTOR(SLOT_GATE_BIAS, "layers.%d.mlp.gate_proj.bias", DIM_OF_FF, .when = WHEN_MLP_BIAS,
           .group = 4, .ff = FF_IS_PLAIN),
    VECTOR(SLOT_UP_BIAS, "layers.%d.mlp.up_proj.bias", DIM_OF_FF, .when = WHEN_MLP_BIAS, .group = 4,
           .ff = FF_IS_PLAIN),
    VECTOR(SLOT_DOWN_BIAS, "layers.%d.mlp.down_proj.bias", DIM_OF_MODEL, .when = WHEN_MLP_BIAS,
           .ff = FF_IS_PLAIN),
    MATRIX(SLOT_ROUTER, "layers.%d.mlp.gate.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE),
    EXPERT_ROWS(FF_IS_MIXTURE, "layers.%d.mlp.experts"),
    MATRIX(SLOT_SHARED_GATE, "layers.%d.mlp.shared_expert.gate_proj.weight", DIM_OF_SHARED,
           DIM_OF_MODEL, .when = WHEN_SHARED, .ff = FF_IS_MIXTURE, .group = 2, .takes_lora = true),
    MATRIX(SLOT_SHARED_UP, "layers.%d.mlp.shared_expert.up_proj.weight", DIM_OF_SHARED,
           DIM_OF_MODEL, .when = WHEN_SHARED, .ff = FF_IS_MIXTURE, .group = 2, .takes_lora = true),
    MATRIX(SLOT_SHARED_DOWN, "layers.%d.mlp.shared_expert.down_proj.weight", DIM_OF_MODEL,
           DIM_OF_SHARED, .when = WHEN_SHARED, .ff = FF_IS_MIXTURE, .takes_lora = true),
    MATRIX(SLOT_SHARED_WEIGHT, "layers.%d.mlp.shared_expert_gate.weight", DIM_OF_ONE, DIM_OF_MODEL,
           .when = WHEN_SHARED, .ff = FF_IS_MIXTURE, .takes_lora = true),
    MATRIX(SLOT_ROUTER, "layers.%d.block_sparse_moe.gate.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_BLOCK_MIXTURE),
    MATRIX(SLOT_EXPERT_GATE, "layers.%d.block_sparse_moe.experts.%d.w1.weight", DIM_OF_EXPERT,
           DIM_OF_MODEL, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true, .takes_lora = true,
           .stack = "layers.%d.mlp.experts.gate_up_proj"),
    MATRIX(SLOT_EXPERT_UP, "layers.%d.block_sparse_moe.experts.%d.w3.weight", DIM_OF_EXPERT,
           DIM_OF_MODEL, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true),
    MATRIX(SLOT_EXPERT_DOWN, "layers.%d.block_sparse_moe.experts.%d.w2.weight", DIM_OF_MODEL,
           DIM_OF_EXPERT, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true, .takes_lora = true,
           .stack = "layers.%d.mlp.experts.down_proj"),
    MATRIX(SLOT_ROUTER, "layers.%d.mlp.router.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_BIASED_MIXTURE),
    VECTOR(SLOT_ROUTER_BIAS, "layers.%d.mlp.router.bias", DIM_OF_EXPERTS,
           .ff = FF_IS_BIASED_MIXTURE),
    EXPERT_ROWS(FF_IS_BIASED_MIXTURE, "layers.%d.mlp.experts"),
    VECTOR(SLOT_EXPERT_GATE_BIAS, "layers.%d.mlp.experts.%d.gate_proj.bias", DIM_OF_EXPERT,
           .ff = FF_IS_BIASED_MIXTURE, .is_each = true),
    VECTOR(SLOT_EXPERT_UP_BIAS, "layers.%d.mlp.experts.%d.up_proj.bias", DIM_OF_EXPERT,
           .ff = FF_IS_BIASED_MIXTURE, .is_each = true),
    VECTOR(SLOT_EXPERT_DOWN_BIAS, "layers.%d.mlp.experts.%d.down_proj.bias", DIM_OF_MODEL,
           .ff = FF_IS_BIASED_MIXTURE, .is_each = true),
    VECTOR(SLOT_FINAL_NORM, "norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
    MATRIX(SLOT_CLASSIFIER, "score.weight", DIM_OF_LABELS, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_BARE),
    DENSE_ROWS,
};

static const struct spec_row lfm2_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.operator_norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_Q, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    MATRIX(SLOT_K, "layers.%d.self_attn.k_proj.weight", DIM_OF_KV, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    MATRIX(SLOT_V, "layers.%d.self_attn.v_proj.weight", DIM_OF_KV, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_layernorm.weight", DIM_OF_HEAD,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_layernorm.weight", DIM_OF_HEAD,
           .mixers = MIXER_IS(MIXER_ATTENTION)),
    MATRIX(SLOT_O, "layers.%d.self_attn.out_proj.weight", DIM_OF_MODEL, DIM_OF_Q,
           .mixers = MIXER_IS(MIXER_ATTENTION), .takes_lora = true),
    MATRIX(SLOT_CONV_IN, "layers.%d.conv.in_proj.weight", DIM_OF_CONV_IN, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_CONV), .takes_lora = true),
    VECTOR(SLOT_CONV_IN_BIAS, "layers.%d.conv.in_proj.bias", DIM_OF_CONV_IN,
           .mixers = MIXER_IS(MIXER_CONV), .when = WHEN_CONV_BIAS),
    VECTOR(SLOT_CONV, "layers.%d.conv.conv.weight", DIM_OF_TAPS, .mixers = MIXER_IS(MIXER_CONV)),
    VECTOR(SLOT_CONV_BIAS, "layers.%d.conv.conv.bias", DIM_OF_MODEL, .mixers = MIXER_IS(MIXER_CONV),
           .when = WHEN_CONV_BIAS),
    MATRIX(SLOT_CONV_OUT, "layers.%d.conv.out_proj.weight", DIM_OF_MODEL, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_CONV), .takes_lora = true),
    VECTOR(SLOT_CONV_OUT_BIAS, "layers.%d.conv.out_proj.bias", DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_CONV), .when = WHEN_CONV_BIAS),
    VECTOR(SLOT_MLP_NORM, "layers.%d.ffn_norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_GATE, "layers.%d.feed_forward.w1.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_UP, "layers.%d.feed_forward.w3.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_DOWN, "layers.%d.feed_forward.w2.weight", DIM_OF_MODEL, DIM_OF_FF,
           .takes_lora = true),
    VECTOR(SLOT_FINAL_NORM, "embedding_norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
    DENSE_ROWS,
};

static const struct spec_row granite_hybrid_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.input_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_Q, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    MATRIX(SLOT_K, "layers.%d.self_attn.k_proj.weight", DIM_OF_KV, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    MATRIX(SLOT_V, "layers.%d.self_attn.v_proj.weight", DIM_OF_KV, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .group = 1, .takes_lora = true),
    VECTOR(SLOT_Q_BIAS, "layers.%d.self_attn.q_proj.bias", DIM_OF_Q,
           .mixers = MIXER_IS(MIXER_ATTENTION), .when = WHEN_QKV_BIAS, .group = 3),
    VECTOR(SLOT_K_BIAS, "layers.%d.self_attn.k_proj.bias", DIM_OF_KV,
           .mixers = MIXER_IS(MIXER_ATTENTION), .when = WHEN_QKV_BIAS, .group = 3),
    VECTOR(SLOT_V_BIAS, "layers.%d.self_attn.v_proj.bias", DIM_OF_KV,
           .mixers = MIXER_IS(MIXER_ATTENTION), .when = WHEN_QKV_BIAS, .group = 3),
    MATRIX(SLOT_O, "layers.%d.self_attn.o_proj.weight", DIM_OF_MODEL, DIM_OF_Q,
           .mixers = MIXER_IS(MIXER_ATTENTION), .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "layers.%d.self_attn.o_proj.bias", DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_ATTENTION), .when = WHEN_O_BIAS),
    MATRIX(SLOT_CONV_IN, "layers.%d.mamba.in_proj.weight", DIM_OF_SCAN_IN, DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_SCAN), .takes_lora = true),
    VECTOR(SLOT_CONV_IN_BIAS, "layers.%d.mamba.in_proj.bias", DIM_OF_SCAN_IN,
           .mixers = MIXER_IS(MIXER_SCAN), .when = WHEN_SCAN_BIAS),
    VECTOR(SLOT_CONV, "layers.%d.mamba.conv1d.weight", DIM_OF_TAPS, .mixers = MIXER_IS(MIXER_SCAN)),
    VECTOR(SLOT_CONV_BIAS, "layers.%d.mamba.conv1d.bias", DIM_OF_STATE_QKV,
           .mixers = MIXER_IS(MIXER_SCAN), .when = WHEN_CONV_BIAS),
    VECTOR(SLOT_STATE_DT_BIAS, "layers.%d.mamba.dt_bias", DIM_OF_STATE_HEADS,
           .mixers = MIXER_IS(MIXER_SCAN)),
    VECTOR(SLOT_STATE_A_LOG, "layers.%d.mamba.A_log", DIM_OF_STATE_HEADS,
           .mixers = MIXER_IS(MIXER_SCAN)),
    VECTOR(SLOT_SCAN_SKIP, "layers.%d.mamba.D", DIM_OF_STATE_HEADS, .mixers = MIXER_IS(MIXER_SCAN)),
    VECTOR(SLOT_STATE_NORM, "layers.%d.mamba.norm.weight", DIM_OF_STATE_V,
           .mixers = MIXER_IS(MIXER_SCAN)),
    MATRIX(SLOT_CONV_OUT, "layers.%d.mamba.out_proj.weight", DIM_OF_MODEL, DIM_OF_STATE_V,
           .mixers = MIXER_IS(MIXER_SCAN), .takes_lora = true),
    VECTOR(SLOT_CONV_OUT_BIAS, "layers.%d.mamba.out_proj.bias", DIM_OF_MODEL,
           .mixers = MIXER_IS(MIXER_SCAN), .when = WHEN_SCAN_BIAS),
    VECTOR(SLOT_MLP_NORM, "layers.%d.post_attention_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_ROUTER, "layers.%d.block_sparse_moe.router.layer.weight", DIM_OF_EXPERTS,
           DIM_OF_MODEL, .ff = FF_IS_MIXTURE),
    EXPERT_ROWS(FF_IS_MIXTURE, "layers.%d.block_sparse_moe.experts"),
    MATRIX(SLOT_GATE_UP, "layers.%d.shared_mlp.input_linear.weight", DIM_OF_GATE_UP, DIM_OF_MODEL,
           .takes_lora = true),
    MATRIX(SLOT_DOWN, "layers.%d.shared_mlp.output_linear.weight", DIM_OF_MODEL, DIM_OF_FF,
           .takes_lora = true),
    VECTOR(SLOT_FINAL_NORM, "norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
    DENSE_ROWS,
};

static const struct spec_row latent_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.input_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_Q, DIM_OF_MODEL,
           .when = WHEN_NO_Q_LATENT, .group = 1, .takes_lora = true),
    MATRIX(SLOT_Q_LATENT, "layers.%d.self_attn.q_a_proj.weight", DIM_OF_LATENT_Q, DIM_OF_MODEL,
           .when = WHEN_Q_LATENT, .group = 1, .takes_lora = true),
    MATRIX(SLOT_KV_LATENT, "layers.%d.self_attn.kv_a_proj_with_mqa.weight", DIM_OF_LATENT_KV,
           DIM_OF_MODEL, .group = 1, .takes_lora = true),
    VECTOR(SLOT_Q_LATENT_BIAS, "layers.%d.self_attn.q_a_proj.bias", DIM_OF_LATENT_Q,
           .when = WHEN_Q_LATENT_BIAS, .group = 3),
    VECTOR(SLOT_KV_LATENT_BIAS, "layers.%d.self_attn.kv_a_proj_with_mqa.bias", DIM_OF_LATENT_KV,
           .when = WHEN_QKV_BIAS, .group = 3),
    VECTOR(SLOT_Q_LATENT_NORM, "layers.%d.self_attn.q_a_layernorm.weight", DIM_OF_LATENT_Q,
           .when = WHEN_Q_LATENT),
    VECTOR(SLOT_KV_LATENT_NORM, "layers.%d.self_attn.kv_a_layernorm.weight", DIM_OF_LATENT),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_b_proj.weight", DIM_OF_Q, DIM_OF_LATENT_Q,
           .when = WHEN_Q_LATENT, .takes_lora = true),
    MATRIX(SLOT_KV_UP, "layers.%d.self_attn.kv_b_proj.weight", DIM_OF_KV_UP, DIM_OF_LATENT,
           .takes_lora = true),
    MATRIX(SLOT_O, "layers.%d.self_attn.o_proj.weight", DIM_OF_MODEL, DIM_OF_VALUES,
           .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "layers.%d.self_attn.o_proj.bias", DIM_OF_MODEL, .when = WHEN_O_BIAS),
    VECTOR(SLOT_MLP_NORM, "layers.%d.post_attention_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_GATE, "layers.%d.mlp.gate_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true, .ff = FF_IS_PLAIN),
    MATRIX(SLOT_UP, "layers.%d.mlp.up_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true, .ff = FF_IS_PLAIN),
    MATRIX(SLOT_DOWN, "layers.%d.mlp.down_proj.weight", DIM_OF_MODEL, DIM_OF_FF, .takes_lora = true,
           .ff = FF_IS_PLAIN),
    MATRIX(SLOT_ROUTER, "layers.%d.mlp.gate.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE),
    VECTOR(SLOT_CHOICE_BIAS, "layers.%d.mlp.gate.e_score_correction_bias", DIM_OF_EXPERTS,
           .ff = FF_IS_MIXTURE, .when = WHEN_CHOICE_BIAS, .is_fixed = true),
    EXPERT_ROWS(FF_IS_MIXTURE, "layers.%d.mlp.experts"),
    MATRIX(SLOT_SHARED_GATE, "layers.%d.mlp.shared_experts.gate_proj.weight", DIM_OF_SHARED,
           DIM_OF_MODEL, .ff = FF_IS_MIXTURE, .when = WHEN_SHARED, .group = 2, .takes_lora = true),
    MATRIX(SLOT_SHARED_UP, "layers.%d.mlp.shared_experts.up_proj.weight", DIM_OF_SHARED,
           DIM_OF_MODEL, .ff = FF_IS_MIXTURE, .when = WHEN_SHARED, .group = 2, .takes_lora = true),
    MATRIX(SLOT_SHARED_DOWN, "layers.%d.mlp.shared_experts.down_proj.weight", DIM_OF_MODEL,
           DIM_OF_SHARED, .ff = FF_IS_MIXTURE, .when = WHEN_SHARED, .takes_lora = true),
    VECTOR(SLOT_FINAL_NORM, "norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
    DENSE_ROWS,
};

#define TRACK_ROW(slot_, name_)                                                                    \
    MATRIX(slot_, name_, DIM_OF_MODEL, DIM_OF_MODEL, .when = WHEN_TRACKS, .takes_lora = true)

/* Gemma 4, and 3n with tracks. */
static const struct spec_row gemma4_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    MATRIX(SLOT_PLE_EMBED, "embed_tokens_per_layer.weight", DIM_OF_PLE_VOCAB, DIM_OF_PLES,
           .when = WHEN_PLE),
    MATRIX(SLOT_PLE_PROJECT, "per_layer_model_projection.weight", DIM_OF_PLES, DIM_OF_MODEL,
           .when = WHEN_PLE, .takes_lora = true),
    VECTOR(SLOT_PLE_NORM, "per_layer_projection_norm.weight", DIM_OF_PLE, .when = WHEN_PLE),
    TRACK_ROW(SLOT_TRACK_IN, "altup_projections.0.weight"),
    TRACK_ROW(SLOT_TRACK_IN_2, "altup_projections.1.weight"),
    TRACK_ROW(SLOT_TRACK_IN_3, "altup_projections.2.weight"),
    TRACK_ROW(SLOT_TRACK_OUT, "altup_unembed_projections.0.weight"),
    TRACK_ROW(SLOT_TRACK_OUT_2, "altup_unembed_projections.1.weight"),
    TRACK_ROW(SLOT_TRACK_OUT_3, "altup_unembed_projections.2.weight"),
    VECTOR(SLOT_TRACK_NORM, "layers.%d.altup.router_norm.weight", DIM_OF_MODEL,
           .when = WHEN_TRACKS),
    MATRIX(SLOT_TRACK_ROUTER, "layers.%d.altup.modality_router.weight", DIM_OF_TRACKS, DIM_OF_MODEL,
           .when = WHEN_TRACKS, .takes_lora = true),
    MATRIX(SLOT_TRACK_PREDICT, "layers.%d.altup.prediction_coefs.weight", DIM_OF_PREDICT,
           DIM_OF_TRACKS, .when = WHEN_TRACKS, .takes_lora = true),
    MATRIX(SLOT_TRACK_CORRECT, "layers.%d.altup.correction_coefs.weight", DIM_OF_TRACKS,
           DIM_OF_TRACKS, .when = WHEN_TRACKS, .takes_lora = true),
    VECTOR(SLOT_TRACK_SCALE, "layers.%d.altup.correct_output_scale", DIM_OF_MODEL,
           .when = WHEN_TRACK_SCALE),
    MATRIX(SLOT_LAUREL_IN, "layers.%d.laurel.linear_left.weight", DIM_OF_LAUREL, DIM_OF_MODEL,
           .when = WHEN_TRACKS, .takes_lora = true),
    MATRIX(SLOT_LAUREL_OUT, "layers.%d.laurel.linear_right.weight", DIM_OF_MODEL, DIM_OF_LAUREL,
           .when = WHEN_TRACKS, .takes_lora = true),
    VECTOR(SLOT_LAUREL_NORM, "layers.%d.laurel.post_laurel_norm.weight", DIM_OF_MODEL,
           .when = WHEN_TRACKS),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.input_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_Q, DIM_OF_MODEL, .group = 1,
           .takes_lora = true),
    MATRIX(SLOT_K, "layers.%d.self_attn.k_proj.weight", DIM_OF_KV, DIM_OF_MODEL,
           .when = WHEN_OWN_KV, .group = 1, .takes_lora = true),
    MATRIX(SLOT_V, "layers.%d.self_attn.v_proj.weight", DIM_OF_KV, DIM_OF_MODEL, .when = WHEN_OWN_V,
           .group = 1, .takes_lora = true),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_norm.weight", DIM_OF_HEAD),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_norm.weight", DIM_OF_HEAD, .when = WHEN_OWN_KV),
    MATRIX(SLOT_O, "layers.%d.self_attn.o_proj.weight", DIM_OF_MODEL, DIM_OF_Q, .takes_lora = true),
    VECTOR(SLOT_ATTN_OUT_NORM, "layers.%d.post_attention_layernorm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM, "layers.%d.pre_feedforward_layernorm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_OUT_NORM, "layers.%d.post_feedforward_layernorm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_GATE, "layers.%d.mlp.gate_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_UP, "layers.%d.mlp.up_proj.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_DOWN, "layers.%d.mlp.down_proj.weight", DIM_OF_MODEL, DIM_OF_FF,
           .takes_lora = true),
    VECTOR(SLOT_ROUTER_NORM, "layers.%d.router.scale", DIM_OF_MODEL, .ff = FF_IS_MIXTURE),
    MATRIX(SLOT_ROUTER, "layers.%d.router.proj.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE, .takes_lora = true),
    VECTOR(SLOT_EXPERT_SCALE, "layers.%d.router.per_expert_scale", DIM_OF_EXPERTS,
           .ff = FF_IS_MIXTURE),
    EXPERT_ROWS(FF_IS_MIXTURE, "layers.%d.experts"),
    VECTOR(SLOT_BESIDE_OUT_NORM, "layers.%d.post_feedforward_layernorm_1.weight", DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE),
    VECTOR(SLOT_EXPERTS_NORM, "layers.%d.pre_feedforward_layernorm_2.weight", DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE),
    VECTOR(SLOT_EXPERTS_OUT_NORM, "layers.%d.post_feedforward_layernorm_2.weight", DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE),
    MATRIX(SLOT_PLE_GATE, "layers.%d.per_layer_input_gate.weight", DIM_OF_PLE, DIM_OF_MODEL,
           .when = WHEN_PLE, .takes_lora = true),
    MATRIX(SLOT_PLE_UP, "layers.%d.per_layer_projection.weight", DIM_OF_MODEL, DIM_OF_PLE,
           .when = WHEN_PLE, .takes_lora = true),
    VECTOR(SLOT_PLE_OUT_NORM, "layers.%d.post_per_layer_input_norm.weight", DIM_OF_MODEL,
           .when = WHEN_PLE),
    VECTOR(SLOT_FINAL_NORM, "norm.weight", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
};

static const struct spec_row gpt2_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "wte.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    MATRIX(SLOT_POS_EMBED, "wpe.weight", DIM_OF_POS, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "h.%d.ln_1.weight", DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM_BIAS, "h.%d.ln_1.bias", DIM_OF_MODEL),
    MATRIX(SLOT_QKV, "h.%d.attn.c_attn.weight", DIM_OF_QKV, DIM_OF_MODEL, .is_transposed = true,
           .takes_lora = true),
    VECTOR(SLOT_QKV_BIAS, "h.%d.attn.c_attn.bias", DIM_OF_QKV),
    MATRIX(SLOT_O, "h.%d.attn.c_proj.weight", DIM_OF_MODEL, DIM_OF_Q, .is_transposed = true,
           .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "h.%d.attn.c_proj.bias", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM, "h.%d.ln_2.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM_BIAS, "h.%d.ln_2.bias", DIM_OF_MODEL),
    MATRIX(SLOT_UP, "h.%d.mlp.c_fc.weight", DIM_OF_FF, DIM_OF_MODEL, .is_transposed = true,
           .takes_lora = true),
    VECTOR(SLOT_UP_BIAS, "h.%d.mlp.c_fc.bias", DIM_OF_FF),
    MATRIX(SLOT_DOWN, "h.%d.mlp.c_proj.weight", DIM_OF_MODEL, DIM_OF_FF, .is_transposed = true,
           .takes_lora = true),
    VECTOR(SLOT_DOWN_BIAS, "h.%d.mlp.c_proj.bias", DIM_OF_MODEL),
    VECTOR(SLOT_FINAL_NORM, "ln_f.weight", DIM_OF_MODEL),
    VECTOR(SLOT_FINAL_NORM_BIAS, "ln_f.bias", DIM_OF_MODEL),
    MATRIX(SLOT_LM_HEAD, "lm_head.weight", DIM_OF_VOCAB, DIM_OF_MODEL, .when = WHEN_UNTIED),
    DENSE_ROWS,
};

static const struct spec_row bert_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embeddings.word_embeddings.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    MATRIX(SLOT_POS_EMBED, "embeddings.position_embeddings.weight", DIM_OF_POS, DIM_OF_MODEL),
    MATRIX(SLOT_SEGMENT_EMBED, "embeddings.token_type_embeddings.weight", DIM_OF_SEGMENT,
           DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM, "embeddings.LayerNorm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM_BIAS, "embeddings.LayerNorm.bias", DIM_OF_MODEL),
    MATRIX(SLOT_Q, "encoder.layer.%d.attention.self.query.weight", DIM_OF_Q, DIM_OF_MODEL,
           .group = 1, .takes_lora = true),
    MATRIX(SLOT_K, "encoder.layer.%d.attention.self.key.weight", DIM_OF_KV, DIM_OF_MODEL,
           .group = 1, .takes_lora = true),
    MATRIX(SLOT_V, "encoder.layer.%d.attention.self.value.weight", DIM_OF_KV, DIM_OF_MODEL,
           .group = 1, .takes_lora = true),
    VECTOR(SLOT_Q_BIAS, "encoder.layer.%d.attention.self.query.bias", DIM_OF_Q, .group = 3),
    VECTOR(SLOT_K_BIAS, "encoder.layer.%d.attention.self.key.bias", DIM_OF_KV, .group = 3),
    VECTOR(SLOT_V_BIAS, "encoder.layer.%d.attention.self.value.bias", DIM_OF_KV, .group = 3),
    MATRIX(SLOT_O, "encoder.layer.%d.attention.output.dense.weight", DIM_OF_MODEL, DIM_OF_Q,
           .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "encoder.layer.%d.attention.output.dense.bias", DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "encoder.layer.%d.attention.output.LayerNorm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM_BIAS, "encoder.layer.%d.attention.output.LayerNorm.bias", DIM_OF_MODEL),
    MATRIX(SLOT_UP, "encoder.layer.%d.intermediate.dense.weight", DIM_OF_FF, DIM_OF_MODEL,
           .takes_lora = true),
    VECTOR(SLOT_UP_BIAS, "encoder.layer.%d.intermediate.dense.bias", DIM_OF_FF),
    MATRIX(SLOT_DOWN, "encoder.layer.%d.output.dense.weight", DIM_OF_MODEL, DIM_OF_FF,
           .takes_lora = true),
    VECTOR(SLOT_DOWN_BIAS, "encoder.layer.%d.output.dense.bias", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM, "encoder.layer.%d.output.LayerNorm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM_BIAS, "encoder.layer.%d.output.LayerNorm.bias", DIM_OF_MODEL),
    MATRIX(SLOT_POOLER, "pooler.dense.weight", DIM_OF_MODEL, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_POOLER),
    VECTOR(SLOT_POOLER_BIAS, "pooler.dense.bias", DIM_OF_MODEL, .when = WHEN_CLASSIFIER_POOLER),
    MATRIX(SLOT_CLASSIFIER, "classifier.weight", DIM_OF_LABELS, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_POOLER),
    VECTOR(SLOT_CLASSIFIER_BIAS, "classifier.bias", DIM_OF_LABELS, .when = WHEN_CLASSIFIER_POOLER),
    MATRIX(SLOT_POOLER, "classifier.dense.weight", DIM_OF_MODEL, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_DENSE),
    VECTOR(SLOT_POOLER_BIAS, "classifier.dense.bias", DIM_OF_MODEL, .when = WHEN_CLASSIFIER_DENSE),
    MATRIX(SLOT_CLASSIFIER, "classifier.out_proj.weight", DIM_OF_LABELS, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_DENSE),
    VECTOR(SLOT_CLASSIFIER_BIAS, "classifier.out_proj.bias", DIM_OF_LABELS,
           .when = WHEN_CLASSIFIER_DENSE),
    DENSE_ROWS,
};

static const struct spec_row modernbert_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embeddings.tok_embeddings.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM, "embeddings.norm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM_BIAS, "embeddings.norm.bias", DIM_OF_MODEL, .when = WHEN_NORM_BIAS),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.attn_norm.weight", DIM_OF_MODEL, .when = WHEN_NOT_FIRST_NORM),
    VECTOR(SLOT_ATTN_NORM_BIAS, "layers.%d.attn_norm.bias", DIM_OF_MODEL,
           .when = WHEN_NOT_FIRST_NORM_BIAS),
    MATRIX(SLOT_QKV, "layers.%d.attn.Wqkv.weight", DIM_OF_QKV, DIM_OF_MODEL, .takes_lora = true),
    VECTOR(SLOT_QKV_BIAS, "layers.%d.attn.Wqkv.bias", DIM_OF_QKV, .when = WHEN_QKV_BIAS),
    MATRIX(SLOT_O, "layers.%d.attn.Wo.weight", DIM_OF_MODEL, DIM_OF_Q, .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "layers.%d.attn.Wo.bias", DIM_OF_MODEL, .when = WHEN_O_BIAS),
    VECTOR(SLOT_MLP_NORM, "layers.%d.mlp_norm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM_BIAS, "layers.%d.mlp_norm.bias", DIM_OF_MODEL, .when = WHEN_NORM_BIAS),
    MATRIX(SLOT_GATE_UP, "layers.%d.mlp.Wi.weight", DIM_OF_GATE_UP, DIM_OF_MODEL,
           .takes_lora = true),
    VECTOR(SLOT_GATE_UP_BIAS, "layers.%d.mlp.Wi.bias", DIM_OF_GATE_UP, .when = WHEN_MLP_BIAS),
    MATRIX(SLOT_DOWN, "layers.%d.mlp.Wo.weight", DIM_OF_MODEL, DIM_OF_FF, .takes_lora = true),
    VECTOR(SLOT_DOWN_BIAS, "layers.%d.mlp.Wo.bias", DIM_OF_MODEL, .when = WHEN_MLP_BIAS),
    VECTOR(SLOT_FINAL_NORM, "final_norm.weight", DIM_OF_MODEL),
    VECTOR(SLOT_FINAL_NORM_BIAS, "final_norm.bias", DIM_OF_MODEL, .when = WHEN_NORM_BIAS),
    MATRIX(SLOT_POOLER, "head.dense.weight", DIM_OF_MODEL, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_NORMED),
    VECTOR(SLOT_POOLER_BIAS, "head.dense.bias", DIM_OF_MODEL, .when = WHEN_CLASSIFIER_NORMED_BIAS),
    VECTOR(SLOT_POOLER_NORM, "head.norm.weight", DIM_OF_MODEL, .when = WHEN_CLASSIFIER_NORMED),
    VECTOR(SLOT_POOLER_NORM_BIAS, "head.norm.bias", DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_NORM_BIAS),
    MATRIX(SLOT_CLASSIFIER, "classifier.weight", DIM_OF_LABELS, DIM_OF_MODEL,
           .when = WHEN_CLASSIFIER_NORMED),
    VECTOR(SLOT_CLASSIFIER_BIAS, "classifier.bias", DIM_OF_LABELS, .when = WHEN_CLASSIFIER_NORMED),
    DENSE_ROWS,
};

static const struct spec_row nomicbert_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embeddings.word_embeddings.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    MATRIX(SLOT_SEGMENT_EMBED, "embeddings.token_type_embeddings.weight", DIM_OF_SEGMENT,
           DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM, "emb_ln.weight", DIM_OF_MODEL),
    VECTOR(SLOT_EMBED_NORM_BIAS, "emb_ln.bias", DIM_OF_MODEL),
    MATRIX(SLOT_QKV, "encoder.layers.%d.attn.Wqkv.weight", DIM_OF_QKV, DIM_OF_MODEL,
           .takes_lora = true),
    MATRIX(SLOT_O, "encoder.layers.%d.attn.out_proj.weight", DIM_OF_MODEL, DIM_OF_Q,
           .takes_lora = true),
    VECTOR(SLOT_ATTN_NORM, "encoder.layers.%d.norm1.weight", DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM_BIAS, "encoder.layers.%d.norm1.bias", DIM_OF_MODEL),
    MATRIX(SLOT_GATE, "encoder.layers.%d.mlp.fc12.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_UP, "encoder.layers.%d.mlp.fc11.weight", DIM_OF_FF, DIM_OF_MODEL, .group = 2,
           .takes_lora = true),
    MATRIX(SLOT_DOWN, "encoder.layers.%d.mlp.fc2.weight", DIM_OF_MODEL, DIM_OF_FF,
           .takes_lora = true),
    VECTOR(SLOT_MLP_NORM, "encoder.layers.%d.norm2.weight", DIM_OF_MODEL),
    VECTOR(SLOT_MLP_NORM_BIAS, "encoder.layers.%d.norm2.bias", DIM_OF_MODEL),
    DENSE_ROWS,
};

/* Models are saved with and without the name of their body before each tensor's. */
static const char *const llama_prefix[] = {"model.", "", NULL};
static const char *const gpt2_prefix[] = {"transformer.", "", NULL};
static const char *const bert_prefix[] = {"", "bert.", "roberta.", NULL};

static const char *const wrapped_prefix[] = {
    "model.language_model.", "language_model.model.", "language_model.", "model.", "", NULL};

#define ROWS(r) .row = (r), .n_row = (int)(sizeof(r) / sizeof *(r))

static const struct spec llama_spec = {ROWS(llama_rows), .prefix = llama_prefix};
static const struct spec hybrid_spec = {ROWS(llama_rows), .prefix = llama_prefix};
static const struct spec gemma4_spec = {ROWS(gemma4_rows), .prefix = llama_prefix};
static const struct spec lfm2_spec = {ROWS(lfm2_rows), .prefix = llama_prefix};
static const struct spec granite_hybrid_spec = {ROWS(granite_hybrid_rows), .prefix = llama_prefix};
static const struct spec latent_spec = {ROWS(latent_rows), .prefix = llama_prefix};
static const struct spec gpt2_spec = {ROWS(gpt2_rows), .prefix = gpt2_prefix};
static const struct spec bert_spec = {ROWS(bert_rows), .prefix = bert_prefix};
static const struct spec nomicbert_spec = {ROWS(nomicbert_rows), .prefix = llama_prefix};
static const struct spec modernbert_spec = {ROWS(modernbert_rows), .prefix = llama_prefix};

const struct spec *spec_of(enum config_family f)
{
    static const struct spec *const spec[FAMILY_COUNT] = {
#define FAMILY(name, type, arch, body, ...) &body##_spec,
#include "engine/load/family.def"
#undef FAMILY
    };
    return spec[f];
}

const char *const *spec_prefix(const struct config *c)
{
    return c->is_wrapped ? wrapped_prefix : spec_of(c->family)->prefix;
}

const char *spec_prefix_of_class(const struct config *c)
{
    const char *const *all = spec_prefix(c);
    if (c->is_wrapped || !c->is_encoder)
        return all[0];
    if (!c->classifier)
        return "";
    return all != bert_prefix ? all[0] : c->family == FAMILY_BERT ? all[1] : all[2];
}

bool spec_is_transposed(const struct spec *s)
{
    for (int i = 0; i < s->n_row; i++)
        if (s->row[i].takes_lora && s->row[i].is_transposed)
            return true;
    return false;
}

int64_t spec_dim_of(const struct config *c, enum spec_dim d, int64_t layer)
{
    int64_t d_head = config_d_head(c, layer), n_kv = config_n_kv_head(c, layer);
    int64_t d_ff = config_d_ff(c, layer), q = c->n_head * d_head;
    int64_t state_v = (int64_t)c->n_state_v * c->d_state_v;
    const int64_t dim[DIM_OF_COUNT] = {
        [DIM_OF_NONE] = 1,
        [DIM_OF_MODEL] = c->d_model,
        [DIM_OF_VOCAB] = c->n_vocab,
        [DIM_OF_POS] = c->max_pos + c->pos_from,
        [DIM_OF_SEGMENT] = c->n_segment,
        [DIM_OF_PLE_VOCAB] = c->n_ple_vocab,
        [DIM_OF_PLE] = c->d_ple,
        [DIM_OF_PLES] = c->d_ple * c->n_layer,
        [DIM_OF_TRACKS] = c->n_track,
        [DIM_OF_PREDICT] = (int64_t)c->n_track * c->n_track,
        [DIM_OF_LAUREL] = c->d_laurel,
        [DIM_OF_LABELS] = c->n_label,
        [DIM_OF_DENSE] = c->dense[0].n,
        [DIM_OF_DENSE_2] = c->dense[1].n,
        [DIM_OF_FF] = d_ff,
        [DIM_OF_GATE_UP] = 2 * d_ff,
        [DIM_OF_EXPERT] = c->d_expert,
        [DIM_OF_EXPERTS] = c->n_expert,
        [DIM_OF_SHARED] = c->d_shared,
        [DIM_OF_ONE] = 1,
        [DIM_OF_LATENT] = c->d_latent,
        [DIM_OF_LATENT_Q] = c->d_latent_q ? c->d_latent_q : c->d_model,
        [DIM_OF_LATENT_KV] = c->d_latent + c->d_turned,
        [DIM_OF_KV_UP] = (int64_t)c->n_head * (c->d_head - c->d_turned + c->d_value),
        [DIM_OF_VALUES] = (int64_t)c->n_head * c->d_value,
        [DIM_OF_Q] = q,
        [DIM_OF_QUERY] = c->has_attn_gate ? 2 * q : q,
        [DIM_OF_KV] = n_kv * d_head,
        [DIM_OF_QKV] = (c->n_head + 2 * n_kv) * d_head,
        [DIM_OF_HEAD] = d_head,
        [DIM_OF_HEADS] = c->n_head,
        [DIM_OF_CONV_IN] = 3 * c->d_model,
        [DIM_OF_TAPS] = config_conv_width(c) * c->n_tap,
        [DIM_OF_STATE_QKV] = config_conv_width(c),
        [DIM_OF_SCAN_IN] = state_v + config_conv_width(c) + c->n_state_v,
        [DIM_OF_STATE_V] = state_v,
        [DIM_OF_DELTA_QKVZ] = config_conv_width(c) + state_v,
        [DIM_OF_DELTA_BA] = 2 * (int64_t)c->n_state_v,
        [DIM_OF_STATE_HEADS] = c->n_state_v,
        [DIM_OF_STATE_HEAD] = c->d_state_v,
    };
    return dim[d];
}

static enum spec_ff mixture_of(const struct config *c)
{
    if (c->has_expert_bias)
        return FF_IS_BIASED_MIXTURE;
    return c->family == FAMILY_MIXTRAL ? FF_IS_BLOCK_MIXTURE : FF_IS_MIXTURE;
}

static bool has_ff(const struct config *c, enum spec_ff ff, int64_t layer)
{
    if (ff == FF_IS_ANY || layer < 0)
        return true;
    if (ff == FF_IS_PLAIN || !c->has_experts[layer])
        return (ff == FF_IS_PLAIN) != c->has_experts[layer];
    return ff == mixture_of(c);
}

static bool has_mixer(const struct config *c, unsigned mixers, int64_t layer)
{
    return !mixers || layer < 0 || (mixers & MIXER_IS(c->mixer[layer]));
}

bool spec_row_is_used(const struct config *c, const struct spec_row *r, int64_t layer)
{
    if ((r->slot >= SLOT_GLOBAL_COUNT) != (layer >= 0) || !has_ff(c, r->ff, layer) ||
        !has_mixer(c, r->mixers, layer))
        return false;
    switch (r->when) {
    case WHEN_QKV_BIAS:
        return c->has_qkv_bias;
    case WHEN_O_BIAS:
        return c->has_o_bias;
    case WHEN_MLP_BIAS:
        return c->has_mlp_bias;
    case WHEN_CONV_BIAS:
        return c->has_conv_bias;
    case WHEN_SCAN_BIAS:
        return c->has_scan_bias;
    case WHEN_SINKS:
        return c->has_sinks;
    case WHEN_Q_LATENT:
        return c->d_latent_q > 0;
    case WHEN_Q_LATENT_BIAS:
        return c->d_latent_q > 0 && c->has_qkv_bias;
    case WHEN_NO_Q_LATENT:
        return c->d_latent_q == 0;
    case WHEN_CHOICE_BIAS:
        return c->has_route_bias;
    case WHEN_OWN_KV:
        return !config_shares_kv(c, layer);
    case WHEN_OWN_V:
        return !config_shares_kv(c, layer) && (c->slides[layer] || !c->k_is_v);
    case WHEN_PLE:
        return c->d_ple > 0;
    case WHEN_TRACK_SCALE:
        return c->n_track > 0 && c->scales_track;
    case WHEN_TRACKS:
        return c->n_track > 0;
    case WHEN_QK_NORM:
        return c->qk_norm == QK_NORM_HEADS;
    case WHEN_WHOLE_QK_NORM:
        return c->qk_norm == QK_NORM_WHOLE;
    case WHEN_NORM_BEFORE:
        return c->norms == NORMS_INPUT || c->norms == NORMS_BOTH;
    case WHEN_NORM_AFTER:
        return c->norms == NORMS_OUTPUT || c->norms == NORMS_BOTH;
    case WHEN_NORM_BEFORE_ONLY:
        return c->norms == NORMS_INPUT;
    case WHEN_NORM_BOTH:
        return c->norms == NORMS_BOTH;
    case WHEN_APART:
        return !c->is_joined;
    case WHEN_JOINED:
        return c->is_joined;
    case WHEN_DELTA_APART:
        return !c->is_delta_joined;
    case WHEN_DELTA_JOINED:
        return c->is_delta_joined;
    case WHEN_SHARED:
        return c->d_shared > 0;
    case WHEN_UNTIED:
        return !c->is_tied && !c->is_encoder;
    case WHEN_DENSE:
        return c->n_dense > 0;
    case WHEN_DENSE_BIAS:
        return c->n_dense > 0 && c->dense[0].has_bias;
    case WHEN_DENSE_2:
        return c->n_dense > 1;
    case WHEN_DENSE_2_BIAS:
        return c->n_dense > 1 && c->dense[1].has_bias;
    case WHEN_CLASSIFIER_POOLER:
        return c->classifier == CLASSIFIER_POOLER;
    case WHEN_CLASSIFIER_DENSE:
        return c->classifier == CLASSIFIER_DENSE;
    case WHEN_CLASSIFIER_BARE:
        return c->classifier == CLASSIFIER_BARE;
    case WHEN_CLASSIFIER_NORMED:
        return c->classifier == CLASSIFIER_NORMED;
    case WHEN_CLASSIFIER_NORMED_BIAS:
        return c->classifier == CLASSIFIER_NORMED && c->has_pooler_bias;
    case WHEN_CLASSIFIER_NORM_BIAS:
        return c->classifier == CLASSIFIER_NORMED && c->has_norm_bias;
    case WHEN_NORM_BIAS:
        return c->has_norm_bias;
    case WHEN_NOT_FIRST_NORM:
        return layer > 0 || !c->skips_first_norm;
    case WHEN_NOT_FIRST_NORM_BIAS:
        return c->has_norm_bias && (layer > 0 || !c->skips_first_norm);
    case WHEN_ALWAYS:
        break;
    }
    return true;
}

bool spec_row_is_vector(const struct spec_row *r)
{
    return r->k == DIM_OF_NONE;
}

struct spec_walk spec_walk_begin(const struct config *c)
{
    return (struct spec_walk){.cfg = c, .layer = -1, .expert = -1};
}

const struct spec_row *spec_walk_next(struct spec_walk *w)
{
    const struct spec *s = spec_of(w->cfg->family);
    if (w->expert >= 0 && ++w->expert < w->cfg->n_expert)
        return &s->row[w->row - 1];
    w->expert = -1;
    for (; w->layer < w->cfg->n_layer; w->layer++, w->row = 0) {
        while (w->row < s->n_row) {
            const struct spec_row *r = &s->row[w->row++];
            if (!spec_row_is_used(w->cfg, r, w->layer))
                continue;
            w->expert = r->is_each ? 0 : -1;
            return r;
        }
    }
    return NULL;
}
