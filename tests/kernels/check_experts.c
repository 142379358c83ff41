/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts. Faults they can catch: a row that goes to another expert, or twice to one;
 * an expert without rows that is read or that moves others; rows whose bits depend on how many an
 * expert has; a weight that meets another row; sums in another order.
 */
#include "kernels/experts_grid.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/float16.h"
#include "tests/kernels/check.h"
#include "tests/kernels/check_linear.h"

struct sizes {
    int64_t m, n, top; /* rows, experts */
};

static const struct sizes size[] = {
    {0, 4, 2}, {1, 8, 2}, {1, 1, 1}, {5, 3, 3}, {31, 8, 3}, {40, 64, 8}, {300, 2, 1}, {450, 5, 2},
};

enum { N_SIZE = sizeof size / sizeof size[0] };

static struct k_route route_new(struct check *c, const struct sizes *s, enum check_kind kind,
                                bool normalises)
{
    size_t pairs = (size_t)(s->m * s->top);
    struct k_route a = {.x = check_floats(c, s->m * (s->n + 1), kind),
                        .ld_x = s->n + 1,
                        .m = s->m,
                        .n = s->n,
                        .top = s->top,
                        .scale = 1,
                        .normalises = normalises};
    a.map.expert = check_buf(c, pairs * 4, 4);
    a.map.weight = check_floats(c, s->m * s->top, CHECK_NAN);
    a.map.place = check_buf(c, pairs * 4, 4);
    a.map.from = check_buf(c, pairs * 4, 4);
    a.map.start = check_buf(c, ((size_t)s->n + 1) * 4, 4);
    memset(a.map.start, 0, ((size_t)s->n + 1) * 4);
    return a;
}

/* A map that the reference made. */
static struct k_route routed(struct check *c, const struct sizes *s, bool normalises)
{
    struct k_route a = route_new(c, s, CHECK_RANDOM, normalises);
    kernel_run(c->ref, K_route, &a, c->scratch);
    kernel_run(c->ref, K_route_sort, &a, c->scratch);
    return a;
}

static void name_case(struct check *c, const struct sizes *s, const char *what)
{
    check_begin(c);
    check_case(c, "%s rows %lld experts %lld top %lld", what, (long long)s->m, (long long)s->n,
               (long long)s->top);
}

static void route_row(struct check *c, const struct k_route *a, int64_t i)
{
    const float *x = a->x + i * a->ld_x;
    double all = 0, max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->n; j++)
        max = fmax(max, (double)x[j]);
    for (int64_t j = 0; j < a->n; j++)
        all += exp((double)x[j] - max);
    for (int64_t j = 0; j < a->top; j++) {
        int32_t e = a->map.expert[i * a->top + j];
        int64_t before = 0;
        for (int64_t k = 0; k < a->n; k++)
            before += x[k] > x[e] || (x[k] == x[e] && k < e);
        check_true(c, before == j, "row %lld: expert %d is number %lld, not %lld", (long long)i, e,
                   (long long)before, (long long)j);
        sum += exp((double)x[e] - max) / all;
    }
    for (int64_t j = 0; j < a->top; j++) {
        double p = exp((double)x[a->map.expert[i * a->top + j]] - max) / all;
        float want = (float)(a->normalises ? p / sum : p);
        check_near(c, "weight", a->map.weight + i * a->top + j, &want, 1, 1e-5, 1e-35);
    }
}

/* Score + bias of an expert; -infinity of a closed group. */
static double choice_of(const struct k_route *a, const float *x, int64_t j)
{
    double all = 0, max = -INFINITY;
    for (int64_t k = 0; k < a->n; k++)
        max = fmax(max, (double)x[k]);
    for (int64_t k = 0; k < a->n; k++)
        all += exp((double)x[k] - max);
    double score = a->is_sigmoid ? 1 / (1 + exp(-(double)x[j])) : exp((double)x[j] - max) / all;
    return score + (a->bias ? (double)a->bias[j] : 0);
}

/* The measure of group g: its best, or its best two. */
static double group_of(const struct k_route *a, const float *x, int64_t g)
{
    double best = -INFINITY, next = -INFINITY;
    int64_t n = a->n / a->n_group;
    for (int64_t j = g * n; j < (g + 1) * n; j++) {
        double s = choice_of(a, x, j);
        next = fmax(next, fmin(s, best));
        best = fmax(best, s);
    }
    return a->group_best == 2 ? best + next : best;
}

