/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts: of each row the sum, by its router's weights, of what `top` experts make of
 * it, each of them down(silu(gate x) * up x), with biases, a clamped gate or GELU where the model
 * has these. Which rows an expert has is made on the device, so a plan's launches are the same for
 * any step: routed rows are counted by the batch's rows times `top`, and their bounds lie in memory
 * beside them.
 *
 * An adapter of a product of experts has halves for each of them (engine/op/param.h), and gate and
 * up are one product to it. The batch's groups of rows become, on the device, those of routed rows,
 * and kernel lora does these as it does others.
 *
 * Law 2: an expert's products have the bits that each row has alone, and the sum over a row's
 * experts goes from the likeliest on, so neither knows of other rows.
 *
 * Backward keeps who goes where and both halves of the gate. The gradient of a row's weight is
 * taken before the last product: dy . (down h) = (down^T dy) . h.
 */
#include "engine/op/experts.h"

#include <string.h>

#include "kernels/format.h"

static const struct op_experts_attr *attr_of(const struct op_node *n)
{
    return (const struct op_experts_attr *)(const void *)n->attr;
}

struct val op_experts(struct builder *b, struct val x, struct val logits,
                      const struct op_experts_attr *attr)
{
    struct op_node n = {.op = OP_experts, .n_in = 2, .in = {x.id, logits.id}};
    struct op_experts_attr a = *attr;
    _Static_assert(sizeof a <= OP_ATTR_BYTES, "an op's attributes");
    if (b->has_lora && a.gate->lora >= 0)
        a.rank_max = b->lora_rank_max;
    memcpy(n.attr, &a, sizeof a);
    return builder_add(b, &n);
}

/* ---- shape ---------------------------------------------------------------------------------- */

/* The experts' weights as one: those of experts that follow at the first two's distance. */
static struct k_stack stack_of(const struct param *p, int64_t n_expert, const int32_t *start)
{
    struct k_stack s = {.w = p[0].w, .start = start, .n_expert = n_expert};
    if (n_expert > 1) {
        s.data_bytes = (char *)p[1].w.data - (char *)p[0].w.data;
        s.scale_bytes = (char *)p[1].w.scale - (char *)p[0].w.scale;
    }
    return s;
}

static int check_stack(const struct param *p, const struct op_experts_attr *a, int64_t n, int64_t k,
                       struct err *e)
{
    struct k_stack s = stack_of(p, a->n_expert, NULL);
    for (int64_t i = 0; i < a->n_expert; i++) {
        if (p[i].n != n || p[i].k != k)
            return err_set(e, ERR_BAD_INPUT, "%s: %lld by %lld, %lld by %lld expected", p[i].name,
                           (long long)p[i].n, (long long)p[i].k, (long long)n, (long long)k);
        if (p[i].w.type != p[0].w.type)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s is kept as %s, %s as %s: the experts of a layer must be alike: give "
                           "--quantize bf16",
                           p[i].name, k_format(p[i].w.type)->name, p[0].name,
                           k_format(p[0].w.type)->name);
        ASSERT((char *)p[i].w.data - (char *)p[0].w.data == i * s.data_bytes);
    }
    return 0;
}

static int check_biases(const struct op_experts_attr *a, struct err *e)
{
    const struct param *of[] = {a->gate_bias, a->up_bias, a->down_bias};
    const struct param *w[] = {a->gate, a->up, a->down};
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; of[k] && i < a->n_expert; i++) {
            if (of[k][i].n != w[k]->n)
                return err_set(e, ERR_BAD_INPUT, "%s: %lld numbers, %lld expected", of[k][i].name,
                               (long long)of[k][i].n, (long long)w[k]->n);
            ASSERT(of[k][i].vec - of[k][0].vec == i * w[k]->n);
        }
    }
    return 0;
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_experts_attr *a = attr_of(n);
    int64_t d = a->gate->k, d_ff = a->gate->n;
    if (in[0].blocked || in[1].blocked || in[0].rows != in[1].rows || in[0].cols != d ||
        in[1].cols != a->n_expert)
        return err_set(e, ERR_BAD_INPUT, "%s: inputs of %lld and %lld columns", a->gate->name,
                       (long long)in[0].cols, (long long)in[1].cols);
    if (check_stack(a->gate, a, d_ff, d, e) || check_stack(a->up, a, d_ff, d, e) ||
        check_stack(a->down, a, a->down->n, d_ff, e) || check_biases(a, e))
        return -1;
    out[0] = (struct op_shape){.rows = in[0].rows, .cols = a->down->n};
    return 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

