/* SPDX-License-Identifier: Apache-2.0
 *
 * The search.
 *
 * Costs are bytes: what a rank reads of its matrices and keys in a step of one token, and what it
 * sends, each byte of which costs LINK_PRICE of the others, and each collective CALL_PRICE more.
 * All of a matrix counts as read, since it must at least be held. Vectors are nothing beside it.
 * The price of a call decides between ways that move as much; it is far below what one costs, since
 * ranks are for models that one of them cannot hold.
 */
#include "engine/graph/shard.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/comm/comm.h"
#include "engine/graph/shard_pieces.h"
#include "engine/op/ops.h"
#include "engine/op/slice.h"

enum { ALIVE_MAX = 24, TWICE_MAX = 16, STATE_MAX = 1024, KEYS = 1024, NONE = -1 };
enum { LINK_PRICE = 8, CALL_PRICE = 256 };

/* A way to have come behind a node: layouts of what is alive, and how parameters that come again
 * are shared. */
struct state {
    uint8_t have[ALIVE_MAX], cut[TWICE_MAX]; /* bits of 1 << enum op_split; enum param_cut + 1 */
    double cost;
    int32_t before; /* among the states before the node */
    int32_t rule;
};

struct front {
    VEC(struct state) at;
};

/* What the search knows of the graph beforehand. */
struct search {
    const struct graph *g;
    struct shard *s;
    const struct param_share *fixed;
    int32_t *last;       /* owned: [n_value] */
    int8_t *slot;        /* owned: [n_value] in state.have */
    int8_t *twice;       /* owned: [n_param] in state.cut; NONE: read once */
    int32_t *first_use;  /* owned: [n_param] */
    int32_t *last_use;   /* owned: [n_param] */
    struct front *front; /* owned: [n_node + 1] */
};

static unsigned bit(enum op_split l)
{
    return 1u << l;
}

static enum param_cut cut_of(const struct op_node *n, const struct op_shard *r)
{
    if (r->weight == SPLIT_COLS)
        return PARAM_OUTPUTS;
    if (r->weight == SPLIT_PARTIAL)
        return n->op == OP_bias ? PARAM_FIRST : PARAM_INPUTS;
    return PARAM_WHOLE;
}

/* ---- what is alive ----------------------------------------------------------------------------
 */

static int place_values(struct search *x, struct err *e)
{
    int32_t taken[ALIVE_MAX]; /* node until which a slot is taken */
    for (int k = 0; k < ALIVE_MAX; k++)
        taken[k] = NONE;
    for (size_t v = 0; v < x->g->value.n; v++) {
        int k = 0;
        while (k < ALIVE_MAX && taken[k] >= x->g->value.at[v].def)
            k++;
        if (k == ALIVE_MAX)
            return err_set(e, ERR_UNSUPPORTED, "more than %d values are alive at once", ALIVE_MAX);
        taken[k] = x->last[v] > x->g->value.at[v].def ? x->last[v] : x->g->value.at[v].def;
        x->slot[v] = (int8_t)k;
    }
    return 0;
}

static const struct param *param_at(const struct op_node *n, int i)
{
    return op_get(n->op)->param ? op_get(n->op)->param(n, i) : NULL;
}

static int place_params(struct search *x, struct err *e)
{
    int32_t taken[TWICE_MAX];
    const struct param *p;
    for (int32_t i = 0; i < x->s->n_param; i++)
        x->first_use[i] = x->last_use[i] = x->twice[i] = NONE;
    for (int k = 0; k < TWICE_MAX; k++)
        taken[k] = NONE;
    for (size_t i = 0; i < x->g->node.n; i++)
        for (int k = 0; (p = param_at(&x->g->node.at[i].op, k)); k++) {
            if (x->first_use[p->index] < 0)
                x->first_use[p->index] = (int32_t)i;
            x->last_use[p->index] = (int32_t)i;
        }
    for (int32_t i = 0; i < x->s->n_param; i++) {
        int k = 0;
        if (x->first_use[i] == x->last_use[i])
            continue;
        while (k < TWICE_MAX && taken[k] >= x->first_use[i])
            k++;
        if (k == TWICE_MAX)
            return err_set(e, ERR_UNSUPPORTED, "more than %d weights are read twice", TWICE_MAX);
        taken[k] = x->last_use[i];
        x->twice[i] = (int8_t)k;
    }
    return 0;
}

