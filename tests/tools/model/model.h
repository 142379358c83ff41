/* SPDX-License-Identifier: Apache-2.0
 *
 * make_model: a model directory of random weights, of any family and shape. One pass of four files:
 * shape.c turns options into config.json, tensors.c lists what that config asks for, weights.c
 * draws and writes it, tokenizer.c adds a tokenizer that can encode and decode every id.
 */
#ifndef TESTS_TOOLS_MODEL_MODEL_H
#define TESTS_TOOLS_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/load/config.h"
#include "engine/load/st_header.h"

/* What is asked for; 0 and NULL: as the preset has it. */
struct shape {
    const char *preset, *family, *rope, *dtype;
    int64_t n_vocab, d_model, d_ff, n_layer, n_head, n_kv_head, d_head, max_pos, window;
    double theta;
    bool is_tied, is_untied, has_bias;
};

/* One tensor: its name, shape and how it is drawn. */
enum draw { DRAW_MATRIX, DRAW_EMBED, DRAW_NORM, DRAW_BIAS };

struct made {
    char name[96];
    int rank;
    int64_t dim[2];
    enum draw draw;
};

/* config.json's text, and what the loader makes of it. */
int shape_config(const struct shape *s, struct buf *text, struct config *c, struct err *e);

/* The tensors of a model; the caller's array holds tensors_max of them. */
int64_t tensors_max(const struct config *c);
int64_t tensors_list(const struct config *c, struct made *out);

/* All of them into dir, cut into n_shard files of nearly equal size. Equal seeds give equal
 * numbers, whatever the type they are rounded to. */
int weights_make(const char *dir, const struct made *t, int64_t n, enum st_dtype dtype,
                 int64_t n_shard, uint64_t seed, struct err *e);

int tokenizer_make(const char *dir, const struct config *c, struct err *e);
int text_put(const char *dir, const char *name, struct buf *text, struct err *e);

#endif
