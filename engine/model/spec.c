/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of each family.
 */
#include "engine/model/spec.h"

#define MATRIX(slot_, name_, n_, k_, ...)                                                          \
    {                                                                                              \
        .slot = (slot_), .name = (name_), .n = (n_), .k = (k_), __VA_ARGS__                        \
    }
#define VECTOR(slot_, name_, n_, ...)                                                              \
    {                                                                                              \
        .slot = (slot_), .name = (name_), .n = (n_), __VA_ARGS__                                   \
    }

static const struct spec_row llama_rows[] = {
    MATRIX(SLOT_TOKEN_EMBED, "embed_tokens.weight", DIM_OF_VOCAB, DIM_OF_MODEL),
    VECTOR(SLOT_ATTN_NORM, "layers.%d.input_layernorm.weight", DIM_OF_MODEL,
           .when = WHEN_NORM_BEFORE),
    MATRIX(SLOT_Q, "layers.%d.self_attn.q_proj.weight", DIM_OF_Q, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 1, .takes_lora = true),
    MATRIX(SLOT_K, "layers.%d.self_attn.k_proj.weight", DIM_OF_KV, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 1, .takes_lora = true),
    MATRIX(SLOT_V, "layers.%d.self_attn.v_proj.weight", DIM_OF_KV, DIM_OF_MODEL, .when = WHEN_APART,
           .group = 1, .takes_lora = true),
    MATRIX(SLOT_QKV, "layers.%d.self_attn.qkv_proj.weight", DIM_OF_QKV, DIM_OF_MODEL,
           .when = WHEN_JOINED, .takes_lora = true),
    VECTOR(SLOT_Q_BIAS, "layers.%d.self_attn.q_proj.bias", DIM_OF_Q, .when = WHEN_QKV_BIAS,
           .group = 3),
    VECTOR(SLOT_K_BIAS, "layers.%d.self_attn.k_proj.bias", DIM_OF_KV, .when = WHEN_QKV_BIAS,
           .group = 3),
    VECTOR(SLOT_V_BIAS, "layers.%d.self_attn.v_proj.bias", DIM_OF_KV, .when = WHEN_QKV_BIAS,
           .group = 3),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_norm.weight", DIM_OF_HEAD, .when = WHEN_QK_NORM),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_norm.weight", DIM_OF_HEAD, .when = WHEN_QK_NORM),
    VECTOR(SLOT_Q_NORM, "layers.%d.self_attn.q_norm.weight", DIM_OF_Q, .when = WHEN_WHOLE_QK_NORM),
    VECTOR(SLOT_K_NORM, "layers.%d.self_attn.k_norm.weight", DIM_OF_KV, .when = WHEN_WHOLE_QK_NORM),
    MATRIX(SLOT_O, "layers.%d.self_attn.o_proj.weight", DIM_OF_MODEL, DIM_OF_Q, .takes_lora = true),
    VECTOR(SLOT_O_BIAS, "layers.%d.self_attn.o_proj.bias", DIM_OF_MODEL, .when = WHEN_O_BIAS),
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
    MATRIX(SLOT_EXPERT_GATE, "layers.%d.mlp.experts.%d.gate_proj.weight", DIM_OF_EXPERT,
           DIM_OF_MODEL, .ff = FF_IS_MIXTURE, .is_each = true),
    MATRIX(SLOT_EXPERT_UP, "layers.%d.mlp.experts.%d.up_proj.weight", DIM_OF_EXPERT, DIM_OF_MODEL,
           .ff = FF_IS_MIXTURE, .is_each = true),
    MATRIX(SLOT_EXPERT_DOWN, "layers.%d.mlp.experts.%d.down_proj.weight", DIM_OF_MODEL,
           DIM_OF_EXPERT, .ff = FF_IS_MIXTURE, .is_each = true),
    MATRIX(SLOT_ROUTER, "layers.%d.block_sparse_moe.gate.weight", DIM_OF_EXPERTS, DIM_OF_MODEL,
           .ff = FF_IS_BLOCK_MIXTURE),
    MATRIX(SLOT_EXPERT_GATE, "layers.%d.block_sparse_moe.experts.%d.w1.weight", DIM_OF_EXPERT,
           DIM_OF_MODEL, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true),
    MATRIX(SLOT_EXPERT_UP, "layers.%d.block_sparse_moe.experts.%d.w3.weight", DIM_OF_EXPERT,
           DIM_OF_MODEL, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true),
    MATRIX(SLOT_EXPERT_DOWN, "layers.%d.block_sparse_moe.experts.%d.w2.weight", DIM_OF_MODEL,
           DIM_OF_EXPERT, .ff = FF_IS_BLOCK_MIXTURE, .is_each = true),
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
};

