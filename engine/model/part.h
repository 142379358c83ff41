/* SPDX-License-Identifier: Apache-2.0
 *
 * What one of several ranks has of a parameter: which outputs and which inputs of the tensor in the
 * files, and the shape that they have here.
 *
 * Thread: any.
 */
#ifndef ENGINE_MODEL_PART_H
#define ENGINE_MODEL_PART_H

#include "engine/op/collective.h"

enum { PART_RUN_MAX = 3 };

struct part_run {
    int64_t lo, n;
};

struct part {
    struct part_run output[PART_RUN_MAX]; /* one behind the other here */
    int n_output;
    struct part_run input;
    bool is_zero; /* another rank has it; here stand zeros */
};

struct part part_of(const struct param *whole, const struct param_share *s,
                    const struct op_ranks *at);

/* The same of a product's outputs and inputs as adapters have them (engine/op/param.h). */
struct part part_of_product(const struct param *whole, const struct param_share *s,
                            const struct op_ranks *at);

/* The whole's description becomes the part's; no memory yet. */
void part_describe(struct param *p, const struct part *part);

/* The runs of elements [lo, hi) of the part's outputs. */
int part_cut(const struct part *p, int64_t lo, int64_t hi, struct part_run run[PART_RUN_MAX]);

#endif
