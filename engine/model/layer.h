/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer as data: what the model's function reads of it. One row for each layer, made once from
 * the config, so that layers of one model may differ in any of it.
 *
 * Thread: constant once made.
 */
#ifndef ENGINE_MODEL_LAYER_H
#define ENGINE_MODEL_LAYER_H

#include "engine/load/config.h"
#include "engine/model/spec.h"

enum layer_ff {
    FF_SWIGLU, /* down(silu(gate x) * up x) */
    FF_GELU,   /* down(gelu(up x)) */
    FF_GELU_TANH,
    FF_GEGLU, /* down(gelu(gate x) * up x) */
    FF_GEGLU_TANH,
    FF_EXPERTS /* the weighted sum of some experts, each as FF_SWIGLU */
};

/* By which of the model's tables of positions queries and keys turn. */
enum layer_rope { LAYER_ROPE, LAYER_ROPE_LOCAL, LAYER_ROPE_COUNT, LAYER_ROPE_NONE };

struct layer {
    struct param *slot[SLOT_LAYER_COUNT]; /* of the model's params; NULL: not there */
    enum config_norms norms;
    enum layer_ff ff, ff_beside; /* beside: of what may stand beside a mixture */
    enum config_mixer mixer;
    int32_t window;                       /* keys seen at most; 0: all */
    int32_t d_head, n_kv_head, n_kv_here; /* here: heads that this rank keeps keys and values of */
    int32_t kv_layer; /* whose keys and values its queries meet: its own, or those of one before */
    int64_t d_ff;
    bool cuts_gate;  /* of what its feed-forward's gate gives the lower part is cut off: */
    float cut;       /* what is not so many standard deviations above the mean */
    float out_scale; /* of all that the layer gives; 0: none */
    float scale;     /* of a query's products with keys */
    float cap;       /* soft bound of them; 0: none */
    float residual;  /* what a half is multiplied with before it is added */
    bool is_causal;
    enum layer_rope rope;
};

/* All but the parameters of layer `l`. */
void layer_init(struct layer *y, const struct config *c, int64_t l);

#endif
