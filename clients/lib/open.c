/* SPDX-License-Identifier: Apache-2.0
 *
 * A model is an engine that runs: its thread waits for what is asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "clients/lib/lib_own.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/version.h"
#include "engine/serve/resident.h"
#include "kernels/format.h"

enum { ADAPTERS = 8, ADAPTERS_MAX = 1024, THREADS_MAX = 1024 };

/* Takes the place of stdin in the shared library (packaging/library.mk): an archive that was built
 * for programs speaks of that, and nobody reads it here. */
FILE *lib_no_stream;

const char *tandem_version(void)
{
    return version_number();
}

int lib_fail(struct tandem_error *e, const struct err *from)
{
    if (!e)
        return -1;
    switch (from->code) {
    case ERR_BAD_INPUT:
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_TOO_LARGE:
    case ERR_UNSUPPORTED:
    case ERR_CORRUPT:
        e->fault = TANDEM_BAD_INPUT;
        break;
    case ERR_BUSY:
        e->fault = TANDEM_BUSY;
        break;
    default:
        e->fault = TANDEM_FAILED;
    }
    size_t n = strnlen(from->msg, sizeof e->text - 1);
    memcpy(e->text, from->msg, n);
    e->text[n] = 0;
    return -1;
}

int lib_options(void *to, const void *from, struct err *e)
{
    size_t mine, theirs;
    if (!from)
        return 0;
    memcpy(&mine, to, sizeof mine);
    memcpy(&theirs, from, sizeof theirs);
    if (theirs <= sizeof theirs || theirs > mine)
        return err_set(e, ERR_BAD_INPUT,
                       "options of %zu bytes: this library, version %s, knows %zu; begin with the "
                       "initializer of tandem.h",
                       theirs, version_number(), mine);
    memcpy(to, from, theirs);
    return 0;
}

/* ---- callers ------------------------------------------------------------------------------- */

static struct lib_callers *callers_new(void)
{
    struct lib_callers *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->none, NULL);
    return c;
}

static void callers_free(struct lib_callers *c)
{
    pthread_cond_destroy(&c->none);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void lib_enter(const struct tandem_model *m)
{
    pthread_mutex_lock(&m->callers->lock);
    m->callers->n++;
    pthread_mutex_unlock(&m->callers->lock);
}

void lib_leave(const struct tandem_model *m)
{
    pthread_mutex_lock(&m->callers->lock);
    if (--m->callers->n == 0)
        pthread_cond_signal(&m->callers->none);
    pthread_mutex_unlock(&m->callers->lock);
}

bool lib_is_closing(const struct tandem_model *m)
{
    pthread_mutex_lock(&m->callers->lock);
    bool is_so = m->callers->are_sent_off;
    pthread_mutex_unlock(&m->callers->lock);
    return is_so;
}

static void send_off(struct tandem_model *m)
{
    pthread_mutex_lock(&m->callers->lock);
    m->callers->are_sent_off = true;
    pthread_mutex_unlock(&m->callers->lock);
    engine_stop(m->engine);
    pthread_mutex_lock(&m->callers->lock);
    while (m->callers->n > 0)
        pthread_cond_wait(&m->callers->none, &m->callers->lock);
    pthread_mutex_unlock(&m->callers->lock);
}

/* ---- the log ------------------------------------------------------------------------------- */

static struct listener {
    void (*line)(void *ctx, const char *line, size_t n);
    void *ctx;
} listener;
static pthread_mutex_t listening = PTHREAD_MUTEX_INITIALIZER;

/* It is called without the lock: what it does may have something to say, too. */
static void hear(void *ctx, const char *line, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&listening);
    struct listener told = listener;
    pthread_mutex_unlock(&listening);
    if (told.line)
        told.line(told.ctx, line, n);
}

void tandem_log(void (*line)(void *ctx, const char *line, size_t n), void *ctx)
{
    pthread_mutex_lock(&listening);
    listener.line = line;
    listener.ctx = ctx;
    pthread_mutex_unlock(&listening);
}

/* ---- models -------------------------------------------------------------------------------- */

/* Before the first model, in the thread that opens it. */
static void prepare(void)
{
    log_configure(LOG_INFO, LOG_AS_TEXT, hear, NULL);
    api_json_init();
}

