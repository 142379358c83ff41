/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward. Against f64: wrong layout, mask, window, cap, weights of a fold. Bit for bit:
 * anything by which a row could depend on the rows beside it, on how its prompt came in, on the
 * places of its cells, or on what lies in slots that it does not see.
 */
#include <math.h>
#include <string.h>

#include "kernels/cuda/layout.h"
#include "kernels/float16.h"
#include "tests/kernels/attn_case.h"

static const struct attn_spec specs[] = {
    {.d = 64,
     .n_head = 9,
     .n_kv_head = 3,
     .n_seq = 3,
     .n_row = {33, 1, 100},
     .kv_len = {33, 300, 100}},
    {.d = 16, .n_head = 1, .n_kv_head = 1, .n_seq = 1, .n_row = {1}, .kv_len = {1}},
    {.d = 20,
     .n_head = 4,
     .n_kv_head = 4,
     .n_seq = 4,
     .n_row = {31, 0, 32, 2},
     .kv_len = {31, 40, 32, 65}},
    {.d = 36, .n_head = 4, .n_kv_head = 2, .n_seq = 2, .n_row = {5, 17}, .kv_len = {260, 273}},
    {.d = 80, .n_head = 5, .n_kv_head = 1, .n_seq = 2, .n_row = {40, 3}, .kv_len = {300, 515}},
    {.d = 128, .n_head = 8, .n_kv_head = 2, .n_seq = 2, .n_row = {1, 1}, .kv_len = {1000, 513}},
    {.d = 256, .n_head = 2, .n_kv_head = 1, .n_seq = 2, .n_row = {100, 0}, .kv_len = {257, 0}},
    {.d = 512, .n_head = 4, .n_kv_head = 2, .n_seq = 2, .n_row = {33, 1}, .kv_len = {290, 70}},
    {.d = 320, .n_head = 2, .n_kv_head = 1, .n_seq = 1, .n_row = {3}, .kv_len = {35}},
    {.d = 2, .n_head = 14, .n_kv_head = 2, .n_seq = 1, .n_row = {34}, .kv_len = {34}},
    {.d = 46, .n_head = 200, .n_kv_head = 2, .n_seq = 2, .n_row = {2, 1}, .kv_len = {34, 7}},
    {.d = 64, .n_head = 3, .n_kv_head = 3, .window = 1, .n_seq = 1, .n_row = {33}, .kv_len = {33}},
    {.d = 64,
     .n_head = 6,
     .n_kv_head = 3,
     .window = 33,
     .n_seq = 2,
     .n_row = {70, 300},
     .kv_len = {570, 300}},
    {.d = 32,
     .n_head = 2,
     .n_kv_head = 1,
     .window = 500,
     .softcap = 2,
     .n_seq = 1,
     .n_row = {20},
     .kv_len = {800}},
    {.d = 48,
     .n_head = 4,
     .n_kv_head = 4,
     .softcap = 30,
     .n_seq = 2,
     .n_row = {40, 1},
     .kv_len = {40, 290}},
    {.d = 64,
     .n_head = 12,
     .n_kv_head = 12,
     .full = true,
     .n_seq = 3,
     .n_row = {33, 128, 1},
     .kv_len = {33, 128, 1}},
    {.d = 64,
     .n_head = 2,
     .n_kv_head = 2,
     .full = true,
     .window = 20,
     .n_seq = 2,
     .n_row = {300, 7},
     .kv_len = {300, 7}},
    {.d = 15, .n_head = 3, .n_kv_head = 3, .n_seq = 2, .n_row = {40, 3}, .kv_len = {40, 70}},
};

enum { N_SPEC = sizeof specs / sizeof *specs };

static struct attn_spec spec_of(int i, enum k_type type, enum check_kind kind)
{
    struct attn_spec s = specs[i];
    s.type = type;
    s.kind = kind;
    return s;
}

static int64_t width(const struct attn_case *t)
{
    return (int64_t)t->spec.n_head * t->spec.d;
}

static size_t y_bytes(const struct attn_case *t)
{
    return (size_t)(t->batch.n_tok * t->ld_y) * sizeof *t->y;
}

static size_t lse_bytes(const struct attn_case *t)
{
    return (size_t)(t->batch.n_tok * t->spec.n_head) * sizeof *t->lse;
}

