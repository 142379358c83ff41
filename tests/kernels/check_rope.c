/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary embedding. Bit for bit with the reference, in place and not; the reference against the
 * rotation in f64; forward then inverse gives the row back. Catches a wrong pair, table row, sign,
 * or a tail that is turned or forgotten.
 */
#include <math.h>

#include "tests/kernels/check.h"

enum { N_POS = 50, M = 7, GAP = 3 };

static const int32_t sizes[][4] = {/* n_head, d_head, d_rot, at */
                                   {4, 24, 8, 14}, {3, 192, 64, 128}, {2, 20, 10, 3}, {1, 2, 2},
                                   {3, 16, 16},    {2, 20, 10},       {2, 36, 36},    {5, 64, 64},
                                   {3, 64, 32},    {2, 80, 20},       {1, 96, 62},    {4, 128, 64},
                                   {2, 128, 128},  {1, 256, 256},     {2, 48, 0}};

struct rope_case {
    struct k_rope args;
    int64_t n; /* floats of y */
};

static void rope_make(struct check *c, struct rope_case *t, const int32_t *size,
                      enum check_kind kind, int bits)
{
    int64_t half = size[2] / 2, ld = (int64_t)size[0] * size[1] + GAP;
    float *cos_table = check_floats(c, N_POS * half, CHECK_ZERO);
    float *sin_table = check_floats(c, N_POS * half, CHECK_ZERO);
    int32_t *pos = check_buf(c, M * sizeof *pos, 4);
    for (int64_t i = 0; i < N_POS * half; i++) {
        double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        cos_table[i] = (float)cos(angle);
        sin_table[i] = (float)sin(angle);
    }
    for (int i = 0; i < M; i++)
        pos[i] = (int32_t)check_below(c, N_POS);
    t->n = M * ld;
    t->args = (struct k_rope){.x = check_floats(c, t->n, kind),
                              .y = check_floats(c, t->n, CHECK_NAN),
                              .ld_x = ld,
                              .ld_y = ld,
                              .m = M,
                              .n_head = size[0],
                              .d_head = size[1],
                              .d_rot = size[2],
                              .at = size[3],
                              .pos = pos,
                              .cos = cos_table,
                              .sin = sin_table,
                              .interleaved = bits & 1,
                              .inverse = bits & 2};
}

/* Element i of a head of d_head, turned, in f64; size: of what is added. */
static double turned(const struct k_rope *a, const float *x, int64_t table, int32_t i, double *size)
{
    int32_t half = a->d_rot / 2;
    *size = fabs((double)x[i]);
    if (i < a->at || i >= a->at + a->d_rot)
        return (double)x[i];
    x += a->at;
    i -= a->at;
    int32_t p = a->interleaved ? i / 2 : i % half;
    bool first = a->interleaved ? i % 2 == 0 : i < half;
    int32_t other = a->interleaved ? i ^ 1 : first ? i + half : i - half;
    double s = (double)a->sin[table + p] * (a->inverse ? -1 : 1) * (first ? -1 : 1);
    *size += fabs((double)x[other]);
    return (double)x[i] * (double)a->cos[table + p] + (double)x[other] * s;
}

static void against_truth(struct check *c, const struct k_rope *a)
{
    for (int64_t r = 0; r < a->m; r++) {
        double want[256], size[256];
        for (int64_t h = 0; h < a->n_head; h++) {
            const float *x = a->x + r * a->ld_x + h * a->d_head;
            for (int32_t i = 0; i < a->d_head; i++)
                want[i] = turned(a, x, (int64_t)a->pos[r] * (a->d_rot / 2), i, size + i);
            check_near_scaled(c, "y", a->y + r * a->ld_y + h * a->d_head, want, size, a->d_head,
                              2e-7, 1e-44);
        }
    }
}

static void rope_one(struct check *c, const int32_t *size, enum check_kind kind, int bits)
{
    struct rope_case t;
    check_begin(c);
    check_case(c, "%s heads %d d %d rot %d%s%s", check_kind_name(kind), size[0], size[1], size[2],
               bits & 1 ? " interleaved" : "", bits & 2 ? " inverse" : "");
    rope_make(c, &t, size, kind, bits);
    size_t bytes = (size_t)t.n * sizeof(float);
    struct k_rope ref = t.args, in_place = t.args, back = t.args;
    ref.y = check_floats(c, t.n, CHECK_NAN);
    check_slices(c, &t.args, (struct check_out[]){{t.args.y, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "y", t.args.y, ref.y, bytes);
    against_truth(c, &t.args);
    in_place.y = check_dup(c, t.args.x, bytes, 4);
    in_place.x = in_place.y;
    check_run(c, &in_place);
    for (int64_t r = 0; r < M; r++)
        check_bits(c, "y in place", in_place.y + r * t.args.ld_y, t.args.y + r * t.args.ld_y,
                   (size_t)(size[0] * size[1]) * sizeof(float));
    back.x = t.args.y;
    back.y = check_floats(c, t.n, CHECK_NAN);
    back.inverse = !back.inverse;
    check_run(c, &back);
    for (int64_t r = 0; r < M; r++)
        check_near(c, "there and back", back.y + r * back.ld_y, t.args.x + r * back.ld_y,
                   (int64_t)size[0] * size[1], 1e-5, kind == CHECK_HUGE ? 1e12 : 1e-5);
}

void check_rope(struct check *c)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int bits = 0; bits < 4; bits++) {
            for (int kind = 0; kind < CHECK_KINDS; kind++)
                if (!c->is_short || ((int)i + bits + kind) % 2)
                    rope_one(c, sizes[i], (enum check_kind)kind, bits);
        }
    }
}
