/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention. Both halves make the probabilities again from the saved log-sum-exp.
 *
 * dq: a unit is a tile of query vectors, as forward. Per chunk of keys the cells are transposed
 * once (V for dy v, K for ds k); then block by block: scores, dp, ds, dq += ds k.
 *
 * dk, dv: a unit is K_ATTN_KEYS keys of one head, whose cells become left operands. Queries come in
 * steps of STEP rows of one head, laid out as cells both ways, so that the scores arrive transposed
 * and p, ds are left operands of the products with dy and q. Steps are cut by a row's place in its
 * sequence, and heads are taken in order: neither units nor other sequences change a sum.
 *
 * With parts a unit is a run of such tiles, and a step's ds is turned over as well, a cell at a
 * time, for its product with the keys: five products instead of seven. dq is then the sum of the
 * parts.
 */
#include <string.h>

#include "kernels/x86/attn_bwd.h"

enum {
    VEC_MAX = (K_ATTN_TILE + 15) / 16 * 16,
    FETCH = 12, /* vectors between asking for one and reading it */
    STEP_CELLS = ATTN_STEP / K_CELL,
    STEP = ATTN_STEP,
    ROW_MAX = K_HEAD_MAX * 4 + 64, /* bytes of a left operand at most */
    CELL_MAX = K_CELL * K_HEAD_MAX * 4,
    BLOCK_TAKEN = 2 * ATTN_MR * (ATTN_LD * 4 + ROW_MAX),
    Q_TAKEN = VEC_MAX * (2 * ROW_MAX + K_HEAD_MAX * 4 + 8) + 2 * K_CHUNK_CELLS * CELL_MAX +
              K_CELL * ROW_MAX + BLOCK_TAKEN + (K_CHUNK_CELLS + 1) * CELL_MAX / 2,
    KV_TAKEN = 2 * K_ATTN_KEYS * (ROW_MAX + K_HEAD_MAX * 4) + 4 * STEP_CELLS * CELL_MAX +
               K_CELL * ROW_MAX + STEP * 8 + BLOCK_TAKEN + CELL_MAX / 2,
    KEY_CELLS = K_ATTN_KEYS / K_CELL,
    PART_HEAD = ATTN_PART_HEAD,
    PART_TAKEN = 2 * K_ATTN_KEYS * (ROW_MAX + PART_HEAD * 4) +
                 (4 * STEP_CELLS + KEY_CELLS) * K_CELL * PART_HEAD * 4 + K_CELL * ROW_MAX +
                 STEP * 8 + BLOCK_TAKEN + (K_ATTN_KEYS + STEP) * ROW_MAX + K_CELL * STEP * 4 +
                 K_CELL * PART_HEAD * 2
};

_Static_assert(Q_TAKEN + 64 * 17 <= K_SCRATCH_BYTES, "a tile of queries fits the scratch");
_Static_assert(KV_TAKEN + 64 * 17 <= K_SCRATCH_BYTES, "a tile of keys fits the scratch");
_Static_assert(PART_TAKEN + 64 * 21 <= K_SCRATCH_BYTES, "and so it does with parts");

static const float ones[ATTN_MR] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* What both halves work with. */
struct grad {
    const struct attn_ops *ops; /* borrowed */
    const struct k_attn_bwd *a; /* borrowed */
    struct k_attn_unit u;
    enum k_type type; /* of rows, and of the cells that are made here */
    int d;
    size_t row_bytes, cell_bytes;
    float *s, *dp;       /* [mr, ATTN_LD] */
    char *p, *ds;        /* [mr] left operands */
    char *temp;          /* [K_CELL] left operands */
    char *wide;          /* of codes: a cell, in the gradient of q [K_CHUNK_CELLS + 1] of them */
    float take[ATTN_MR]; /* the scale, for each row of a block */
};

