/* SPDX-License-Identifier: Apache-2.0
 *
 * Making an engine, its life, and what it says of itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/gate.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/crew.h"
#include "engine/serve/engine_own.h"
#include "engine/template/template.h"
#include "kernels/format.h"

enum { TEXT_BYTES_MAX = 1 << 20 };

_Static_assert((int)ENGINE_RANK_MAX == (int)COMM_RANK_MAX, "what can share a model can meet");

/* What training may have where nobody says otherwise. */
static const struct gate_policy default_policy = {.share = 0.03};

/* ---- making -------------------------------------------------------------------------------- */

static int load(struct engine *g, const struct engine_options *o, struct err *e)
{
    struct resident_options ro = {.dir = o->model,
                                  .random_weights = o->random_weights,
                                  .load = o->load,
                                  .tp = o->tp,
                                  .comm = o->comm,
                                  .work = o->work,
                                  .wants_text = true,
                                  .progress = o->progress,
                                  .progress_ctx = o->progress_ctx};
    if (resident_init(&g->res, &ro, e))
        return -1;
    if (g->res.template_err.code)
        log_event(LOG_WARN, "chat template does not compile",
                  LOG_TEXT("why", g->res.template_err.msg));
    return 0;
}

static bool is_encoder(const struct engine *g)
{
    return g->res.model->cfg.is_encoder;
}

static int make_runner(struct engine *g, const struct engine_options *o, struct err *e)
{
    struct room_memory memory = {.kv_token_bytes = model_kv_token_bytes(g->res.model)};
    size_t all_bytes, host_free;
    device_memory(g->res.device, &all_bytes, &memory.free_bytes);
    machine_memory(&memory.host_bytes, &host_free);
    if (g->res.crew) { /* what fits at every rank */
        struct crew_memory least = crew_memory(g->res.crew);
        memory.free_bytes = least.free_bytes;
        memory.kv_token_bytes = least.kv_token_bytes;
    }
    if (room_choose(&g->room, g->res.model, o, &memory, e))
        return -1;
    struct runner_options ro = {.cap = {[DIM_TOK] = g->room.cap_tok,
                                        [DIM_OUT] = g->room.cap_out,
                                        [DIM_SEQ] = g->room.cap_seq,
                                        [DIM_GROUP] = g->room.cap_group},
                                .n_cell = g->room.n_cell,
                                .beside_bytes = g->room.lora_bytes + g->room.train_bytes,
                                .is_eager = o->is_eager,
                                .passes = PASS_ALL,
                                .lora_rank_max = g->room.lora_rank,
                                .head = is_encoder(g) ? MODEL_EMBED : MODEL_LOGITS};
    g->runner = runner_new(g->res.model, &ro, g->res.stream, e);
    return g->runner ? 0 : -1;
}

/* Where a step is given before the last one's tokens are known, nothing can be guessed from them.
 */
static int make_drafts(struct engine *g, const struct engine_options *o, struct err *e)
{
    bool can = !is_encoder(g) && !runner_goes_ahead(g->runner);
    return drafts_init(g, can ? o->speculate : ENGINE_SPECULATE_OFF, e);
}

static int make_sched(struct engine *g, const struct engine_options *o, struct err *e)
{
    const struct room *r = &g->room;
    struct sched_options so = {.n_cell = r->n_cell,
                               .cap_tok = r->cap_tok,
                               .cap_seq = r->cap_seq,
                               .cap_out = r->cap_out,
                               .max_wait = r->max_waiting + r->cap_seq,
                               .chunk = r->chunk,
                               .enough = r->enough,
                               .keeps_prefixes = !o->no_prefix_cache && !is_encoder(g),
                               .draft = g->chance ? drafts_offer : NULL,
                               .draft_ctx = g};
    g->sched = sched_new(&so, e);
    return g->sched ? 0 : -1;
}

/* What the steps write to. */
static int make_tables(struct engine *g, const struct engine_options *o, struct err *e)
{
    const struct model *m = g->res.model;
    int64_t cols = is_encoder(g) ? m->cfg.d_model : m->cfg.n_vocab;
    g->seq = xcalloc((size_t)(g->room.max_waiting + g->room.cap_seq), sizeof *g->seq);
    if (flights_init(g, e) ||
        fetch_init(&g->fetch, g->res.device, g->room.cap_out, cols, !is_encoder(g), e))
        return -1;
    if (is_encoder(g))
        return 0;
    if (g->room.lora_rank)
        g->adapters =
            registry_new(m, &(struct registry_limits){.n_max = o->max_adapters,
                                                      .rank_max = g->room.lora_rank,
                                                      .bytes_max = g->room.lora_bytes,
                                                      .tell = g->res.crew ? ranks_tell : NULL,
                                                      .tell_ctx = g});
    g->samplers = samplers_new(g->res.pool, m->cfg.n_vocab, device_kernels(g->res.device), e);
    return g->samplers ? 0 : -1;
}

