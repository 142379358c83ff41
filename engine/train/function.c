/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording with what the executor's builder will say, and replaying into it.
 */
#include "engine/train/function.h"

#include "engine/graph/passes.h"
#include "engine/run/ranks.h"

static int record(struct train_function *f, struct graph *g, const struct train_options *o,
                  bool trains, struct err *e)
{
    struct graph_recorder rec;
    graph_recorder_init(&rec, g);
    rec.b.wants_grad = trains;
    rec.b.has_lora = o->lora.rank > 0;
    rec.b.lora_rank_max = (int32_t)o->lora.rank;
    rec.b.dropout = trains ? (float)o->lora.dropout : 0;
    graph_mark_output(g, model_build(f->model, &rec.b, MODEL_LOSS));
    if (rec.b.failed)
        return err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    f->ranks.trains = trains;
    g->ranks = &f->ranks;
    return passes_run(g, 1u << PASS_shard, PASS_COUNT - 1, e);
}

int train_function_init(struct train_function *f, const struct model *m,
                        const struct train_options *o, struct err *e)
{
    *f = (struct train_function){.model = m};
    graph_init(&f->trained);
    graph_init(&f->judged);
    if (!ranks_of_model(m, &f->ranks))
        return 0;
    if (o->ranks.model)
        f->ranks.at.comm = o->ranks.model;
    return record(f, &f->trained, o, true, e) || record(f, &f->judged, o, false, e) ? -1 : 0;
}

void train_function_release(struct train_function *f)
{
    graph_release(&f->trained);
    graph_release(&f->judged);
}

struct val train_function_build(const struct train_function *f, struct builder *b, bool trains)
{
    struct val out = {.id = -1};
    if (!f->model->part)
        return model_build(f->model, b, MODEL_LOSS);
    struct err unused = ERR_INIT; /* b has it */
    graph_replay(trains ? &f->trained : &f->judged, b, &out, &unused);
    return out;
}