static void grad_init(struct grad *g, const struct attn_ops *ops, const struct k_attn_bwd *a,
                      struct attn_scratch *s, int n_wide)
{
    const struct k_kv_cache *c = &a->fwd.cache;
    *g = (struct grad){.ops = ops, .a = a, .type = attn_rows_type(c->type), .d = c->d_head};
    g->row_bytes = ops->row_bytes[g->type];
    g->cell_bytes = k_kv_cell_bytes(g->type, g->d);
    g->s = attn_take(s, ATTN_MR * ATTN_LD * sizeof *g->s);
    g->dp = attn_take(s, ATTN_MR * ATTN_LD * sizeof *g->dp);
    g->p = attn_take(s, ATTN_MR * g->row_bytes);
    g->ds = attn_take(s, ATTN_MR * g->row_bytes);
    g->temp = attn_take(s, K_CELL * g->row_bytes);
    if (c->type != g->type)
        g->wide = attn_take(s, (size_t)n_wide * g->cell_bytes);
    for (int i = 0; i < ATTN_MR; i++)
        g->take[i] = a->fwd.scale;
}

/* log2 units of what forward saved, and D. */
static void query_stats(const struct grad *g, int64_t tok, int64_t head, float *lse, float *delta)
{
    const struct k_attn *f = &g->a->fwd;
    *lse = f->lse[tok * f->n_head + head] * attn_log2e;
    *delta = g->ops->dot(attn_row_of(g->a->dy, g->a->ld_dy, tok, head, g->d),
                         attn_row_of(f->y, f->ld_y, tok, head, g->d), g->d);
}

/* c[:, 32 j] = factor * rows cell[j] for n_cell cells laid out as K. */
static void scores_of(const struct grad *g, const void *rows, int n_row, const void *const *cell,
                      int n_cell, float *c, float factor)
{
    struct attn_product p = {.rows = rows,
                             .n_row = n_row,
                             .n_panel = 1,
                             .n_in = g->d,
                             .w = K_CELL,
                             .ld_c = ATTN_LD,
                             .factor = factor};
    for (int j = 0; j < n_cell; j++) {
        p.panel = cell + j;
        p.c = c + j * K_CELL;
        g->ops->product[g->type](&p);
    }
}

/* c[n_row, d] = scale * (rows v) for n_cell cells laid out as V; with take: c += take * (rows v).
 */
static void values_to(const struct grad *g, const void *rows, int n_row, const void *const *cell,
                      int n_cell, float *c, int64_t ld_c, const float *take)
{
    const void *panel[K_CHUNK_CELLS];
    struct attn_product p = {.rows = rows,
                             .n_row = n_row,
                             .panel = panel,
                             .n_panel = n_cell,
                             .n_in = K_CELL,
                             .ld_c = (int)ld_c,
                             .factor = g->a->fwd.scale,
                             .keep = ones,
                             .take = take};
    for (int col = 0; col < g->d; col += K_NR) {
        for (int j = 0; j < n_cell; j++)
            panel[j] = (const char *)cell[j] + (size_t)(col * K_CELL) * k_type_bytes(g->type);
        p.w = g->d - col < K_NR ? g->d - col : K_NR;
        p.c = c + col;
        g->ops->product[g->type](&p);
    }
}

static void values_add(const struct grad *g, const void *rows, int n_row, const void *const *cell,
                       int n_cell, float *c, const float *take)
{
    values_to(g, rows, n_row, cell, n_cell, c, g->d, take);
}

/* ---- parts of dq ---- */