static struct sample_params advised(const struct generation *a)
{
    struct sample_params p = SAMPLE_PARAMS_INIT;
    p.temperature = a->do_sample ? a->temperature : 1;
    p.repetition = a->repetition_penalty > 0 ? a->repetition_penalty : 1;
    if (a->do_sample) {
        p.top_p = a->top_p > 0 ? a->top_p : 1;
        p.min_p = a->min_p;
        p.top_k = a->top_k;
    }
    return p;
}

/* The directory's own name, also where it was called "." or "models/x/". */
static char *name_of(const struct engine_options *o)
{
    char *real = o->name ? NULL : realpath(o->model, NULL);
    const char *path = real ? real : o->model, *slash = strrchr(path, '/');
    char *name = xstrdup(o->name ? o->name : slash && slash[1] ? slash + 1 : path);
    free(real);
    return name;
}

static void fill_info(struct engine *g, const struct engine_options *o)
{
    const struct resident *r = &g->res;
    struct model_size size;
    model_dir_size(&r->dir, &size);
    g->name = name_of(o);
    base_id_text(&r->model->base, g->fingerprint);
    g->info = (struct engine_info){
        .name = g->name,
        .architecture = config_family_name(r->model->cfg.family),
        .weights = k_format(model_main_type(r->model))->name,
        .fingerprint = g->fingerprint,
        .created = clock_wall_us() / 1000000,
        .ctx = g->room.ctx,
        .n_vocab = r->model->cfg.n_vocab,
        .d_model = r->model->cfg.d_model,
        .max_seqs = g->room.cap_seq,
        .max_waiting = g->room.max_waiting,
        .max_adapters = o->max_adapters,
        .max_lora_rank = g->room.lora_rank,
        .generates = !is_encoder(g),
        .embeds = is_encoder(g),
        .max_text = r->model->cfg.max_text,
        .n_param = (int64_t)size.n_param,
        .kv_bytes = g->room.n_cell * K_CELL * (int64_t)model_kv_token_bytes(r->model),
        .weight_bytes = (int64_t)r->model->block_bytes,
        .train_bytes = (int64_t)g->room.train_bytes,
        .n_rank = r->model->ranks.size,
        .n_thread = pool_size(r->pool),
        .cell_tokens = K_CELL,
        .n_cell = g->room.n_cell,
        .n_eos = r->dir.generation.n_eos,
        .chat_template = tokenizer_config_template(&r->dir.tokenizer, NULL),
        .sample = advised(&r->dir.generation)};
    memcpy(g->info.eos, r->dir.generation.eos, sizeof g->info.eos);
}

static void fill_limits(struct engine *g)
{
    const struct engine_info *i = &g->info;
    g->limits = (struct check_limits){.n_vocab = i->n_vocab,
                                      .ctx = i->ctx,
                                      .ctx_short = g->res.model->rope_short,
                                      .generates = i->generates,
                                      .embeds = i->embeds,
                                      .has_tokenizer = g->res.tokenizer != NULL};
    g->work_model = (struct work_model){.model = g->res.model,
                                        .eos = i->eos,
                                        .n_eos = i->n_eos,
                                        .d_model = i->d_model,
                                        .tokenizer = g->res.tokenizer,
                                        .bell = g->bell,
                                        .guesses = g->chance != NULL};
}

/* A GPU's is shared out once, here. */
static void tell_memory(const struct engine *g)
{
    size_t all, left;
    if (device_get_kind(g->res.device) == DEVICE_CPU)
        return;
    device_memory(g->res.device, &all, &left);
    log_event(LOG_INFO, "memory of the GPU", LOG_INT("mb", (int64_t)(all / 1000000)),
              LOG_INT("weights", g->info.weight_bytes / 1000000),
              LOG_INT("keys_and_values", g->info.kv_bytes / 1000000),
              LOG_INT("adapters", (int64_t)(g->room.lora_bytes / 1000000)),
              LOG_INT("jobs", g->info.train_bytes / 1000000));
}

