/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording with what the executor's builder will say, and replaying into it.
 */
#include "engine/train/function.h"

#include "engine/graph/passes.h"
#include "engine/run/ranks.h"

static int record(struct train_function *f, enum train_run run, const struct train_options *o,
                  struct err *e)
{
    bool trains = run == RUN_TRAINED;
    struct graph *g = &f->run[run];
    struct graph_recorder rec;
    graph_recorder_init(&rec, g);
    rec.b.wants_grad = trains;
    rec.b.has_lora = o->lora.rank > 0 && (run != RUN_REFERENCE || o->has_ancestor);
    rec.b.lora_rank_max = (int32_t)o->lora.rank;
    rec.b.dropout = trains ? (float)o->lora.dropout : 0;
    rec.b.noise = trains ? (float)o->noise : 0;
    graph_mark_output(g, model_build(f->model, &rec.b, f->output));
    if (rec.b.failed)
        return err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    f->ranks.trains = trains;
    g->ranks = &f->ranks;
    return passes_run(g, 1u << PASS_shard, PASS_COUNT - 1, e);
}

int train_function_init(struct train_function *f, const struct model *m,
                        const struct train_options *o, struct err *e)
{
    *f = (struct train_function){
        .model = m, .output = train_has_vectors(&o->vectors) ? MODEL_EMBED : MODEL_LOSS};
    for (enum train_run i = RUN_TRAINED; i <= RUN_REFERENCE; i++)
        graph_init(&f->run[i]);
    if (!ranks_of_model(m, &f->ranks))
        return 0;
    if (o->ranks.model)
        f->ranks.at.comm = o->ranks.model;
    if (record(f, RUN_TRAINED, o, e) || record(f, RUN_JUDGED, o, e))
        return -1;
    return train_has_reference(o) ? record(f, RUN_REFERENCE, o, e) : 0;
}

void train_function_release(struct train_function *f)
{
    for (enum train_run i = RUN_TRAINED; i <= RUN_REFERENCE; i++)
        graph_release(&f->run[i]);
}

struct val train_function_build(const struct train_function *f, struct builder *b,
                                enum train_run run)
{
    struct val out = {.id = -1};
    if (!f->model->part)
        return model_build(f->model, b, f->output);
    struct err unused = ERR_INIT; /* b has it */
    graph_replay(&f->run[run], b, &out, &unused);
    return out;
}