/* dq of a row, for the heads of a unit: its parts in the order of the keys. */
static void parts_sum(const struct attn_ops *ops, const struct k_attn_bwd *a,
                      const struct k_attn_unit *u, int64_t row)
{
    const struct k_attn *f = &a->fwd;
    int64_t group = f->n_head / f->cache.n_kv_head, head = u->head * group;
    int n = (int)(group * f->cache.d_head);
    struct k_span seen = attn_seen(f, u->seq, row);
    float *dq = a->dq + (f->batch.q_start[u->seq] + row) * a->ld_dq + head * f->cache.d_head;
    int64_t run = attn_key_run(f->batch.kv_len[u->seq]), key = seen.lo / run * run;
    ops->finish(dq, attn_part_at(a, u->seq, key, row, head), 1, n);
    while ((key += run) < seen.hi)
        ops->fold_vec(dq, attn_part_at(a, u->seq, key, row, head), 1, 1, n);
}

static struct attn_grad elements(const struct grad *g)
{
    const struct k_attn *f = &g->a->fwd;
    return (struct attn_grad){.s = g->s,
                              .dp = g->dp,
                              .ds_rows = g->ds,
                              .cap = f->softcap * attn_log2e,
                              .cap_scale = f->softcap > 0 ? 1 / f->softcap : 0};
}

/* ---- dq ---- */

struct q_tile {
    struct grad g;
    int64_t head_lo, n_head, n_vec;
    char *q, *dy; /* [n_vec] left operands */
    float *dq;    /* [n_vec, d] */
    float *lse, *delta;
    char *k_cells, *v_cells; /* [K_CHUNK_CELLS]: K as V is laid out, V as K is */
    struct k_span seen[VEC_MAX];
};

static void q_take(struct q_tile *t, struct attn_scratch *s)
{
    const struct grad *g = &t->g;
    t->q = attn_take(s, VEC_MAX * g->row_bytes);
    t->dy = attn_take(s, VEC_MAX * g->row_bytes);
    t->dq = attn_take(s, (size_t)(VEC_MAX * g->d) * sizeof *t->dq);
    t->lse = attn_take(s, VEC_MAX * sizeof *t->lse);
    t->delta = attn_take(s, VEC_MAX * sizeof *t->delta);
    t->k_cells = attn_take(s, K_CHUNK_CELLS * g->cell_bytes);
    t->v_cells = attn_take(s, K_CHUNK_CELLS * g->cell_bytes);
}

static int64_t q_token(const struct q_tile *t, int64_t i)
{
    return t->g.a->fwd.batch.q_start[t->g.u.seq] + t->g.u.row_lo + i / t->n_head;
}

static void q_open(struct q_tile *t, int64_t head_lo, int64_t n_head)
{
    const struct grad *g = &t->g;
    const struct k_attn *f = &g->a->fwd;
    t->head_lo = head_lo;
    t->n_head = n_head;
    t->n_vec = (g->u.row_hi - g->u.row_lo) * n_head;
    for (int64_t i = 0; i < t->n_vec; i++) {
        int64_t tok = q_token(t, i), head = head_lo + i % n_head, next = i + FETCH;
        if (next < t->n_vec)
            attn_query_fetch(g->a, q_token(t, next), head_lo + next % n_head);
        size_t at = (size_t)i * g->row_bytes;
        g->ops->pack_row(g->type, t->q + at, attn_row_of(f->q, f->ld_q, tok, head, g->d), g->d);
        g->ops->pack_row(g->type, t->dy + at, attn_row_of(g->a->dy, g->a->ld_dy, tok, head, g->d),
                         g->d);
        query_stats(g, tok, head, t->lse + i, t->delta + i);
        t->seen[i] = attn_seen(f, g->u.seq, g->u.row_lo + i / n_head);
    }
    memset(t->dq, 0, (size_t)(t->n_vec * g->d) * sizeof *t->dq);
}

/* Cells of the chunk from key_lo on that [some) touches: K where the scores read it, the
 * transposes in the tile's own. */
