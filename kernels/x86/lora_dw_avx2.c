/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_dw: both gradients are sums over a group's rows, of x (for da) or dy (for db) times a number
 * of dt or t for each rank. Some rows of a unit's columns are copied side by side, where they stay
 * in the first cache, however far apart the rows lie, while the ranks pass: tiles of four ranks by
 * three vectors, whose sums wait in memory for the next rows.
 *
 * db is row-major by outputs, so its sums are turned over on the way out.
 *
 * Tried: 96 or 192 columns to a unit, so that longer runs are read (a fifth slower).
 */
#include "kernels/lora_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/vec.h"

enum {
    ROWS = 32,   /* copied at a time */
    RANKS = 64,  /* whose sums are kept at a time */
    TILE = 4,    /* ranks of a tile */
    VECTORS = 3, /* of columns of a tile */
    LINES = LORA_COLS / 16
};

/* Columns of a unit, rows of its group. */
struct strip {
    const struct k_lora_bwd *a;
    const struct lora_cols *cols;
    const float *wide, *narrow; /* of the first row: the first column; rank 0 */
    int64_t ld_wide, ld_narrow;
    float (*copy)[LORA_COLS]; /* of up to ROWS rows */
    float (*sum)[LORA_COLS];  /* of up to RANKS ranks */
};

/* As many rows' columns; what a unit lacks of them are zeros. */
static void copy_rows(const struct strip *s, int64_t row, int64_t n)
{
    int64_t cols = s->cols->hi - s->cols->lo;
    for (int64_t i = 0; i < n; i++) {
        const float *from = s->wide + (row + i) * s->ld_wide;
        if (cols == LORA_COLS) {
#pragma GCC unroll 8
            for (int j = 0; j < LORA_COLS; j += VF)
                vf_store(s->copy[i] + j, vf_load(from + j, VF), VF);
            continue;
        }
        for (int j = 0; j < LORA_COLS; j += VF)
            vf_store(s->copy[i] + j, j < cols ? vf_load(from + j, vf_count(cols, j)) : vf_zero(),
                     VF);
    }
}

/* Some ranks by some vectors of columns, over n copied rows, whose numbers of the short side begin
 * at `narrow`; asks for a line of each of the rows `next` meanwhile. */
