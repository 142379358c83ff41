/* SPDX-License-Identifier: Apache-2.0
 *
 * lora, lora_bwd, lora_dw. Faults they can catch: a row that gets a neighbour's adapter, rows
 * without one that are touched, a rank or a column that is dropped, a scale applied twice or not,
 * bits that depend on the rows beside or on the cut, and a backward that is not the forward's: with
 * the loss sum(y * g) the gradients in f64 are compared number by number.
 */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

#include "kernels/float16.h"
#include "kernels/linear.h"

enum { MAX_GROUP = 8 };

/* A batch: its groups, and everything in fenced buffers. */
struct batch {
    struct k_lora_bwd a;
    struct k_lora_group *group; /* [MAX_GROUP] */
    int64_t gap[MAX_GROUP];     /* rows of no group before each */
};

static float *dup_floats(struct check *c, const float *x, int64_t n)
{
    return check_dup(c, x, (size_t)n * sizeof *x, 4);
}

struct lora_case {
    int64_t k, n, pad;
    int64_t rows[MAX_GROUP], rank[MAX_GROUP]; /* rank 0: rows without an adapter */
    int n_group;
    enum check_kind kind;
};

static void groups_make(struct check *c, struct batch *b, const struct lora_case *l)
{
    int64_t row = 0, rank_max = 1;
    b->group = check_buf(c, MAX_GROUP * sizeof *b->group, 8);
    for (int i = 0; i < l->n_group; i++) {
        struct k_lora_group *g = &b->group[i];
        *g = (struct k_lora_group){.row_lo = row, .row_hi = row + l->rows[i], .rank = l->rank[i]};
        g->scale = (float)(0.5 + check_unit(c));
        if (g->rank > 0) {
            g->a = check_floats(c, g->rank * l->k, CHECK_SMALL);
            g->b = check_floats(c, l->n * g->rank, CHECK_SMALL);
            g->da = i % 3 == 2 ? NULL : check_floats(c, g->rank * l->k, CHECK_RANDOM);
            g->db = i % 3 == 1 ? NULL : check_floats(c, l->n * g->rank, CHECK_RANDOM);
        }
        rank_max = g->rank > rank_max ? g->rank : rank_max;
        row = g->row_hi;
    }
    b->a.fwd.m = row;
    b->a.fwd.rank_max = rank_max;
    b->a.fwd.group = b->group;
    b->a.fwd.n_group = l->n_group;
}

static void batch_make(struct check *c, struct batch *b, const struct lora_case *l)
{
    memset(b, 0, sizeof *b);
    struct k_lora *f = &b->a.fwd;
    groups_make(c, b, l);
    f->k = l->k;
    f->n = l->n;
    f->ld_x = b->a.ld_dx = l->k + l->pad;
    f->ld_y = b->a.ld_dy = l->n + l->pad;
    f->x = check_floats(c, f->m * f->ld_x, l->kind);
    f->t = check_floats(c, f->m * f->rank_max, CHECK_NAN);
    f->y = check_floats(c, f->m * f->ld_y, CHECK_RANDOM);
    b->a.dy = check_floats(c, f->m * f->ld_y, CHECK_RANDOM);
    b->a.dt = check_floats(c, f->m * f->rank_max, CHECK_NAN);
    b->a.dx = check_floats(c, f->m * f->ld_x, CHECK_RANDOM);
}

static void case_name(struct check *c, const struct lora_case *l)
{
    check_case(c, "k %d n %d pad %d groups %d rows %d.. rank %d.. %s", (int)l->k, (int)l->n,
               (int)l->pad, l->n_group, (int)l->rows[0], (int)l->rank[0], check_kind_name(l->kind));
}

/* Sums in f64, and of absolute values. */
struct sum {
    double v, size;
};

static void sum_add(struct sum *s, double term)
{
    s->v += term;
    s->size += fabs(term);
}

static void judge_to(struct check *c, const char *name, float got, struct sum want, double tol)
{
    check_near_scaled(c, name, &got, &want.v, &want.size, 1, tol, 1e-30);
}

static void judge(struct check *c, const char *name, float got, struct sum want)
{
    judge_to(c, name, got, want, 4e-6);
}

static const struct k_lora_group *group_of(const struct k_lora *f, int64_t row)
{
    for (int64_t i = 0; i < f->n_group; i++) {
        if (row >= f->group[i].row_lo && row < f->group[i].row_hi && f->group[i].a)
            return &f->group[i];
    }
    return NULL;
}

/* ---- forward ------------------------------------------------------------------------------ */