struct room {
    char *at;
    size_t bytes; /* of what was carved so far */
};

static void *carve(struct room *r, size_t bytes)
{
    void *p = r->at ? r->at + r->bytes : NULL;
    r->bytes += (bytes + 63) / 64 * 64;
    return p;
}

static float *carve_floats(struct room *r, int64_t m, int64_t d)
{
    return carve(r, (size_t)m * (size_t)d * sizeof(float));
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct experts_kept kept_at(struct room *r, const struct op_experts_attr *a, int64_t m)
{
    size_t pairs = (size_t)(m * a->top) * sizeof(int32_t);
    struct experts_kept k = {.map.expert = carve(r, pairs),
                             .map.weight = carve(r, pairs),
                             .map.share = a->each ? carve(r, pairs) : NULL,
                             .map.place = carve(r, pairs),
                             .map.from = carve(r, pairs),
                             .map.start = carve(r, ((size_t)a->n_expert + 1) * sizeof(int32_t))};
    k.gate = carve_floats(r, m * a->top, 2 * a->gate->n);
    k.up = k.gate ? k.gate + a->gate->n : NULL;
    k.t_gate_up = carve_floats(r, m * a->top, a->rank_max);
    k.t_down = carve_floats(r, m * a->top, a->rank_max);
    return k;
}

static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct room r = {0};
    kept_at(&r, attr_of(n), cap[in[0].rows]);
    return r.bytes;
}

/* The groups of routed rows that have adapters. */
struct adapters {
    struct k_lora_group *group;
    int32_t *n_used;
};

static struct adapters adapters_at(struct room *r, const struct op_experts_attr *a, int64_t n_group)
{
    size_t n = a->rank_max ? (size_t)(n_group * a->n_expert) : 0;
    return (struct adapters){.group = carve(r, n * sizeof(struct k_lora_group)),
                             .n_used = carve(r, sizeof(int32_t))};
}

/* Of a forward: the rows of x, then in their place h, then what comes of it; and h's rows. Adapters
 * read x as it is, where its rows were, and h when there is what comes of it. */
struct pass {
    void *rows, *h_rows;
    float *x, *h, *y;
    struct adapters adapters;
};

static struct pass pass_at(struct room *r, const struct op_experts_attr *a, int64_t m,
                           int64_t n_group)
{
    int64_t n = m * a->top;
    size_t rows = k_rows_bytes(a->gate->w.type, n, a->gate->k);
    size_t x = a->rank_max ? (size_t)n * (size_t)a->gate->k * sizeof(float) : 0;
    size_t h = (size_t)n * (size_t)a->gate->n * sizeof(float);
    size_t y = (size_t)n * (size_t)a->down->n * sizeof(float);
    size_t p_all = (size_t)m * (size_t)a->n_expert * sizeof(float); /* probabilities: tell_load */
    struct pass p = {.rows = carve(r, most(most(most(rows, x), p_all), most(h, y)))};
    p.x = p.h = p.y = p.rows;
    p.h_rows = carve(r, k_rows_bytes(a->down->w.type, n, a->gate->n));
    if (a->rank_max)
        p.h = carve_floats(r, n, a->gate->n);
    p.adapters = adapters_at(r, a, n_group);
    return p;
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct room r = {0};
    kept_at(&r, attr_of(n), cap[in[0].rows]);
    pass_at(&r, attr_of(n), cap[in[0].rows], cap[DIM_GROUP]);
    return r.bytes;
}

struct back {
    void *rows; /* of dy, then of the gradients of the gate's halves */
    float *h;   /* then in its place these gradients, side by side as the halves are */
    float *dh, *dx, *dweight;
    float *x, *dt; /* of adapters: routed rows; dx has those of dy before it is dx */
    struct adapters adapters;
};

