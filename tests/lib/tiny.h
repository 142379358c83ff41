/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny models of awkward shape with random parameters, made in memory: what the equivalence tests
 * of graph, eager and runner run on.
 */
#ifndef TESTS_LIB_TINY_H
#define TESTS_LIB_TINY_H

#include "engine/run/runner.h"

struct tiny {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model *model;
};

struct config tiny_config(enum config_family f);

/* type: of the matrices. kernels: NULL, or a mask as in kernel_table_init. */
void tiny_init(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
               const char *kernels);
/* Products with codes multiply codes. */
void tiny_init_int8(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
                    const char *kernels);
/* Keys and values are codes. */
void tiny_init_cells_int8(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
                          const char *kernels);
void tiny_release(struct tiny *t);

/* A runner with room for n_tok tokens of one sequence; passes and is_eager as in its options. */
struct runner *tiny_runner(struct tiny *t, int64_t n_tok, enum model_output output, bool is_eager,
                           unsigned passes);

/* n token ids of the vocabulary, the same ones at each call. */
void tiny_tokens(const struct model *m, int32_t *token, int64_t n);

#endif