struct engine *engine_new(const struct engine_options *o, struct err *e)
{
    struct engine *g = xcalloc(1, sizeof *g);
    g->owners = owners_new();
    pthread_mutex_init(&g->naming, NULL);
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->stat_lock, NULL);
    clock_cond_init(&g->wake);
    pthread_cond_init(&g->errand_done, NULL);
    g->errand_end = &g->errand;
    g->broke = o->broke;
    g->broke_ctx = o->broke_ctx;
    buf_init(&g->text, TEXT_BYTES_MAX);
    g->gate = gate_new(o->policy ? *o->policy : default_policy);
    g->bell = answer_bell_new();
    g->queue_timeout_us = o->queue_timeout_us;
    atomic_init(&g->is_idle, true);
    if (load(g, o, e) || make_runner(g, o, e) || make_drafts(g, o, e) || make_sched(g, o, e) ||
        make_tables(g, o, e)) {
        engine_free(g);
        return NULL;
    }
    fill_info(g, o);
    fill_limits(g);
    g->constraints = constraints_new(g->res.tokenizer, (size_t)g->info.n_vocab);
    tell_memory(g);
    if (g->info.ctx < g->res.model->ctx)
        log_event(LOG_WARN, "keys and values are short of the context",
                  LOG_INT("context", g->res.model->ctx), LOG_INT("tokens", g->info.ctx));
    return g;
}

void engine_free(struct engine *g)
{
    if (!g)
        return;
    engine_stop(g);
    samplers_free(g->samplers);
    sched_free(g->sched);
    drafts_release(g);
    runner_free(g->runner);
    registry_free(g->adapters);
    owners_free(g->owners);
    constraints_free(g->constraints);
    pthread_mutex_destroy(&g->naming);
    flights_release(g);
    fetch_release(&g->fetch);
    resident_release(&g->res);
    gate_free(g->gate);
    answer_bell_unref(g->bell);
    buf_release(&g->text);
    vec_release(&g->gone);
    vec_release(&g->ended);
    free(g->seq);
    free(g->name);
    pthread_cond_destroy(&g->wake);
    pthread_cond_destroy(&g->errand_done);
    pthread_mutex_destroy(&g->stat_lock);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- life ---------------------------------------------------------------------------------- */

int engine_start(struct engine *g, struct err *e)
{
    sigset_t all, before; /* signals are for the threads that expect them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&g->lock); /* held until it is true of the thread, which takes errands */
    int rc = pthread_create(&g->thread, NULL, engine_main, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = rc;
    g->runs = rc == 0;
    pthread_mutex_unlock(&g->lock);
    if (rc)
        return err_sys(e, "starting the engine's thread");
    pthread_setname_np(g->thread, "engine");
    g->is_started = true;
    return 0;
}

void engine_stop(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->stops = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    if (g->is_started)
        pthread_join(g->thread, NULL);
    else if (g->sched)
        engine_end_all(g);
    g->is_started = false;
}

/* ---- what it is ---------------------------------------------------------------------------- */

const struct engine_info *engine_info(const struct engine *g)
{
    return &g->info;
}

enum engine_base engine_base_match(const struct engine *g, const char *fingerprint)
{
    static const enum engine_base as[] = {[BASE_UNKNOWN] = ENGINE_BASE_UNKNOWN,
                                          [BASE_SAME] = ENGINE_BASE_SAME,
                                          [BASE_OTHER_TYPES] = ENGINE_BASE_OTHER_TYPES,
                                          [BASE_OTHER] = ENGINE_BASE_OTHER};
    struct base_id of;
    base_id_parse(fingerprint, &of);
    return as[base_id_match(&of, &g->res.model->base)];
}

const struct tokenizer *engine_tokenizer(const struct engine *g)
{
    return g->res.tokenizer;
}

struct masks *engine_constraint_find(struct engine *g, const struct constraint *c, uint64_t tenant)
{
    return constraints_find(g->constraints, c, tenant);
}

struct masks *engine_constraint(struct engine *g, const struct constraint *c, uint64_t tenant,
                                struct err *e)
{
    return constraints_make(g->constraints, c, tenant, e);
}

struct template *engine_template(const struct engine *g)
{
    return g->res.template;
}

struct gate *engine_gate(const struct engine *g)
{
    return g->gate;
}

/* A thread that sleeps without work is as well as one that goes round. */
struct engine_stat engine_stat(struct engine *g)
{
    pthread_mutex_lock(&g->stat_lock);
    struct engine_stat s = g->stat;
    pthread_mutex_unlock(&g->stat_lock);
    s.n_waiting = atomic_load(&g->n_waiting);
    s.cell_all = g->room.n_cell;
    s.heartbeat_us = atomic_load(&g->is_idle) ? clock_us() : atomic_load(&g->heartbeat_us);
    return s;
}

const struct resident *engine_resident(const struct engine *g)
{
    return &g->res;
}
