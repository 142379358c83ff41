/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of each family, as rows: a name ("%d" is the block), two dimensions by letter, how it
 * is drawn, and when it is there.
 */
#include <stdio.h>

#include "tests/tools/model/model.h"

/* V vocabulary, D width, F feed-forward, P positions, S segments, Q and K all heads of queries and
 * of keys, H one head, A three widths; 0: none. */
struct row {
    const char *name;
    char dim[2];
    enum draw draw;
    char when; /* 0 always, q: biases of q, k, v; o: of o; m: of the feed-forward; n: q and k norms;
                  u: untied head */
};

static const struct row llama[] = {
    {"model.embed_tokens.weight", "VD", DRAW_EMBED, 0},
    {"model.layers.%d.input_layernorm.weight", "D", DRAW_NORM, 0},
    {"model.layers.%d.self_attn.q_proj.weight", "QD", DRAW_MATRIX, 0},
    {"model.layers.%d.self_attn.q_proj.bias", "Q", DRAW_BIAS, 'q'},
    {"model.layers.%d.self_attn.k_proj.weight", "KD", DRAW_MATRIX, 0},
    {"model.layers.%d.self_attn.k_proj.bias", "K", DRAW_BIAS, 'q'},
    {"model.layers.%d.self_attn.v_proj.weight", "KD", DRAW_MATRIX, 0},
    {"model.layers.%d.self_attn.v_proj.bias", "K", DRAW_BIAS, 'q'},
    {"model.layers.%d.self_attn.q_norm.weight", "H", DRAW_NORM, 'n'},
    {"model.layers.%d.self_attn.k_norm.weight", "H", DRAW_NORM, 'n'},
    {"model.layers.%d.self_attn.o_proj.weight", "DQ", DRAW_MATRIX, 0},
    {"model.layers.%d.self_attn.o_proj.bias", "D", DRAW_BIAS, 'o'},
    {"model.layers.%d.post_attention_layernorm.weight", "D", DRAW_NORM, 0},
    {"model.layers.%d.mlp.gate_proj.weight", "FD", DRAW_MATRIX, 0},
    {"model.layers.%d.mlp.gate_proj.bias", "F", DRAW_BIAS, 'm'},
    {"model.layers.%d.mlp.up_proj.weight", "FD", DRAW_MATRIX, 0},
    {"model.layers.%d.mlp.up_proj.bias", "F", DRAW_BIAS, 'm'},
    {"model.layers.%d.mlp.down_proj.weight", "DF", DRAW_MATRIX, 0},
    {"model.layers.%d.mlp.down_proj.bias", "D", DRAW_BIAS, 'm'},
    {"model.norm.weight", "D", DRAW_NORM, 0},
    {"lm_head.weight", "VD", DRAW_EMBED, 'u'},
    {NULL, "", DRAW_BIAS, 0},
};

static const struct row gpt2[] = {
    {"transformer.wte.weight", "VD", DRAW_EMBED, 0},
    {"transformer.wpe.weight", "PD", DRAW_EMBED, 0},
    {"transformer.h.%d.ln_1.weight", "D", DRAW_NORM, 0},
    {"transformer.h.%d.ln_1.bias", "D", DRAW_BIAS, 0},
    {"transformer.h.%d.attn.c_attn.weight", "DA", DRAW_MATRIX, 0},
    {"transformer.h.%d.attn.c_attn.bias", "A", DRAW_BIAS, 0},
    {"transformer.h.%d.attn.c_proj.weight", "DD", DRAW_MATRIX, 0},
    {"transformer.h.%d.attn.c_proj.bias", "D", DRAW_BIAS, 0},
    {"transformer.h.%d.ln_2.weight", "D", DRAW_NORM, 0},
    {"transformer.h.%d.ln_2.bias", "D", DRAW_BIAS, 0},
    {"transformer.h.%d.mlp.c_fc.weight", "DF", DRAW_MATRIX, 0},
    {"transformer.h.%d.mlp.c_fc.bias", "F", DRAW_BIAS, 0},
    {"transformer.h.%d.mlp.c_proj.weight", "FD", DRAW_MATRIX, 0},
    {"transformer.h.%d.mlp.c_proj.bias", "D", DRAW_BIAS, 0},
    {"transformer.ln_f.weight", "D", DRAW_NORM, 0},
    {"transformer.ln_f.bias", "D", DRAW_BIAS, 0},
    {"lm_head.weight", "VD", DRAW_EMBED, 'u'},
    {NULL, "", DRAW_BIAS, 0},
};

