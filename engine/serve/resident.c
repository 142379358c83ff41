/* SPDX-License-Identifier: Apache-2.0
 *
 * A big vocabulary takes a third of a second to compile, as long as a small model takes to load;
 * so it has a thread of its own while the pool's threads pack weights.
 */
#include "engine/serve/resident.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "engine/device/open.h"
#include "engine/run/crew.h"
#include "engine/template/template.h"
#include "engine/token/tokenizer.h"
#include "kernels/format.h"

struct text_job {
    struct resident *r;
    pthread_t thread;
    bool is_started;
    int rc;
    struct err err;
};

/* A template that does not compile is no reason not to serve: chat alone is refused, and says why.
 */
static void compile_template(struct resident *r)
{
    const char *text = tokenizer_config_template(&r->dir.tokenizer, NULL);
    if (text)
        template_compile(text, strlen(text), &r->template, &r->template_err);
}

static void *load_text(void *arg)
{
    struct text_job *j = arg;
    struct resident *r = j->r;
    compile_template(r);
    if (!r->dir.tokenizer_path)
        return NULL;
    r->tokenizer = tokenizer_load(r->dir.path, &j->err);
    j->rc = r->tokenizer ? 0 : -1;
    return NULL;
}

static int start_text(struct text_job *j, struct err *e)
{
    int rc = pthread_create(&j->thread, NULL, load_text, j);
    j->is_started = rc == 0;
    errno = rc;
    return rc ? err_sys(e, "starting a thread for the tokenizer") : 0;
}

static int join_text(struct text_job *j, struct err *e)
{
    if (!j->is_started)
        return 0;
    pthread_join(j->thread, NULL);
    if (j->rc)
        return err_set(e, j->err.code, "%s", j->err.msg);
    struct generation *g = &j->r->dir.generation;
    int32_t eos = j->r->tokenizer ? tokenizer_eos(j->r->tokenizer) : -1;
    if (g->n_eos == 0 && eos >= 0)
        g->eos[g->n_eos++] = eos;
    return 0;
}

int resident_type(const char *name)
{
    return name ? k_format_named(name) : -1;
}

struct model_options resident_model_options(const struct load_flags *f)
{
    return (struct model_options){.type = resident_type(f->quantize),
                                  .kv_type = resident_type(f->kv_type),
                                  .is_int8 = f->compute && strcmp(f->compute, "int8") == 0,
                                  .ctx = f->ctx};
}

static int load_weights(struct resident *r, const struct resident_options *o, struct err *e)
{
    struct model_options mo = resident_model_options(&o->load);
    mo.is_trained = o->is_trained;
    mo.pool = r->pool;
    mo.progress = o->progress;
    mo.progress_ctx = o->progress_ctx;
    if (r->crew)
        mo.share = crew_share(r->crew);
    r->model = model_load(&r->dir, &mo, r->device, e);
    return !r->model || (r->crew && crew_ready(r->crew, r->model, e)) ? -1 : 0;
}

static int start_crew(struct resident *r, const struct resident_options *o, const char *kernels,
                      struct err *e)
{
    struct crew_options co = {.dir = &r->dir,
                              .model = resident_model_options(&o->load),
                              .device = o->load.device,
                              .kernels = kernels,
                              .n_rank = o->tp,
                              .n_thread = pool_size(r->pool),
                              .comm = o->comm,
                              .work = o->work};
    if (o->tp < 2 && !o->comm)
        return 0;
    co.model.is_trained = o->is_trained;
    r->crew = crew_new(&co, e);
    return r->crew ? 0 : -1;
}

static int open_dir(struct resident *r, const struct resident_options *o, bool is_shared,
                    struct err *e)
{
    if (!o->random_weights)
        return model_dir_init(&r->dir, o->dir, e);
    if (is_shared)
        return err_set(e, ERR_UNSUPPORTED, "random weights are of one rank");
    return model_dir_init_random(&r->dir, o->dir, e);
}

int resident_init(struct resident *r, const struct resident_options *o, struct err *e)
{
    struct text_job text = {.r = r, .err = ERR_INIT};
    bool is_auto = !o->load.kernels || strcmp(o->load.kernels, "auto") == 0;
    bool is_shared = o->tp > 1 || o->comm;
    int n_thread = o->text_only ? 1 : (int)o->load.threads;
    memset(r, 0, sizeof *r);
    if (!is_shared || !crew_threads(o->comm, o->tp, o->load.threads, &n_thread, e))
        r->pool = pool_new(n_thread, !is_shared, e);
    struct device_options want = {
        .want = o->load.device, .pool = r->pool, .kernels = is_auto ? NULL : o->load.kernels};
    r->device = r->pool ? device_open(&want, e) : NULL;
    r->stream = r->device ? stream_new(r->device, e) : NULL;
    if (!r->stream || open_dir(r, o, is_shared, e)) {
        if (o->comm) {
            comm_abort(o->comm, e->msg);
            comm_free(o->comm);
        }
        return -1;
    }
    if (start_crew(r, o, is_auto ? NULL : o->load.kernels, e))
        return -1;
    if (o->wants_text && start_text(&text, e))
        return -1;
    int rc = o->text_only ? 0 : load_weights(r, o, e);
    return join_text(&text, rc ? NULL : e) || rc ? -1 : 0;
}

void resident_release(struct resident *r)
{
    crew_free(r->crew, r->model);
    template_unref(r->template);
    tokenizer_free(r->tokenizer);
    model_free(r->model);
    model_dir_release(&r->dir);
    stream_free(r->stream);
    device_free(r->device);
    pool_free(r->pool);
    memset(r, 0, sizeof *r);
}
