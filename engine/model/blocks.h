/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces that families are made of.
 *
 * Thread: that of the builder.
 */
#ifndef ENGINE_MODEL_BLOCKS_H
#define ENGINE_MODEL_BLOCKS_H

#include "engine/model/model.h"
#include "engine/op/ops.h"

/* The norm of a slot: RMS, or with mean and bias where the family has one. */
struct val block_norm(const struct model *m, struct builder *b, struct val x,
                      const struct param *weight, const struct param *bias);

/* Attention of h through the layer's parameters, up to and including the output product. */
struct val block_attention(const struct model *m, struct builder *b, struct val h, int64_t layer,
                           bool causal);

/* down(act(up h)), or down(silu(gate h) * up h) where the layer has a gate. */
struct val block_mlp(const struct model *m, struct builder *b, struct val h, int64_t layer);

/* What follows the last layer of a decoder. */
struct val block_head(const struct model *m, struct builder *b, struct val x, enum model_head head);

typedef struct val model_build_fn(const struct model *m, struct builder *b, enum model_head head);

model_build_fn model_build_llama, model_build_gpt2, model_build_bert;

#endif