static void forward_compare(struct check *c, const struct k_lora *f, const float *before)
{
    for (int64_t row = 0; row < f->m; row++) {
        const struct k_lora_group *g = group_of(f, row);
        struct sum t[300];
        for (int64_t r = 0; g && r < g->rank; r++) {
            t[r] = (struct sum){0, 0};
            for (int64_t i = 0; i < f->k; i++)
                sum_add(&t[r], (double)f->x[row * f->ld_x + i] * g->a[r * f->k + i]);
            judge(c, "t", f->t[row * f->rank_max + r], t[r]);
        }
        if (!g) {
            check_bits(c, "a row of no adapter", f->y + row * f->ld_y, before + row * f->ld_y,
                       (size_t)f->ld_y * sizeof *before);
            continue;
        }
        for (int64_t o = 0; o < f->n; o++) {
            struct sum y = {before[row * f->ld_y + o], fabsf(before[row * f->ld_y + o])};
            for (int64_t r = 0; r < g->rank; r++) {
                y.v += (double)g->scale * t[r].v * g->b[o * g->rank + r];
                y.size += fabs((double)g->scale * t[r].size * g->b[o * g->rank + r]);
            }
            judge(c, "y", f->y[row * f->ld_y + o], y);
        }
    }
}

static void forward_run(struct check *c, const struct lora_case *l)
{
    struct batch b;
    check_begin(c);
    case_name(c, l);
    batch_make(c, &b, l);
    struct k_lora *f = &b.a.fwd;
    const float *before = dup_floats(c, f->y, f->m * f->ld_y);
    check_slices(c, f,
                 (struct check_out[]){{f->y, (size_t)(f->m * f->ld_y) * 4},
                                      {f->t, (size_t)(f->m * f->rank_max) * 4}},
                 2);
    forward_compare(c, f, before);
}

/* The same bits where b comes as panels, for some of the groups. */
static void forward_panels(struct check *c, const struct lora_case *l)
{
    struct batch b;
    check_begin(c);
    case_name(c, l);
    batch_make(c, &b, l);
    struct k_lora f = b.a.fwd, with = f;
    with.y = dup_floats(c, f.y, f.m * f.ld_y);
    check_run(c, &f);
    for (int i = 0; i < l->n_group; i++) {
        struct k_lora_group *g = &b.group[i];
        if (g->rank == 0 || i % 3 == 1)
            continue;
        size_t bytes = k_weight_bytes(K_F32, l->n, g->rank);
        struct k_weight_pack pack = {
            .src = g->b, .src_type = K_F32, .ld_src = g->rank, .n_src = l->n};
        void *panels = check_buf(c, bytes, 64);
        k_weight_bind(&pack.w, K_F32, l->n, g->rank, panels);
        check_run_row(c, K_weight_pack, &pack);
        g->b_panels = panels;
        g->b = NULL;
    }
    check_run(c, &with);
    check_bits(c, "y", with.y, f.y, (size_t)(f.m * f.ld_y) * 4);
}

/* As bf16, numbers that bf16 holds. */
static k_bf16 *narrowed(struct check *c, const float *x, int64_t n)
{
    k_bf16 *to = check_buf(c, (size_t)n * sizeof *to, 2);
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_from_f32(x[i]);
    return to;
}

static void group_narrow(struct check *c, struct k_lora_group *g, const struct k_lora *f)
{
    int64_t n = linear_panels(f->n) * K_NR * g->rank;
    float *panels = check_floats(c, n, CHECK_ZERO);
    for (int64_t i = 0; i < f->n * g->rank; i++)
        panels[i / g->rank / K_NR * K_NR * g->rank +
               linear_f32_at(i / g->rank % K_NR, i % g->rank)] = g->b[i];
    g->a_bf16 = narrowed(c, g->a, g->rank * f->k);
    g->b_panels_bf16 = narrowed(c, panels, n);
    g->a = g->b = NULL;
}

/* The same bits where an adapter whose numbers bf16 holds comes as bf16, for some of the groups. */
static void forward_bf16(struct check *c, const struct lora_case *l)
{
    struct batch b;
    check_begin(c);
    case_name(c, l);
    batch_make(c, &b, l);
    struct k_lora f = b.a.fwd, with = f;
    with.y = dup_floats(c, f.y, f.m * f.ld_y);
    for (int i = 0; i < l->n_group; i++) {
        struct k_lora_group *g = &b.group[i];
        float *a = dup_floats(c, g->a, g->rank * l->k), *w = dup_floats(c, g->b, l->n * g->rank);
        for (int64_t k = 0; k < g->rank * l->k; k++)
            a[k] = bf16_to_f32(bf16_from_f32(a[k]));
        for (int64_t k = 0; k < l->n * g->rank; k++)
            w[k] = bf16_to_f32(bf16_from_f32(w[k]));
        g->a = g->rank ? a : NULL;
        g->b = w;
    }
    check_run(c, &f);
    for (int i = 0; i < l->n_group; i++)
        if (b.group[i].rank && i % 3 != 1)
            group_narrow(c, &b.group[i], &f);
    check_run(c, &with);
    check_bits(c, "y", with.y, f.y, (size_t)(f.m * f.ld_y) * 4);
}

