/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem graph`: a model's graph as it is recorded, after any of the passes, or as it runs on the
 * device. Reads headers only.
 */
#include <stdio.h>
#include <string.h>

#include "clients/local/load.h"
#include "engine/base/buf.h"
#include "engine/device/open.h"
#include "engine/graph/passes.h"
#include "engine/graph/print.h"
#include "engine/run/ranks.h"

enum { OUTPUT_BYTES_MAX = 256 << 20 };

struct graph_values {
    struct local_options model;
    const char *after, *format, *head;
    int64_t tokens, rows, tp;
    bool lora;
};

#define AT(field) offsetof(struct graph_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    {.section = "Graph",
     .name = "after",
     .type = OPT_TEXT,
     .hint = "PASS",
     .help = "stop behind this pass; `record`: before the first",
     .offset = AT(after)},
    {.name = "format",
     .type = OPT_CHOICE,
     .fallback = "text",
     .hint = "text|json|dot|svg",
     .help = "how to show it",
     .offset = AT(format)},
    {.name = "head",
     .type = OPT_CHOICE,
     .fallback = "logits",
     .hint = "logits|loss|hidden|embed",
     .help = "what the model's function ends in",
     .offset = AT(head)},
    {.name = "tokens",
     .type = OPT_INT,
     .fallback = "1",
     .min = 1,
     .max = 1 << 24,
     .hint = "N",
     .help = "tokens of the step that costs are shown for",
     .offset = AT(tokens)},
    {.name = "rows",
     .type = OPT_INT,
     .fallback = "1",
     .min = 0,
     .max = 1 << 24,
     .hint = "N",
     .help = "rows of that step whose answer is wanted",
     .offset = AT(rows)},
    {.name = "tp",
     .type = OPT_INT,
     .fallback = "1",
     .min = 1,
     .max = COMM_RANK_MAX,
     .hint = "N",
     .help = "of the first of N ranks that share the model",
     .offset = AT(tp)},
    {.name = "lora",
     .type = OPT_BOOL,
     .help = "with the ops that apply adapters",
     .offset = AT(lora)},
};

const struct cmd_opt cmd_opt_graph = {rows, sizeof rows / sizeof *rows,
                                      sizeof(struct graph_values)};

static enum model_output output_of(const char *name)
{
    static const char *const names[] = {"logits", "loss", "hidden", "embed"};
    int i = 0;
    while (i < 3 && strcmp(names[i], name) != 0)
        i++;
    return (enum model_output)i;
}

static int no_such_pass(const char *name, struct err *e)
{
    struct buf names;
    buf_init(&names, sizeof e->msg);
    for (int i = 0; i < PASS_COUNT; i++)
        buf_printf(&names, ", %s", pass_name((enum pass_id)i));
    err_set(e, ERR_BAD_INPUT, "--after %s: no such pass; record%s are", name, names.data);
    buf_release(&names);
    return -1;
}

/* The passes that run on the device that the options name. */
static int passes_here(const struct local_options *o, unsigned *mask, struct err *e)
{
    bool is_auto = strcmp(o->load.kernels, "auto") == 0;
    struct pool *pool = pool_new(1, false, e);
    struct device_options want = {
        .want = o->load.device, .pool = pool, .kernels = is_auto ? NULL : o->load.kernels};
    struct device *d = pool ? device_open(&want, e) : NULL;
    if (d)
        *mask = passes_of_device(PASS_ALL, d);
    device_free(d);
    pool_free(pool);
    return d ? 0 : -1;
}

static int record(const struct model *m, const struct graph_values *v, struct graph *g,
                  struct err *e)
{
    struct graph_ranks ranks;
    struct graph_recorder rec;
    bool is_bare = v->after && strcmp(v->after, "record") == 0;
    int last = v->after && !is_bare ? pass_find(v->after) : PASS_COUNT - 1;
    unsigned mask = 0;
    if (last < 0)
        return no_such_pass(v->after, e);
    if (!is_bare && passes_here(&v->model, &mask, e))
        return -1;
    graph_recorder_init(&rec, g);
    rec.b.has_lora = v->lora;
    rec.b.lora_rank_max = 16;
    graph_mark_output(g, model_build(m, &rec.b, output_of(v->head)));
    if (rec.b.failed)
        return err_set(e, rec.b.err.code, "%s", rec.b.err.msg);
    if (ranks_of_model(m, &ranks))
        g->ranks = &ranks;
    int rc = passes_run(g, mask, (enum pass_id)last, e);
    g->ranks = NULL;
    return rc;
}

static int show(const struct model *m, const struct graph_values *v, struct err *e)
{
    struct graph g;
    struct buf out;
    int rc = -1;
    graph_init(&g);
    buf_init(&out, OUTPUT_BYTES_MAX);
    if (!record(m, v, &g, e)) {
        graph_print(&g, (enum graph_format)graph_format_find(v->format), v->tokens, v->rows, &out);
        rc = buf_check(&out, "the graph", e);
    }
    if (!rc)
        fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
    graph_release(&g);
    return rc;
}

int cmd_graph(const struct opt *o)
{
    const struct graph_values *v = o->values;
    struct model_options mo = local_model_options(&v->model);
    struct model_dir dir;
    struct model *m = NULL;
    struct model_share share = {0};
    struct op_ranks at = {.size = (int32_t)v->tp};
    struct err e = ERR_INIT;
    int rc = model_dir_init(&dir, o->arg[0], &e);
    mo.files = dir.weights;
    if (!rc && v->tp > 1) {
        rc = ranks_share(&share, &dir.config, &mo, &at, &e);
        mo.share = &share;
    }
    if (!rc) {
        m = model_new(&dir.config, &mo, NULL, &e);
        rc = m ? show(m, v, &e) : -1;
    }
    model_free(m);
    ranks_share_release(&share);
    model_dir_release(&dir);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