static void against_truth(struct check *c, const struct attn_case *t)
{
    struct attn_truth want = attn_truth_of(c, t);
    const float *y = attn_dense(c, t->y, t->ld_y, t->batch.n_tok, width(t));
    double rel = t->spec.type == K_F32 ? 2e-5 : 0x1p-8;
    /* the rounding of a score, a sum that cancels, moves all of p together */
    double lse_abs = t->spec.softcap > 0 ? 1e-6 * (double)t->spec.softcap : 4e-6;
    if (t->spec.kind == CHECK_HUGE)
        lse_abs = 1e30; /* its products are 1e36 */
    check_near_scaled(c, "y", y, want.y, want.size, t->batch.n_tok * width(t), rel, 1e-35);
    check_near_f64(c, "lse", t->lse, want.lse, t->batch.n_tok * t->spec.n_head, 1e-5, lse_abs);
}

/* The same through attn_part and attn_merge of this level, into y2 and lse2. */
static void run_parts(struct check *c, const struct attn_case *t, float *y, float *lse)
{
    int64_t n_chunk = (t->batch.cell_stride * K_CELL + K_ATTN_CHUNK - 1) / K_ATTN_CHUNK;
    int64_t n = t->batch.n_tok * t->spec.n_head * n_chunk * (t->spec.d + 2);
    struct k_attn_part p = {.fwd = t->args, .part = check_floats(c, n, CHECK_NAN)};
    p.n_chunk = n_chunk;
    p.fwd.y = y;
    p.fwd.lse = lse;
    check_run_row(c, K_attn_part, &p);
    check_run_row(c, K_attn_merge, &p);
}

static void attn_one(struct check *c, const struct attn_spec *spec)
{
    struct attn_case t;
    check_begin(c);
    attn_case_name(c, spec);
    attn_case_make(c, &t, spec);
    struct check_out out[] = {{t.y, y_bytes(&t)}, {t.lse, lse_bytes(&t)}};
    check_slices(c, &t.args, out, 2);
    against_truth(c, &t);
}

/* Every sequence alone, its cells elsewhere: the same bits. */
static void alone(struct check *c, const struct attn_case *t)
{
    for (int64_t s = 0; s < t->spec.n_seq; s++) {
        struct attn_case one = *t;
        int64_t at = t->batch.q_start[s], n = attn_row_count(&t->batch, s);
        one.args.batch = attn_batch_of(c, &t->batch, s, s + 1, 0, n);
        one.args.q = t->q + at * t->ld_q;
        one.args.y = check_floats(c, n * t->ld_y, CHECK_NAN);
        one.args.lse = check_floats(c, n * t->spec.n_head, CHECK_NAN);
        check_run_row(c, c->id, &one.args);
        check_bits(c, "y alone", one.args.y, t->y + at * t->ld_y,
                   (size_t)(n * t->ld_y) * sizeof(float));
        check_bits(c, "lse alone", one.args.lse, t->lse + at * t->spec.n_head,
                   (size_t)(n * t->spec.n_head) * sizeof(float));
    }
}

/* The rows come one by one or in runs of up to `most`, and before each run its keys are written:
 * the rest of the cache holds NaN until then. */
static void chunked(struct check *c, const struct attn_case *t, int64_t most)
{
    struct attn_case part = *t;
    memset(t->cache.k, 0xff, t->cache_bytes);
    memset(t->cache.v, 0xff, t->cache_bytes);
    for (int64_t s = 0; s < t->spec.n_seq; s++) {
        int64_t n = attn_row_count(&t->batch, s), past = attn_first_pos(&t->batch, s);
        int64_t key0 = t->all.q_start[s];
        for (int64_t lo = 0, hi; lo < n; lo = hi) {
            int64_t step = check_below(c, 3) ? 1 + check_below(c, most) : 1;
            int64_t key_lo = lo ? past + lo : 0;
            hi = lo + step < n ? lo + step : n;
            int64_t tok = t->batch.q_start[s] + lo;
            struct k_kv_write w = {.batch = attn_batch_of(c, &t->all, s, s + 1, key_lo, past + hi),
                                   .cache = t->cache,
                                   .k = t->k + (key0 + key_lo) * t->ld_k,
                                   .v = t->v + (key0 + key_lo) * t->ld_k,
                                   .ld_k = t->ld_k,
                                   .ld_v = t->ld_k};
            check_run_row(c, K_kv_write, &w);
            part.args.batch = attn_batch_of(c, &t->batch, s, s + 1, lo, hi);
            part.args.q = t->q + tok * t->ld_q;
            part.args.y = check_floats(c, (hi - lo) * t->ld_y, CHECK_NAN);
            part.args.lse = NULL;
            check_run_row(c, c->id, &part.args);
            check_bits(c, "y in chunks", part.args.y, t->y + tok * t->ld_y,
                       (size_t)((hi - lo) * t->ld_y) * sizeof(float));
        }
    }
}

