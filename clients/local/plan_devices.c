/* SPDX-License-Identifier: Apache-2.0
 *
 * A line for each size, and the one that is taken.
 */
#include "clients/local/plan_devices.h"

#include <stdio.h>

#include "clients/local/plan_size.h"
#include "engine/base/num.h"

static int64_t contexts(const struct plan_devices *p, const struct plan_size *s)
{
    return plan_size_tokens(s, p->memory) / s->ctx;
}

/* ---- text ------------------------------------------------------------------------------------ */

static double mb(size_t bytes)
{
    return (double)bytes / 1e6;
}

static void show_size(const struct plan_devices *p, const struct plan_size *s, bool is_legal)
{
    printf("  %5d %7d ", s->tp, p->n_device / s->tp);
    if (!is_legal) {
        printf("   its parts are fewer than the ranks\n");
        return;
    }
    printf("%9.1f MB %9.1f MB %9.1f kB%s ", mb(s->weights), mb(s->table + s->activations),
           (double)s->kv_token / 1e3, s->has_all_kv ? "*" : " ");
    if (plan_size_fixed(s) > p->memory)
        printf("%12s %9s", "does not fit", "");
    else
        printf("%12lld %9lld", (long long)plan_size_tokens(s, p->memory),
               (long long)contexts(p, s));
    if (s->tp > 1)
        printf("  %9.1f kB in %d\n", s->sent / 1e3, s->n_collective);
    else
        printf("  %12s\n", "nothing");
}

static void show_text(const struct plan_devices *p, const struct plan_sizes *s)
{
    char memory[NUM_TEXT_BYTES];
    const struct plan_size *t = &s->at[s->taken];
    bool has_star = false;
    printf("%s on %d device%s of %s\n\n", p->name, p->n_device, p->n_device > 1 ? "s" : "",
           num_size_text((int64_t)p->memory, memory));
    printf("  %5s %7s %12s %12s %12s  %12s %9s  %s\n", "ranks", "copies", "weights", "activations",
           "K/V a token", "K/V tokens", "contexts", "a token sends");
    for (int i = 0; i < s->n; i++) {
        show_size(p, &s->at[i], s->is_legal[i]);
        has_star |= s->is_legal[i] && s->at[i].has_all_kv;
    }
    printf("\n  Of each rank; contexts of %lld tokens; sent in a step of one token, in so many "
           "collectives.\n",
           (long long)t->ctx);
    if (has_star)
        printf("  * fewer heads of keys and values than ranks: each rank keeps them all.\n");
    if (t->tp == 1)
        printf("  Taken: no sharing, %d cop%s: one device holds the model and a whole context.\n",
               p->n_device, p->n_device > 1 ? "ies" : "y");
    else
        printf("  Taken: --tp %d, %d cop%s: the fewest ranks that hold a whole context; more would "
               "wait for each\n  other for nothing but room.\n",
               t->tp, p->n_device / t->tp, p->n_device / t->tp > 1 ? "ies" : "y");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void show_json(const struct plan_devices *p, const struct plan_sizes *s)
{
    const char *between = "";
    printf("{\"devices\":%d,\"memory\":%zu,\"tp\":%d,\"sizes\":[", p->n_device, p->memory,
           s->at[s->taken].tp);
    for (int i = 0; i < s->n; i++) {
        const struct plan_size *z = &s->at[i];
        if (!s->is_legal[i])
            continue;
        printf("%s{\"tp\":%d,\"copies\":%d,\"weights\":%zu,\"rotary\":%zu,\"activations\":%zu,"
               "\"kv_per_token\":%zu,\"kv_tokens\":%lld,\"contexts\":%lld,\"fits\":%s,"
               "\"sent_per_token\":%.0f,\"collectives\":%d}",
               between, z->tp, p->n_device / z->tp, z->weights, z->table, z->activations,
               z->kv_token, (long long)plan_size_tokens(z, p->memory), (long long)contexts(p, z),
               s->fits[i] ? "true" : "false", z->sent, z->n_collective);
        between = ",";
    }
    printf("]}\n");
}

/* ---- none ------------------------------------------------------------------------------------ */

/* NULL: not even one rank can have the model. */
static const struct plan_size *largest(const struct plan_sizes *s)
{
    const struct plan_size *most = NULL;
    for (int i = 0; i < s->n; i++)
        if (s->is_legal[i])
            most = &s->at[i];
    return most;
}

static int refuse(const struct plan_devices *p, const struct plan_sizes *s, struct err *e)
{
    const struct plan_size *most = largest(s);
    struct plan_size alone;
    char have[NUM_TEXT_BYTES], more[64] = "";
    if (!most)
        return plan_size_init(&alone, p->dir, &p->model, 1, p->batch_tokens, e);
    for (int tp = 2 * p->n_device; tp <= COMM_RANK_MAX && !*more; tp *= 2) {
        struct plan_size z;
        struct err why = ERR_INIT;
        if (!plan_size_init(&z, p->dir, &p->model, tp, p->batch_tokens, &why) &&
            plan_size_fits(&z, p->dir, p->memory))
            snprintf(more, sizeof more, "; %d such devices would do", tp);
    }
    size_t bytes = plan_size_fixed(most) + (size_t)most->ctx * most->kv_token;
    return err_set(e, ERR_TOO_LARGE,
                   "%d rank%s %.1f MB each with a whole context of %lld tokens, and there is %s: "
                   "give a smaller --ctx, or --quantize int8 or int4%s",
                   most->tp, most->tp > 1 ? "s take" : " takes", mb(bytes), (long long)most->ctx,
                   num_size_text((int64_t)p->memory, have), more);
}

int plan_devices_show(const struct plan_devices *p, struct err *e)
{
    struct plan_sizes s;
    plan_sizes_init(&s, p->dir, &p->model, p->n_device, p->memory, p->batch_tokens);
    if (s.taken < 0)
        return refuse(p, &s, e);
    if (p->json)
        show_json(p, &s);
    else
        show_text(p, &s);
    return 0;
}