static struct back back_at(struct room *r, const struct op_experts_attr *a, int64_t m,
                           int64_t n_group)
{
    int64_t n = m * a->top, wide = a->down->n > a->gate->k ? a->down->n : a->gate->k;
    struct back b = {.rows = carve(r, most(k_rows_bytes(a->down->w.type, n, a->down->n),
                                           most(k_rows_bytes(a->gate->w.type, n, a->gate->n),
                                                k_rows_bytes(a->up->w.type, n, a->up->n))))};
    b.h = carve_floats(r, n, 2 * a->gate->n);
    b.dh = carve_floats(r, n, a->gate->n);
    b.dx = carve_floats(r, n, wide);
    b.dweight = carve_floats(r, n, 1);
    b.x = carve_floats(r, a->rank_max ? n : 0, a->gate->k);
    b.dt = carve_floats(r, n, a->rank_max);
    b.adapters = adapters_at(r, a, n_group);
    return b;
}

static size_t work_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    struct room r = {0};
    back_at(&r, attr_of(n), cap[in[0].rows], cap[DIM_GROUP]);
    return r.bytes;
}

/* ---- launches ------------------------------------------------------------------------------- */

static struct experts_run run_of(struct op_ctx *c, struct room *work)
{
    struct experts_run r = {.c = c, .a = attr_of(c->node), .rows = c->in[0].shape.rows};
    struct room save = {.at = c->save};
    r.m = op_rows(c, r.rows);
    r.k = kept_at(c->save ? &save : work, r.a, c->cap[r.rows]);
    return r;
}

static struct k_route route_of(const struct experts_run *r)
{
    return (struct k_route){.x = r->c->in[1].p,
                            .ld_x = r->c->in[1].ld,
                            .m = r->m,
                            .n = r->a->n_expert,
                            .top = r->a->top,
                            .bias = r->a->choice_bias ? r->a->choice_bias->vec : NULL,
                            .each = r->a->each ? r->a->each->vec : NULL,
                            .n_group = r->a->n_group,
                            .top_group = r->a->top_group,
                            .group_best = r->a->group_best,
                            .scale = r->a->scale,
                            .is_sigmoid = r->a->is_sigmoid,
                            .normalises = r->a->normalises,
                            .map = r->k.map};
}

/* Routed rows of x, which stand in their order or are those of before that `from` names. */
static void pack(const struct experts_run *r, const float *x, int64_t ld_x, const int32_t *from,
                 const struct param *w, int64_t cols, void *rows)
{
    struct k_experts_pack a = {.x = x,
                               .ld_x = ld_x,
                               .m = r->m * r->a->top,
                               .k = cols,
                               .from = from,
                               .top = r->a->top,
                               .start = r->k.map.start,
                               .n_expert = r->a->n_expert,
                               .type = k_format(w->w.type)->rows,
                               .rows = rows};
    LAUNCH_ROUTED(r, K_experts_pack, a);
}

static void multiply(const struct experts_run *r, enum kernel_id k, const void *rows,
                     const struct param *w, float *y, int64_t ld_y, bool add)
{
    struct k_experts a = {.rows = rows,
                          .stack = stack_of(w, r->a->n_expert, r->k.map.start),
                          .y = y,
                          .ld_y = ld_y,
                          .m = r->m * r->a->top,
                          .add = add};
    LAUNCH_ROUTED(r, k, a);
}

/* Of experts' matrices w[], whose results y are. */
static void add_bias(const struct experts_run *r, const struct param *w, const struct param *bias,
                     float *y, int64_t ld_y)
{
    struct k_experts_bias a = {.start = r->k.map.start,
                               .y = y,
                               .ld_bias = w->n,
                               .ld_y = ld_y,
                               .n_expert = r->a->n_expert,
                               .top = r->a->top,
                               .m = r->m * r->a->top,
                               .d = w->n};
    if (!bias)
        return;
    a.bias = bias->vec;
    LAUNCH_ROUTED(r, K_experts_bias, a);
}

/* ---- adapters ------------------------------------------------------------------------------- */

