/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward: a unit is a tile of query vectors (rows times the heads of a group), which
 * walks the chunks of keys that any of them sees. Within a chunk, blocks of ops->mr vectors: scores
 * of the cells that the block sees, probabilities, product with V, folded into the vectors' sums as
 * it is stored.
 *
 * A single row, decode, waits for memory, and memory is fast where it is read in long runs and
 * without pause. So ops->row takes a wave of chunks at once, in the order in which its machines
 * read best: probabilities are made while other cells are read, and where runs are short the cells
 * of the units to come are asked for meanwhile (attn_prefetch.c): many short sequences are then
 * read like one. The arithmetic is the same, to the bit.
 *
 * Keys that a vector does not see get the probability zero. Zero times a value that is not finite
 * would show, so a V cell that not every vector of the tile sees whole is copied with the slots
 * that none sees made zero; should a value be not finite that some see and some do not, the tile's
 * positions are taken one by one, and each sees its own copy.
 */
#include <math.h>
#include <string.h>

#include "kernels/cell_codes.h"
#include "kernels/x86/attn.h"

enum {
    FETCH = 12, /* vectors between asking for one and reading it */
    VEC_MAX = (K_ATTN_TILE + 15) / 16 * 16,
    WAVE_CELLS = ATTN_WAVE * K_CHUNK_CELLS,
    ROW_MAX = K_HEAD_MAX * 4 + 64, /* bytes of a left operand at most */
    TAKEN = VEC_MAX * (ROW_MAX + K_HEAD_MAX * 4 + 8) + ATTN_MR * (ATTN_RING_LD + ATTN_WAVE_LD) * 4 +
            K_CHUNK_CELLS * K_CELL * K_HEAD_MAX * 4 + 2 * K_CHUNK_CELLS * K_CELL * K_HEAD_MAX * 2
};

_Static_assert(TAKEN + 64 * 9 <= K_SCRATCH_BYTES, "a tile fits the scratch");

struct tile {
    const struct attn_ops *ops; /* borrowed */
    const struct k_attn *a;     /* borrowed */
    struct k_attn_unit u;
    int64_t group, head_lo;      /* heads [head_lo, head_lo + group') of the vectors */
    int64_t n_head, n_vec;       /* heads of a row in this tile; vectors are row-major over them */
    char *q;                     /* [n_vec] left operands */
    float *o;                    /* [n_vec, d] sums of p v */
    float *m, *l;                /* [n_vec] */
    float *s;                    /* [ATTN_MR, ATTN_LD], or [ATTN_MR, ATTN_RING_LD] of a wave */
    char *p;                     /* [ATTN_MR] left operands */
    char *edge;                  /* [K_CHUNK_CELLS] V cells */
    char *wide;                  /* of codes: [2 * K_CHUNK_CELLS] cells of K, of V, as bf16 */
    struct attn_prefetch *ahead; /* borrowed */
    enum k_type type;            /* of rows */
    size_t cell_bytes, wide_bytes;
    struct k_span seen[VEC_MAX];
};

/* The cells of a chunk, for some of a tile's vectors. */
struct chunk {
    int64_t key_lo; /* the chunk's first key */
    const void *k[K_CHUNK_CELLS], *v[K_CHUNK_CELLS];
};

/* Vectors [lo, lo + n) of a tile against the cells [cell_lo, cell_lo + n_cell) of a chunk, which
 * are those that they see. */
struct block {
    const struct chunk *c; /* borrowed */
    int64_t lo, cell_lo;
    int n, n_cell, n_last; /* n_last: keys of the last cell up to the last that one of them sees */
    float *s;              /* borrowed: [n, ATTN_LD] */
    char *p;               /* borrowed: [n] left operands */
    float m[16], l[16];
};

/* What some and what all of vectors [lo, hi) see: both ends of a row's span ascend with the row. */
static void seen_bounds(const struct tile *t, int64_t lo, int64_t hi, struct k_span *some,
                        struct k_span *all)
{
    struct k_span first = t->seen[lo], last = t->seen[hi - 1];
    *some = (struct k_span){first.lo, last.hi};
    *all = (struct k_span){last.lo, first.hi};
}

