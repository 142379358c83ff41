/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice is made on the graph with the ops that apply adapters: what suits these suits a graph
 * without them, and a graph that is trained.
 */
#include "engine/run/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/shard.h"
#include "engine/op/ops.h"

/* Keys and values are kept for as many heads as the layer's attention has here. */
static void kv_heads(struct model_share *out, const struct shard *s, const struct graph *g)
{
    const struct op_ranks *at = &out->at;
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        struct op_attn_attr a;
        if (n->op != OP_attn || s->rule[i]->out != SPLIT_COLS)
            continue;
        int64_t pieces = s->pieces[n->in[1]];
        memcpy(&a, n->attr, sizeof a);
        out->n_kv_head[a.layer] =
            (int32_t)(param_bound(a.n_kv_head, pieces, at->rank + 1, at->size) -
                      param_bound(a.n_kv_head, pieces, at->rank, at->size));
    }
}

/* Rows of convolutions are kept for as many columns as the widest has here: layers of other formats
 * may be split otherwise. */
static int64_t conv_cols(const struct shard *s, const struct graph *g, const struct op_ranks *at,
                         int64_t all)
{
    int64_t most = 0, here;
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        if (n->op != OP_conv)
            continue;
        int64_t pieces = s->pieces[n->in[0]];
        here = s->rule[i]->out == SPLIT_COLS ? param_bound(all, pieces, at->rank + 1, at->size) -
                                                   param_bound(all, pieces, at->rank, at->size)
                                             : all;
        most = here > most ? here : most;
    }
    return most ? most : all;
}

static int choose(struct model_share *out, const struct model *m, enum model_output output,
                  struct err *e)
{
    struct graph g;
    struct graph_recorder rec;
    struct shard s = {0};
    int rc = -1;
    graph_init(&g);
    graph_recorder_init(&rec, &g);
    rec.b.has_lora = true;
    rec.b.lora_rank_max = 1;
    graph_mark_output(&g, model_build(m, &rec.b, output));
    if (rec.b.failed)
        err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    else
        rc = shard_init(&s, &g, out->at.size, NULL, e);
    for (int32_t i = 0; i < s.n_param && !rc; i++)
        out->param[i] = s.share[i];
    if (!rc) {
        kv_heads(out, &s, &g);
        out->d_conv = conv_cols(&s, &g, &out->at, config_conv_width(&m->cfg));
    }
    shard_release(&s);
    graph_release(&g);
    return rc;
}

int ranks_share(struct model_share *s, const struct config *c, const struct model_options *o,
                const struct op_ranks *at, struct err *e)
{
    return ranks_share_for(s, c, o, at, c->is_encoder ? MODEL_EMBED : MODEL_LOGITS, e);
}

int ranks_share_for(struct model_share *s, const struct config *c, const struct model_options *o,
                    const struct op_ranks *at, enum model_output output, struct err *e)
{
    struct model_options mo = *o;
    mo.share = NULL;
    *s = (struct model_share){.at = *at, .d_conv = config_conv_width(c)};
    struct model *m = model_new(c, &mo, NULL, e);
    if (!m)
        return -1;
    s->param = xcalloc((size_t)m->n_param + 1, sizeof *s->param);
    s->n_kv_head = xcalloc((size_t)c->n_layer + 1, sizeof *s->n_kv_head);
    for (int64_t l = 0; l < c->n_layer; l++)
        s->n_kv_head[l] = m->layer[l].n_kv_head;
    int rc = at->size > 1 ? choose(s, m, output, e) : 0;
    model_free(m);
    return rc;
}

void ranks_share_release(struct model_share *s)
{
    free(s->param);
    free(s->n_kv_head);
    *s = (struct model_share){0};
}

bool ranks_of_model(const struct model *m, struct graph_ranks *out)
{
    *out = (struct graph_ranks){.at = m->ranks, .part = m->part, .share = m->share};
    return m->part != NULL;
}
