/* SPDX-License-Identifier: Apache-2.0
 *
 * What a maker's layout of packed matrices is to packed_weight.c: the end of the name that codes
 * have, how the parts are found, and how codes, scales and zero points of a tile come out of them.
 *
 * Thread: constant; a tile belongs to who reads.
 */
#ifndef ENGINE_LOAD_PACKED_LAYOUT_H
#define ENGINE_LOAD_PACKED_LAYOUT_H

#include "engine/load/packed_weight.h"

/* Rows [row, row + rows) and columns [col, col + cols) of a matrix, by the order of its codes where
 * this is set. A run is inputs side by side of one group; of numbers of a matrix whose inputs have
 * an order of their own it is often one input. */
struct packed_tile {
    const struct packed_weight *w;
    const int32_t *order; /* borrowed: of w; NULL: that of the file */
    int64_t row, rows, col, cols, n_run;
    uint8_t *code;  /* [rows][cols], as they are stored */
    float *scale;   /* [rows][n_run] */
    int16_t *zero;  /* [rows][n_run] */
    int32_t *run;   /* [cols]: of each input */
    int32_t *group; /* [n_run] */
    void *raw;      /* PACKED_RAW_BYTES of room; where inputs have an order also k words */
};

/* The input that the file has column i's codes for. */
static inline int64_t packed_input(const struct packed_tile *t, int64_t i)
{
    return t->order ? t->order[t->col + i] : t->col + i;
}

/* Whether a tile's groups may be any, in any order; else they are side by side. */
static inline bool packed_is_mixed(const struct packed_tile *t)
{
    return t->w->group_of && !t->order;
}

#define PACKED_INPUTS_MAX ((int64_t)1 << 31)

enum {
    PACKED_ROWS_MAX = 2048, /* of a tile */
    PACKED_COLS_MAX = 2048,
    PACKED_RAW_BYTES = PACKED_COLS_MAX * 4 + 64 /* a run of a part, with words at both ends */
};

struct packed_layout {
    const char *codes;                     /* the end of their tensor's name */
    bool (*is)(const struct st_tensor *t); /* what else they must be; NULL: nothing */
    const char *const *beside;             /* those of the others, NULL behind the last */
    int64_t tile_rows, tile_cols; /* of which the product is bounded; columns whole words */
    /* Finds the parts of p, whose codes and name are there, and sets all but .coded. */
    int (*find)(struct packed_weight *p, const struct weights *w, const struct packing *how,
                struct err *e);
    int (*read)(struct packed_tile *t, struct err *e); /* codes, scales, zero points */
};

extern const struct packed_layout packed_layout_ct, packed_layout_bytes, packed_layout_gptq,
    packed_layout_awq, packed_layout_bnb;

/* An error of one part, with what it is. */
int packed_bad(const struct weight *w, struct err *e, const char *what);

/* Another part of the matrix; NULL: it is not there. */
const struct weight *packed_part(const struct packed_weight *p, const struct weights *w,
                                 const char *end);

/* Whether a part can be scales: numbers of F16, BF16 or F32 in two dimensions. */
bool packed_is_scale(const struct weight *w);

/* Keeps the groups of inputs where they are not side by side. */
int packed_order(struct packed_weight *p, const struct weight *group_of, struct err *e);

/* n scales from number `at` of theirs on, to every step-th of dst. */
int packed_scales(struct packed_tile *t, int64_t at, int64_t n, int64_t step, float *dst,
                  struct err *e);

/* Of the scales of all n groups, from number `at` on, each run's to dst. */
int packed_scales_mixed(struct packed_tile *t, int64_t at, int64_t n, float *dst, struct err *e);

#endif