/* The groups of w's adapters, w being of the first expert. */
static void find_adapters(const struct experts_run *r, const struct adapters *d,
                          const struct param *w)
{
    const struct batch *b = r->c->batch;
    struct k_experts_groups a = {.group = b->lora + w->lora * b->lora_stride,
                                 .from = r->k.map.from,
                                 .start = r->k.map.start,
                                 .to = d->group,
                                 .n_used = d->n_used,
                                 .n_group = op_rows(r->c, DIM_GROUP),
                                 .n_expert = r->a->n_expert,
                                 .top = r->a->top,
                                 .n = w->lora_n,
                                 .k = w->k};
    struct op_count count = {.offset = offsetof(struct k_experts_groups, n_group),
                             .dim = DIM_GROUP};
    op_launch(r->c, K_experts_groups, &a, sizeof a, &count, 1);
}

/* Rows as they are, routed, for those who have found adapters; weighed: times what they count. */
static void route_rows(const struct experts_run *r, const struct adapters *d,
                       const struct op_view *x, bool weighed, float *y)
{
    struct k_experts_rows a = {.x = x->p,
                               .from = r->k.map.from,
                               .weight = weighed ? r->k.map.weight : NULL,
                               .n_used = d->n_used,
                               .y = y,
                               .ld_x = x->ld,
                               .top = r->a->top,
                               .m = r->m * r->a->top,
                               .d = x->shape.cols};
    LAUNCH_ROUTED(r, K_experts_rows, a);
}

static struct k_lora lora_of(const struct experts_run *r, const struct adapters *d,
                             const struct param *w, const float *x, float *t)
{
    return (struct k_lora){.x = x,
                           .ld_x = w->k,
                           .m = r->m * r->a->top,
                           .k = w->k,
                           .n = w->lora_n,
                           .group = d->group,
                           .n_group = op_rows(r->c, DIM_GROUP) * r->a->n_expert,
                           .n_used = d->n_used,
                           .t = t,
                           .rank_max = r->a->rank_max,
                           .ld_y = w->lora_n};
}

/* lora: where in the arguments its own stand. */
static void launch_lora(const struct experts_run *r, enum kernel_id k, const void *args,
                        size_t bytes, size_t lora)
{
    const struct op_count count[] = {{.offset = (uint16_t)(lora + offsetof(struct k_lora, m)),
                                      .dim = r->rows,
                                      .times = r->a->top},
                                     {.offset = (uint16_t)(lora + offsetof(struct k_lora, n_group)),
                                      .dim = DIM_GROUP,
                                      .times = r->a->n_expert}};
    op_launch(r->c, k, args, bytes, count, 2);
}

static void add_adapters(const struct experts_run *r, struct k_lora a, float *y)
{
    a.y = y;
    launch_lora(r, K_lora, &a, sizeof a, 0);
}

static struct k_lora_bwd lora_bwd_of(const struct back *b, const struct param *w, struct k_lora fwd)
{
    return (struct k_lora_bwd){.fwd = fwd,
                               .ld_dy = w->lora_n,
                               .dt = b->dt,
                               .ld_dx = w->k,
                               .rounds = k_format(w->w.type)->rows != K_F32};
}

static void back_adapters(const struct experts_run *r, enum kernel_id k, const struct k_lora_bwd *a)
{
    launch_lora(r, k, a, sizeof *a, offsetof(struct k_lora_bwd, fwd));
}

/* What a loss that balances experts asks for. p: room for a number of each row and expert. */
static void tell_load(const struct experts_run *r, float *p)
{
    const struct batch_balance *b = &r->c->batch->balance;
    const struct op_view *x = &r->c->in[1];
    int64_t n = r->a->n_expert;
    if (r->a->slot >= b->n_layer)
        return;
    float *sum = b->sum + r->a->slot * n;
    struct k_copy bounds = {.x = (const float *)(const void *)r->k.map.start,
                            .y = (float *)(void *)(b->start + r->a->slot * (n + 1)),
                            .ld_x = n + 1,
                            .ld_y = n + 1,
                            .m = 1,
                            .d = n + 1};
    struct k_copy zero = {.y = sum, .ld_y = n, .m = 1, .d = n};
    struct k_softmax soft = {.x = x->p, .y = p, .ld_x = x->ld, .ld_y = n, .m = r->m, .d = n};
    struct k_col_sum add = {.x = p, .ld_x = n, .m = r->m, .d = n, .y = sum};
    op_launch(r->c, K_copy, &bounds, sizeof bounds, NULL, 0);
    op_launch(r->c, K_copy, &zero, sizeof zero, NULL, 0);
    OP_LAUNCH_M(r->c, K_softmax, soft, r->rows);
    OP_LAUNCH_M(r->c, K_col_sum, add, r->rows);
}