static bool is_open(const struct k_route *a, const float *x, int64_t j)
{
    int64_t better = 0, mine = a->n_group > 1 ? j / (a->n / a->n_group) : 0;
    for (int64_t g = 0; g < a->n_group && a->n_group > 1; g++)
        better += group_of(a, x, g) > group_of(a, x, mine);
    return a->n_group < 2 || better < a->top_group;
}

/* Of distinct numbers: each pick is open and no open one that was left is better. */
static void grouped_row(struct check *c, const struct k_route *a, int64_t i)
{
    const float *x = a->x + i * a->ld_x;
    double sum = 0;
    for (int64_t j = 0; j < a->top; j++) {
        int32_t e = a->map.expert[i * a->top + j];
        int64_t before = 0;
        for (int64_t k = 0; k < a->n; k++)
            before += is_open(a, x, k) && choice_of(a, x, k) > choice_of(a, x, e);
        check_true(c, is_open(a, x, e) && before == j, "row %lld: expert %d is number %lld",
                   (long long)i, e, (long long)before);
        sum += choice_of(a, x, e) - (a->bias ? (double)a->bias[e] : 0);
    }
    for (int64_t j = 0; j < a->top; j++) {
        int32_t e = a->map.expert[i * a->top + j];
        double w = choice_of(a, x, e) - (a->bias ? (double)a->bias[e] : 0);
        float want = (float)((a->normalises ? w / sum : w) * (double)a->scale);
        if (a->each) {
            check_near(c, "share", a->map.share + i * a->top + j, &want, 1, 1e-5, 1e-30);
            want *= a->each[e];
        }
        check_near(c, "weight", a->map.weight + i * a->top + j, &want, 1, 1e-5, 1e-30);
    }
}

static void set_each(struct check *c, struct k_route *a)
{
    a->each = check_floats(c, a->n, CHECK_RANDOM);
    a->map.share = check_floats(c, a->m * a->top, CHECK_NAN);
}

static void set_groups(struct check *c, struct k_route *a, int bits)
{
    a->n_group = 8;
    a->top_group = 3;
    a->group_best = bits & 1 ? 2 : 1;
    a->is_sigmoid = bits & 2;
    a->scale = 2.5f;
    if (bits & 4)
        a->bias = check_floats(c, a->n, CHECK_RANDOM);
    if (bits & 16)
        set_each(c, a);
}

static void check_grouped(struct check *c)
{
    for (int bits = 0; bits < 32; bits++) {
        struct sizes s = {.m = 40, .n = 64, .top = 6};
        name_case(c, &s, "grouped");
        struct k_route a = route_new(c, &s, CHECK_RANDOM, bits & 8);
        size_t bytes = (size_t)(s.m * s.top) * 4;
        set_groups(c, &a, bits);
        check_slices(c, &a,
                     (struct check_out[]){
                         {a.map.expert, bytes}, {a.map.weight, bytes}, {a.map.share, bytes}},
                     a.each ? 3 : 2);
        for (int64_t row = 0; row < s.m; row++)
            grouped_row(c, &a, row);
    }
}

void check_route(struct check *c)
{
    for (int i = 0; i < N_SIZE * CHECK_KINDS * 2; i++) {
        const struct sizes *s = &size[i / 2 / CHECK_KINDS];
        enum check_kind kind = (enum check_kind)(i / 2 % CHECK_KINDS);
        name_case(c, s, check_kind_name(kind));
        struct k_route a = route_new(c, s, kind, i % 2);
        size_t bytes = (size_t)(s->m * s->top) * 4;
        check_slices(c, &a, (struct check_out[]){{a.map.expert, bytes}, {a.map.weight, bytes}}, 2);
        for (int64_t row = 0; row < s->m; row++)
            route_row(c, &a, row);
    }
    check_grouped(c);
}

void check_route_sort(struct check *c)
{
    for (int i = 0; i < N_SIZE; i++) {
        name_case(c, &size[i], "sort");
        struct k_route a = route_new(c, &size[i], CHECK_RANDOM, true);
        size_t bytes = (size_t)(size[i].m * size[i].top) * 4;
        int32_t last = -1;
        check_run_layout(c, K_route, &a);
        check_slices(c, &a,
                     (struct check_out[]){{a.map.place, bytes},
                                          {a.map.from, bytes},
                                          {a.map.start, ((size_t)size[i].n + 1) * 4}},
                     3);
        for (int64_t e = 0; e < a.n; e++) {
            for (int32_t at = a.map.start[e]; at < a.map.start[e + 1]; at++) {
                int32_t pair = a.map.from[at];
                check_true(c, a.map.expert[pair] == e && a.map.place[pair] == at,
                           "place %d has pair %d of another expert", at, pair);
                check_true(c, at == a.map.start[e] || pair > last, "place %d: out of order", at);
                last = pair;
            }
        }
        check_true(c,
                   a.map.start[0] == 0 &&
                       (size[i].m == 0 || a.map.start[a.n] == size[i].m * size[i].top),
                   "the bounds hold %d rows", a.map.start[a.n]);
    }
}