TURN_INLINE void tile(int ranks, int vecs, const struct strip *s, int64_t rank, int64_t col,
                      const float *narrow, int64_t n, const float *next)
{
    vf sum[TILE * VECTORS];
    const float *x = s->copy[0] + col;
#pragma GCC unroll 12
    for (int i = 0; i < ranks * vecs; i++)
        sum[i] = vf_load(s->sum[rank + i / vecs] + col + i % vecs * VF, VF);
    for (int64_t i = 0; i < n; i++, x += LORA_COLS, narrow += s->ld_narrow, next += s->ld_wide) {
        vf v[VECTORS];
        __builtin_prefetch(next);
#pragma GCC unroll 3
        for (int j = 0; j < vecs; j++)
            v[j] = vf_load(x + j * VF, VF);
#pragma GCC unroll 4
        for (int r = 0; r < ranks; r++) {
            vf t = vf_set(narrow[r]);
#pragma GCC unroll 3
            for (int j = 0; j < vecs; j++)
                sum[r * vecs + j] = vf_fma(t, v[j], sum[r * vecs + j]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < ranks * vecs; i++)
        vf_store(s->sum[rank + i / vecs] + col + i % vecs * VF, sum[i], VF);
}

/* Copied rows [row, row + n) join the sums of n_rank ranks from rank_lo on. */
static void add_rows(const struct strip *s, int64_t row, int64_t n, int64_t rank_lo, int64_t n_rank)
{
    const float *narrow = s->narrow + row * s->ld_narrow + rank_lo;
    const float *next = s->wide + (row + n) * s->ld_wide;
    int64_t line = 0, cols = s->cols->hi - s->cols->lo;
    for (int64_t r = 0, ranks; r < n_rank; r += ranks) {
        ranks = n_rank - r >= TILE ? TILE : 1;
        for (int64_t col = 0, vecs; col < cols; col += vecs * VF) {
            const float *ask = next + line++ % LINES * 16;
            vecs = ranks == 1 ? 1 : linear_min(LORA_COLS - col, VECTORS * VF) / VF;
            if (ranks == 1)
                tile(1, 1, s, r, col, narrow + r, n, ask);
            else if (vecs == VECTORS)
                tile(TILE, VECTORS, s, r, col, narrow + r, n, ask);
            else
                tile(TILE, LORA_COLS / VF % VECTORS, s, r, col, narrow + r, n, ask);
        }
    }
}

static void put_da(const struct strip *s, int64_t rank_lo, int64_t n_rank)
{
    int64_t cols = s->cols->hi - s->cols->lo, k = s->a->fwd.k;
    for (int64_t r = 0; r < n_rank; r++) {
        float *da = s->cols->group->da + (rank_lo + r) * k + s->cols->lo;
        for (int64_t j = 0; j < cols; j += VF) {
            int n = vf_count(cols, j);
            vf_store(da + j, vf_add(vf_load(da + j, n), vf_load(s->sum[r] + j, VF)), n);
        }
    }
}

/* Eight ranks of eight columns at a time. */
static void put_db(const struct strip *s, int64_t rank_lo, int64_t n_rank)
{
    const struct k_lora_group *g = s->cols->group;
    int64_t cols = s->cols->hi - s->cols->lo;
    vf scale = vf_set(g->scale);
    for (int64_t r = 0; r < n_rank; r += VF) {
        int n = vf_count(n_rank, r);
        for (int64_t j = 0; j < cols; j += VF) {
            float *db = g->db + (s->cols->lo + j) * g->rank + rank_lo + r;
            vi v[VF];
#pragma GCC unroll 8
            for (int i = 0; i < VF; i++)
                v[i] = vf_bits(vf_load(s->sum[r + i] + j, VF));
            transpose8(v);
#pragma GCC unroll 8
            for (int i = 0; i < VF; i++, db += g->rank)
                if (i < cols - j)
                    vf_store(db, vf_add(vf_load(db, n), vf_mul(scale, vf_from_bits(v[i]))), n);
        }
    }
}

/* Rows from `row` on of a unit's group, as many as are summed before they are added. */
static void run_of(struct strip *s, int64_t row)
{
    const struct k_lora_bwd *a = s->a;
    const struct k_lora *f = &a->fwd;
    int64_t rows = linear_min(s->cols->group->row_hi - row, LINEAR_DW_ROWS);
    bool is_db = s->cols->is_db;
    s->ld_wide = is_db ? a->ld_dy : f->ld_x;
    s->ld_narrow = f->rank_max;
    s->wide = (is_db ? a->dy : f->x) + row * s->ld_wide + s->cols->lo;
    s->narrow = (is_db ? f->t : a->dt) + row * f->rank_max;
    for (int64_t lo = 0; lo < s->cols->group->rank; lo += RANKS) {
        int64_t n_rank = linear_min(s->cols->group->rank - lo, RANKS);
        memset(s->sum, 0, sizeof(float[RANKS][LORA_COLS]));
        for (int64_t i = 0; i < rows; i += ROWS) {
            copy_rows(s, i, linear_min(rows - i, ROWS));
            add_rows(s, i, linear_min(rows - i, ROWS), lo, n_rank);
        }
        if (is_db)
            put_db(s, lo, n_rank);
        else
            put_da(s, lo, n_rank);
    }
}

void lora_dw_avx2(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    float copy[ROWS][LORA_COLS] __attribute__((aligned(64)));
    float sum[RANKS][LORA_COLS] __attribute__((aligned(64)));
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        struct strip strip = {.a = a, .cols = &c, .copy = copy, .sum = sum};
        for (int64_t row = c.group->row_lo; row < c.group->row_hi; row += LINEAR_DW_ROWS)
            run_of(&strip, row);
    }
}