static void q_chunk_open(const struct q_tile *t, int64_t key_lo, struct k_span some, const void **k,
                         const void **k_as_v, const void **v_as_k)
{
    const struct grad *g = &t->g;
    const struct k_kv_cache *c = &g->a->fwd.cache;
    for (int j = 0; j < K_CHUNK_CELLS; j++) {
        int64_t key = key_lo + j * K_CELL;
        struct k_span slots = attn_span_in(some, key, K_CELL);
        if (slots.lo >= slots.hi)
            continue;
        size_t at = attn_cell_at(&g->a->fwd.batch, c, g->u.seq, g->u.head, key);
        char *kt = t->k_cells + (size_t)j * g->cell_bytes;
        char *vt = t->v_cells + (size_t)j * g->cell_bytes;
        k[j] = attn_wide(g->ops, c, (const char *)c->k + at, false,
                         g->wide ? g->wide + (size_t)(j + 1) * g->cell_bytes : NULL);
        g->ops->rows_of_k(g->type, g->temp, k[j], g->d);
        g->ops->v_of_rows(g->type, kt, g->temp, g->d, slots);
        const void *v = attn_wide(g->ops, c, (const char *)c->v + at, true, g->wide);
        g->ops->rows_of_v(g->type, g->temp, v, g->d);
        g->ops->k_of_rows(g->type, vt, g->temp, g->d);
        k_as_v[j] = kt;
        v_as_k[j] = vt;
    }
}

static void q_chunk(const struct q_tile *t, int64_t key_lo)
{
    const struct grad *g = &t->g;
    const void *k[K_CHUNK_CELLS], *k_as_v[K_CHUNK_CELLS], *v_as_k[K_CHUNK_CELLS];
    struct k_span seen[ATTN_MR];
    struct attn_grad e = elements(g);
    struct k_span all = {t->seen[0].lo, t->seen[t->n_vec - 1].hi};
    q_chunk_open(t, key_lo, all, k, k_as_v, v_as_k);
    for (int64_t i = 0; i < t->n_vec; i += g->ops->mr) {
        int n = (int)(t->n_vec - i < g->ops->mr ? t->n_vec - i : g->ops->mr);
        struct k_span some = {t->seen[i].lo, t->seen[i + n - 1].hi};
        some = attn_span_in(some, key_lo, K_ATTN_CHUNK);
        int cell = (int)(some.lo / K_CELL), n_cell = (int)((some.hi + K_CELL - 1) / K_CELL) - cell;
        if (some.lo >= some.hi)
            continue;
        for (int r = 0; r < n; r++)
            seen[r] = attn_span_in(t->seen[i + r], key_lo + cell * K_CELL, n_cell * K_CELL);
        scores_of(g, t->q + (size_t)i * g->row_bytes, n, k + cell, n_cell, g->s,
                  attn_score_factor(&g->a->fwd));
        scores_of(g, t->dy + (size_t)i * g->row_bytes, n, v_as_k + cell, n_cell, g->dp, 1);
        e.seen = seen;
        e.n_row = n;
        e.n_col = n_cell * K_CELL;
        e.lse = t->lse + i;
        e.delta = t->delta + i;
        g->ops->grad[g->type](&e);
        values_add(g, g->ds, n, k_as_v + cell, n_cell, t->dq + i * g->d, g->take);
    }
}

static void q_close(const struct q_tile *t)
{
    const struct k_attn_bwd *a = t->g.a;
    int d = t->g.d;
    for (int64_t i = 0; i < t->n_vec; i++) {
        int64_t head = t->head_lo + i % t->n_head;
        t->g.ops->finish(a->dq + q_token(t, i) * a->ld_dq + head * d, t->dq + i * d, 1, d);
    }
}

static void q_unit(struct q_tile *t)
{
    int64_t group = t->g.a->fwd.n_head / t->g.a->fwd.cache.n_kv_head;
    int64_t head = t->g.u.head * group, end = head + group;
    int64_t n = group < K_ATTN_TILE ? group : K_ATTN_TILE;
    for (; head < end; head += n) {
        q_open(t, head, end - head < n ? end - head : n);
        int64_t lo = t->seen[0].lo / K_ATTN_CHUNK * K_ATTN_CHUNK, hi = t->seen[t->n_vec - 1].hi;
        for (; lo < hi; lo += K_ATTN_CHUNK)
            q_chunk(t, lo);
        q_close(t);
    }
}

