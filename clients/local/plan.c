/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem plan`: what a model takes of a memory, and what is left for sequences. Reads headers
 * only.
 *
 * Activations are those of a step of --max-batch-tokens; the K/V cells take the rest.
 */
#include <stdio.h>

#include "clients/local/load.h"
#include "engine/base/machine.h"
#include "engine/base/num.h"
#include "engine/graph/memory.h"
#include "engine/graph/passes.h"

struct plan_values {
    struct local_options model;
    int64_t memory, batch_tokens;
    bool json;
};

#define AT(field) offsetof(struct plan_values, field)

static const struct opt_row rows[] = {
    LOCAL_MODEL_ROWS,
    {.section = "Plan",
     .name = "memory",
     .type = OPT_SIZE,
     .fallback = "0",
     .min = 0,
     .max = 1e15,
     .hint = "SIZE",
     .help = "memory to fit into; 0: what this machine has free",
     .offset = AT(memory)},
    {.name = "max-batch-tokens",
     .type = OPT_INT,
     .fallback = "512",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of the largest step",
     .offset = AT(batch_tokens)},
    {.name = "json", .type = OPT_BOOL, .help = "print one line of JSON", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_plan = {rows, sizeof rows / sizeof *rows, sizeof(struct plan_values)};

struct plan_result {
    const struct model *m;
    struct model_size size;
    size_t weights, table, activations, lower_bound, kv_token, memory;
    int64_t tokens; /* that the cells have room for */
};

static int measure_activations(struct plan_result *r, int64_t n_tok, struct err *e)
{
    int64_t cap[DIM_COUNT] = {[DIM_TOK] = n_tok, [DIM_OUT] = 1, [DIM_SEQ] = 1, [DIM_GROUP] = 1};
    bool encodes = r->m->cfg.family == FAMILY_BERT;
    struct graph g;
    struct graph_recorder rec;
    struct graph_memory mem;
    int rc = -1;
    graph_init(&g);
    graph_recorder_init(&rec, &g);
    graph_mark_output(&g, model_build(r->m, &rec.b, encodes ? MODEL_EMBED : MODEL_LOGITS));
    if (!rec.b.failed && !passes_run(&g, PASS_ALL, PASS_COUNT - 1, e) &&
        !graph_memory_init(&mem, &g, cap, e)) {
        r->activations = mem.bytes;
        r->lower_bound = mem.lower_bytes;
        graph_memory_release(&mem);
        rc = 0;
    }
    graph_release(&g);
    return rc;
}

static int make_plan(struct plan_result *r, const struct model_dir *dir,
                     const struct plan_values *v, struct err *e)
{
    size_t total, left;
    machine_memory(&total, &left);
    model_dir_size(dir, &r->size);
    r->memory = v->memory ? (size_t)v->memory : left;
    r->weights = r->m->block_bytes;
    r->table = 2 * (size_t)r->m->ctx * (size_t)(r->m->d_rot / 2) * sizeof(float);
    r->kv_token = model_kv_token_bytes(r->m);
    if (measure_activations(r, v->batch_tokens, e))
        return -1;
    size_t fixed = r->weights + r->table + r->activations;
    if (fixed > r->memory) {
        char need[NUM_TEXT_BYTES], have[NUM_TEXT_BYTES];
        return err_set(e, ERR_TOO_LARGE,
                       "the model takes %s beside K/V, and there is %s: give --memory, a smaller "
                       "--max-batch-tokens, or --quantize int8",
                       num_size_text((int64_t)fixed, need),
                       num_size_text((int64_t)r->memory, have));
    }
    r->tokens = (int64_t)((r->memory - fixed) / r->kv_token) / K_CELL * K_CELL;
    return 0;
}

static double mb(size_t bytes)
{
    return (double)bytes / 1e6;
}

static void show_text(const struct plan_result *r, const char *name)
{
    static const char *const types[] = {"f32", "bf16", "f16", "int8"};
    const struct model *m = r->m;
    int64_t longest = r->tokens < m->ctx ? r->tokens : m->ctx;
    printf("%s: %s, %.1f million parameters\n", name, config_family_name(m->cfg.family),
           (double)r->size.n_param / 1e6);
    printf("  %-24s %12.1f MB  packed as %s, %.1f MB in files\n", "weights", mb(r->weights),
           types[m->type], mb(r->size.file_bytes));
    printf("  %-24s %12.1f MB  for %lld positions\n", "rotary table", mb(r->table),
           (long long)m->ctx);
    printf("  %-24s %12.1f MB  %.1f%% above the lower bound\n", "activations", mb(r->activations),
           r->lower_bound ? 100.0 * (double)r->activations / (double)r->lower_bound - 100 : 0);
    printf("  %-24s %12.1f kB  in %s\n", "K/V of a token", (double)r->kv_token / 1e3,
           types[m->kv_type]);
    printf("  %-24s %12.1f MB\n", "memory", mb(r->memory));
    printf("  %-24s %12lld tokens of K/V\n", "room for", (long long)r->tokens);
    printf("  %-24s %12lld tokens\n", "longest sequence", (long long)longest);
    printf("  %-24s %12lld\n", "sequences of that length",
           (long long)(longest ? r->tokens / longest : 0));
}

static void show_json(const struct plan_result *r)
{
    printf("{\"parameters\":%llu,\"weights\":%zu,\"file_bytes\":%llu,\"rotary\":%zu,"
           "\"activations\":%zu,\"activations_lower_bound\":%zu,\"kv_per_token\":%zu,"
           "\"memory\":%zu,\"kv_tokens\":%lld,\"ctx\":%lld}\n",
           (unsigned long long)r->size.n_param, r->weights, (unsigned long long)r->size.file_bytes,
           r->table, r->activations, r->lower_bound, r->kv_token, r->memory, (long long)r->tokens,
           (long long)r->m->ctx);
}

int cmd_plan(const struct opt *o)
{
    const struct plan_values *v = o->values;
    struct model_options mo = local_model_options(&v->model);
    struct plan_result r = {0};
    struct model_dir dir;
    struct model *m = NULL;
    struct err e = ERR_INIT;
    int rc = model_dir_init(&dir, o->arg[0], &e);
    if (!rc && mo.type < 0)
        rc = model_stored_type(&dir, &mo.type, &e);
    if (!rc) {
        r.m = m = model_new(&dir.config, &mo, NULL, &e);
        rc = m ? make_plan(&r, &dir, v, &e) : -1;
    }
    if (!rc && v->json)
        show_json(&r);
    else if (!rc)
        show_text(&r, o->arg[0]);
    model_free(m);
    model_dir_release(&dir);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