/* Models are saved with and without the name of their body before each tensor's. */
static const char *const llama_prefix[] = {"model.", "", NULL};
static const char *const gpt2_prefix[] = {"transformer.", "", NULL};
static const char *const bert_prefix[] = {"", "bert.", "roberta.", NULL};

static const char *const wrapped_prefix[] = {"model.language_model.", "language_model.model.",
                                             "language_model.", "", NULL};

#define ROWS(r) .row = (r), .n_row = (int)(sizeof(r) / sizeof *(r))

static const struct spec llama_spec = {ROWS(llama_rows), .prefix = llama_prefix};
static const struct spec gpt2_spec = {ROWS(gpt2_rows), .prefix = gpt2_prefix};
static const struct spec bert_spec = {ROWS(bert_rows), .prefix = bert_prefix};

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

bool spec_is_transposed(const struct spec *s)
{
    for (int i = 0; i < s->n_row; i++)
        if (s->row[i].takes_lora && s->row[i].is_transposed)
            return true;
    return false;
}

int64_t spec_dim_of(const struct config *c, enum spec_dim d)
{
    const int64_t dim[DIM_OF_COUNT] = {
        [DIM_OF_NONE] = 1,
        [DIM_OF_MODEL] = c->d_model,
        [DIM_OF_VOCAB] = c->n_vocab,
        [DIM_OF_POS] = c->max_pos + c->pos_from,
        [DIM_OF_SEGMENT] = c->n_segment,
        [DIM_OF_FF] = c->d_ff,
        [DIM_OF_GATE_UP] = 2 * c->d_ff,
        [DIM_OF_EXPERT] = c->d_expert,
        [DIM_OF_EXPERTS] = c->n_expert,
        [DIM_OF_Q] = (int64_t)c->n_head * c->d_head,
        [DIM_OF_KV] = (int64_t)c->n_kv_head * c->d_head,
        [DIM_OF_QKV] = ((int64_t)c->n_head + 2 * c->n_kv_head) * c->d_head,
        [DIM_OF_HEAD] = c->d_head,
    };
    return dim[d];
}

static bool has_ff(const struct config *c, enum spec_ff ff, int64_t layer)
{
    if (ff == FF_IS_ANY || layer < 0)
        return true;
    if (ff == FF_IS_PLAIN || !c->has_experts[layer])
        return (ff == FF_IS_PLAIN) != c->has_experts[layer];
    return (ff == FF_IS_BLOCK_MIXTURE) == (c->family == FAMILY_MIXTRAL);
}

bool spec_row_is_used(const struct config *c, const struct spec_row *r, int64_t layer)
{
    if ((r->slot >= SLOT_GLOBAL_COUNT) != (layer >= 0) || !has_ff(c, r->ff, layer))
        return false;
    switch (r->when) {
    case WHEN_QKV_BIAS:
        return c->has_qkv_bias;
    case WHEN_O_BIAS:
        return c->has_o_bias;
    case WHEN_MLP_BIAS:
        return c->has_mlp_bias;
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
    case WHEN_UNTIED:
        return !c->is_tied && !c->is_encoder;
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