void attn_bwd_q_x86(const struct attn_ops *ops, const struct k_attn_bwd *a, const struct k_slice *s)
{
    struct attn_scratch scratch = {s->scratch};
    struct q_tile t;
    struct k_attn_iter it;
    grad_init(&t.g, ops, a, &scratch, K_CHUNK_CELLS + 1);
    q_take(&t, &scratch);
    attn_iter_init(&it, &a->fwd, K_CUT_ROWS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        attn_iter_next(&it, &t.g.u);
        if (!attn_has_parts(a))
            q_unit(&t);
        for (int64_t row = t.g.u.row_lo; attn_has_parts(a) && row < t.g.u.row_hi; row++)
            parts_sum(ops, a, &t.g.u, row);
    }
}

/* ---- dk, dv ---- */

struct kv_tile {
    struct grad g;
    int64_t key0; /* first key of the unit's first cell */
    int n_key;    /* from key0 to the unit's last */
    char *k, *v;  /* [n_key] left operands */
    float *dk, *dv;
    /* a step of queries, as cells */
    char *q_k, *q_v, *dy_k, *dy_v;
    float *lse, *delta;
    struct k_span seen[K_ATTN_KEYS]; /* rows of the sequence that see each key */
    /* for parts of dq */
    char *k_v;    /* [KEY_CELLS]: the keys as V is laid out */
    char *ds_all; /* [K_ATTN_KEYS] left operands: a step's ds */
    char *ds_q;   /* [STEP] left operands: turned over */
    char *turned; /* [K_CELL] keys by a step */
    bool adds;    /* to a part that is there */
};

static void kv_take(struct kv_tile *t, struct attn_scratch *s)
{
    const struct grad *g = &t->g;
    t->k = attn_take(s, K_ATTN_KEYS * g->row_bytes);
    t->v = attn_take(s, K_ATTN_KEYS * g->row_bytes);
    t->dk = attn_take(s, (size_t)(K_ATTN_KEYS * g->d) * sizeof *t->dk);
    t->dv = attn_take(s, (size_t)(K_ATTN_KEYS * g->d) * sizeof *t->dv);
    t->q_k = attn_take(s, STEP_CELLS * g->cell_bytes);
    t->q_v = attn_take(s, STEP_CELLS * g->cell_bytes);
    t->dy_k = attn_take(s, STEP_CELLS * g->cell_bytes);
    t->dy_v = attn_take(s, STEP_CELLS * g->cell_bytes);
    t->lse = attn_take(s, STEP * sizeof *t->lse);
    t->delta = attn_take(s, STEP * sizeof *t->delta);
    if (!attn_has_parts(g->a))
        return;
    t->k_v = attn_take(s, KEY_CELLS * g->cell_bytes);
    t->ds_all = attn_take(s, K_ATTN_KEYS * g->row_bytes);
    t->ds_q = attn_take(s, STEP * g->row_bytes);
    t->turned = attn_take(s, K_CELL * STEP * sizeof(float));
}

/* Keys of the tile's cell c. */
static int kv_cell_keys(const struct kv_tile *t, int c)
{
    int left = t->n_key - c * K_CELL;
    return left < K_CELL ? left : K_CELL;
}