static void forward(struct op_ctx *c)
{
    struct room room = {.at = c->work};
    struct experts_run r = run_of(c, &room);
    struct pass p = pass_at(&room, r.a, c->cap[r.rows], c->cap[DIM_GROUP]);
    struct k_route route = route_of(&r);
    int64_t d_ff = r.a->gate->n, d_out = r.a->down->n;
    OP_LAUNCH_M(c, K_route, route, r.rows);
    OP_LAUNCH_M(c, K_route_sort, route, r.rows);
    tell_load(&r, p.rows);
    pack(&r, c->in[0].p, c->in[0].ld, r.k.map.from, r.a->gate, r.a->gate->k, p.rows);
    multiply(&r, K_experts, p.rows, r.a->gate, r.k.gate, 2 * d_ff, false);
    multiply(&r, K_experts, p.rows, r.a->up, r.k.up, 2 * d_ff, false);
    add_bias(&r, r.a->gate, r.a->gate_bias, r.k.gate, 2 * d_ff);
    add_bias(&r, r.a->up, r.a->up_bias, r.k.up, 2 * d_ff);
    if (r.a->rank_max) {
        find_adapters(&r, &p.adapters, r.a->gate);
        route_rows(&r, &p.adapters, &c->in[0], false, p.x);
        add_adapters(&r, lora_of(&r, &p.adapters, r.a->gate, p.x, r.k.t_gate_up), r.k.gate);
    }
    experts_gate(&r, p.h);
    pack(&r, p.h, d_ff, NULL, r.a->down, d_ff, p.h_rows);
    multiply(&r, K_experts, p.h_rows, r.a->down, p.y, d_out, false);
    add_bias(&r, r.a->down, r.a->down_bias, p.y, d_out);
    if (r.a->rank_max) {
        find_adapters(&r, &p.adapters, r.a->down);
        add_adapters(&r, lora_of(&r, &p.adapters, r.a->down, p.h, r.k.t_down), p.y);
    }
    struct k_experts_sum sum = {.x = p.y,
                                .weight = r.k.map.weight,
                                .place = r.k.map.place,
                                .y = c->out[0].p,
                                .ld_x = d_out,
                                .ld_y = c->out[0].ld,
                                .m = r.m,
                                .top = r.a->top,
                                .d = d_out};
    OP_LAUNCH_M(c, K_experts_sum, sum, r.rows);
}

/* ---- backward ------------------------------------------------------------------------------- */

static void weight_grads(const struct experts_run *r, const struct param *w, struct k_experts_dw a)
{
    a.top = r->a->top;
    a.start = r->k.map.start;
    for (int32_t e = 0; e < r->a->n_expert; e++) {
        if (!w[e].grad)
            continue;
        a.expert = e;
        a.n = w[e].n;
        a.k = w[e].k;
        a.dw = w[e].grad;
        op_launch(r->c, K_experts_dw, &a, sizeof a, NULL, 0);
    }
}

/* Of routed rows, which are weighed where they come by `from`. */
static void bias_grads(const struct experts_run *r, const struct param *bias,
                       struct k_experts_bias_dw a)
{
    a.top = r->a->top;
    a.start = r->k.map.start;
    a.weight = r->k.map.weight;
    for (int32_t e = 0; bias && e < r->a->n_expert; e++) {
        if (!bias[e].grad)
            continue;
        a.expert = e;
        a.n = bias[e].n;
        a.dbias = bias[e].grad;
        op_launch(r->c, K_experts_bias_dw, &a, sizeof a, NULL, 0);
    }
}