/* ---- what a row needs and costs ---------------------------------------------------------------
 */

static bool param_fits(const struct search *x, const struct param *p, enum param_cut cut)
{
    if (x->fixed && x->fixed[p->index].cut != cut)
        return false;
    for (int k = 0; k < 3 && cut == PARAM_OUTPUTS && p->section[k]; k++)
        if (p->section[k] < x->s->size)
            return false;
    return cut == PARAM_OUTPUTS  ? p->n >= x->s->size
           : cut == PARAM_INPUTS ? p->k >= x->s->size
                                 : true;
}

/* Sections that are split one by one can be taken apart, or added to, and nothing else. */
static bool reads_sections(const struct op_node *n, int j)
{
    return n->op == OP_slice || n->op == OP_bias || (n->op == OP_lora && j == 0);
}

static bool is_legal(const struct search *x, const struct op_node *n, const struct op_shard *r)
{
    const struct op_def *def = op_get(n->op);
    struct op_shape in[OP_IN_MAX];
    const struct param *p;
    bool has_cols = r->out == SPLIT_COLS;
    for (int j = 0; j < n->n_in; j++) {
        in[j] = x->g->value.at[n->in[j]].shape;
        if (r->in[j] != SPLIT_COLS)
            continue;
        has_cols = true;
        if (in[j].cols < x->s->size || (x->s->sectioned[n->in[j]] && !reads_sections(n, j)))
            return false;
    }
    if (has_cols && def->pieces && def->pieces(n, in) < x->s->size)
        return false;
    if (n->op == OP_slice && r->in[0] == SPLIT_COLS && shard_section(x->s, x->g, n) < 0)
        return false;
    for (int i = 0; (p = param_at(n, i)); i++)
        if (!param_fits(x, p, cut_of(n, r)))
            return false;
    return true;
}

static double param_bytes(const struct param *p)
{
    return p->is_vector
               ? 0
               : (double)p->n / K_NR * (double)k_weight_stream_bytes(p->w.type, 0, K_NR, p->k);
}

static double rule_cost(const struct search *x, size_t i, const struct op_shard *r)
{
    const struct op_node *n = &x->g->node.at[i].op;
    enum param_cut cut = cut_of(n, r);
    double cost = 0, share = cut == PARAM_OUTPUTS || cut == PARAM_INPUTS ? x->s->size : 1;
    const struct param *p;
    for (int k = 0; (p = param_at(n, k)); k++)
        if (x->first_use[p->index] == (int32_t)i)
            cost += param_bytes(p) / share;
    if (n->op == OP_attn) /* the keys and values of so many tokens */
        cost += 2.0 * KEYS * 2 * (double)x->g->value.at[n->in[1]].shape.cols /
                (r->out == SPLIT_COLS ? x->s->size : 1);
    return cost;
}

enum op_split shard_source(const struct shard *s, const struct graph *g, int32_t v, unsigned have,
                           enum op_split want)
{
    bool is_fixed = g->value.at[v].shape.blocked || s->sectioned[v];
    if (have & bit(want))
        return want;
    if (want == SPLIT_PARTIAL || (is_fixed && !(have & bit(SPLIT_PARTIAL))))
        return SPLIT_END;
    if (want == SPLIT_COLS)
        return is_fixed ? SPLIT_END : have & bit(SPLIT_WHOLE) ? SPLIT_WHOLE : SPLIT_PARTIAL;
    return have & bit(SPLIT_COLS) && !is_fixed ? SPLIT_COLS : SPLIT_PARTIAL;
}

/* Adds what must be moved for a reader that wants `want` to *cost, and what is there then to *have;
 * false: it can't be had. */
