/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter of a model: a matrix, kept packed and nowhere else, or a vector, kept as f32. Ops
 * point at parameters; serving, training and every adapter share them.
 *
 * Neighbours: the parts of a joined product (q, k, v; gate, up) are packed back to back by the
 * loader, so that a pass can read them as one weight and eager can read them one by one.
 *
 * Adapters. A product has two halves, A [rank, k] and B [lora_n, rank]. A layer's experts are one
 * product, which the first of them stands for: A of the second expert follows A of the first, and
 * so do the B.
 *
 * Thread: constant while a model serves. grad belongs to whoever trains.
 */
#ifndef ENGINE_OP_PARAM_H
#define ENGINE_OP_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* How ranks share a parameter: all of it, a run of its outputs, a run of its inputs; or the first
 * rank has it and the others have zeros, where their results are summed. */
enum param_cut { PARAM_WHOLE, PARAM_OUTPUTS, PARAM_INPUTS, PARAM_FIRST };

struct param_share {
    enum param_cut cut;
    int64_t pieces; /* of its outputs or inputs, none of which is cut */
    bool sums_grad; /* all ranks have it whole, and each a part of its gradient */
};

/* Rank r of `size` has [param_bound(r), param_bound(r + 1)) of n things in so many pieces. */
static inline int64_t param_bound(int64_t n, int64_t pieces, int rank, int size)
{
    return n * (pieces * rank / size) / pieces;
}

struct param;

/* A gradient that has memory only while it has numbers: the tape gives it when the first arrive. */
struct param_late {
    struct param *of; /* borrowed */
    void *memory;     /* the tape's handle; NULL: of->grad is NULL as well */
    bool is_blank;    /* the memory holds no numbers yet: whoever is first puts its own there */
};

/* The order in which a matrix has its inputs, where it is another than that of the rows that it
 * multiplies: the matrix's input i is the rows' at[i]. Matrices with one order share it. */
struct param_order {
    int32_t *at; /* [k], of the device; NULL: a model without memory */
    int64_t k;
};

struct param {
    const char *name; /* borrowed: the tensor's name in the files */
    int32_t index;    /* place in the model's list */
    int32_t lora;     /* place among the products that take adapters; -1: none */
    int32_t n_half; /* of a product of a layer's experts, of which this is the first's: how many of
                     * these have halves of their own; else 0 */
    int64_t lora_n; /* outputs of a half: n, or of gate and up of an expert together */
    const char *lora_name; /* borrowed: what adapters call the product, "layers.0.mlp.down_proj", or
                            * all experts' tensor, "layers.0.mlp.experts.down_proj" */
    bool is_vector;
    bool is_fixed;      /* no gradient comes to it: it is not trained */
    int64_t n, k;       /* outputs, inputs; a vector has k = 1 */
    int32_t n_tap;      /* of a vector that files have as [n / n_tap, 1, n_tap]; 0: as [n] */
    int64_t section[3]; /* runs of outputs of which each is cut alike; 0: there is only one */
    int64_t lo;         /* a rank's part: the first of its outputs among all */
    struct k_weight w;  /* matrix */
    const struct param_order *order; /* borrowed: of w's inputs; NULL: that of the rows */
    bool reads_q8;                   /* its products multiply codes of rows (kernels/q8.h) */
    float *vec;                      /* vector: [n], borrowed from the model's storage */
    float *grad;                     /* row-major [n, k], borrowed; NULL: frozen, or late */
    struct param_late *late; /* borrowed from the trainer; NULL: grad is there from the start */
};

/* Rows of both halves of a product: as many for each of its experts. */
static inline int64_t param_half_rows(const struct param *p, bool is_b, int64_t rank)
{
    return (p->n_half ? p->n_half : 1) * (is_b ? p->lora_n : rank);
}

static inline bool param_is_trained(const struct param *p)
{
    return p->grad || p->late;
}

/* What rows a product with a matrix reads, and the kernel that it is. */
enum k_type param_reads(const struct param *p);
enum kernel_id param_linear(const struct param *p);

/* Whether the caller, who has some numbers for the gradient, is the first and fills it. */
static inline bool param_fills_grad(const struct param *p)
{
    bool is_first = p->late && p->late->is_blank;
    if (is_first)
        p->late->is_blank = false;
    return is_first;
}

/* True when q lies right behind p, so that the two can be read as one. */
bool param_follows(const struct param *p, const struct param *q);

#endif