static void kv_open(struct kv_tile *t)
{
    const struct grad *g = &t->g;
    const struct k_attn *f = &g->a->fwd;
    t->key0 = g->u.key_lo / K_CELL * K_CELL;
    t->n_key = (int)(g->u.key_hi - t->key0);
    for (int i = 0; i < t->n_key; i += K_CELL) {
        size_t at = attn_cell_at(&f->batch, &f->cache, g->u.seq, g->u.head, t->key0 + i);
        const void *k = attn_wide(g->ops, &f->cache, (const char *)f->cache.k + at, false, g->wide);
        g->ops->rows_of_k(g->type, t->k + (size_t)i * g->row_bytes, k, g->d);
        const void *v = attn_wide(g->ops, &f->cache, (const char *)f->cache.v + at, true, g->wide);
        g->ops->rows_of_v(g->type, t->v + (size_t)i * g->row_bytes, v, g->d);
        if (attn_has_parts(g->a))
            g->ops->v_of_rows(g->type, t->k_v + (size_t)(i / K_CELL) * g->cell_bytes,
                              t->k + (size_t)i * g->row_bytes, g->d,
                              (struct k_span){0, kv_cell_keys(t, i / K_CELL)});
    }
    for (int i = 0; i < t->n_key; i++)
        t->seen[i] = attn_seen_by(f, g->u.seq, t->key0 + i);
    memset(t->dk, 0, (size_t)(t->n_key * g->d) * sizeof *t->dk);
    memset(t->dv, 0, (size_t)(t->n_key * g->d) * sizeof *t->dv);
}

/* n rows of x from token `tok` on, as a cell each way. */
static void cells_of(const struct grad *g, const float *x, int64_t ld, int64_t tok, int64_t head,
                     int n, char *k, char *v)
{
    for (int i = 0; i < n; i++)
        g->ops->pack_row(g->type, g->temp + (size_t)i * g->row_bytes,
                         attn_row_of(x, ld, tok + i, head, g->d), g->d);
    g->ops->k_of_rows(g->type, k, g->temp, g->d);
    g->ops->v_of_rows(g->type, v, g->temp, g->d, (struct k_span){0, n});
}

/* Rows [row, row + n) of a head, n at most STEP. */
static void kv_step_open(const struct kv_tile *t, int64_t row, int n, int64_t head)
{
    const struct grad *g = &t->g;
    const struct k_attn *f = &g->a->fwd;
    int64_t tok = f->batch.q_start[g->u.seq] + row;
    for (int i = 0; i < STEP; i++) {
        t->lse[i] = t->delta[i] = 0;
        if (i < n)
            query_stats(g, tok + i, head, t->lse + i, t->delta + i);
    }
    for (int i = 0; i < n; i += K_CELL) {
        size_t at = (size_t)(i / K_CELL) * g->cell_bytes;
        int rows = n - i < K_CELL ? n - i : K_CELL;
        cells_of(g, f->q, f->ld_q, tok + i, head, rows, t->q_k + at, t->q_v + at);
        cells_of(g, g->a->dy, g->a->ld_dy, tok + i, head, rows, t->dy_k + at, t->dy_v + at);
    }
    for (int i = 0; attn_has_parts(g->a) && i < t->n_key;
         i++) /* pairs that do not see each other */
        memset(t->ds_all + (size_t)i * g->row_bytes, 0, STEP * g->ops->in_bytes[g->type]);
}

/* Cells [lo, lo + n) of a run. */
static void cell_list(const struct grad *g, const char *run, int lo, int n, const void **cell)
{
    for (int j = 0; j < n; j++)
        cell[j] = run + (size_t)(lo + j) * g->cell_bytes;
}

