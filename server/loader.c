/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading the engine beside a server that answers already.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/gate_meter.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/tune.h"
#include "server/server_own.h"

enum { ADAPTER_ROOM = 64 };

struct loader {
    struct server *server; /* borrowed */
    struct engine_options o;
    struct gate_policy policy;
    struct arena arena;   /* its texts */
    const char **adapter; /* [n_adapter]: NAME=DIR */
    size_t n_adapter;
    int fd;          /* owned */
    int64_t said_us; /* when progress was last told */
    pthread_t thread;
    int rc;
    struct err err;
};

static const char *keep(struct loader *l, const char *text)
{
    return text ? arena_strdup(&l->arena, text) : NULL;
}

/* The same flags, with texts of the loader's own. */
static struct load_flags keep_load(struct loader *l, const struct load_flags *of)
{
    struct load_flags f = *of;
#define KEEP_OPT_INT(field)                     (void)0
#define KEEP_OPT_SIZE(field)                    (void)0
#define KEEP_OPT_CHOICE(field)                  f.field = keep(l, f.field)
#define OPTION(field, section, name, type, ...) KEEP_##type(field);
#include "engine/serve/load_flags.def"
#undef OPTION
    return f;
}

static void tell(void *ctx, uint64_t done, uint64_t all)
{
    struct loader *l = ctx;
    int64_t now = clock_us();
    if (now - l->said_us < 2 * 1000 * 1000)
        return;
    l->said_us = now;
    log_event(LOG_INFO, "loading", LOG_INT("mb", (int64_t)(done >> 20)),
              LOG_INT("of", (int64_t)(all >> 20)));
}

static int load_adapters(struct loader *l, struct engine *g)
{
    for (size_t i = 0; i < l->n_adapter; i++) {
        const char *at = strchr(l->adapter[i], '=');
        if (!at || at == l->adapter[i])
            return err_set(&l->err, ERR_BAD_INPUT, "--adapter %s: wants NAME=DIR", l->adapter[i]);
        const char *name = arena_strndup(&l->arena, l->adapter[i], (size_t)(at - l->adapter[i]));
        if (engine_adapter_load(g, name, at + 1, &l->err))
            return err_wrap(&l->err, "--adapter %s", l->adapter[i]);
    }
    return 0;
}

static void *run(void *arg)
{
    struct loader *l = arg;
    uint64_t one = 1;
    struct engine *g = engine_new(&l->o, &l->err);
    l->rc = g ? load_adapters(l, g) : -1;
    if (!l->rc)
        l->rc = engine_start(g, &l->err);
    if (l->rc)
        engine_free(g);
    else
        atomic_store(&l->server->engine, g);
    (void)!write(l->fd, &one, sizeof one);
    return NULL;
}

/* Where adapters may come, there is room: from the command line, from clients, and from jobs, which
 * publish what they make as adapters. */
int64_t loader_adapters(const struct server_options *o)
{
    if (o->max_adapters || !(o->adapter.n || o->adapter_root || o->data_dir))
        return o->max_adapters;
    return (int64_t)o->adapter.n > ADAPTER_ROOM ? (int64_t)o->adapter.n : ADAPTER_ROOM;
}

static bool has_jobs(const struct server_options *o)
{
    return o->data_dir && *o->data_dir;
}

/* One of how many a share in percent is; 0: a share of nothing. */
static int64_t every_of(double percent)
{
    const double least = 1e-6;
    return percent < least ? 0 : (int64_t)(100 / percent);
}

/* Kept for all that train at once; 0: chosen, -1: none does. */
static int64_t train_bytes(const struct loader *l, const struct server_options *o)
{
    bool is_shared = o->tp > 1 || *l->server->group;
    return !has_jobs(o) ? -1 : o->train_memory * (is_shared ? 1 : o->jobs);
}

static void fill(struct loader *l, const struct server_options *o, const char *model)
{
    l->policy = (struct gate_policy){.share = o->train_share,
                                     .latency_us = (int64_t)(o->target_itl * 1000),
                                     .floor = o->train_floor / 100};
    l->o = (struct engine_options){.model = keep(l, model),
                                   .name = keep(l, o->name),
                                   .load = keep_load(l, &o->load),
                                   .max_batch_tokens = o->max_batch_tokens,
                                   .max_seqs = o->max_seqs,
                                   .max_waiting = o->max_waiting,
                                   .kv_bytes = o->kv_memory,
                                   .train_bytes = train_bytes(l, o),
                                   .max_adapters = loader_adapters(o),
                                   .max_lora_rank = o->max_lora_rank,
                                   .policy = &l->policy,
                                   .queue_timeout_us = (int64_t)(o->queue_timeout * 1e6),
                                   .idle_every = every_of(o->batch_floor),
                                   .is_eager = strcmp(o->mode, "eager") == 0,
                                   .no_prefix_cache = !o->prefix_cache,
                                   .tool_format = o->tool_format,
                                   .speculate = strcmp(o->speculate, "off") == 0
                                                    ? ENGINE_SPECULATE_OFF
                                                    : ENGINE_SPECULATE_NGRAM,
                                   .progress = tell,
                                   .tp = (int)o->tp,
                                   .work = tune_work,
                                   .comm = *l->server->group,
                                   .broke = server_broke,
                                   .broke_ctx = l->server,
                                   .progress_ctx = l};
    *l->server->group = NULL;
    l->n_adapter = o->adapter.n;
    l->adapter = ARENA_ARRAY(&l->arena, const char *, o->adapter.n);
    for (size_t i = 0; i < o->adapter.n; i++)
        l->adapter[i] = keep(l, o->adapter.at[i]);
}

static void loader_free(struct loader *l)
{
    if (l->fd >= 0)
        close(l->fd);
    arena_release(&l->arena);
    free(l);
}

struct loader *loader_new(struct server *s, const struct server_options *o, const char *model,
                          struct err *e)
{
    struct loader *l = xcalloc(1, sizeof *l);
    l->server = s;
    arena_init(&l->arena, 1 << 20);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->said_us = clock_us();
    fill(l, o, model);
    errno = l->fd < 0 ? errno : pthread_create(&l->thread, NULL, run, l);
    if (errno == 0)
        return l;
    err_sys(e, "starting to load");
    loader_free(l);
    return NULL;
}

int loader_fd(const struct loader *l)
{
    return l->fd;
}

int loader_join(struct loader *l, struct err *e)
{
    pthread_join(l->thread, NULL);
    int rc = l->rc;
    if (rc)
        *e = l->err;
    loader_free(l);
    return rc;
}
