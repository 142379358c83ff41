/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config says of rotary positions.
 *
 * Thread: constant once loaded.
 */
#ifndef ENGINE_LOAD_CONFIG_ROPE_H
#define ENGINE_LOAD_CONFIG_ROPE_H

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_ROPE_FACTOR_MAX = 256 };

/* proportional: of layers that see all; the others turn whole, by local_theta */
enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL
};

struct config_rope {
    enum rope_kind kind;
    double theta, partial; /* partial: share of a head that turns, 1 for all of it */
    double factor, low_freq_factor, high_freq_factor;    /* llama3; factor: all */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn; mscale 0: absent */
    double attention_factor;                             /* yarn, longrope; 0: computed */
    int64_t original_max_pos;                            /* 0: max_pos */
    bool truncate;                                       /* yarn: whole-numbered bounds */
    int n_factor;                                        /* longrope: d_rot / 2 */
    double short_factor[CONFIG_ROPE_FACTOR_MAX], long_factor[CONFIG_ROPE_FACTOR_MAX];
};

#endif
