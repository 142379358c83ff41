/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of passes and what they are written with.
 */
#include "engine/graph/passes.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static const struct {
    const char *name, *text;
    graph_pass_fn *fn;
} passes[PASS_COUNT] = {
#define PASS(name, text) {#name, text, graph_pass_##name},
#include "engine/graph/passes.def"
#undef PASS
};

const char *pass_name(enum pass_id id)
{
    return passes[id].name;
}

const char *pass_about(enum pass_id id)
{
    return passes[id].text;
}

int pass_find(const char *name)
{
    for (int i = 0; i < PASS_COUNT; i++)
        if (strcmp(passes[i].name, name) == 0)
            return i;
    return -1;
}

unsigned passes_of_device(unsigned mask, const struct device *d)
{
    bool gates = device_reads_host(d) && device_kernels(d)->gates;
    return gates ? mask : mask & ~(1u << PASS_gate);
}

static bool verifies_each(void)
{
#if defined(NDEBUG) && !defined(TANDEM_PARANOID)
    return false;
#else
    return true;
#endif
}

int passes_run(struct graph *g, unsigned mask, enum pass_id last, struct err *e)
{
    if (verifies_each() && graph_verify(g, e))
        return err_wrap(e, "as recorded");
    for (int i = 0; i <= (int)last && i < PASS_COUNT; i++) {
        struct graph out;
        if (!(mask & (1u << i)))
            continue;
        graph_init(&out);
        out.ranks = g->ranks;
        if (passes[i].fn(g, &out, e) || (verifies_each() && graph_verify(&out, e))) {
            graph_release(&out);
            return err_wrap(e, "pass %s", passes[i].name);
        }
        graph_release(g);
        *g = out;
    }
    return graph_verify(g, e);
}

void rewrite_init(struct rewrite *r, const struct graph *in, struct graph *out, enum pass_id pass)
{
    *r = (struct rewrite){.in = in, .out = out, .pass = passes[pass].name};
    r->map = xcalloc(in->value.n + 1, sizeof *r->map);
    r->n_use = xcalloc(in->value.n + 1, sizeof *r->n_use);
    for (size_t v = 0; v < in->value.n; v++)
        r->map[v] = -1;
    for (size_t i = 0; i < in->node.n; i++)
        for (int j = 0; j < in->node.at[i].op.n_in; j++)
            r->n_use[in->node.at[i].op.in[j]]++;
    for (size_t i = 0; i < in->output.n; i++)
        r->n_use[in->output.at[i]]++;
}

int rewrite_copy(struct rewrite *r, size_t node, struct err *e)
{
    const struct graph_node *old = &r->in->node.at[node];
    struct graph_node n = *old;
    for (int j = 0; j < n.op.n_in; j++)
        n.op.in[j] = r->map[n.op.in[j]];
    if (graph_emit(r->out, &n, e))
        return -1;
    for (int o = 0; o < n.op.n_out; o++)
        r->map[old->op.out[o]] = n.op.out[o];
    return 0;
}

int rewrite_emit(struct rewrite *r, size_t node, struct graph_node *n, struct err *e)
{
    const struct graph_node *old = &r->in->node.at[node];
    n->pass = r->pass;
    if (graph_emit(r->out, n, e))
        return -1;
    for (int o = 0; o < old->op.n_out && o < n->op.n_out; o++)
        r->map[old->op.out[o]] = n->op.out[o];
    return 0;
}

void rewrite_finish(struct rewrite *r)
{
    for (size_t i = 0; i < r->in->output.n; i++)
        vec_push(&r->out->output, r->map[r->in->output.at[i]]);
    free(r->map);
    free(r->n_use);
}

int rewrite_each(const struct graph *in, struct graph *out, enum pass_id pass, rewrite_fn *fn,
                 struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, pass);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        struct graph_node n = in->node.at[i];
        if (!fn(&r, &in->node.at[i].op, &n.op)) {
            rc = rewrite_copy(&r, i, e);
            continue;
        }
        for (int j = 0; j < n.op.n_in; j++)
            n.op.in[j] = r.map[n.op.in[j]];
        rc = rewrite_emit(&r, i, &n, e);
    }
    rewrite_finish(&r);
    return rc;
}