/* What a row's weights weigh has the bias in it. */
static void back_down_bias(const struct experts_run *r, const struct back *b,
                           const struct op_view *dy)
{
    const struct param *bias = r->a->down_bias;
    struct k_experts_bias dot = {.dy = dy->p,
                                 .from = r->k.map.from,
                                 .start = r->k.map.start,
                                 .dweight = b->dweight,
                                 .ld_bias = r->a->down->n,
                                 .ld_dy = dy->ld,
                                 .n_expert = r->a->n_expert,
                                 .top = r->a->top,
                                 .m = r->m * r->a->top,
                                 .d = r->a->down->n};
    if (!bias)
        return;
    dot.bias = bias->vec;
    LAUNCH_ROUTED(r, K_experts_bias_dot, dot);
    bias_grads(r, bias,
               (struct k_experts_bias_dw){.dy = dy->p, .ld_dy = dy->ld, .from = r->k.map.from});
}

/* Down's adapters, in two parts. Of a row's weight the gradient is wanted, so what comes back to h
 * is that of a weight of 1; then h and dh are weighed; and of what an adapter's halves are
 * multiplied with one side must be: h has been, and dy is now. */
static void back_down_adapters(const struct experts_run *r, const struct back *b,
                               const struct op_view *dy, bool weighed)
{
    const struct param *w = r->a->down;
    if (!r->a->rank_max)
        return;
    struct k_lora_bwd a = lora_bwd_of(b, w, lora_of(r, &b->adapters, w, b->h, r->k.t_down));
    a.dy = b->dx;
    a.dx = b->dh;
    if (!weighed)
        find_adapters(r, &b->adapters, w);
    route_rows(r, &b->adapters, dy, weighed, b->dx);
    back_adapters(r, weighed ? K_lora_dw : K_lora_bwd, &a);
}

/* Down: of h, which is weighed on the way, and of the weights. */
static void back_down(const struct experts_run *r, const struct back *b, const struct op_view *dy)
{
    int64_t d_ff = r->a->gate->n;
    const int32_t *from = r->k.map.from;
    struct k_experts_weigh w = {.weight = r->k.map.weight,
                                .from = from,
                                .h = b->h,
                                .dh = b->dh,
                                .dweight = b->dweight,
                                .m = r->m * r->a->top,
                                .d = d_ff};
    pack(r, dy->p, dy->ld, from, r->a->down, r->a->down->n, b->rows);
    multiply(r, K_experts_dx, b->rows, r->a->down, b->dh, d_ff, false);
    experts_gate(r, b->h);
    back_down_adapters(r, b, dy, false);
    LAUNCH_ROUTED(r, K_experts_weigh, w);
    back_down_adapters(r, b, dy, true);
    back_down_bias(r, b, dy);
    weight_grads(r, r->a->down,
                 (struct k_experts_dw){
                     .dy = dy->p, .ld_dy = dy->ld, .from_dy = from, .x = b->h, .ld_x = d_ff});
}

/* A product with x, whose gradient is `dy`. */
static void back_product(const struct experts_run *r, const struct back *b, const struct param *w,
                         const struct param *bias, const float *dy, bool add)
{
    const struct op_view *x = &r->c->in[0];
    int64_t ld = 2 * w->n;
    pack(r, dy, ld, NULL, w, w->n, b->rows);
    multiply(r, K_experts_dx, b->rows, w, b->dx, w->k, add);
    weight_grads(r, w,
                 (struct k_experts_dw){
                     .dy = dy, .ld_dy = ld, .x = x->p, .ld_x = x->ld, .from_x = r->k.map.from});
    bias_grads(r, bias, (struct k_experts_bias_dw){.dy = dy, .ld_dy = ld});
}

/* The adapters of gate and up, whose gradients stand side by side. */
static void back_gate_up_adapters(const struct experts_run *r, const struct back *b)
{
    const struct param *w = r->a->gate;
    if (!r->a->rank_max)
        return;
    struct k_lora_bwd a = lora_bwd_of(b, w, lora_of(r, &b->adapters, w, b->x, r->k.t_gate_up));
    a.dy = b->h;
    a.dx = b->dx;
    find_adapters(r, &b->adapters, w);
    route_rows(r, &b->adapters, &r->c->in[0], false, b->x);
    back_adapters(r, K_lora_bwd, &a);
    back_adapters(r, K_lora_dw, &a);
}

