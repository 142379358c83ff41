/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2: a pre-norm decoder with learned positions.
 */
#include "engine/model/blocks.h"

struct val model_build_gpt2(const struct model *m, struct builder *b, enum model_head head)
{
    struct val x = op_add(b, op_embed(b, OP_IDS_TOKEN, m->slot[SLOT_TOKEN_EMBED]),
                          op_embed(b, OP_IDS_POS, m->slot[SLOT_POS_EMBED]));
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        builder_block(b, (int)l);
        struct val h = block_norm(m, b, x, model_layer(m, l, SLOT_ATTN_NORM),
                                  model_layer(m, l, SLOT_ATTN_NORM_BIAS));
        x = op_add(b, x, block_attention(m, b, h, l, true));
        h = block_norm(m, b, x, model_layer(m, l, SLOT_MLP_NORM),
                       model_layer(m, l, SLOT_MLP_NORM_BIAS));
        x = op_add(b, x, block_mlp(m, b, h, l));
    }
    builder_block(b, -1);
    return block_head(m, b, x, head);
}