static const struct row bert[] = {
    {"embeddings.word_embeddings.weight", "VD", DRAW_EMBED, 0},
    {"embeddings.position_embeddings.weight", "PD", DRAW_EMBED, 0},
    {"embeddings.token_type_embeddings.weight", "SD", DRAW_EMBED, 0},
    {"embeddings.LayerNorm.weight", "D", DRAW_NORM, 0},
    {"embeddings.LayerNorm.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.attention.self.query.weight", "DD", DRAW_MATRIX, 0},
    {"encoder.layer.%d.attention.self.query.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.attention.self.key.weight", "DD", DRAW_MATRIX, 0},
    {"encoder.layer.%d.attention.self.key.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.attention.self.value.weight", "DD", DRAW_MATRIX, 0},
    {"encoder.layer.%d.attention.self.value.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.attention.output.dense.weight", "DD", DRAW_MATRIX, 0},
    {"encoder.layer.%d.attention.output.dense.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.attention.output.LayerNorm.weight", "D", DRAW_NORM, 0},
    {"encoder.layer.%d.attention.output.LayerNorm.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.intermediate.dense.weight", "FD", DRAW_MATRIX, 0},
    {"encoder.layer.%d.intermediate.dense.bias", "F", DRAW_BIAS, 0},
    {"encoder.layer.%d.output.dense.weight", "DF", DRAW_MATRIX, 0},
    {"encoder.layer.%d.output.dense.bias", "D", DRAW_BIAS, 0},
    {"encoder.layer.%d.output.LayerNorm.weight", "D", DRAW_NORM, 0},
    {"encoder.layer.%d.output.LayerNorm.bias", "D", DRAW_BIAS, 0},
    {"pooler.dense.weight", "DD", DRAW_MATRIX, 0},
    {"pooler.dense.bias", "D", DRAW_BIAS, 0},
    {NULL, "", DRAW_BIAS, 0},
};

static const struct row *rows_of(const struct config *c)
{
    return c->family == FAMILY_GPT2 ? gpt2 : c->family == FAMILY_BERT ? bert : llama;
}

static int64_t dim_of(const struct config *c, char letter)
{
    switch (letter) {
    case 'V':
        return c->n_vocab;
    case 'D':
        return c->d_model;
    case 'F':
        return c->d_ff;
    case 'P':
        return c->max_pos;
    case 'S':
        return c->n_segment;
    case 'Q':
        return (int64_t)c->n_head * c->d_head;
    case 'K':
        return (int64_t)c->n_kv_head * c->d_head;
    case 'H':
        return c->d_head;
    case 'A':
        return 3 * c->d_model;
    }
    BUG("dimension '%c'", letter);
}

static bool is_there(const struct config *c, char when)
{
    switch (when) {
    case 'q':
        return c->has_qkv_bias;
    case 'o':
        return c->has_o_bias;
    case 'm':
        return c->has_mlp_bias;
    case 'n':
        return c->family == FAMILY_QWEN3;
    case 'u':
        return !c->is_tied;
    }
    return true;
}

static bool is_of_block(const struct row *r)
{
    for (const char *p = r->name; *p; p++)
        if (*p == '%')
            return true;
    return false;
}

/* The row's name with the number of the block in place of "%d". */
static void put_name(struct made *t, const char *name, int64_t block)
{
    size_t n = 0;
    for (const char *p = name; *p && n < sizeof t->name - 8; p++) {
        if (*p == '%')
            n += (size_t)snprintf(t->name + n, 8, "%d", (int)block), p++;
        else
            t->name[n++] = *p;
    }
    t->name[n] = 0;
}

static void put(const struct config *c, const struct row *r, int64_t block, struct made *t)
{
    *t = (struct made){.rank = r->dim[1] ? 2 : 1, .draw = r->draw};
    put_name(t, r->name, block);
    for (int i = 0; i < t->rank; i++)
        t->dim[i] = dim_of(c, r->dim[i]);
}

int64_t tensors_max(const struct config *c)
{
    return 24 * (c->n_layer + 1);
}

/* In the order of the rows; rows of blocks stand in one run, which is gone through per block. */
int64_t tensors_list(const struct config *c, struct made *out)
{
    int64_t n = 0;
    for (const struct row *r = rows_of(c); r->name;) {
        const struct row *end = r;
        while (end->name && is_of_block(end) == is_of_block(r))
            end++;
        for (int64_t block = 0; block < (is_of_block(r) ? c->n_layer : 1); block++)
            for (const struct row *k = r; k < end; k++)
                if (is_there(c, k->when))
                    put(c, k, block, &out[n++]);
        r = end;
    }
    ASSERT(n <= tensors_max(c));
    return n;
}