/* Of what an expert's weights are multiplied with: a column of numbers, of which each routed row
 * has what it would count without. */
static void each_grads(const struct experts_run *r, const struct back *b)
{
    struct k_experts_bias_dw a = {.dy = b->dweight,
                                  .weight = r->k.map.share,
                                  .from = r->k.map.from,
                                  .start = r->k.map.start,
                                  .ld_dy = 1,
                                  .top = 1,
                                  .n = 1};
    for (int32_t e = 0; r->a->each && r->a->each->grad && e < r->a->n_expert; e++) {
        a.expert = e;
        a.dbias = r->a->each->grad + e;
        op_launch(r->c, K_experts_bias_dw, &a, sizeof a, NULL, 0);
    }
}

/* Of the loss that balances experts: every layer's forward has told its load by now. */
static void back_balance(const struct experts_run *r, const struct op_view *dx)
{
    const struct batch_balance *b = &r->c->batch->balance;
    struct k_route_balance a = {.x = r->c->in[1].p,
                                .start = b->start,
                                .dx = dx->p,
                                .ld_x = r->c->in[1].ld,
                                .ld_dx = dx->ld,
                                .m = r->m,
                                .n = r->a->n_expert,
                                .n_layer = b->n_layer,
                                .by = b->by};
    if (dx->p && b->n_layer > 0)
        OP_LAUNCH_M(r->c, K_route_balance, a, r->rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct room room = {.at = c->work};
    struct experts_run r = run_of(c, NULL);
    struct back b = back_at(&room, r.a, c->cap[r.rows], c->cap[DIM_GROUP]);
    back_down(&r, &b, &g->dout[0]);
    experts_gate_bwd(&r, b.dh, b.h);
    back_product(&r, &b, r.a->gate, r.a->gate_bias, b.h, false);
    back_product(&r, &b, r.a->up, r.a->up_bias, b.h + r.a->gate->n, true);
    back_gate_up_adapters(&r, &b);
    struct k_experts_sum sum = {.x = b.dx,
                                .place = r.k.map.place,
                                .y = g->din[0].p,
                                .ld_x = r.a->gate->k,
                                .ld_y = g->din[0].ld,
                                .m = r.m,
                                .top = r.a->top,
                                .d = r.a->gate->k,
                                .add = g->din_add[0]};
    if (g->din[0].p)
        OP_LAUNCH_M(c, K_experts_sum, sum, r.rows);
    struct k_route_bwd route = {.fwd = route_of(&r),
                                .dweight = b.dweight,
                                .dx = g->din[1].p,
                                .ld_dx = g->din[1].ld,
                                .m = r.m,
                                .add = g->din_add[1]};
    if (g->din[1].p)
        OP_LAUNCH_M(c, K_route_bwd, route, r.rows);
    each_grads(&r, &b);
    back_balance(&r, &g->din[1]);
}

static const struct param *param(const struct op_node *n, int i)
{
    const struct op_experts_attr *a = attr_of(n);
    const struct param *of[] = {a->gate, a->up, a->down, a->gate_bias, a->up_bias, a->down_bias};
    const struct param *last[] = {a->choice_bias, a->each};
    int n_all = (a->gate_bias ? 6 : 3) * a->n_expert, k = i - n_all + !a->choice_bias;
    return i < n_all ? &of[i / a->n_expert][i % a->n_expert] : k < 2 ? last[k] : NULL;
}

/* Parts stand as the whole do: by index. */
static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_experts_attr a = *attr_of(n);
    a.gate = op_part(l, a.gate);
    a.up = op_part(l, a.up);
    a.down = op_part(l, a.down);
    a.gate_bias = op_part(l, a.gate_bias);
    a.up_bias = op_part(l, a.up_bias);
    a.down_bias = op_part(l, a.down_bias);
    a.choice_bias = op_part(l, a.choice_bias);
    a.each = op_part(l, a.each);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.out = SPLIT_END}};

const struct op_def op_experts_def = {.shape = shape,
                                      .work = work,
                                      .save = save,
                                      .work_back = work_back,
                                      .forward = forward,
                                      .backward = backward,
                                      .param = param,
                                      .trains = true,
                                      .need_in = 3,
                                      .localise = localise,
                                      .shard = shard};