/* A row alone, or among others of its adapter, from any of them on. */
static void forward_invariance(struct check *c, int64_t rank)
{
    struct batch b;
    struct lora_case l = {.k = 130, .n = 70, .rows = {60}, .rank = {rank}, .n_group = 1};
    check_begin(c);
    batch_make(c, &b, &l);
    struct k_lora f = b.a.fwd, part = f;
    const float *before = dup_floats(c, f.y, f.m * f.ld_y);
    check_run(c, &f);
    for (int64_t m = 1; m < 60; m += m < 26 ? 1 : 11) {
        int64_t first = check_below(c, 61 - m);
        check_case(c, "rank %d, %d rows from %d", (int)rank, (int)m, (int)first);
        part.y = dup_floats(c, before + first * f.ld_y, m * f.ld_y);
        part.t = check_floats(c, m * f.rank_max, CHECK_NAN);
        part.x = f.x + first * f.ld_x;
        part.m = m;
        struct k_lora_group *g = check_dup(c, b.group, sizeof *g, 8);
        g->row_hi = m;
        part.group = g;
        check_run(c, &part);
        check_bits(c, "y", part.y, f.y + first * f.ld_y, (size_t)(m * f.ld_y) * 4);
        check_bits(c, "t", part.t, f.t + first * f.rank_max, (size_t)(m * f.rank_max) * 4);
    }
}

static const struct lora_case mixed[] = {
    {40, 70, 0, {1, 3, 13, 2, 30}, {16, 8, 4, 0, 1}, 5, CHECK_RANDOM},
    {1, 1, 2, {5, 12, 25}, {1, 3, 9}, 3, CHECK_RANDOM},
    {33, 32, 1, {12, 24, 7}, {17, 64, 31}, 3, CHECK_DENORMAL},
    {257, 65, 0, {14, 40}, {12, 256}, 2, CHECK_RANDOM},
    {67, 97, 3, {3, 0, 1}, {0, 8, 8}, 3, CHECK_ZERO},
    {100, 129, 0, {1, 1, 1, 1, 1, 1, 1}, {8, 16, 1, 24, 8, 5, 0}, 7, CHECK_RANDOM},
    {15, 31, 0, {2 * LINEAR_DW_ROWS + 5}, {6}, 1, CHECK_RANDOM},
    {530, 521, 0, {17}, {70}, 1, CHECK_RANDOM}, /* beyond what is packed at a time */
    {8, 8, 0, {0}, {4}, 1, CHECK_RANDOM},
    {0, 33, 0, {7}, {11}, 1, CHECK_RANDOM}, /* no inputs: sums of nothing */
};

enum { N_MIXED = sizeof mixed / sizeof *mixed };