/* What of a chunk is seen. */
static struct k_span chunk_keys(const struct chunk *c, struct k_span seen)
{
    return attn_span_and((struct k_span){c->key_lo, c->key_lo + K_ATTN_CHUNK}, seen);
}

/* Finds the cells of which the vectors see some. */
static void chunk_find(const struct tile *t, struct chunk *c, struct k_span some)
{
    const struct k_kv_cache *cache = &t->a->cache;
    const struct k_ragged *batch = &t->a->batch;
    const int32_t *cell = batch->cell + t->u.seq * batch->cell_stride;
    struct k_span here = chunk_keys(c, some);
    for (int64_t key = here.lo / K_CELL * K_CELL; key < here.hi; key += K_CELL) {
        int64_t j = (key - c->key_lo) / K_CELL, place = cell[key / K_CELL];
        size_t at = (size_t)(t->u.head * cache->n_cell + place) * t->cell_bytes;
        c->k[j] = (const char *)cache->k + at;
        c->v[j] = (const char *)cache->v + at;
    }
}

/* A V cell with nothing in the slots outside of `slots`; whether all inside are finite. */
static bool copy_values(const struct tile *t, char *to, const char *from, struct k_span slots)
{
    const struct k_kv_cache *c = &t->a->cache;
    bool fine = true;
    if (c->type != K_INT8)
        return t->ops->copy_values(c->type, to, from, c->d_head, slots);
    memcpy(to, from, t->cell_bytes); /* a code is a number whatever it is, a scale may be none */
    float *scale = (float *)(void *)(to + cell_scales_at(c->d_head));
    for (int64_t key = 0; key < K_CELL; key++) {
        if (key < slots.lo || key >= slots.hi)
            scale[key] = 0;
        fine = fine && isfinite(scale[key]);
    }
    return fine;
}

/* Copies those V cells that not all see whole; *n_edge counts the copies in the tile's `edge`.
 * False when a value is not finite that some of the vectors see and others do not. */
static bool chunk_edges(const struct tile *t, struct chunk *c, struct k_span some,
                        struct k_span all, int *n_edge)
{
    struct k_span here = chunk_keys(c, some);
    bool fine = true;
    for (int64_t key = here.lo / K_CELL * K_CELL; key < here.hi; key += K_CELL) {
        int64_t j = (key - c->key_lo) / K_CELL;
        if (key >= all.lo && key + K_CELL <= all.hi)
            continue;
        struct k_span slots = {here.lo > key ? here.lo - key : 0,
                               here.hi < key + K_CELL ? here.hi - key : K_CELL};
        char *copy = t->edge + (size_t)(*n_edge)++ * t->cell_bytes;
        if (!copy_values(t, copy, c->v[j], slots))
            fine = false;
        c->v[j] = copy;
    }
    return fine;
}

/* Makes cells of codes those of bf16 that products read. */
static void chunk_widen(const struct tile *t, struct chunk *c, struct k_span some)
{
    struct k_span here = chunk_keys(c, some);
    if (!t->wide)
        return;
    for (int64_t key = here.lo / K_CELL * K_CELL; key < here.hi; key += K_CELL) {
        int64_t j = (key - c->key_lo) / K_CELL;
        char *k = t->wide + (size_t)j * t->wide_bytes, *v = k + K_CHUNK_CELLS * t->wide_bytes;
        c->k[j] = attn_wide(t->ops, &t->a->cache, c->k[j], false, k);
        c->v[j] = attn_wide(t->ops, &t->a->cache, c->v[j], true, v);
    }
}

