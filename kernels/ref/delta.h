/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of the gated delta rule, for its forward and its backward.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_REF_DELTA_H
#define KERNELS_REF_DELTA_H

#include "kernels/delta.h"

/* A row as a unit sees it: k of unit length, q too and by sqrt(d_k). */
struct ref_delta_row {
    struct delta_rate rate;
    const float *v; /* of the unit's columns */
    float q[K_DELTA_D_MAX], k[K_DELTA_D_MAX];
};

void ref_delta_open(const struct k_delta *a, const struct delta_unit *u, int64_t t,
                    struct ref_delta_row *r);

/* The state decays; rest: v less what k reads then, of a scan v; u: by beta. */
void ref_delta_decay(float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                     float *rest, float *u);

/* S = S + k u^T */
void ref_delta_learn(float *state, const struct ref_delta_row *r, int32_t d_k, int32_t width,
                     const float *u);

/* Number i of what a key head has of its heads of values: of q, or of k from d_k on. */
double ref_delta_part_sum(const struct delta_key_parts *p, int64_t i);

#endif