/* Keys [i, i + n) of the tile against the step of rows from `row` on. */
static void kv_block(const struct kv_tile *t, int i, int n, int64_t row)
{
    const struct grad *g = &t->g;
    const void *cell[STEP_CELLS];
    struct k_span seen[ATTN_MR], some = {t->seen[i].lo, t->seen[i + n - 1].hi};
    some = attn_span_in(some, row, STEP);
    if (some.lo >= some.hi)
        return;
    int c = (int)(some.lo / K_CELL), n_cell = (int)((some.hi + K_CELL - 1) / K_CELL) - c;
    for (int r = 0; r < n; r++)
        seen[r] = attn_span_in(t->seen[i + r], row + c * K_CELL, n_cell * K_CELL);
    cell_list(g, t->q_k, c, n_cell, cell);
    scores_of(g, t->k + (size_t)i * g->row_bytes, n, cell, n_cell, g->s,
              attn_score_factor(&g->a->fwd));
    cell_list(g, t->dy_k, c, n_cell, cell);
    scores_of(g, t->v + (size_t)i * g->row_bytes, n, cell, n_cell, g->dp, 1);
    struct attn_grad e = elements(g);
    e.p_rows = g->p;
    if (attn_has_parts(g->a))
        e.ds_rows =
            t->ds_all + (size_t)i * g->row_bytes + (size_t)(c * K_CELL) * g->ops->in_bytes[g->type];
    e.seen = seen;
    e.n_row = n;
    e.n_col = n_cell * K_CELL;
    e.lse = t->lse + c * K_CELL;
    e.delta = t->delta + c * K_CELL;
    e.query_is_col = true;
    g->ops->grad[g->type](&e);
    cell_list(g, t->dy_v, c, n_cell, cell);
    values_add(g, g->p, n, cell, n_cell, t->dv + i * g->d, ones);
    cell_list(g, t->q_v, c, n_cell, cell);
    values_add(g, e.ds_rows, n, cell, n_cell, t->dk + i * g->d, g->take);
}

/* Cell c of the keys: the step's ds with the queries as rows. */
static void kv_turn(const struct kv_tile *t, int c)
{
    const struct grad *g = &t->g;
    size_t in = g->ops->in_bytes[g->type], piece = K_CELL * K_CELL * k_type_bytes(g->type);
    g->ops->v_of_rows(g->type, t->turned, t->ds_all + (size_t)(c * K_CELL) * g->row_bytes, STEP,
                      (struct k_span){0, kv_cell_keys(t, c)});
    for (int i = 0; i < STEP_CELLS; i++)
        g->ops->rows_of_k(g->type,
                          t->ds_q + (size_t)(i * K_CELL) * g->row_bytes + (size_t)(c * K_CELL) * in,
                          t->turned + (size_t)i * piece, K_CELL);
}

/* What the tile gives the dq of rows [row, row + n), n at most STEP. */
static void kv_part(const struct kv_tile *t, int64_t row, int n, int64_t head)
{
    const struct grad *g = &t->g;
    const void *cell[KEY_CELLS];
    int64_t ld = (int64_t)g->a->fwd.n_head * g->d;
    float *part = attn_part_at(g->a, g->u.seq, t->key0, row, head);
    int lo = 0, n_cell = 0;
    for (int c = 0; c < (t->n_key + K_CELL - 1) / K_CELL; c++) {
        const struct k_span *seen = t->seen + c * K_CELL;
        struct k_span some = {seen[0].lo, seen[kv_cell_keys(t, c) - 1].hi};
        some = attn_span_in(some, row, n);
        if (some.lo >= some.hi)
            continue;
        lo = n_cell ? lo : c;
        n_cell = c + 1 - lo;
        kv_turn(t, c);
    }
    cell_list(g, t->k_v, lo, n_cell, cell);
    for (int i = 0; n_cell && i < n; i += g->ops->mr)
        values_to(g,
                  t->ds_q + (size_t)i * g->row_bytes +
                      (size_t)(lo * K_CELL) * g->ops->in_bytes[g->type],
                  n - i < g->ops->mr ? n - i : g->ops->mr, cell, n_cell, part + i * ld, ld,
                  t->adds ? g->take : NULL);
}

