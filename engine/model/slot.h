/* SPDX-License-Identifier: Apache-2.0
 *
 * The places that parameters have in the models' one function.
 */
#ifndef ENGINE_MODEL_SLOT_H
#define ENGINE_MODEL_SLOT_H

/* Where a parameter stands in its family's function. */
enum slot {
    SLOT_TOKEN_EMBED,
    SLOT_POS_EMBED,
    SLOT_SEGMENT_EMBED,
    SLOT_PLE_EMBED, /* of each layer's own, all side by side; what joins it, and its norm */
    SLOT_PLE_PROJECT,
    SLOT_PLE_NORM,
    SLOT_TRACK_IN, /* what the other tracks begin with, and what they end in */
    SLOT_TRACK_IN_2,
    SLOT_TRACK_IN_3,
    SLOT_TRACK_OUT,
    SLOT_TRACK_OUT_2,
    SLOT_TRACK_OUT_3,
    SLOT_EMBED_NORM,
    SLOT_EMBED_NORM_BIAS,
    SLOT_FINAL_NORM,
    SLOT_FINAL_NORM_BIAS,
    SLOT_LM_HEAD,
    SLOT_DENSE, /* products of a text's vector */
    SLOT_DENSE_BIAS,
    SLOT_DENSE_2,
    SLOT_DENSE_2_BIAS,
    SLOT_POOLER, /* of a text's row, before it is classified */
    SLOT_POOLER_BIAS,
    SLOT_POOLER_NORM,
    SLOT_POOLER_NORM_BIAS,
    SLOT_CLASSIFIER,
    SLOT_CLASSIFIER_BIAS,
    SLOT_GLOBAL_COUNT,
    SLOT_ATTN_NORM = SLOT_GLOBAL_COUNT, /* from here on once per layer */
    SLOT_ATTN_NORM_BIAS,
    SLOT_Q,
    SLOT_K,
    SLOT_V,
    SLOT_Q_BIAS,
    SLOT_K_BIAS,
    SLOT_V_BIAS,
    SLOT_QKV,
    SLOT_QKV_BIAS,
    SLOT_Q_NORM,
    SLOT_K_NORM,
    SLOT_O,
    SLOT_O_BIAS,
    SLOT_SINK,
    SLOT_Q_LATENT, /* what queries are made of by SLOT_Q; keys and values by SLOT_KV_UP */
    SLOT_Q_LATENT_BIAS,
    SLOT_Q_LATENT_NORM,
    SLOT_KV_LATENT, /* and the part of keys that turns */
    SLOT_KV_LATENT_BIAS,
    SLOT_KV_LATENT_NORM,
    SLOT_KV_UP,
    SLOT_CONV_IN, /* what is convolved, and what gates that; of a scan its steps too */
    SLOT_CONV_IN_BIAS,
    SLOT_CONV,
    SLOT_CONV_BIAS,
    SLOT_CONV_OUT,
    SLOT_CONV_OUT_BIAS,
    SLOT_SCAN_SKIP,
    SLOT_DELTA_QKV, /* what the delta rule reads, convolved; then what gates it */
    SLOT_DELTA_Z,
    SLOT_DELTA_B,
    SLOT_DELTA_A,
    SLOT_DELTA_QKVZ, /* of each of its heads q, k, v and z; b and a */
    SLOT_DELTA_BA,
    SLOT_STATE_DT_BIAS, /* of the delta rule and of scans */
    SLOT_STATE_A_LOG,
    SLOT_STATE_NORM,
    SLOT_STATE_OUT,
    SLOT_MIXER_END, /* those before are of a layer's mixer: */
    SLOT_MLP_NORM = SLOT_MIXER_END,
    SLOT_MLP_NORM_BIAS,
    SLOT_ATTN_OUT_NORM, /* of what a half gives, before it is added */
    SLOT_MLP_OUT_NORM,
    SLOT_GATE,
    SLOT_UP,
    SLOT_GATE_UP,
    SLOT_GATE_UP_BIAS,
    SLOT_DOWN,
    SLOT_GATE_BIAS,
    SLOT_UP_BIAS,
    SLOT_DOWN_BIAS,
    SLOT_PLE_GATE, /* of a layer's own embedding, and from its width to the model's */
    SLOT_PLE_UP,
    SLOT_PLE_OUT_NORM,
    SLOT_TRACK_NORM, /* of what weighs tracks; then that, and the weights before and after */
    SLOT_TRACK_ROUTER,
    SLOT_TRACK_PREDICT,
    SLOT_TRACK_CORRECT,
    SLOT_TRACK_SCALE,
    SLOT_LAUREL_IN, /* the product beside attention */
    SLOT_LAUREL_OUT,
    SLOT_LAUREL_NORM,
    SLOT_ROUTER,
    SLOT_ROUTER_BIAS,
    SLOT_ROUTER_NORM,  /* where the router reads the stream itself */
    SLOT_CHOICE_BIAS,  /* of scores, where experts are picked by them */
    SLOT_EXPERT_SCALE, /* of a row's weights, a number for each expert */
    SLOT_EXPERTS_NORM, /* before and after a mixture that is beside a plain feed-forward, ... */
    SLOT_EXPERTS_OUT_NORM,
    SLOT_BESIDE_OUT_NORM, /* and after that */
    SLOT_EXPERT_GATE,     /* of the first of them: the others follow it in the list of parameters */
    SLOT_EXPERT_UP,
    SLOT_EXPERT_DOWN,
    SLOT_EXPERT_GATE_BIAS,
    SLOT_EXPERT_UP_BIAS,
    SLOT_EXPERT_DOWN_BIAS,
    SLOT_SHARED_GATE, /* of the expert that every row goes to, ... */
    SLOT_SHARED_UP,
    SLOT_SHARED_DOWN,
    SLOT_SHARED_WEIGHT, /* and what weighs it, where something does */
    SLOT_COUNT,
    SLOT_LAYER_COUNT = SLOT_COUNT - SLOT_GLOBAL_COUNT
};

#endif