/* ---- the router's gradient ------------------------------------------------------------------ */

struct loss {
    const struct k_route *route;
    const float *dweight;
};

static double measure(const struct k_route *a, double x)
{
    return a->is_sigmoid ? 1 / (1 + exp(-x)) : exp(x);
}

/* Of all rows: the weights at the experts that were picked, each times its gradient. */
static double route_loss(const void *ctx, const double *x)
{
    const struct loss *l = ctx;
    const struct k_route *a = l->route;
    double loss = 0;
    for (int64_t i = 0; i < a->m; i++) {
        double all = 0, sum = 0;
        for (int64_t j = 0; j < a->n; j++)
            all += exp(x[i * a->n + j]);
        all = a->is_sigmoid ? 1 : all;
        for (int64_t j = i * a->top; j < (i + 1) * a->top; j++)
            sum += measure(a, x[i * a->n + a->map.expert[j]]);
        for (int64_t j = i * a->top; j < (i + 1) * a->top; j++)
            loss += (double)l->dweight[j] * measure(a, x[i * a->n + a->map.expert[j]]) *
                    (double)a->scale / (a->normalises ? sum : all) *
                    (a->each ? (double)a->each[a->map.expert[j]] : 1);
    }
    return loss;
}

void check_route_bwd(struct check *c)
{
    for (int i = 0; i < 6 * 8; i++) {
        const struct sizes *s = &size[i / 8];
        name_case(c, s, i % 2 ? "normalised" : "plain");
        struct k_route f = routed(c, s, i % 2);
        if (i / 4 % 2)
            set_each(c, &f);
        f.is_sigmoid = i / 2 % 2;
        f.scale = f.is_sigmoid ? 2.5f : 1;
        kernel_run(c->ref, K_route, &f, c->scratch);
        float *dw = check_floats(c, s->m * s->top, CHECK_RANDOM);
        float *dx = check_floats(c, s->m * s->n, CHECK_NAN), *x = check_floats(c, s->m * s->n, 0);
        for (int64_t k = 0; k < s->m * s->n; k++)
            x[k] = f.x[k / s->n * f.ld_x + k % s->n];
        struct k_route_bwd a = {.fwd = f, .dweight = dw, .dx = dx, .ld_dx = s->n, .m = s->m};
        size_t bytes = (size_t)(s->m * s->n) * sizeof *dx;
        check_slices(c, &a, (struct check_out[]){{dx, bytes}}, 1);
        check_gradient(c, "dx", dx, x, s->m * s->n, route_loss, &(struct loss){&f, dw}, 2e-3);
        a.add = true;
        float *twice = check_dup(c, dx, bytes, 4);
        for (int64_t k = 0; k < s->m * s->n; k++)
            twice[k] *= 2;
        check_slices(c, &a, (struct check_out[]){{dx, bytes}}, 1);
        check_near(c, "dx added", dx, twice, s->m * s->n, 1e-5, 1e-6);
    }
}

/* ---- products ------------------------------------------------------------------------------- */

/* Experts' weights at one distance, each packed alone, in pages of its own. */
struct stack {
    struct k_stack s;
    const float *value[64]; /* [n, k] of each expert */
};

static void stack_new(struct check *c, struct stack *t, enum k_type type, int64_t n, int64_t k,
                      int64_t n_expert)
{
    size_t each = (k_weight_bytes(type, n, k) + 4095) / 4096 * 4096;
    char *all = check_buf(c, each * (size_t)n_expert, 4096);
    t->s = (struct k_stack){.data_bytes = (int64_t)each, .n_expert = n_expert};
    t->s.scale_bytes = format_group(type) ? (int64_t)each : 0;
    for (int64_t e = 0; e < n_expert; e++) {
        struct linear_weight w = linear_weight_make(c, type, n, k);
        struct k_weight to;
        k_weight_bind(&to, type, n, k, all + (size_t)e * each);
        memcpy(to.data, w.w.data, k_weight_bytes(type, n, k));
        t->s.w = e == 0 ? to : t->s.w;
        t->value[e] = w.value;
    }
}

/* Who reads of experts that no row goes to faults, unless all may be. */
static void let_unused(const struct check *c, const struct k_stack *s, int may)
{
    for (int64_t e = 0; e < s->n_expert && !c->is_gpu; e++)
        if (s->start[e] == s->start[e + 1])
            mprotect((char *)s->w.data + e * s->data_bytes, (size_t)s->data_bytes, may);
}