/* False when the vectors see nothing of the chunk. */
static bool block_widen(const struct tile *t, struct block *b, const struct chunk *c, int64_t lo,
                        int n)
{
    struct k_span some, all;
    seen_bounds(t, lo, lo + n, &some, &all);
    some = attn_span_in(some, c->key_lo, K_ATTN_CHUNK);
    b->c = c;
    b->lo = lo;
    b->n = n;
    b->cell_lo = some.lo / K_CELL;
    b->n_cell = (int)((some.hi + K_CELL - 1) / K_CELL - b->cell_lo);
    b->n_last = (int)(some.hi - (b->cell_lo + b->n_cell - 1) * K_CELL);
    b->s = t->s;
    b->p = t->p;
    return some.lo < some.hi;
}

static float score_factor(const struct k_attn *a)
{
    return a->softcap > 0 ? a->scale : a->scale * attn_log2e;
}

static void block_scores(const struct tile *t, const struct block *b)
{
    const struct k_attn *a = t->a;
    struct attn_product p = {.rows = t->q + (size_t)b->lo * t->ops->row_bytes[t->type],
                             .n_row = b->n,
                             .n_panel = 1,
                             .n_in = a->cache.d_head,
                             .w = K_CELL,
                             .ld_c = ATTN_LD,
                             .factor = score_factor(a)};
    for (int j = 0; j < b->n_cell; j++) {
        p.panel = &b->c->k[b->cell_lo + j];
        p.c = b->s + j * K_CELL;
        p.n_col = j + 1 < b->n_cell ? K_CELL : b->n_last;
        t->ops->product[t->type](&p);
    }
}

static void block_probs(const struct tile *t, struct block *b)
{
    const struct k_attn *a = t->a;
    struct k_span seen[ATTN_MR];
    int n_key = b->n_cell * K_CELL;
    for (int i = 0; i < b->n; i++)
        seen[i] = attn_span_in(t->seen[b->lo + i], b->c->key_lo + b->cell_lo * K_CELL, n_key);
    struct attn_probs p = {.s = b->s,
                           .rows = b->p,
                           .seen = seen,
                           .n_row = b->n,
                           .n_key = n_key,
                           .cap = a->softcap * attn_log2e,
                           .cap_scale = a->softcap > 0 ? 1 / a->softcap : 0,
                           .m = b->m,
                           .l = b->l};
    t->ops->probs[t->type](&p);
}

/* Column col of a cell of V begins a panel: its place and width. */
static const void *v_panel(const struct tile *t, const struct block *b, int j, int col, int *w)
{
    int d = t->a->cache.d_head;
    *w = d - col < K_NR ? d - col : K_NR;
    return (const char *)b->c->v[b->cell_lo + j] + (size_t)(col * K_CELL) * k_type_bytes(t->type);
}

/* Folds the block into its vectors' sums: o = o keep + (p v) take, 32 columns at a time. */
static void block_values(const struct tile *t, struct block *b)
{
    int d = t->a->cache.d_head;
    float keep[16], take[16];
    const void *panel[K_CHUNK_CELLS];
    struct attn_product p = {.rows = b->p,
                             .n_row = b->n,
                             .panel = panel,
                             .n_panel = b->n_cell,
                             .n_in = K_CELL,
                             .n_in_last = (b->n_last + 1) / 2 * 2,
                             .ld_c = d,
                             .keep = keep,
                             .take = take};
    t->ops->fold(b->n, t->m + b->lo, t->l + b->lo, b->m, b->l, keep, take);
    for (int col = 0; col < d; col += K_NR) {
        for (int j = 0; j < b->n_cell; j++)
            panel[j] = v_panel(t, b, j, col, &p.w);
        p.c = t->o + b->lo * d + col;
        t->ops->product[t->type](&p);
    }
}

/* The cells of a wave of a single row. */
struct wave {
    int64_t lo;          /* the first cell's first key */
    int n_cell, n_first; /* of the wave; of its first chunk */
    const void *k[WAVE_CELLS], *v[WAVE_CELLS];
};