static bool come_by(const struct search *x, int32_t v, enum op_split want, uint8_t *have,
                    double *cost)
{
    enum op_split from = shard_source(x->s, x->g, v, *have, want);
    double cols = (double)x->g->value.at[v].shape.cols * sizeof(float);
    double once = LINK_PRICE * cols * (x->s->size - 1) / x->s->size;
    if (from == SPLIT_END)
        return false;
    if (from == SPLIT_PARTIAL && want != SPLIT_PARTIAL) {
        *cost += 2 * once + CALL_PRICE;
        *have |= (uint8_t)bit(SPLIT_WHOLE);
    }
    if (from == SPLIT_COLS && want == SPLIT_WHOLE)
        *cost += once + CALL_PRICE;
    *have |= (uint8_t)bit(want);
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------------
 */

static void keep(struct front *f, const struct state *s)
{
    size_t worst = 0;
    for (size_t i = 0; i < f->at.n; i++) {
        struct state *t = &f->at.at[i];
        if (!memcmp(t->have, s->have, sizeof t->have) && !memcmp(t->cut, s->cut, sizeof t->cut)) {
            if (s->cost < t->cost)
                *t = *s;
            return;
        }
        if (t->cost > f->at.at[worst].cost)
            worst = i;
    }
    if (f->at.n < STATE_MAX)
        vec_push(&f->at, *s);
    else if (s->cost < f->at.at[worst].cost)
        f->at.at[worst] = *s;
}

/* The parameters' side of a row: false where one that came before is shared otherwise. */
static bool take_params(const struct search *x, size_t i, const struct op_shard *r, struct state *s)
{
    const struct op_node *n = &x->g->node.at[i].op;
    uint8_t cut = (uint8_t)(cut_of(n, r) + 1);
    const struct param *p;
    for (int k = 0; (p = param_at(n, k)); k++) {
        int at = x->twice[p->index];
        if (at < 0)
            continue;
        if (s->cut[at] && s->cut[at] != cut)
            return false;
        s->cut[at] = x->last_use[p->index] == (int32_t)i ? 0 : cut;
    }
    return true;
}

static void take_rule(struct search *x, size_t i, int32_t rule, size_t before)
{
    const struct op_node *n = &x->g->node.at[i].op;
    const struct op_shard *r = &op_get(n->op)->shard[rule];
    struct state s = x->front[i].at.at[before];
    s.before = (int32_t)before;
    s.rule = rule;
    for (int j = 0; j < n->n_in; j++)
        if (!come_by(x, n->in[j], r->in[j], &s.have[x->slot[n->in[j]]], &s.cost))
            return;
    if (!take_params(x, i, r, &s))
        return;
    s.cost += rule_cost(x, i, r);
    for (int j = 0; j < n->n_in; j++)
        if (x->last[n->in[j]] <= (int32_t)i)
            s.have[x->slot[n->in[j]]] = 0;
    for (int o = 0; o < n->n_out; o++)
        s.have[x->slot[n->out[o]]] = x->last[n->out[o]] > (int32_t)i ? (uint8_t)bit(r->out) : 0;
    keep(&x->front[i + 1], &s);
}

static int walk(struct search *x, struct err *e)
{
    vec_push(&x->front[0].at, (struct state){0});
    for (size_t i = 0; i < x->g->node.n; i++) {
        const struct op_node *n = &x->g->node.at[i].op;
        const struct op_shard *r = op_get(n->op)->shard;
        for (int32_t k = 0; r[k].out != SPLIT_END; k++)
            if (is_legal(x, n, &r[k]))
                for (size_t b = 0; b < x->front[i].at.n; b++)
                    take_rule(x, i, k, b);
        if (!x->front[i + 1].at.n)
            return err_set(e, ERR_UNSUPPORTED, "node %zu (%s): %d ranks cannot share it", i,
                           op_name(n->op), x->s->size);
    }
    return 0;
}

/* The cheapest end that has all outputs whole, and the way there. */
static int choose(struct search *x, struct err *e)
{
    size_t n = x->g->node.n, best = SIZE_MAX;
    double least = 0;
    for (size_t i = 0; i < x->front[n].at.n; i++) {
        struct state s = x->front[n].at.at[i];
        bool fits = true;
        for (size_t o = 0; o < x->g->output.n; o++) {
            int32_t v = x->g->output.at[o];
            fits = fits && come_by(x, v, SPLIT_WHOLE, &s.have[x->slot[v]], &s.cost);
        }
        if (fits && (best == SIZE_MAX || s.cost < least)) {
            best = i;
            least = s.cost;
        }
    }
    if (best == SIZE_MAX)
        return err_set(e, ERR_UNSUPPORTED, "%d ranks cannot share this graph", x->s->size);
    for (size_t i = n; i-- > 0;) {
        const struct state *s = &x->front[i + 1].at.at[best];
        x->s->rule[i] = &op_get(x->g->node.at[i].op.op)->shard[s->rule];
        best = (size_t)s->before;
    }
    return 0;
}

static void search_init(struct search *x, const struct graph *g, struct shard *s,
                        const struct param_share *fixed)
{
    size_t n = (size_t)s->n_param + 1;
    *x = (struct search){.g = g, .s = s, .fixed = fixed, .last = graph_last_uses(g)};
    x->slot = xcalloc(g->value.n + 1, sizeof *x->slot);
    x->twice = xcalloc(n, sizeof *x->twice);
    x->first_use = xcalloc(n, sizeof *x->first_use);
    x->last_use = xcalloc(n, sizeof *x->last_use);
    x->front = xcalloc(g->node.n + 1, sizeof *x->front);
}

static void search_release(struct search *x)
{
    for (size_t i = 0; i <= x->g->node.n; i++)
        vec_release(&x->front[i].at);
    free(x->last);
    free(x->slot);
    free(x->twice);
    free(x->first_use);
    free(x->last_use);
    free(x->front);
}

/* ---- the result -------------------------------------------------------------------------------
 */

int shard_section(const struct shard *s, const struct graph *g, const struct op_node *slice)
{
    const struct param *p = s->sectioned[slice->in[0]];
    int64_t lo = 0, n = g->value.at[slice->out[0]].shape.cols;
    for (int k = 0; p && k < 3; lo += p->section[k++])
        if (op_slice_lo(slice) == lo && n == p->section[k])
            return k;
    return -1;
}

int shard_runs(const struct shard *s, const struct graph *g, int32_t v, int rank,
               struct shard_run run[3])
{
    const struct param *p = s->sectioned[v];
    int64_t at = 0, cols = g->value.at[v].shape.cols;
    int n = 0;
    for (; n < 3 && at < cols; n++) {
        int64_t width = p ? p->section[n] : cols;
        run[n].lo = at + param_bound(width, s->pieces[v], rank, s->size);
        run[n].n = at + param_bound(width, s->pieces[v], rank + 1, s->size) - run[n].lo;
        at += width;
    }
    return n;
}

static void find_sections(struct shard *s, const struct graph *g)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        const struct param *p = n->op == OP_linear ? param_at(n, 0) : NULL;
        if (p && p->section[0])
            s->sectioned[n->out[0]] = p;
        else if (n->op == OP_bias || n->op == OP_lora)
            s->sectioned[n->out[0]] = s->sectioned[n->in[0]];
    }
}