/* An expert's rows, packed and multiplied by the level's own product: what the routed one must give
 * to the bit where it is made of that, and nearly on a GPU. */
static void alone(struct check *c, const struct k_experts *a, const float *x, int64_t e, float *y)
{
    bool is_dx = c->id == K_experts_dx;
    const struct k_stack *s = &a->stack;
    int64_t lo = s->start[e], m = s->start[e + 1] - lo, in = is_dx ? s->w.n : s->w.k;
    int64_t out = is_dx ? s->w.k : s->w.n;
    struct k_weight w = s->w;
    w.data = (char *)w.data + e * s->data_bytes;
    w.scale = w.scale ? (char *)w.scale + e * s->scale_bytes : NULL;
    struct linear_rows rows = linear_rows_make(c, w.type, x + lo * in, m, in);
    struct k_linear f = {.rows = rows.rows,
                         .w = w,
                         .y = y + lo * out,
                         .ld_y = out,
                         .m = m,
                         .panel_hi = linear_panels(w.n)};
    struct k_linear_dx b = {.rows = rows.rows,
                            .w = w,
                            .dx = y + lo * out,
                            .ld_dx = out,
                            .m = m,
                            .panel_hi = linear_panels(w.n)};
    if (is_dx)
        check_run_row(c, k_format(w.type)->dx, &b);
    else
        check_run_row(c, k_format(w.type)->linear, &f);
}

/* Matrices that stand anywhere: the same results, and rows of a missing one left as they are. On
 * the host, whose memory the list is in. */
static void saved_run(struct check *c, const struct k_experts *from, int64_t out)
{
    struct k_experts a = *from;
    struct k_saved saved[64] = {{0}};
    if (c->is_gpu)
        return;
    for (int64_t e = 0; e < a.stack.n_expert; e++) {
        saved[e].data = e % 2 ? (char *)a.stack.w.data + e * a.stack.data_bytes : NULL;
        saved[e].scale = a.stack.w.scale ? (char *)a.stack.w.scale + e * a.stack.scale_bytes : NULL;
    }
    a.stack.saved = saved;
    a.y = check_floats(c, a.m * a.ld_y, CHECK_NAN);
    float *before = check_dup(c, a.y, (size_t)(a.m * a.ld_y) * sizeof *a.y, 4);
    check_run_row(c, c->id, &a);
    for (int64_t e = 0; e < a.stack.n_expert; e++)
        for (int64_t i = a.stack.start[e]; i < a.stack.start[e + 1]; i++)
            check_bits(c, "saved", a.y + i * a.ld_y,
                       e % 2 ? from->y + i * a.ld_y : before + i * a.ld_y,
                       (size_t)out * sizeof *a.y);
}

static void product_run(struct check *c, const struct sizes *s, enum k_type type, int64_t n,
                        int64_t k)
{
    bool is_dx = c->id == K_experts_dx;
    k = linear_inputs(type, k);
    int64_t m = s->m * s->top, in = is_dx ? n : k, out = is_dx ? k : n, ld = out + 3;
    struct stack t;
    name_case(c, s, k_format(type)->name);
    stack_new(c, &t, type, n, k, s->n);
    struct k_route map = routed(c, s, true);
    float *x = check_floats(c, m * in, CHECK_RANDOM), *want = check_floats(c, m * out, CHECK_NAN);
    t.s.start = map.map.start;
    struct k_experts a = {.rows = check_buf(c, k_rows_bytes(type, m, in), 64),
                          .stack = t.s,
                          .y = check_floats(c, m * ld, CHECK_NAN),
                          .ld_y = ld,
                          .m = m};
    struct k_experts_pack p = {.x = x,
                               .ld_x = in,
                               .m = m,
                               .k = in,
                               .start = map.map.start,
                               .n_expert = s->n,
                               .type = k_format(type)->rows,
                               .rows = (void *)(uintptr_t)a.rows};
    check_run_layout(c, K_experts_pack, &p);
    let_unused(c, &t.s, PROT_NONE);
    check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(m * ld) * sizeof *a.y}}, 1);
    let_unused(c, &t.s, PROT_READ | PROT_WRITE);
    for (int64_t e = 0; e < s->n; e++)
        if (map.map.start[e] < map.map.start[e + 1])
            alone(c, &a, x, e, want);
    for (int64_t i = 0; i < m; i++) {
        if (c->is_gpu || strcmp(c->variant, "avx512") == 0)
            check_near(c, "row", a.y + i * ld, want + i * out, out, 1e-4, 1e-4);
        else
            check_bits(c, "row", a.y + i * ld, want + i * out, (size_t)out * sizeof *want);
    }
    saved_run(c, &a, out);
}