static void tile_chunk(const struct tile *t, int64_t key_lo, int64_t lo, int64_t hi)
{
    struct k_span some, all;
    struct chunk c = {.key_lo = key_lo};
    int n_edge = 0;
    seen_bounds(t, lo, hi, &some, &all);
    chunk_find(t, &c, some);
    if (!chunk_edges(t, &c, some, all, &n_edge) && hi - lo > t->n_head) {
        for (int64_t i = lo; i < hi; i += t->n_head)
            tile_chunk(t, key_lo, i, i + t->n_head);
        return;
    }
    chunk_widen(t, &c, some);
    for (int64_t i = lo; i < hi; i += t->ops->mr) {
        struct block b;
        if (!block_widen(t, &b, &c, i, (int)(hi - i < t->ops->mr ? hi - i : t->ops->mr)))
            continue;
        block_scores(t, &b);
        block_probs(t, &b);
        block_values(t, &b);
    }
}

/* Finds the cells that a row sees of a wave. Values behind its last key are not looked at. */
static void wave_find(const struct tile *t, struct wave *w, struct k_span keys)
{
    struct k_span seen = t->seen[0], whole = {seen.lo, keys.hi + K_CELL};
    struct chunk c = {.key_lo = keys.lo / K_ATTN_CHUNK * K_ATTN_CHUNK};
    int n_edge = 0;
    w->lo = keys.lo / K_CELL * K_CELL;
    w->n_cell = 0;
    w->n_first = (int)((c.key_lo + K_ATTN_CHUNK - w->lo) / K_CELL);
    for (; c.key_lo < keys.hi; c.key_lo += K_ATTN_CHUNK) {
        struct k_span here = chunk_keys(&c, keys);
        int64_t j = (here.lo - c.key_lo) / K_CELL;
        chunk_find(t, &c, keys);
        chunk_edges(t, &c, keys, whole, &n_edge); /* one at most */
        for (; c.key_lo + j * K_CELL < here.hi; j++, w->n_cell++) {
            w->k[w->n_cell] = c.k[j];
            w->v[w->n_cell] = c.v[j];
        }
    }
}

/* A single row goes on by the keys of a wave by what the variant has for it. */
static void tile_wave(const struct tile *t, struct k_span keys)
{
    const struct k_attn *a = t->a;
    ptrdiff_t k_away[WAVE_CELLS], v_away[WAVE_CELLS];
    struct wave w;
    wave_find(t, &w, keys);
    struct attn_row p = {.type = t->type,
                         .widen_k = t->wide ? t->ops->widen_k : NULL,
                         .widen_v = t->wide ? t->ops->widen_v : NULL,
                         .wide = t->wide,
                         .k = w.k,
                         .v = w.v,
                         .k_away = k_away,
                         .v_away = v_away,
                         .ask = t->wide ? ATTN_ASK_NONE : attn_prefetch_how(t->ahead, t->seen[0]),
                         .n_row = (int)t->n_vec,
                         .n_cell = w.n_cell,
                         .n_first = w.n_first,
                         .d = a->cache.d_head,
                         .q = t->q,
                         .factor = score_factor(a),
                         .seen = attn_span_in(keys, w.lo, w.n_cell * K_CELL),
                         .cap = a->softcap * attn_log2e,
                         .cap_scale = a->softcap > 0 ? 1 / a->softcap : 0,
                         .s = t->s,
                         .p = t->p,
                         .o = t->o,
                         .m = t->m,
                         .l = t->l};
    attn_prefetch_next(t->ahead, p.n_cell, p.k, k_away);
    attn_prefetch_next(t->ahead, p.n_cell, p.v, v_away);
    t->ops->row(&p);
}

/* The chunks that hold the keys. */
static void tile_keys(const struct tile *t, struct k_span keys)
{
    bool is_row = t->n_vec == t->n_head && t->n_vec <= ATTN_MR;
    int64_t step = is_row ? ATTN_WAVE * K_ATTN_CHUNK : K_ATTN_CHUNK;
    for (int64_t key = keys.lo / K_ATTN_CHUNK * K_ATTN_CHUNK; key < keys.hi; key += step) {
        if (is_row)
            tile_wave(t, attn_span_and(keys, (struct k_span){key, key + step}));
        else
            tile_chunk(t, key, 0, t->n_vec);
    }
}

