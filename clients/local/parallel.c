/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes are tried from the smallest; what each takes is a plan on paper.
 */
#include "clients/local/parallel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clients/local/plan_size.h"
#include "engine/base/machine.h"
#include "engine/device/open.h"
#include "engine/run/ranks.h"
#include "engine/train/plan.h"

/* ---- what is here ---------------------------------------------------------------------------- */

static int look_at_gpu(size_t *left, struct err *e)
{
    size_t total;
    struct device *d = device_open(&(struct device_options){.want = "cuda"}, e);
    if (!d)
        return -1;
    device_memory(d, &total, left);
    device_free(d);
    return 0;
}

int parallel_look(struct parallel_place *p, const char *device, int n_process, int n_here,
                  struct err *e)
{
    struct err why = ERR_INIT; /* with auto nobody asked for a GPU */
    bool wants_gpu = device && strcmp(device, "cuda") == 0;
    bool wants_cpu = device && strcmp(device, "cpu") == 0;
    const struct device_plug *plug = wants_cpu ? NULL : device_plug_get(wants_gpu ? e : &why);
    int n_gpu = plug ? plug->count(wants_gpu ? e : &why) : 0;
    size_t total;
    *p = (struct parallel_place){.is_cpu = n_gpu<1, .is_started = n_process> 0};
    if (wants_gpu && n_gpu < 1)
        return n_gpu < 0 || !plug ? -1 : err_set(e, ERR_UNSUPPORTED, "there is no GPU here");
    p->n_device = n_process > 0 ? n_process : p->is_cpu ? 1 : n_gpu;
    if (p->n_device > COMM_RANK_MAX)
        p->n_device = COMM_RANK_MAX;
    if (!p->is_cpu)
        return look_at_gpu(&p->memory, e);
    machine_memory(&total, &p->memory);
    p->memory /= n_process > 0 && n_here > 0 ? (size_t)n_here : 1;
    return 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

static double mb(size_t bytes)
{
    return (double)bytes / 1e6;
}

static const char *things(const struct parallel_place *p)
{
    return p->is_started ? "processes" : p->is_cpu ? "hosts" : "GPUs";
}

static int take(struct parallel *out, int tp, int dp, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int take(struct parallel *out, int tp, int dp, const char *fmt, ...)
{
    va_list ap;
    out->tp = tp;
    out->dp = dp;
    va_start(ap, fmt);
    vsnprintf(out->why, sizeof out->why, fmt, ap);
    va_end(ap);
    return 0;
}

/* ---- serving --------------------------------------------------------------------------------- */

/* Of those that hold the model at all that with the most room; -1: none does. */
static int roomiest(const struct plan_sizes *s, size_t memory)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (s->is_legal[i] && plan_size_tokens(&s->at[i], memory) > 0)
            best = i;
    return best;
}

static int too_large(const struct plan_sizes *s, const struct parallel_place *p, struct err *e)
{
    const struct plan_size *most = &s->at[0];
    for (int i = 0; i < s->n; i++)
        most = s->is_legal[i] ? &s->at[i] : most;
    return err_set(e, ERR_TOO_LARGE,
                   "--parallel auto: with %d rank%s each takes %.1f MB beside keys and values, and "
                   "has %.1f MB: give --quantize int8 or int4, a smaller --ctx, or more %s",
                   most->tp, most->tp > 1 ? "s" : "", mb(plan_size_fixed(most)), mb(p->memory),
                   things(p));
}

int parallel_serve(struct parallel *out, const struct parallel_place *p,
                   const struct model_dir *dir, const struct model_options *mo, int64_t n_tok,
                   struct err *e)
{
    struct model_options typed = *mo;
    struct plan_sizes s;
    if (p->is_started)
        return take(out, p->n_device, 1, "%d processes were started, and share the model",
                    p->n_device);
    typed.files = dir->weights;
    plan_sizes_init(&s, dir, &typed, p->n_device, p->memory, n_tok);
    bool fits = s.taken >= 0;
    int at = fits ? s.taken : roomiest(&s, p->memory);
    if (at < 0)
        return too_large(&s, p, e);
    const struct plan_size *z = &s.at[at];
    double have = mb(p->memory), need = mb(plan_size_fixed(z) + (size_t)z->ctx * z->kv_token);
    if (p->is_cpu)
        return take(out, 1, 1,
                    "one rank: on a CPU all cores work on every product already, and ranks would "
                    "share its memory; with a whole context it takes %.1f of %.1f MB",
                    need, have);
    if (!fits)
        return take(out, z->tp, 1,
                    "%d of %d GPUs: the most there are; a whole context takes %.1f MB of each, "
                    "which have %.1f, so there is room for %lld tokens",
                    z->tp, p->n_device, need, have, (long long)plan_size_tokens(z, p->memory));
    return take(
        out, z->tp, 1,
        "%d of %d GPU%s: the fewest with %.1f MB that hold the model and a whole context, "
        "%.1f MB of each; ranks wait for each other in every layer, copies of a model do not",
        z->tp, p->n_device, p->n_device > 1 ? "s" : "", have, need);
}

/* ---- training -------------------------------------------------------------------------------- */

/* What one of tp ranks takes, where n_data such groups share the rows; ERR_TOO_LARGE: too much. */
static int try_train(int tp, int n_data, const struct parallel_place *p,
                     const struct model_dir *dir, const struct model_options *mo,
                     const struct device *d, const struct tuning_options *o, size_t most,
                     size_t *bytes, struct err *e)
{
    struct op_ranks last = {.rank = tp - 1, .size = tp};
    struct model_options mine = *mo;
    struct model_share share = {0};
    struct tuning_options on = *o;
    struct train_plan plan;
    int rc = tp > 1 ? ranks_share_for(&share, &dir->config, mo, &last, MODEL_LOSS, e) : 0;
    mine.share = tp > 1 ? &share : NULL;
    struct model *m = rc ? NULL : model_new(&dir->config, &mine, NULL, e);
    on.train.ranks = (struct train_ranks){.n_data = n_data};
    rc = m ? 0 : -1;
    if (!rc && m->block_bytes >= p->memory)
        rc = err_set(e, ERR_TOO_LARGE, "the weights alone take %.1f MB", mb(m->block_bytes));
    if (!rc) {
        size_t left = p->memory - m->block_bytes;
        rc = train_plan(m, d, &on, RECOMPUTE_AUTO, false, most && most < left ? most : left, &plan,
                        e);
        *bytes = m->block_bytes + (rc ? 0 : plan.total);
    }
    model_free(m);
    ranks_share_release(&share);
    return rc;
}

int parallel_train(struct parallel *out, const struct parallel_place *p,
                   const struct model_dir *dir, const struct model_options *mo,
                   const struct device *d, const struct tuning_options *o, size_t most,
                   struct err *e)
{
    struct model_options typed = *mo;
    int n = p->n_device;
    typed.files = dir->weights;
    if (n == 1)
        return take(out, 1, 1, "one rank: %s",
                    p->is_cpu ? "on a CPU all cores work on every product already"
                              : "there is one GPU");
    for (int tp = 1; tp <= n; tp++) {
        struct err why = ERR_INIT;
        size_t bytes = 0;
        if (n % tp || try_train(tp, n / tp, p, dir, &typed, d, o, most, &bytes, &why)) {
            if (n % tp == 0 && why.code != ERR_TOO_LARGE && why.code != ERR_UNSUPPORTED)
                return err_set(e, why.code, "%s", why.msg);
            continue;
        }
        double have = mb(p->memory), need = mb(bytes);
        if (tp == 1)
            return take(
                out, 1, n,
                "--tp 1 --dp %d: each of %d %s holds the model and its training, %.1f of %.1f MB; "
                "ranks with rows of their own meet once in a step",
                n, n, things(p), need, have);
        return take(out, tp, n / tp,
                    "--tp %d --dp %d: of %d %s with %.1f MB the fewest that hold the model and its "
                    "training, %.1f MB of each, share it",
                    tp, n / tp, n, things(p), have, need);
    }
    return err_set(
        e, ERR_TOO_LARGE,
        "--parallel auto: however %d %s with %.1f MB each share it, the training does not "
        "fit: shorter rows, a smaller batch or rank, or an adapter take less",
        n, things(p), mb(p->memory));
}