static void attn_same(struct check *c, const struct attn_spec *spec, bool spoil)
{
    struct attn_case t;
    check_begin(c);
    attn_case_name(c, spec);
    attn_case_make(c, &t, spec);
    if (spoil) { /* a value that is not finite is nobody's concern who does not see it */
        for (int64_t s = 0; s < spec->n_seq; s++) {
            int64_t key = spec->kv_len[s] - 1 - spec->n_row[s] / 2;
            for (int64_t i = 0; key >= 0 && i < t.ld_k; i += 3)
                t.v[(t.all.q_start[s] + key) * t.ld_k + i] = i % 2 ? INFINITY : NAN;
        }
        struct k_kv_write w = {t.all, t.cache, t.k, t.v, t.ld_k, t.ld_k};
        check_run_row(c, K_kv_write, &w);
    }
    check_run(c, &t.args);
    float *y = check_floats(c, t.batch.n_tok * t.ld_y, CHECK_NAN);
    float *lse = check_floats(c, t.batch.n_tok * spec->n_head, CHECK_NAN);
    run_parts(c, &t, y, lse);
    check_bits(c, "y of parts", y, t.y, y_bytes(&t));
    check_bits(c, "lse of parts", lse, t.lse, lse_bytes(&t));
    alone(c, &t);
    if (spec->full)
        return;
    chunked(c, &t, 50);
    if (check_is_plain(c) || c->is_short)
        return;
    check_begin(c);
    attn_case_make(c, &t, spec);
    check_run(c, &t.args);
    chunked(c, &t, 1);
}

/* The spoiled values say most of what the others would. */
static bool is_slow(const struct check *c, enum k_type type)
{
    return c->is_short || check_is_plain(c) || (c->is_gpu && type == K_F32);
}

/* More cells than a last-level cache holds, for which decoding asks memory otherwise: the bits are
 * those of each sequence alone, which is not so many. */
static void attn_large(struct check *c)
{
    const struct attn_spec s = {.type = K_BF16,
                                .d = 256,
                                .n_head = 6,
                                .n_kv_head = 2,
                                .n_seq = 4,
                                .n_row = {1, 1, 3, 1},
                                .kv_len = {8200, 77, 300, 8100},
                                .kind = CHECK_RANDOM};
    attn_same(c, &s, false);
}

/* Places in order, and the cells written there. */
static void cells_in_order(struct check *c, struct attn_case *t)
{
    const struct k_ragged *b = &t->batch;
    int32_t *cell = check_buf(c, (size_t)(b->n_seq * b->cell_stride) * sizeof *cell, 4), at = 0;
    for (int64_t s = 0; s < b->n_seq; s++) {
        for (int64_t j = 0; j * K_CELL < b->kv_len[s]; j++)
            cell[s * b->cell_stride + j] = at++;
    }
    t->args.batch.cell = t->batch.cell = t->all.cell = cell;
    memset(t->cache.k, 0xff, t->cache_bytes);
    memset(t->cache.v, 0xff, t->cache_bytes);
    struct k_kv_write w = {t->all, t->cache, t->k, t->v, t->ld_k, t->ld_k};
    check_run_row(c, K_kv_write, &w);
}

/* With more layers than a last-level cache holds less of the cells is asked for, and where they
 * stand in long runs nothing: the bits are those of a few cells here and there. */