static void kv_close(const struct kv_tile *t)
{
    const struct k_attn_bwd *a = t->g.a;
    const struct k_ragged *b = &a->fwd.batch;
    const struct k_attn_unit *u = &t->g.u;
    int d = t->g.d;
    int64_t tok = b->q_start[u->seq] - attn_first_pos(b, u->seq);
    for (int64_t key = u->key_lo; key < u->key_hi; key++) {
        int64_t i = (key - t->key0) * d;
        t->g.ops->finish(a->dk + (tok + key) * a->ld_dk + u->head * d, t->dk + i, 1, d);
        t->g.ops->finish(a->dv + (tok + key) * a->ld_dv + u->head * d, t->dv + i, 1, d);
    }
}

/* Rows [lo, hi) of a head, of the next step. */
static void kv_fetch(const struct kv_tile *t, int64_t lo, int64_t hi, int64_t head)
{
    const struct k_attn_unit *u = &t->g.u;
    for (; lo < hi && lo < u->row_hi; lo++)
        attn_query_fetch(t->g.a, t->g.a->fwd.batch.q_start[u->seq] + lo, head);
}

static void kv_tile_run(struct kv_tile *t)
{
    int64_t group = t->g.a->fwd.n_head / t->g.a->fwd.cache.n_kv_head;
    int mr = t->g.ops->mr;
    kv_open(t);
    struct k_span rows = {t->seen[0].lo, t->seen[t->n_key - 1].hi};
    for (int64_t h = t->g.u.head * group; h < (t->g.u.head + 1) * group; h++) {
        for (int64_t row = rows.lo / STEP * STEP; row < rows.hi; row += STEP) {
            int64_t left = t->g.u.row_hi - row;
            int n = (int)(left < STEP ? left : STEP);
            kv_step_open(t, row, n, h);
            for (int i = 0; i < t->n_key; i += mr) {
                kv_fetch(t, row + STEP + (int64_t)i * STEP / t->n_key,
                         row + STEP + (int64_t)(i + mr) * STEP / t->n_key, h);
                kv_block(t, i, t->n_key - i < mr ? t->n_key - i : mr, row);
            }
            if (attn_has_parts(t->g.a))
                kv_part(t, row, n, h);
        }
    }
    kv_close(t);
}

/* Several tiles add to one part, which then begins with zeros: not all see the same rows. */
static void kv_part_zero(const struct kv_tile *t)
{
    const struct k_attn_unit *u = &t->g.u;
    const struct k_attn *f = &t->g.a->fwd;
    int64_t group = f->n_head / f->cache.n_kv_head;
    for (int64_t row = 0; row < u->row_hi; row++)
        memset(attn_part_at(t->g.a, u->seq, u->key_lo, row, u->head * group), 0,
               (size_t)(group * t->g.d) * sizeof(float));
}

static void kv_unit(struct kv_tile *t, void *scratch)
{
    const struct k_attn_unit all = t->g.u;
    t->adds = all.key_hi - all.key_lo > K_ATTN_KEYS;
    if (attn_has_parts(t->g.a) && t->adds)
        kv_part_zero(t);
    for (int64_t lo = all.key_lo, hi; lo < all.key_hi; lo = hi) {
        hi = (lo / K_ATTN_KEYS + 1) * K_ATTN_KEYS;
        t->g.u.key_lo = lo;
        t->g.u.key_hi = hi < all.key_hi ? hi : all.key_hi;
        if (t->g.ops->keys)
            t->g.ops->keys(&(struct attn_keys){t->g.a, t->g.u, t->adds}, scratch);
        else
            kv_tile_run(t);
    }
}

void attn_bwd_kv_x86(const struct attn_ops *ops, const struct k_attn_bwd *a,
                     const struct k_slice *s)
{
    struct attn_scratch scratch = {s->scratch};
    struct kv_tile t;
    struct k_attn_iter it;
    grad_init(&t.g, ops, a, &scratch, 1);
    kv_take(&t, &scratch);
    attn_iter_init(&it, &a->fwd, a->part ? K_CUT_KEY_RUNS : K_CUT_KEYS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        attn_iter_next(&it, &t.g.u);
        kv_unit(&t, s->scratch);
    }
}