static void tile_take(struct tile *t, struct attn_scratch *s)
{
    const struct k_kv_cache *c = &t->a->cache;
    t->type = attn_rows_type(c->type);
    size_t row = t->ops->row_bytes[t->type];
    t->cell_bytes = k_kv_cell_bytes(c->type, c->d_head);
    t->wide_bytes = k_kv_cell_bytes(t->type, c->d_head);
    t->q = attn_take(s, VEC_MAX * row);
    t->o = attn_take(s, VEC_MAX * (size_t)c->d_head * sizeof *t->o);
    t->m = attn_take(s, VEC_MAX * sizeof *t->m);
    t->l = attn_take(s, VEC_MAX * sizeof *t->l);
    t->s = attn_take(s, ATTN_MR * ATTN_RING_LD * sizeof *t->s);
    t->p = attn_take(s, ATTN_MR * (size_t)ATTN_WAVE_LD * 4);
    t->edge = attn_take(s, K_CHUNK_CELLS * t->cell_bytes);
    if (c->type == K_INT8)
        t->wide = attn_take(s, 2 * K_CHUNK_CELLS * t->wide_bytes);
}

static int64_t vec_token(const struct tile *t, int64_t i)
{
    return t->a->batch.q_start[t->u.seq] + t->u.row_lo + i / t->n_head;
}

static const float *query_of(const struct tile *t, int64_t i)
{
    const struct k_attn *a = t->a;
    return a->q + vec_token(t, i) * a->ld_q + (t->head_lo + i % t->n_head) * a->cache.d_head;
}

/* The vectors of a unit, or of as many of its heads as fit. */
static void tile_open(struct tile *t, int64_t head_lo, int64_t n_head)
{
    const struct k_attn *a = t->a;
    int d = a->cache.d_head;
    t->head_lo = head_lo;
    t->n_head = n_head;
    t->n_vec = (t->u.row_hi - t->u.row_lo) * n_head;
    for (int64_t i = 0; i < t->n_vec; i++) {
        const float *q = query_of(t, i);
        if (i + FETCH < t->n_vec)
            attn_fetch(query_of(t, i + FETCH), d);
        t->ops->pack_row(t->type, t->q + (size_t)i * t->ops->row_bytes[t->type], q, d);
        t->seen[i] = attn_seen(a, t->u.seq, t->u.row_lo + i / n_head);
        t->m[i] = -INFINITY;
        t->l[i] = 0;
    }
    memset(t->o, 0, (size_t)(t->n_vec * d) * sizeof *t->o);
}

static float lse_of(float m, float l)
{
    return (m + log2f(l)) * attn_ln2;
}

static void tile_close(const struct tile *t)
{
    const struct k_attn *a = t->a;
    int d = a->cache.d_head;
    for (int64_t i = 0; i < t->n_vec; i++) {
        int64_t tok = vec_token(t, i), head = t->head_lo + i % t->n_head;
        float inv = t->l[i] == 0 ? 0 : 1 / t->l[i];
        t->ops->finish(a->y + tok * a->ld_y + head * d, t->o + i * d, inv, d);
        if (a->lse)
            a->lse[tok * a->n_head + head] = lse_of(t->m[i], t->l[i]);
    }
}

static void tile_run(struct tile *t)
{
    struct k_span some, all;
    seen_bounds(t, 0, t->n_vec, &some, &all);
    tile_keys(t, attn_span_and(some, (struct k_span){t->u.key_lo, t->u.key_hi}));
}

/* Heads of a tile: a group may be larger than a tile, and a row alone then is several. */
static int64_t heads_at_once(int64_t group)
{
    return group < K_ATTN_TILE ? group : K_ATTN_TILE;
}