static void product_check(struct check *c)
{
    for (int type = 0; type < K_TYPE_COUNT; type++) {
        for (int i = 0; i < N_SIZE; i++) {
            bool is_large = size[i].m > 100;
            if (is_large && (check_is_plain(c) || c->is_short))
                continue;
            product_run(c, &size[i], (enum k_type)type, 33, is_large ? 40 : 133);
            if (!is_large)
                product_run(c, &size[i], (enum k_type)type, 64, 32);
        }
    }
}

void check_experts(struct check *c)
{
    product_check(c);
}

void check_experts_dx(struct check *c)
{
    product_check(c);
}

/* Each run of an expert as rows of their own. */
static void pack_run(struct check *c, const struct sizes *s, enum k_type type, int64_t k,
                     bool gathers)
{
    int64_t m = s->m * s->top, ld = k + 1;
    name_case(c, s, gathers ? "gathered" : "in order");
    struct k_route map = routed(c, s, true);
    size_t bytes = (size_t)m * linear_row_bytes(type, k);
    struct k_experts_pack a = {.x = check_floats(c, (gathers ? s->m : m) * ld, CHECK_RANDOM),
                               .ld_x = ld,
                               .m = m,
                               .k = k,
                               .from = gathers ? map.map.from : NULL,
                               .top = s->top,
                               .start = map.map.start,
                               .n_expert = s->n,
                               .type = type,
                               .rows = check_buf(c, bytes, 64)};
    float *x = check_floats(c, m * k, CHECK_NAN);
    for (int64_t i = 0; i < m; i++)
        memcpy(x + i * k, a.x + experts_row(a.from, a.top, i) * ld, (size_t)k * sizeof *x);
    check_slices(c, &a, (struct check_out[]){{a.rows, bytes}}, 1);
    struct experts_walk w = {.start = a.start, .n_expert = s->n};
    char *want = check_buf(c, bytes, 64);
    for (struct experts_run r; experts_next(&w, &r);) {
        struct k_rows_pack p = {.x = x + r.lo * k,
                                .ld_x = k,
                                .m = r.hi - r.lo,
                                .k = k,
                                .type = type,
                                .rows = want + (size_t)r.lo * linear_row_bytes(type, k)};
        check_run_layout(c, K_rows_pack, &p);
    }
    check_bits(c, "rows", a.rows, want, bytes);
}

void check_experts_pack(struct check *c)
{
    static const int64_t k[] = {1, 2, 33, 2049, 4100};
    for (int i = 0; i < N_SIZE * 4; i++)
        for (int j = 0; j < 5; j++)
            if (j < 3 || (size[i / 4].m < 40 && i % 2))
                pack_run(c, &size[i / 4], i % 2 ? K_BF16 : K_F32, k[j], i / 2 % 2);
}

static void dw_run(struct check *c, const struct sizes *s, int64_t n, int64_t k, int which)
{
    int64_t m = s->m * s->top, ld_dy = n + 1, ld_x = k + 2;
    name_case(c, s, which ? "x gathered" : "dy gathered");
    struct k_route map = routed(c, s, true);
    struct k_experts_dw a = {.dy = check_floats(c, (which ? m : s->m) * ld_dy, CHECK_RANDOM),
                             .x = check_floats(c, (which ? s->m : m) * ld_x, CHECK_RANDOM),
                             .ld_dy = ld_dy,
                             .ld_x = ld_x,
                             .from_dy = which ? NULL : map.map.from,
                             .from_x = which ? map.map.from : NULL,
                             .top = s->top,
                             .start = map.map.start,
                             .n = n,
                             .k = k};
    a.dw = check_floats(c, n * k, CHECK_RANDOM);
    for (int64_t e = 0; e < s->n; e++) {
        struct k_experts_dw ref = a;
        size_t bytes = (size_t)(n * k) * sizeof *a.dw;
        a.expert = ref.expert = e;
        ref.dw = check_dup(c, a.dw, bytes, 4);
        check_slices(c, &a, (struct check_out[]){{a.dw, bytes}}, 1);
        check_run_ref(c, &ref);
        check_near(c, "dw", a.dw, ref.dw, n * k, 1e-4, 1e-4);
    }
}

void check_experts_dw(struct check *c)
{
    for (int i = 0; i < 5 * 2; i++) {
        dw_run(c, &size[i / 2], 33, 21, i % 2);
        dw_run(c, &size[i / 2], 6, 64, i % 2);
    }
    dw_run(c, &size[7], 5, 19, 1);
}

