/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem plan`: what a model takes of a memory, and what is left for sequences; or how many of
 * several devices should share it. Reads headers only.
 *
 * Activations are those of a step of --max-batch-tokens on the device that needs most for them; the
 * K/V cells take the rest.
 */
#include <stdio.h>

#include "clients/local/load.h"
#include "clients/local/plan_devices.h"
#include "clients/local/plan_size.h"
#include "engine/base/machine.h"
#include "engine/base/num.h"
#include "engine/comm/comm.h"
#include "kernels/format.h"

struct plan_values {
    struct local_options model;
    int64_t memory, batch_tokens, devices;
    bool json;
};

#define AT(field) offsetof(struct plan_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    {.section = "Plan",
     .name = "devices",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = COMM_RANK_MAX,
     .hint = "N",
     .help = "how many ranks should share it, of N devices; none need be here",
     .offset = AT(devices)},
    {.name = "memory",
     .type = OPT_SIZE,
     .fallback = "0",
     .min = 0,
     .max = 1e15,
     .hint = "SIZE",
     .help = "memory to fit into, of each device; 0: what this machine has free",
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

/* Of one device; devices that nobody described are ranks on this machine. */
static size_t memory_of(const struct plan_values *v)
{
    size_t total, left;
    machine_memory(&total, &left);
    return v->memory ? (size_t)v->memory : left / (size_t)(v->devices ? v->devices : 1);
}

struct plan_result {
    struct plan_size of;
    struct model_size size;
    enum config_family family;
    size_t memory;
    int64_t tokens; /* that the cells have room for */
};

static int make_plan(struct plan_result *r, const struct model_dir *dir,
                     const struct model_options *mo, const struct plan_values *v, struct err *e)
{
    r->memory = memory_of(v);
    r->family = dir->config.family;
    model_dir_size(dir, &r->size);
    if (plan_size_init(&r->of, dir, mo, 1, v->batch_tokens, e))
        return -1;
    if (plan_size_fixed(&r->of) > r->memory) {
        char need[NUM_TEXT_BYTES], have[NUM_TEXT_BYTES];
        return err_set(e, ERR_TOO_LARGE,
                       "the model takes %s beside K/V, and there is %s: give --memory, a smaller "
                       "--max-batch-tokens, or --quantize int8 or int4",
                       num_size_text((int64_t)plan_size_fixed(&r->of), need),
                       num_size_text((int64_t)r->memory, have));
    }
    r->tokens = plan_size_tokens(&r->of, r->memory);
    return 0;
}

static double mb(size_t bytes)
{
    return (double)bytes / 1e6;
}

/* Each has its K/V and its state; room for one of these is taken off the tokens already. */
static int64_t sequences_of(const struct plan_result *r, int64_t length)
{
    size_t one = (size_t)length * r->of.kv_token + r->of.state;
    return length ? (int64_t)(((size_t)r->tokens * r->of.kv_token + r->of.state) / one) : 0;
}

static void show_text(const struct plan_result *r, const char *name)
{
    const struct plan_size *m = &r->of;
    int64_t longest = r->tokens < m->ctx ? r->tokens : m->ctx;
    printf("%s: %s, %.1f million parameters\n", name, config_family_name(r->family),
           (double)r->size.n_param / 1e6);
    printf("  %-24s %12.1f MB  packed as %s, %.1f MB in files\n", "weights", mb(r->of.weights),
           k_format(m->type)->name, mb(r->size.file_bytes));
    printf("  %-24s %12.1f MB  for %lld positions\n", "rotary table", mb(r->of.table),
           (long long)m->ctx);
    printf("  %-24s %12.1f MB  %.1f%% above the lower bound\n", "activations",
           mb(r->of.activations),
           r->of.lower_bound ? 100.0 * (double)r->of.activations / (double)r->of.lower_bound - 100
                             : 0);
    printf("  %-24s %12.1f kB  in %s\n", "K/V of a token", (double)r->of.kv_token / 1e3,
           k_format(m->kv_type)->name);
    if (m->state)
        printf("  %-24s %12.1f MB\n  %-24s %12.1f MB  of a text of %lld tokens, while there is "
               "room\n",
               "state of a sequence", mb(m->state), "snapshots of it", mb(m->snapshots),
               (long long)m->ctx);
    printf("  %-24s %12.1f MB  about, with its tokenizer; beside what follows\n", "program",
           mb(m->program));
    printf("  %-24s %12.1f MB\n", "memory", mb(r->memory));
    printf("  %-24s %12lld tokens of K/V\n", "room for", (long long)r->tokens);
    printf("  %-24s %12lld tokens\n", "longest sequence", (long long)longest);
    printf("  %-24s %12lld\n", "sequences of that length", (long long)sequences_of(r, longest));
    printf("  %-24s %12.1f MB  a server on a CPU, once it has read a text of %lld tokens\n",
           "process", mb(plan_size_process(m)), (long long)m->ctx);
}

static void show_json(const struct plan_result *r)
{
    printf("{\"parameters\":%llu,\"weights\":%zu,\"file_bytes\":%llu,\"rotary\":%zu,"
           "\"activations\":%zu,\"activations_lower_bound\":%zu,\"kv_per_token\":%zu,"
           "\"state_per_sequence\":%zu,\"snapshots\":%zu,\"program\":%zu,\"process\":%zu,"
           "\"memory\":%zu,\"kv_tokens\":%lld,\"ctx\":%lld}\n",
           (unsigned long long)r->size.n_param, r->of.weights,
           (unsigned long long)r->size.file_bytes, r->of.table, r->of.activations,
           r->of.lower_bound, r->of.kv_token, r->of.state, r->of.snapshots, r->of.program,
           plan_size_process(&r->of), r->memory, (long long)r->tokens, (long long)r->of.ctx);
}

static int show_one(const struct plan_values *v, const char *name, const struct model_dir *dir,
                    const struct model_options *mo, struct err *e)
{
    struct plan_result r = {0};
    if (make_plan(&r, dir, mo, v, e))
        return -1;
    if (v->json)
        show_json(&r);
    else
        show_text(&r, name);
    return 0;
}

static int show(const struct plan_values *v, const char *path, struct err *e)
{
    struct model_options mo = local_model_options(&v->model);
    struct model_dir dir;
    int rc = model_dir_init(&dir, path, e);
    mo.files = dir.weights;
    if (!rc && v->devices) {
        struct plan_devices p = {.name = path,
                                 .dir = &dir,
                                 .model = mo,
                                 .n_device = (int)v->devices,
                                 .memory = memory_of(v),
                                 .batch_tokens = v->batch_tokens,
                                 .json = v->json};
        rc = plan_devices_show(&p, e);
    } else if (!rc) {
        rc = show_one(v, path, &dir, &mo, e);
    }
    model_dir_release(&dir);
    return rc;
}

int cmd_plan(const struct opt *o)
{
    struct err e = ERR_INIT;
    return show(o->values, o->arg[0], &e) ? cmd_fail(o, &e) : CMD_GOOD;
}
