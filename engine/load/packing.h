/* SPDX-License-Identifier: Apache-2.0
 *
 * How a config says that a model's matrices are packed, as far as their tensors don't say it
 * themselves.
 *
 * Thread: constant.
 */
#ifndef ENGINE_LOAD_PACKING_H
#define ENGINE_LOAD_PACKING_H

#include <stdbool.h>
#include <stdint.h>

enum packing_method {
    PACKING_NONE,
    PACKING_CT,
    PACKING_FP8,
    PACKING_GPTQ,
    PACKING_AWQ,
    PACKING_MXFP4,
    PACKING_BNB
};

struct packing {
    enum packing_method method;
    int64_t group;     /* inputs that share a scale, the last group may be shorter; -1: a row */
    int64_t block[2];  /* outputs and inputs that share a scale; 0: not told */
    bool is_ordered;   /* GPTQ: inputs may be grouped in an order of their own, desc_act */
    bool is_zero_less; /* GPTQ: a zero point is one more than what is stored */
};

#endif