static void attn_asking(struct check *c, const struct attn_spec *spec)
{
    struct attn_case t;
    check_begin(c);
    attn_case_name(c, spec);
    attn_case_make(c, &t, spec);
    struct check_out out[] = {{t.y, y_bytes(&t)}, {t.lse, lse_bytes(&t)}};
    check_run(c, &t.args);
    float *y = check_dup(c, t.y, y_bytes(&t), 4), *lse = check_dup(c, t.lse, lse_bytes(&t), 4);
    t.args.cache.n_layer = 1000;
    for (int is_run = 0; is_run < 2; is_run++) {
        if (is_run)
            cells_in_order(c, &t);
        check_fill(c, t.y, t.batch.n_tok * t.ld_y, CHECK_NAN);
        check_fill(c, t.lse, t.batch.n_tok * spec->n_head, CHECK_NAN);
        check_slices(c, &t.args, out, 2);
        check_bits(c, is_run ? "y of runs" : "y of many layers", t.y, y, y_bytes(&t));
        check_bits(c, is_run ? "lse of runs" : "lse of many layers", t.lse, lse, lse_bytes(&t));
    }
}

/* Heads to a key that are asked for in each way, and two waves. The window of 2980 begins in a
 * chunk's last cell: where cells go by four, the most scores then wait for their probabilities. */
static void attn_asking_all(struct check *c)
{
    for (int group = 1; group <= 5; group++) {
        for (int i = 0; i < ATTN_TYPES; i++) {
            enum k_type type = attn_types[i];
            struct attn_spec s = {.type = type,
                                  .d = group == 3 ? 36 : 64,
                                  .n_head = 2 * group,
                                  .n_kv_head = 2,
                                  .window = group == 2                    ? 3000
                                            : group == 1 && type != K_F32 ? 2980
                                                                          : 0,
                                  .softcap = group == 4 ? 2 : 0,
                                  .n_seq = 3,
                                  .n_row = {1, 2, 1},
                                  .kv_len = {4230, 40, 301}};
            attn_asking(c, &s);
        }
    }
}

/* More heads to a key than above, up to what decoding takes at once: each number of them goes in
 * groups of its own, by whole panels, by half a panel and by less. */
static void attn_groups(struct check *c)
{
    for (int group = 6; group <= 12; group++) {
        for (int i = 0; i < 2 * ATTN_TYPES; i++) {
            struct attn_spec s = {.type = attn_types[i / 2],
                                  .d = i % 2 ? 36 : 48,
                                  .n_head = 2 * group,
                                  .n_kv_head = 2,
                                  .window = group % 3 ? 0 : 40,
                                  .n_seq = 2,
                                  .n_row = {20, 1},
                                  .kv_len = {270, 33}};
            attn_one(c, &s);
            attn_same(c, &s, i % 2);
        }
    }
}

void check_attn(struct check *c)
{
    if (!c->is_gpu && !check_is_plain(c)) {
        attn_large(c);
        attn_asking_all(c);
        attn_groups(c);
    }
    for (int i = 0; i < N_SPEC; i++) {
        for (int j = 0; j < ATTN_TYPES; j++) {
            struct attn_spec s = spec_of(i, attn_types[j], CHECK_RANDOM);
            if (!attn_has_type(&s, s.type) || (c->is_short && !attn_type_turn(&s, i, s.type)))
                continue;
            attn_one(c, &s);
            if (!is_slow(c, s.type))
                attn_same(c, &s, false);
            if (!check_is_plain(c) || attn_type_turn(&s, i, s.type))
                attn_same(c, &s, true);
        }
    }
    for (int kind = CHECK_RANDOM + 1; kind < CHECK_KINDS; kind++) {
        for (int j = 0; j < ATTN_TYPES; j++) {
            struct attn_spec s = spec_of(0, attn_types[j], (enum check_kind)kind);
            if (!c->is_short || (kind + j) % 2)
                attn_one(c, &s);
        }
    }
}

