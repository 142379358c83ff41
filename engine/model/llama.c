/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama 2 and 3.x, Mistral, Qwen2, Qwen2.5, Qwen3, SmolLM: pre-norm decoders with rotary positions
 * and a gated feed-forward. They differ in biases, head norms, windows and tables, which the
 * parameters and the config say.
 */
#include "engine/model/blocks.h"

struct val model_build_llama(const struct model *m, struct builder *b, enum model_head head)
{
    struct val x = op_embed(b, OP_IDS_TOKEN, m->slot[SLOT_TOKEN_EMBED]);
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        builder_block(b, (int)l);
        struct val h = block_norm(m, b, x, model_layer(m, l, SLOT_ATTN_NORM), NULL);
        x = op_add(b, x, block_attention(m, b, h, l, true));
        h = block_norm(m, b, x, model_layer(m, l, SLOT_MLP_NORM), NULL);
        x = op_add(b, x, block_mlp(m, b, h, l));
    }
    builder_block(b, -1);
    return block_head(m, b, x, head);
}