static void sum_run(struct check *c, const struct sizes *s, int64_t d, bool weighs, bool add)
{
    int64_t m = s->m * s->top, ld = d + 1;
    name_case(c, s, weighs ? "weighed" : "plain");
    struct k_route map = routed(c, s, true);
    struct k_experts_sum a = {.x = check_floats(c, m * ld, CHECK_RANDOM),
                              .weight = weighs ? map.map.weight : NULL,
                              .place = map.map.place,
                              .y = check_floats(c, s->m * ld, add ? CHECK_RANDOM : CHECK_NAN),
                              .ld_x = ld,
                              .ld_y = ld,
                              .m = s->m,
                              .top = s->top,
                              .d = d,
                              .add = add};
    struct k_experts_sum ref = a;
    size_t bytes = (size_t)(s->m * ld) * sizeof *a.y;
    ref.y = check_dup(c, a.y, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < s->m; i++)
        check_near(c, "y", a.y + i * ld, ref.y + i * ld, d, 1e-5, 1e-5);
}

void check_experts_sum(struct check *c)
{
    int n;
    const int64_t *d = check_sizes(&n);
    for (int i = 0; i < N_SIZE * 2; i++)
        for (int j = 0; j < n; j++)
            if (size[i / 2].m < 40 || j == 5)
                sum_run(c, &size[i / 2], d[j], i % 2, j % 2);
}

void check_experts_weigh(struct check *c)
{
    static const int64_t d[] = {1, 7, 33, 300};
    for (int i = 0; i < N_SIZE * 4; i++) {
        const struct sizes *s = &size[i / 4];
        int64_t m = s->m * s->top, n = m * d[i % 4];
        name_case(c, s, "weigh");
        struct k_route map = routed(c, s, true);
        struct k_experts_weigh a = {.weight = map.map.weight,
                                    .from = map.map.from,
                                    .h = check_floats(c, n, CHECK_RANDOM),
                                    .dh = check_floats(c, n, CHECK_RANDOM),
                                    .dweight = check_floats(c, m, CHECK_NAN),
                                    .m = m,
                                    .d = d[i % 4]};
        struct k_experts_weigh ref = a;
        size_t bytes = (size_t)n * sizeof *a.h, some = (size_t)m * sizeof *a.h;
        ref.h = check_dup(c, a.h, bytes, 4);
        ref.dh = check_dup(c, a.dh, bytes, 4);
        ref.dweight = check_dup(c, a.dweight, some, 4);
        check_slices(c, &a, (struct check_out[]){{a.h, bytes}, {a.dh, bytes}, {a.dweight, some}},
                     3);
        check_run_ref(c, &ref);
        check_bits(c, "h", a.h, ref.h, bytes);
        check_bits(c, "dh", a.dh, ref.dh, bytes);
        check_near(c, "dweight", a.dweight, ref.dweight, m, 1e-5, 1e-5);
    }
}

/* ---- adapters ------------------------------------------------------------------------------- */

static void rows_run(struct check *c, const struct sizes *s, int64_t d, bool weighs, bool is_used)
{
    int64_t m = s->m * s->top, ld = d + 2;
    name_case(c, s, !is_used ? "unused" : weighs ? "weighed" : "plain");
    struct k_route map = routed(c, s, true);
    int32_t *n_used = check_buf(c, sizeof *n_used, 4);
    *n_used = is_used;
    struct k_experts_rows a = {.x = check_floats(c, s->m * ld, CHECK_RANDOM),
                               .from = map.map.from,
                               .weight = weighs ? map.map.weight : NULL,
                               .n_used = n_used,
                               .y = check_floats(c, m * d, CHECK_NAN),
                               .ld_x = ld,
                               .top = s->top,
                               .m = m,
                               .d = d};
    size_t bytes = (size_t)(m * d) * sizeof *a.y;
    float *want = check_dup(c, a.y, bytes, 4);
    for (int64_t i = 0; i < m && is_used; i++)
        for (int64_t j = 0; j < d; j++)
            want[i * d + j] = (weighs ? a.weight[a.from[i]] : 1) * a.x[a.from[i] / a.top * ld + j];
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_bits(c, "y", a.y, want, bytes);
}

void check_experts_rows(struct check *c)
{
    for (int i = 0; i < N_SIZE * 6; i++)
        rows_run(c, &size[i / 6], i % 2 ? 1 : 33, i / 2 % 3 == 1, i / 2 % 3 != 2);
}

