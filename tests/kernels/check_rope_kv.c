/* SPDX-License-Identifier: Apache-2.0
 *
 * Turning, norms of heads and writing in one: the bits of the kernels that it stands for, at the
 * same level, in y and in every byte of the cells. Catches a sum in another order, a head or a
 * cell of another, a number that is rounded twice or not at all, q that is read behind its place
 * was written, a cell beside those of the rows that is touched.
 */
#include "tests/kernels/attn_case.h"

/* Rows of two sequences, the second behind keys that stand already. */
static const struct turn_spec {
    int32_t d, d_rot, n_head, n_kv_head, n_row[2], kv_len[2];
} specs[] = {{64, 64, 9, 3, {40, 1}, {40, 70}},  {128, 64, 4, 2, {1, 1}, {33, 1}},
             {128, 128, 8, 1, {3, 17}, {3, 49}}, {2, 2, 3, 3, {34, 0}, {34, 0}},
             {20, 10, 4, 4, {5, 2}, {64, 2}},    {80, 20, 5, 5, {1, 33}, {1, 40}},
             {256, 256, 2, 1, {2, 4}, {31, 36}}, {36, 36, 200, 2, {1, 2}, {9, 34}}};

enum { GAP = 5, NORM = 1, PAIRS = 2, IN_PLACE = 4, WAYS = 8 };

struct turn_case {
    struct attn_case t;
    struct k_rope_kv args;
    int64_t n_q, n_k; /* floats of q, of k */
};

static void turn_make(struct check *c, struct turn_case *u, const struct turn_spec *s,
                      enum k_type type, enum check_kind kind, int way)
{
    const struct attn_spec spec = {.type = type,
                                   .d = s->d,
                                   .n_head = s->n_head,
                                   .n_kv_head = s->n_kv_head,
                                   .n_seq = 2,
                                   .n_row = {s->n_row[0], s->n_row[1]},
                                   .kv_len = {s->kv_len[0], s->kv_len[1]},
                                   .kind = kind};
    int64_t n_row = (int64_t)s->kv_len[0] + s->kv_len[1], n_table = (n_row + 1) * (s->d_rot / 2);
    attn_case_make(c, &u->t, &spec);
    int64_t n_tok = u->t.batch.n_tok, ld_q = (int64_t)s->n_head * s->d + GAP, ld_k = u->t.ld_k;
    u->n_q = n_tok * ld_q;
    u->n_k = n_tok * ld_k;
    u->args = (struct k_rope_kv){.kv = {.batch = u->t.batch,
                                        .cache = u->t.cache,
                                        .k = check_floats(c, u->n_k, kind),
                                        .v = check_floats(c, u->n_k, kind),
                                        .ld_k = ld_k,
                                        .ld_v = ld_k},
                                 .q = check_floats(c, u->n_q, kind),
                                 .ld_q = ld_q,
                                 .ld_y = ld_q,
                                 .cos = check_floats(c, n_table, CHECK_RANDOM),
                                 .sin = check_floats(c, n_table, CHECK_RANDOM),
                                 .n_head = s->n_head,
                                 .d_rot = s->d_rot,
                                 .eps = 1e-5f,
                                 .interleaved = (way & PAIRS) != 0};
    int32_t *turn = check_dup(c, u->t.batch.pos, (size_t)n_tok * sizeof *turn, 4);
    for (int64_t i = 0; i < n_tok; i++) /* another row than its place, in some */
        turn[i] = i % 3 ? turn[i] : (int32_t)n_row - turn[i];
    u->args.turn = turn;
    u->args.y = check_dup(c, u->args.q, (size_t)u->n_q * sizeof(float), 4);
    if (way & NORM) {
        u->args.q_weight = check_floats(c, s->d, CHECK_SMALL);
        u->args.k_weight = check_floats(c, s->d, CHECK_SMALL);
        u->args.plus_one = (way & PAIRS) != 0;
    }
    if (way & IN_PLACE)
        u->args.q = u->args.y;
}

/* x normalised, where there is a weight, and turned, in rows like it. */
static float *turned(struct check *c, const struct k_rope_kv *a, const float *x, int64_t ld,
                     int32_t n_head, const float *weight)
{
    int64_t m = a->kv.batch.n_tok;
    float *y = check_dup(c, x, (size_t)(m * ld) * sizeof *x, 4);
    struct k_norm norm = {.x = x,
                          .weight = weight,
                          .y = y,
                          .ld_x = ld,
                          .ld_y = ld,
                          .m = m,
                          .d = a->kv.cache.d_head,
                          .n_head = n_head,
                          .eps = a->eps,
                          .plus_one = a->plus_one};
    struct k_rope rope = {.x = y,
                          .y = y,
                          .ld_x = ld,
                          .ld_y = ld,
                          .m = m,
                          .n_head = n_head,
                          .d_head = a->kv.cache.d_head,
                          .d_rot = a->d_rot,
                          .pos = a->turn,
                          .cos = a->cos,
                          .sin = a->sin,
                          .interleaved = a->interleaved};
    if (weight)
        check_run_row(c, K_rmsnorm, &norm);
    check_run_row(c, K_rope, &rope);
    return y;
}

static void turn_one(struct check *c, const struct turn_spec *s, enum k_type type,
                     enum check_kind kind, int way)
{
    struct turn_case u;
    check_begin(c);
    check_case(c, "%s %s d %d rot %d heads %d/%d rows %d %d%s%s%s", k_format(type)->name,
               check_kind_name(kind), s->d, s->d_rot, s->n_head, s->n_kv_head, s->n_row[0],
               s->n_row[1], way & NORM ? " norm" : "", way & PAIRS ? " interleaved" : "",
               way & IN_PLACE ? " in place" : "");
    turn_make(c, &u, s, type, kind, way);
    struct k_rope_kv *a = &u.args;
    size_t cells = u.t.cache_bytes, rows = (size_t)u.n_q * sizeof(float);
    struct k_kv_write apart = a->kv;
    float *y = turned(c, a, a->q, a->ld_q, s->n_head, a->q_weight);
    apart.k = turned(c, a, a->kv.k, a->kv.ld_k, s->n_kv_head, a->k_weight);
    apart.cache.k = check_dup(c, a->kv.cache.k, cells, 64);
    apart.cache.v = check_dup(c, a->kv.cache.v, cells, 64);
    check_run_row(c, K_kv_write, &apart);
    check_slices(c, a,
                 (struct check_out[]){{a->y, rows}, {a->kv.cache.k, cells}, {a->kv.cache.v, cells}},
                 3);
    check_bits(c, "y", a->y, y, rows);
    check_bits(c, "k", a->kv.cache.k, apart.cache.k, cells);
    check_bits(c, "v", a->kv.cache.v, apart.cache.v, cells);
}

void check_rope_kv(struct check *c)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int way = 0; way < WAYS; way++) {
            for (int kind = 0; kind < (i ? 1 : CHECK_KINDS); kind++) {
                for (int j = 0; j < ATTN_TYPES; j++)
                    if (!c->is_short || ((int)i + way + kind) % ATTN_TYPES == j)
                        turn_one(c, &specs[i], attn_types[j], (enum check_kind)kind, way);
            }
        }
    }
}