/* The two halves are compared with attn above; here their units, and their sum with the truth. */
static void parts_one(struct check *c, const struct attn_spec *spec)
{
    struct attn_case t;
    check_begin(c);
    attn_case_name(c, spec);
    attn_case_make(c, &t, spec);
    int64_t n_chunk = (t.batch.cell_stride * K_CELL + K_ATTN_CHUNK - 1) / K_ATTN_CHUNK;
    int64_t n = t.batch.n_tok * spec->n_head * n_chunk * (spec->d + 2);
    struct k_attn_part p = {.fwd = t.args, .part = check_floats(c, n, CHECK_NAN)};
    p.n_chunk = n_chunk;
    if (c->id == K_attn_part) {
        struct check_out out[] = {{p.part, (size_t)n * sizeof *p.part}};
        check_slices(c, &p, out, 1);
        check_run_row(c, K_attn_merge, &p);
    } else {
        struct check_out out[] = {{t.y, y_bytes(&t)}, {t.lse, lse_bytes(&t)}};
        check_run_row(c, K_attn_part, &p);
        check_slices(c, &p, out, 2);
    }
    against_truth(c, &t);
}

void check_attn_part(struct check *c)
{
    for (int i = 0; i < N_SPEC; i++) {
        for (int j = 0; j < ATTN_TYPES; j++) {
            struct attn_spec s = spec_of(i, attn_types[j], CHECK_RANDOM);
            if (attn_has_type(&s, s.type))
                parts_one(c, &s);
        }
    }
}

void check_attn_merge(struct check *c)
{
    check_attn_part(c);
}

static int64_t attn_k_at_any(enum k_type type, int64_t d, int64_t key, int64_t i)
{
    (void)d;
    return attn_k_at(type, key, i);
}

static int64_t attn_v_at_any(enum k_type type, int64_t d, int64_t key, int64_t i)
{
    return attn_v_at(type, d, key, i);
}

/* Rewrites cells that a GPU wrote into the order of the reference. */
static void to_reference(struct check *c, const struct attn_case *t, void *cells,
                         int64_t at(enum k_type, int64_t, int64_t, int64_t))
{
    int32_t d = t->cache.d_head;
    size_t elem = k_type_bytes(t->cache.type), bytes = k_kv_cell_bytes(t->cache.type, d);
    char *own = check_dup(c, cells, t->cache_bytes, 64), *to = cells;
    for (size_t cell = 0; cell < t->cache_bytes; cell += bytes) {
        for (int64_t key = 0; key < K_CELL; key++)
            for (int64_t i = 0; i < d; i++)
                memcpy(to + cell + (size_t)at(t->cache.type, d, key, i) * elem,
                       own + cell + (size_t)cuda_kv_at(d, key, i) * elem, elem);
    }
}

/* Every element where the layout says, rounded, and nothing else touched. */
static void kv_write_one(struct check *c, const struct attn_spec *spec)
{
    struct attn_case t;
    check_begin(c);
    attn_case_name(c, spec);
    attn_case_make(c, &t, spec);
    memset(t.cache.k, 0xff, t.cache_bytes);
    memset(t.cache.v, 0xff, t.cache_bytes);
    struct k_kv_write w = {t.all, t.cache, t.k, t.v, t.ld_k, t.ld_k}, ref = w;
    struct check_out out[] = {{t.cache.k, t.cache_bytes}, {t.cache.v, t.cache_bytes}};
    check_slices(c, &w, out, 2);
    ref.cache.k = check_buf(c, t.cache_bytes, 64);
    ref.cache.v = check_buf(c, t.cache_bytes, 64);
    memset(ref.cache.k, 0xff, t.cache_bytes);
    memset(ref.cache.v, 0xff, t.cache_bytes);
    check_run_ref(c, &ref);
    if (c->is_gpu) {
        to_reference(c, &t, t.cache.k, attn_k_at_any);
        to_reference(c, &t, t.cache.v, attn_v_at_any);
    }
    check_bits(c, "k", t.cache.k, ref.cache.k, t.cache_bytes);
    check_bits(c, "v", t.cache.v, ref.cache.v, t.cache_bytes);
}

void check_kv_write(struct check *c)
{
    for (int i = 0; i < N_SPEC; i++) {
        for (int j = 0; j < ATTN_TYPES; j++) {
            for (int kind = 0; kind < (i ? 1 : CHECK_KINDS); kind++) {
                struct attn_spec s = spec_of(i, attn_types[j], (enum check_kind)kind);
                if (attn_has_type(&s, s.type))
                    kv_write_one(c, &s);
            }
        }
    }
}