/* Some rows have no group, some groups no adapter, and some the halves of a narrow file. */
static struct k_lora_group *adapters(struct check *c, const struct k_experts_groups *a, int64_t m)
{
    struct k_lora_group *g = check_buf(c, (size_t)a->n_group * sizeof *g + 8, 8);
    for (int64_t i = 0; i < a->n_group; i++) {
        int64_t rank = 1 + i % 3, lo = m * i / a->n_group, hi = m * (i + 1) / a->n_group;
        int64_t n_a = a->n_expert * rank * a->k, n_b = a->n_expert * rank * a->n;
        int64_t n_panels = a->n_expert * rank * linear_panels(a->n) * K_NR;
        g[i] = (struct k_lora_group){.row_lo = lo + (lo < hi && i % 2), .row_hi = hi};
        if (i % 4 == 3)
            continue;
        g[i].rank = rank;
        g[i].scale = (float)i;
        g[i].a = check_floats(c, n_a, CHECK_SMALL);
        g[i].b = check_floats(c, n_b, CHECK_SMALL);
        g[i].b_panels = check_floats(c, n_panels, CHECK_SMALL);
        g[i].da = i % 4 ? check_floats(c, n_a, CHECK_SMALL) : NULL;
        g[i].db = i % 4 ? check_floats(c, n_b, CHECK_SMALL) : NULL;
        if (i % 4 == 2) {
            g[i].a_bf16 = check_buf(c, (size_t)n_a * sizeof(k_bf16), 64);
            g[i].b_panels_bf16 = check_buf(c, (size_t)n_panels * sizeof(k_bf16), 64);
        }
    }
    return g;
}

static bool is_beside(const float *got, const float *from, int64_t distance)
{
    return from ? got == from + distance : !got;
}

static bool is_beside_bf16(const k_bf16 *got, const k_bf16 *from, int64_t distance)
{
    return from ? got == from + distance : !got;
}

static bool is_experts(const struct k_experts_groups *a, const struct k_lora_group *got,
                       const struct k_lora_group *g, int64_t e)
{
    int64_t half_a = e * g->rank * a->k, half_b = e * g->rank * a->n;
    int64_t panels = e * g->rank * linear_panels(a->n) * K_NR;
    return got->rank == g->rank && !(got->scale < g->scale || got->scale > g->scale) &&
           is_beside(got->a, g->a, half_a) && is_beside(got->b, g->b, half_b) &&
           is_beside(got->b_panels, g->b_panels, panels) && is_beside(got->da, g->da, half_a) &&
           is_beside(got->db, g->db, half_b) && is_beside_bf16(got->a_bf16, g->a_bf16, half_a) &&
           is_beside_bf16(got->b_panels_bf16, g->b_panels_bf16, panels);
}

/* Each routed row is in the one group that has its adapter, or in none. */
static void groups_compare(struct check *c, const struct k_experts_groups *a, int64_t m)
{
    int64_t e = 0, used = 0;
    for (int64_t i = 0; i < m * a->top; i++) {
        const struct k_lora_group *g = NULL;
        int64_t row = a->from[i] / a->top;
        while (a->start[e + 1] <= i)
            e++;
        for (int64_t k = 0; k < a->n_group; k++)
            if (row >= a->group[k].row_lo && row < a->group[k].row_hi && a->group[k].rank > 0)
                g = &a->group[k];
        while (used < *a->n_used && a->to[used].row_hi <= i)
            used++;
        bool is_in = used < *a->n_used && a->to[used].row_lo <= i;
        check_true(c, is_in == (g != NULL), "row %lld: an adapter or none", (long long)i);
        if (is_in && g)
            check_true(c, is_experts(a, &a->to[used], g, e), "row %lld: not its own", (long long)i);
    }
    check_true(c, *a->n_used <= a->n_group * a->n_expert, "%d groups", *a->n_used);
    for (int32_t i = 0; i < *a->n_used; i++)
        check_true(c, a->to[i].row_lo < a->to[i].row_hi, "group %d is empty", i);
}

void check_experts_groups(struct check *c)
{
    for (int i = 0; i < N_SIZE * 3; i++) {
        const struct sizes *s = &size[i / 3];
        name_case(c, s, "adapters");
        struct k_route map = routed(c, s, true);
        struct k_experts_groups a = {.from = map.map.from,
                                     .start = map.map.start,
                                     .n_used = check_buf(c, sizeof *a.n_used, 4),
                                     .n_group = (int64_t[]){0, 1, 7}[i % 3],
                                     .n_expert = s->n,
                                     .top = s->top,
                                     .n = 40,
                                     .k = 5};
        size_t bytes = (size_t)(a.n_group * a.n_expert) * sizeof *a.to;
        a.group = adapters(c, &a, s->m);
        a.to = check_buf(c, bytes + 8, 8);
        *a.n_used = -1;
        check_slices(c, &a, (struct check_out[]){{a.to, bytes}, {a.n_used, sizeof *a.n_used}}, 2);
        groups_compare(c, &a, s->m);
    }
}

