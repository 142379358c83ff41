/* SPDX-License-Identifier: Apache-2.0
 *
 * BERT, MiniLM, BGE: post-norm encoders that see the whole text at once, and end in one vector per
 * sequence. With CLS pooling the batch's wanted rows are the first of each sequence.
 */
#include "engine/model/blocks.h"

static struct val embed(const struct model *m, struct builder *b)
{
    struct val x = op_add(b, op_embed(b, OP_IDS_TOKEN, m->slot[SLOT_TOKEN_EMBED]),
                          op_embed(b, OP_IDS_POS, m->slot[SLOT_POS_EMBED]));
    x = op_add(b, x, op_embed(b, OP_IDS_SEGMENT, m->slot[SLOT_SEGMENT_EMBED]));
    return block_norm(m, b, x, m->slot[SLOT_EMBED_NORM], m->slot[SLOT_EMBED_NORM_BIAS]);
}

struct val model_build_bert(const struct model *m, struct builder *b, enum model_head head)
{
    struct val x = embed(m, b);
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        builder_block(b, (int)l);
        x = op_add(b, x, block_attention(m, b, x, l, false));
        x = block_norm(m, b, x, model_layer(m, l, SLOT_ATTN_NORM),
                       model_layer(m, l, SLOT_ATTN_NORM_BIAS));
        x = op_add(b, x, block_mlp(m, b, x, l));
        x = block_norm(m, b, x, model_layer(m, l, SLOT_MLP_NORM),
                       model_layer(m, l, SLOT_MLP_NORM_BIAS));
    }
    builder_block(b, -1);
    if (head == MODEL_HIDDEN)
        return x;
    if (head != MODEL_EMBED)
        return builder_fail(b, ERR_UNSUPPORTED, "an encoder has no next-token head");
    x = m->cfg.pool == POOL_CLS ? op_gather(b, x) : op_mean_pool(b, x);
    return m->cfg.normalizes ? op_l2norm(b, x, 1e-12f) : x;
}