void check_lora(struct check *c)
{
    static const int64_t ranks[] = {1, 7, 16, 40};
    for (int i = 0; i < N_MIXED; i++) {
        forward_run(c, &mixed[i]);
        forward_panels(c, &mixed[i]);
        forward_bf16(c, &mixed[i]);
    }
    for (int i = 0; i < 4; i++)
        forward_invariance(c, ranks[i]);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* What is multiplied where the kernels may round it: numbers that bf16 holds, so that sums are as
 * near as those of f32, but for what dt, which is rounded between two products, adds to dx. */
static const double dt_rounded = 1.0 / 256;

static void hold(const float *x, int64_t n)
{
    float *own = (float *)(uintptr_t)x; /* the case's own buffer */
    for (int64_t i = 0; x && i < n; i++)
        own[i] = bf16_to_f32(bf16_from_f32(x[i]));
}

static void batch_round(struct batch *b)
{
    const struct k_lora *f = &b->a.fwd;
    b->a.rounds = true;
    hold(f->x, f->m * f->ld_x);
    hold(b->a.dy, f->m * b->a.ld_dy);
    for (int64_t i = 0; i < f->n_group; i++) {
        hold(b->group[i].a, b->group[i].rank * f->k);
        hold(b->group[i].b, b->group[i].rank * f->n);
    }
}

static void backward_compare(struct check *c, const struct k_lora_bwd *a, const float *before)
{
    const struct k_lora *f = &a->fwd;
    for (int64_t row = 0; row < f->m; row++) {
        const struct k_lora_group *g = group_of(f, row);
        struct sum dt[300];
        for (int64_t r = 0; g && r < g->rank; r++) {
            dt[r] = (struct sum){0, 0};
            for (int64_t o = 0; o < f->n; o++)
                sum_add(&dt[r],
                        (double)g->scale * a->dy[row * a->ld_dy + o] * g->b[o * g->rank + r]);
            judge(c, "dt", a->dt[row * f->rank_max + r], dt[r]);
        }
        for (int64_t i = 0; before && i < f->k; i++) {
            float was = before[row * a->ld_dx + i];
            struct sum dx = {was, fabsf(was)};
            for (int64_t r = 0; g && r < g->rank; r++) {
                dx.v += dt[r].v * g->a[r * f->k + i];
                dx.size += fabs(dt[r].size * g->a[r * f->k + i]);
            }
            judge_to(c, "dx", a->dx[row * a->ld_dx + i], dx, a->rounds ? dt_rounded : 4e-6);
        }
    }
}

static void backward_run(struct check *c, const struct lora_case *l, bool wants_dx, bool rounds)
{
    struct batch b;
    check_begin(c);
    case_name(c, l);
    batch_make(c, &b, l);
    if (rounds)
        batch_round(&b);
    const struct k_lora *f = &b.a.fwd;
    const float *before = dup_floats(c, b.a.dx, f->m * b.a.ld_dx);
    struct check_out out[] = {{b.a.dt, (size_t)(f->m * f->rank_max) * 4},
                              {b.a.dx, (size_t)(f->m * b.a.ld_dx) * 4}};
    if (!wants_dx)
        b.a.dx = NULL;
    check_slices(c, &b.a, out, wants_dx ? 2 : 1);
    backward_compare(c, &b.a, wants_dx ? before : NULL);
}

void check_lora_bwd(struct check *c)
{
    for (int i = 0; i < 4 * N_MIXED; i++)
        backward_run(c, &mixed[i / 4], i & 1, i & 2);
}

/* ---- weight gradients --------------------------------------------------------------------- */

static void gradient_compare(struct check *c, const struct k_lora_bwd *a, int64_t i,
                             const float *da, const float *db)
{
    const struct k_lora *f = &a->fwd;
    const struct k_lora_group *g = &f->group[i];
    for (int64_t at = 0; da && at < g->rank * f->k; at++) {
        struct sum s = {da[at], fabsf(da[at])};
        for (int64_t row = g->row_lo; row < g->row_hi; row++)
            sum_add(&s,
                    (double)a->dt[row * f->rank_max + at / f->k] * f->x[row * f->ld_x + at % f->k]);
        judge(c, "da", g->da[at], s);
    }
    for (int64_t at = 0; db && at < f->n * g->rank; at++) {
        struct sum s = {db[at], fabsf(db[at])};
        for (int64_t row = g->row_lo; row < g->row_hi; row++)
            sum_add(&s, (double)g->scale * a->dy[row * a->ld_dy + at / g->rank] *
                            f->t[row * f->rank_max + at % g->rank]);
        judge(c, "db", g->db[at], s);
    }
}

static void gradient_run(struct check *c, const struct lora_case *l, bool rounds)
{
    struct batch b;
    const float *da[MAX_GROUP] = {NULL}, *db[MAX_GROUP] = {NULL};
    struct check_out out[MAX_GROUP]; /* some groups have one gradient only */
    int n_out = 0;
    check_begin(c);
    case_name(c, l);
    batch_make(c, &b, l);
    kernel_run(c->ref, K_lora, &b.a.fwd, c->scratch);
    kernel_run(c->ref, K_lora_bwd, &b.a, c->scratch);
    if (rounds) {
        batch_round(&b);
        hold(b.a.fwd.t, b.a.fwd.m * b.a.fwd.rank_max);
        hold(b.a.dt, b.a.fwd.m * b.a.fwd.rank_max);
    }
    for (int i = 0; i < l->n_group; i++) {
        struct k_lora_group *g = &b.group[i];
        if (g->da) {
            da[i] = dup_floats(c, g->da, g->rank * l->k);
            out[n_out++] = (struct check_out){g->da, (size_t)(g->rank * l->k) * 4};
        }
        if (g->db) {
            db[i] = dup_floats(c, g->db, g->rank * l->n);
            out[n_out++] = (struct check_out){g->db, (size_t)(g->rank * l->n) * 4};
        }
    }
    check_slices(c, &b.a, out, n_out);
    for (int i = 0; i < l->n_group; i++)
        gradient_compare(c, &b.a, i, da[i], db[i]);
}

void check_lora_dw(struct check *c)
{
    for (int i = 0; i < 2 * N_MIXED; i++)
        gradient_run(c, &mixed[i / 2], i & 1);
}