/* ---- biases --------------------------------------------------------------------------------- */

static struct k_experts_bias bias_new(struct check *c, const struct sizes *s, int64_t d)
{
    int64_t m = s->m * s->top, ld = d + 1;
    struct k_route map = routed(c, s, true);
    return (struct k_experts_bias){.bias = check_floats(c, s->n * (d + 2), CHECK_RANDOM),
                                   .dy = check_floats(c, s->m * ld, CHECK_RANDOM),
                                   .from = map.map.from,
                                   .start = map.map.start,
                                   .y = check_floats(c, m * ld, CHECK_RANDOM),
                                   .dweight = check_floats(c, m, CHECK_RANDOM),
                                   .ld_bias = d + 2,
                                   .ld_y = ld,
                                   .ld_dy = ld,
                                   .n_expert = s->n,
                                   .top = s->top,
                                   .m = m,
                                   .d = d};
}

void check_experts_bias(struct check *c)
{
    static const int64_t d[] = {1, 33, 300};
    for (int i = 0; i < N_SIZE * 3; i++) {
        const struct sizes *s = &size[i / 3];
        name_case(c, s, "bias");
        struct k_experts_bias a = bias_new(c, s, d[i % 3]);
        size_t bytes = (size_t)(a.m * a.ld_y) * sizeof *a.y;
        float *want = check_dup(c, a.y, bytes, 4);
        for (int64_t e = 0; e < s->n; e++)
            for (int64_t k = a.start[e]; k < a.start[e + 1]; k++)
                for (int64_t j = 0; j < a.d; j++)
                    want[k * a.ld_y + j] += a.bias[e * a.ld_bias + j];
        check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
        check_bits(c, "y", a.y, want, bytes);
    }
}

void check_experts_bias_dot(struct check *c)
{
    static const int64_t d[] = {1, 33, 300};
    for (int i = 0; i < N_SIZE * 3; i++) {
        const struct sizes *s = &size[i / 3];
        name_case(c, s, "dot");
        struct k_experts_bias a = bias_new(c, s, d[i % 3]);
        size_t bytes = (size_t)a.m * sizeof *a.dweight;
        float *want = check_dup(c, a.dweight, bytes, 4);
        for (int64_t e = 0; e < s->n; e++)
            for (int64_t k = a.start[e]; k < a.start[e + 1]; k++) {
                double dot = 0;
                for (int64_t j = 0; j < a.d; j++)
                    dot += (double)a.dy[a.from[k] / a.top * a.ld_dy + j] *
                           (double)a.bias[e * a.ld_bias + j];
                want[a.from[k]] += (float)dot;
            }
        check_slices(c, &a, (struct check_out[]){{a.dweight, bytes}}, 1);
        check_near(c, "dweight", a.dweight, want, a.m, 1e-5, 1e-5);
    }
}

static void bias_dw_run(struct check *c, const struct sizes *s, int64_t n, bool weighs)
{
    int64_t m = s->m * s->top, ld = n + 3;
    name_case(c, s, weighs ? "weighed" : "plain");
    struct k_route map = routed(c, s, true);
    struct k_experts_bias_dw a = {.dy = check_floats(c, (weighs ? s->m : m) * ld, CHECK_RANDOM),
                                  .weight = weighs ? map.map.weight : NULL,
                                  .from = weighs ? map.map.from : NULL,
                                  .start = map.map.start,
                                  .ld_dy = ld,
                                  .top = s->top,
                                  .n = n,
                                  .dbias = check_floats(c, n, CHECK_RANDOM)};
    for (a.expert = 0; a.expert < s->n; a.expert++) {
        size_t bytes = (size_t)n * sizeof *a.dbias;
        struct k_experts_bias_dw ref = a;
        ref.dbias = check_dup(c, a.dbias, bytes, 4);
        check_slices(c, &a, (struct check_out[]){{a.dbias, bytes}}, 1);
        check_run_ref(c, &ref);
        check_near(c, "dbias", a.dbias, ref.dbias, n, 1e-5, 1e-5);
    }
}

void check_experts_bias_dw(struct check *c)
{
    for (int i = 0; i < 5 * 2; i++) {
        bias_dw_run(c, &size[i / 2], 33, i % 2);
        bias_dw_run(c, &size[i / 2], 130, i % 2);
    }
}