static void share_param(struct param_share *p, const struct op_node *n, const struct op_shard *r)
{
    p->cut = cut_of(n, r);
    p->pieces = 1;
    p->sums_grad = r->weight == SPLIT_WHOLE && r->out == SPLIT_COLS;
}

static void share_params(struct shard *s, const struct graph *g)
{
    const struct param *p;
    for (size_t i = 0; i < g->node.n; i++)
        for (int k = 0; (p = param_at(&g->node.at[i].op, k)); k++)
            share_param(&s->share[p->index], &g->node.at[i].op, s->rule[i]);
}

int shard_init(struct shard *s, const struct graph *g, int size, const struct param_share *fixed,
               struct err *e)
{
    const struct param *p;
    struct search x;
    *s = (struct shard){.size = size};
    for (size_t i = 0; i < g->node.n; i++)
        for (int k = 0; (p = param_at(&g->node.at[i].op, k)); k++)
            s->n_param = p->index >= s->n_param ? p->index + 1 : s->n_param;
    s->rule = xcalloc(g->node.n + 1, sizeof *s->rule);
    s->pieces = xcalloc(g->value.n + 1, sizeof *s->pieces);
    s->share = xcalloc((size_t)s->n_param + 1, sizeof *s->share);
    s->sectioned = xcalloc(g->value.n + 1, sizeof *s->sectioned);
    find_sections(s, g);
    search_init(&x, g, s, fixed);
    int rc = place_values(&x, e) || place_params(&x, e) || walk(&x, e) || choose(&x, e) ? -1 : 0;
    search_release(&x);
    if (!rc) {
        share_params(s, g);
        rc = shard_find_pieces(s, g, e);
    }
    return rc ? err_wrap(e, "%d ranks", size) : 0;
}

void shard_release(struct shard *s)
{
    free(s->rule);
    free(s->pieces);
    free(s->share);
    free(s->sectioned);
    *s = (struct shard){0};
}
