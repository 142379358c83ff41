/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of one rank without memory, and its graph, as it is where products have no gates in
 * them: there its values are the largest.
 */
#include "clients/local/plan_size.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "engine/graph/cost.h"
#include "engine/graph/memory.h"
#include "engine/graph/passes.h"
#include "engine/run/ranks.h"
#include "engine/sched/sched.h"

/* What a server of a tiny model came to: 19.7 MB with 300 tokens, 27.6 with 32,000 of bytes in a
 * tokenizer.json of 0.6 MB, 109 with Llama 3's 128,256 in one of 12.9 MB. */
enum { PROGRAM_BYTES = 20000000, PROGRAM_TOKEN_BYTES = 120, PROGRAM_TOKENIZER_TIMES = 6 };

static size_t program_bytes(const struct model_dir *dir)
{
    struct stat st;
    size_t tokenizer = 0;
    if (dir->tokenizer_path && !stat(dir->tokenizer_path, &st))
        tokenizer = (size_t)st.st_size;
    return PROGRAM_BYTES + PROGRAM_TOKEN_BYTES * (size_t)dir->config.n_vocab +
           PROGRAM_TOKENIZER_TIMES * tokenizer;
}

static void count_sent(struct plan_size *s, const struct graph *g)
{
    struct graph_cost *cost = graph_costs(g, 1, 1);
    for (size_t i = 0; i < g->node.n; i++) {
        s->sent += cost[i].moved;
        s->n_collective += cost[i].moved > 0;
    }
    free(cost);
}

static int measure_graph(struct plan_size *s, const struct model *m, int64_t n_tok, struct err *e)
{
    int64_t cap[DIM_COUNT] = {[DIM_TOK] = n_tok, [DIM_OUT] = 1, [DIM_SEQ] = 1, [DIM_GROUP] = 1};
    unsigned passes = PASS_ALL & ~(1u << PASS_gate);
    struct graph_ranks ranks;
    struct graph g;
    struct graph_recorder rec;
    struct graph_memory mem;
    int rc = -1;
    graph_init(&g);
    graph_recorder_init(&rec, &g);
    graph_mark_output(&g, model_build(m, &rec.b, m->cfg.is_encoder ? MODEL_EMBED : MODEL_LOGITS));
    if (ranks_of_model(m, &ranks))
        g.ranks = &ranks;
    if (rec.b.failed) {
        err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    } else if (!passes_run(&g, passes, PASS_COUNT - 1, e) && !graph_memory_init(&mem, &g, cap, e)) {
        s->activations = mem.bytes;
        s->lower_bound = mem.lower_bytes;
        graph_memory_release(&mem);
        count_sent(s, &g);
        rc = 0;
    }
    g.ranks = NULL;
    graph_release(&g);
    return rc;
}

static int measure(struct plan_size *s, const struct model *m, int64_t n_tok, struct err *e)
{
    s->type = model_main_type(m);
    s->kv_type = m->kv_type;
    s->ctx = m->ctx;
    s->weights = m->block_bytes;
    s->table = model_rope_bytes(m);
    s->kv_token = model_kv_token_bytes(m);
    s->state = model_state_bytes(m);
    s->snapshots = s->state * (size_t)sched_snapshots_of(m->ctx);
    s->has_all_kv = s->tp > 1 && m->layer[0].n_kv_here == m->layer[0].n_kv_head;
    return measure_graph(s, m, n_tok, e);
}

int plan_size_init(struct plan_size *s, const struct model_dir *dir, const struct model_options *mo,
                   int tp, int64_t n_tok, struct err *e)
{
    struct op_ranks last = {.rank = tp - 1, .size = tp};
    struct model_options o = *mo;
    struct model_share share = {0};
    struct model *m = NULL;
    *s = (struct plan_size){.tp = tp};
    int rc = tp > 1 ? ranks_share(&share, &dir->config, mo, &last, e) : 0;
    if (tp > 1)
        o.share = &share;
    if (!rc) {
        m = model_new(&dir->config, &o, NULL, e);
        rc = m ? measure(s, m, n_tok, e) : -1;
        s->program = program_bytes(dir);
    }
    model_free(m);
    ranks_share_release(&share);
    return rc;
}

size_t plan_size_fixed(const struct plan_size *s)
{
    return s->weights + s->table + s->activations + s->state;
}

size_t plan_size_process(const struct plan_size *s)
{
    return s->program + plan_size_fixed(s) + s->snapshots + (size_t)s->ctx * s->kv_token;
}

int64_t plan_size_tokens(const struct plan_size *s, size_t memory)
{
    size_t fixed = plan_size_fixed(s);
    return fixed < memory ? (int64_t)((memory - fixed) / s->kv_token) / K_CELL * K_CELL : 0;
}

bool plan_size_fits(const struct plan_size *s, const struct model_dir *dir, size_t memory)
{
    if (dir->config.is_encoder)
        return plan_size_fixed(s) <= memory;
    return plan_size_tokens(s, memory) >= s->ctx;
}

void plan_sizes_init(struct plan_sizes *s, const struct model_dir *dir,
                     const struct model_options *mo, int n_device, size_t memory, int64_t n_tok)
{
    s->n = 0;
    s->taken = -1;
    for (int tp = 1; tp <= n_device; tp++) {
        struct err why = ERR_INIT;
        int i = s->n;
        if (n_device % tp)
            continue;
        s->is_legal[i] = !plan_size_init(&s->at[i], dir, mo, tp, n_tok, &why);
        s->fits[i] = s->is_legal[i] && plan_size_fits(&s->at[i], dir, memory);
        if (s->fits[i] && s->taken < 0)
            s->taken = i;
        s->n++;
    }
}