/* What options of the command line are held to by their rows. */
static int check_open(const char *path, const struct tandem_open_options *o, struct err *e)
{
    static const char *const devices[] = {"auto", "cpu", "cuda"};
    const char *device = o->device ? o->device : "auto";
    bool is_known = false;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        is_known |= strcmp(device, devices[i]) == 0;
    if (!path)
        return err_set(e, ERR_BAD_INPUT, "a model's path is needed");
    if (!is_known)
        return err_set(e, ERR_BAD_INPUT, "device: auto, cpu or cuda");
    if (o->quantize && strcmp(o->quantize, "none") != 0 && resident_type(o->quantize) < 0)
        return err_set(e, ERR_BAD_INPUT, "quantize: one of %s", k_format_choices);
    if (o->max_adapters < 0 || o->max_adapters > ADAPTERS_MAX)
        return err_set(e, ERR_BAD_INPUT, "max_adapters: %lld is not between 0 and %d",
                       (long long)o->max_adapters, ADAPTERS_MAX);
    if (o->ctx < 0 || o->threads < 0 || o->threads > THREADS_MAX || o->kv_bytes < 0)
        return err_set(e, ERR_BAD_INPUT,
                       "ctx, threads (at most %d) and kv_bytes must not be below 0", THREADS_MAX);
    return 0;
}

static int open_model(struct tandem_model *m, const char *path, const struct tandem_open_options *o,
                      struct err *e)
{
    const struct engine_options with = {.model = path,
                                        .load = {.ctx = o->ctx,
                                                 .quantize = o->quantize ? o->quantize : "none",
                                                 .kv_type = "auto",
                                                 .threads = o->threads,
                                                 .device = o->device ? o->device : "auto",
                                                 .kernels = "auto"},
                                        .kv_bytes = o->kv_bytes,
                                        .max_adapters =
                                            o->max_adapters ? o->max_adapters : ADAPTERS};
    if (check_open(path, o, e))
        return -1;
    m->engine = engine_new(&with, e);
    return m->engine ? engine_start(m->engine, e) : -1;
}

struct tandem_model *tandem_open(const char *path, const struct tandem_open_options *o,
                                 struct tandem_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tandem_open_options all = TANDEM_OPEN_OPTIONS;
    struct tandem_model *m = xcalloc(1, sizeof *m);
    struct err why = ERR_INIT;
    pthread_once(&once, prepare);
    pthread_mutex_init(&m->trains, NULL);
    m->callers = callers_new();
    if (!lib_options(&all, o, &why) && !open_model(m, path, &all, &why))
        return m;
    lib_fail(e, &why);
    tandem_close(m);
    return NULL;
}

void tandem_close(struct tandem_model *m)
{
    if (!m)
        return;
    if (m->engine)
        send_off(m);
    engine_free(m->engine);
    callers_free(m->callers);
    pthread_mutex_destroy(&m->trains);
    free(m);
}

int64_t tandem_context(const struct tandem_model *m)
{
    lib_enter(m);
    int64_t n = engine_info(m->engine)->ctx;
    lib_leave(m);
    return n;
}

int64_t tandem_width(const struct tandem_model *m)
{
    lib_enter(m);
    int64_t n = engine_info(m->engine)->n_vector;
    lib_leave(m);
    return n;
}

int tandem_adapter_load(struct tandem_model *m, const char *name, const char *dir,
                        struct tandem_error *e)
{
    struct err why = ERR_INIT;
    lib_enter(m);
    int rc = name && dir ? engine_adapter_load(m->engine, name, dir, &why)
                         : err_set(&why, ERR_BAD_INPUT, "an adapter's name and folder are needed");
    lib_leave(m);
    return rc ? lib_fail(e, &why) : 0;
}

int tandem_adapter_drop(struct tandem_model *m, const char *name, struct tandem_error *e)
{
    struct err why = ERR_INIT;
    lib_enter(m);
    int rc = name ? engine_adapter_drop(m->engine, name, &why)
                  : err_set(&why, ERR_BAD_INPUT, "an adapter's name is needed");
    lib_leave(m);
    return rc ? lib_fail(e, &why) : 0;
}