void attn_x86(const struct attn_ops *ops, const struct k_attn *a, const struct k_slice *s)
{
    struct attn_scratch scratch = {s->scratch};
    struct attn_prefetch ahead;
    struct tile t = {.ops = ops, .a = a, .group = a->n_head / a->cache.n_kv_head, .ahead = &ahead};
    struct k_attn_iter it;
    tile_take(&t, &scratch);
    attn_prefetch_init(&ahead, a, K_CUT_ROWS, s);
    attn_iter_init(&it, a, K_CUT_ROWS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        attn_iter_next(&it, &t.u);
        int64_t head = t.u.head * t.group, end = head + t.group;
        for (int64_t n = heads_at_once(t.group); head < end; head += n) {
            tile_open(&t, head, end - head < n ? end - head : n);
            tile_run(&t);
            tile_close(&t);
        }
    }
}

static float *part_at(const struct k_attn_part *a, int64_t tok, int64_t head, int64_t chunk)
{
    return a->part +
           ((tok * a->fwd.n_head + head) * a->n_chunk + chunk) * (a->fwd.cache.d_head + 2);
}

/* What the tile's vectors have summed, as the parts of one chunk. */
static void tile_export(const struct tile *t, const struct k_attn_part *a)
{
    int d = a->fwd.cache.d_head;
    struct k_span keys = {t->u.key_lo, t->u.key_hi};
    for (int64_t i = 0; i < t->n_vec; i++) {
        struct k_span seen = attn_span_and(t->seen[i], keys);
        if (seen.lo >= seen.hi)
            continue;
        float *part =
            part_at(a, vec_token(t, i), t->head_lo + i % t->n_head, t->u.key_lo / K_ATTN_CHUNK);
        memcpy(part, t->o + i * d, (size_t)d * sizeof *part);
        part[d] = t->m[i];
        part[d + 1] = t->l[i];
    }
}

void attn_part_x86(const struct attn_ops *ops, const struct k_attn_part *a, const struct k_slice *s)
{
    struct attn_scratch scratch = {s->scratch};
    struct attn_prefetch ahead;
    struct tile t = {
        .ops = ops, .a = &a->fwd, .group = a->fwd.n_head / a->fwd.cache.n_kv_head, .ahead = &ahead};
    struct k_attn_iter it;
    tile_take(&t, &scratch);
    attn_prefetch_init(&ahead, &a->fwd, K_CUT_ROWS_CHUNKS, s);
    attn_iter_init(&it, &a->fwd, K_CUT_ROWS_CHUNKS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        attn_iter_next(&it, &t.u);
        int64_t head = t.u.head * t.group, end = head + t.group;
        for (int64_t n = heads_at_once(t.group); head < end; head += n) {
            tile_open(&t, head, end - head < n ? end - head : n);
            tile_run(&t);
            tile_export(&t, a);
        }
    }
}

/* Folds the parts of one head of a row into o, m, l. */
static void merge_head(const struct attn_ops *ops, const struct k_attn_part *a, int64_t tok,
                       int64_t head, struct k_span seen, float *o, float *m, float *l)
{
    int d = a->fwd.cache.d_head;
    for (int64_t c = seen.lo / K_ATTN_CHUNK; c * K_ATTN_CHUNK < seen.hi; c++) {
        const float *part = part_at(a, tok, head, c);
        float keep, take;
        ops->fold(1, m, l, part + d, part + d + 1, &keep, &take);
        ops->fold_vec(o, part, keep, take, d);
    }
}

void attn_merge_x86(const struct attn_ops *ops, const struct k_attn_part *a,
                    const struct k_slice *s)
{
    const struct k_attn *f = &a->fwd;
    int d = f->cache.d_head;
    float *o = s->scratch;
    for (int64_t tok = s->lo; tok < s->hi; tok++) {
        int64_t seq = f->batch.seq_of[tok];
        struct k_span seen = attn_seen(f, seq, tok - f->batch.q_start[seq]);
        for (int64_t h = 0; h < f->n_head; h++) {
            float m = -INFINITY, l = 0;
            memset(o, 0, (size_t)d * sizeof *o);
            merge_head(ops, a, tok, h, seen, o, &m, &l);
            ops->finish(f->y + tok * f->ld_y + h * d, o, l == 0 ? 0 : 1 / l, d);
            if (f->lse)
                f->lse[tok * f->n_head + h] = lse_of(m, l);
        }
    }
}
