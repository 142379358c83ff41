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
#include "kernels/q8.h"

enum { TEXT_BYTES_MAX = 1 << 20 };

_Static_assert((int)ENGINE_RANK_MAX == (int)COMM_RANK_MAX, "what can share a model can meet");

/* What training may have where nobody says otherwise. */
static const struct gate_policy default_policy = {.floor = 0.1};

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
    if (resident_init(&g->fixed.res, &ro, e))
        return -1;
    if (g->fixed.res.template_err.code)
        log_event(LOG_WARN, "chat template does not compile",
                  LOG_TEXT("why", g->fixed.res.template_err.msg));
    if (*g->fixed.res.dir.generation.ignored)
        log_event(LOG_WARN, "generation_config.json has what is not obeyed",
                  LOG_TEXT("fields", g->fixed.res.dir.generation.ignored));
    return 0;
}

static bool is_encoder(const struct engine *g)
{
    return g->fixed.res.model->cfg.is_encoder;
}

static int make_runner(struct engine *g, const struct engine_options *o, struct err *e)
{
    struct room_memory memory = {.kv_token_bytes = model_kv_token_bytes(g->fixed.res.model),
                                 .state_bytes = model_state_bytes(g->fixed.res.model)};
    size_t all_bytes, host_free;
    device_memory(g->fixed.res.device, &all_bytes, &memory.free_bytes);
    machine_memory(&memory.host_bytes, &host_free);
    if (g->fixed.res.crew) { /* what fits at every rank */
        struct crew_memory least = crew_memory(g->fixed.res.crew);
        memory.free_bytes = least.free_bytes;
        memory.kv_token_bytes = least.kv_token_bytes;
        memory.state_bytes = least.state_bytes;
    }
    struct room *r = &g->fixed.room;
    if (room_choose(r, g->fixed.res.model, o, &memory, e))
        return -1;
    struct runner_options ro = {.cap = {[DIM_TOK] = r->cap_tok,
                                        [DIM_OUT] = r->cap_out,
                                        [DIM_SEQ] = r->cap_seq,
                                        [DIM_GROUP] = r->cap_group},
                                .n_cell = r->n_cell,
                                .n_state = r->cap_seq + r->n_snapshot,
                                .beside_bytes = r->lora_bytes + r->train_bytes,
                                .is_eager = o->is_eager,
                                .passes = PASS_ALL,
                                .lora_rank_max = r->lora_rank,
                                .output = is_encoder(g) ? MODEL_EMBED : MODEL_LOGITS};
    g->own.runner = runner_new(g->fixed.res.model, &ro, g->fixed.res.stream, e);
    return g->own.runner ? 0 : -1;
}

/* Where a step is given before the last one's tokens are known, nothing can be guessed from them;
 * and a recurrent state that has read a wrong guess is lost. */
static int make_drafts(struct engine *g, const struct engine_options *o, struct err *e)
{
    bool can = !is_encoder(g) && !runner_goes_ahead(g->own.runner) &&
               model_cut_most(g->fixed.res.model) > 0;
    return drafts_init(g, can ? o->speculate : ENGINE_SPECULATE_OFF, e);
}

static int make_sched(struct engine *g, const struct engine_options *o, struct err *e)
{
    const struct room *r = &g->fixed.room;
    struct sched_options so = {.n_cell = r->n_cell,
                               .cap_tok = r->cap_tok,
                               .cap_seq = r->cap_seq,
                               .cap_out = r->cap_out,
                               .max_wait = r->max_waiting + r->cap_seq,
                               .chunk = r->chunk,
                               .enough = r->enough,
                               .idle_every = o->idle_every,
                               .keeps_prefixes = !o->no_prefix_cache && !is_encoder(g),
                               .has_states = model_state_bytes(g->fixed.res.model) > 0,
                               .n_snapshot = r->n_snapshot,
                               .draft = g->own.chance ? drafts_offer : NULL,
                               .draft_ctx = g};
    g->own.sched = sched_new(&so, e);
    return g->own.sched ? 0 : -1;
}

/* What the steps write to. */
static int make_tables(struct engine *g, const struct engine_options *o, struct err *e)
{
    const struct resident *res = &g->fixed.res;
    const struct room *r = &g->fixed.room;
    const struct model *m = res->model;
    int64_t cols = is_encoder(g) ? config_vector_cols(&m->cfg) : m->cfg.n_vocab;
    g->own.seq = xcalloc((size_t)(r->max_waiting + r->cap_seq), sizeof *g->own.seq);
    if (flights_init(g, e) ||
        fetch_init(&g->own.fetch, res->device, r->cap_out, cols, !is_encoder(g), e))
        return -1;
    if (r->lora_rank)
        g->names.registry = registry_new(
            m, &(struct registry_limits){.n_max = o->max_adapters,
                                         .rank_max = r->lora_rank,
                                         .bytes_max = r->lora_bytes,
                                         .on_news = res->crew ? ranks_adapter_news : NULL,
                                         .news_ctx = g,
                                         .on_gone = adapters_forget,
                                         .gone_ctx = g});
    if (is_encoder(g))
        return 0;
    g->own.samplers = samplers_new(res->pool, m->cfg.n_vocab, device_kernels(res->device), e);
    return g->own.samplers ? 0 : -1;
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
        p.typical_p = a->typical_p;
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
    const struct resident *r = &g->fixed.res;
    const struct room *room = &g->fixed.room;
    struct model_size size;
    model_dir_size(&r->dir, &size);
    g->fixed.name = name_of(o);
    base_id_text(&r->model->base, g->fixed.fingerprint);
    g->fixed.info = (struct engine_info){
        .name = g->fixed.name,
        .architecture = config_family_name(r->model->cfg.family),
        .weights = k_format(model_main_type(r->model))->name,
        .fingerprint = g->fixed.fingerprint,
        .created = clock_wall_us() / 1000000,
        .ctx = room->ctx,
        .n_vocab = r->model->cfg.n_vocab,
        .d_model = r->model->cfg.d_model,
        .n_vector = config_vector_cols(&r->model->cfg),
        .max_seqs = room->cap_seq,
        .max_waiting = room->max_waiting,
        .max_adapters = o->max_adapters,
        .max_lora_rank = room->lora_rank,
        .generates = !is_encoder(g),
        .embeds = is_encoder(g) && !r->dir.labels.n,
        .label = (const char *const *)r->dir.labels.name,
        .n_label = r->dir.labels.n,
        .scores = r->model->cfg.scores,
        .normalizes = r->model->cfg.normalizes,
        .max_text = r->model->cfg.max_text,
        .n_param = (int64_t)size.n_param,
        .kv_bytes = room->n_cell * K_CELL * (int64_t)model_kv_token_bytes(r->model),
        .state_bytes = (room->cap_seq + room->n_snapshot) * (int64_t)model_state_bytes(r->model),
        .weight_bytes = (int64_t)r->model->block_bytes,
        .train_bytes = (int64_t)room->train_bytes,
        .is_on_gpu = device_get_kind(r->device) != DEVICE_CPU,
        .n_rank = r->model->ranks.size,
        .n_thread = pool_size(r->pool),
        .cell_tokens = K_CELL,
        .n_cell = room->n_cell,
        .n_eos = r->dir.generation.n_eos,
        .chat_template = tokenizer_config_template(&r->dir.tokenizer, NULL),
        .sample = advised(&r->dir.generation)};
    memcpy(g->fixed.info.eos, r->dir.generation.eos, sizeof g->fixed.info.eos);
}

static void fill_limits(struct engine *g)
{
    const struct engine_info *i = &g->fixed.info;
    g->fixed.limits = (struct check_limits){.n_vocab = i->n_vocab,
                                            .ctx = i->ctx,
                                            .ctx_short = g->fixed.res.model->rope_short,
                                            .n_eos = i->n_eos,
                                            .generates = i->generates,
                                            .embeds = i->embeds,
                                            .classifies = i->n_label > 0,
                                            .has_tokenizer = g->fixed.res.tokenizer != NULL};
    g->fixed.work_model = (struct work_model){.model = g->fixed.res.model,
                                              .eos = i->eos,
                                              .n_eos = i->n_eos,
                                              .n_vector = i->n_vector,
                                              .n_vocab = i->n_vocab,
                                              .tokenizer = g->fixed.res.tokenizer,
                                              .bell = g->fixed.bell,
                                              .mark = i->mark,
                                              .n_mark = i->n_mark,
                                              .guesses = g->own.chance != NULL};
}

/* A GPU's is shared out once, here. */
static void log_memory(const struct engine *g)
{
    size_t all, left;
    if (device_get_kind(g->fixed.res.device) == DEVICE_CPU)
        return;
    device_memory(g->fixed.res.device, &all, &left);
    log_event(LOG_INFO, "memory of the GPU", LOG_INT("mb", (int64_t)(all / 1000000)),
              LOG_INT("weights", g->fixed.info.weight_bytes / 1000000),
              LOG_INT("keys_and_values", g->fixed.info.kv_bytes / 1000000),
              LOG_INT("states", g->fixed.info.state_bytes / 1000000),
              LOG_INT("adapters", (int64_t)(g->fixed.room.lora_bytes / 1000000)),
              LOG_INT("jobs", g->fixed.info.train_bytes / 1000000));
}

/* Who serves codes and knows no option should hear of the faster products, which are not the
 * default. */
static void log_compute(const struct engine *g)
{
    const struct model *m = g->fixed.res.model;
    enum k_type type = model_main_type(m);
    bool is_q8 = false;
    for (int32_t i = 0; i < m->n_param; i++)
        is_q8 = is_q8 || m->param[i].reads_q8;
    if (is_q8 || !q8_has(type) || device_get_kind(g->fixed.res.device) != DEVICE_CPU)
        return;
    log_event(LOG_INFO, "exact products of codes", LOG_TEXT("format", k_format(type)->name),
              LOG_TEXT("faster", "--compute int8, which rounds their inputs to eight bits"));
}

struct engine *engine_new(const struct engine_options *o, struct err *e)
{
    struct engine *g = xcalloc(1, sizeof *g);
    g->names.owners = owners_new();
    pthread_mutex_init(&g->names.lock, NULL);
    pthread_mutex_init(&g->mail.lock, NULL);
    pthread_mutex_init(&g->told.lock, NULL);
    clock_cond_init(&g->mail.wake);
    pthread_cond_init(&g->mail.errand_done, NULL);
    g->mail.errand_end = &g->mail.errand;
    g->fixed.broke = o->broke;
    g->fixed.broke_ctx = o->broke_ctx;
    buf_init(&g->own.text, TEXT_BYTES_MAX);
    g->fixed.gate = gate_new(o->policy ? *o->policy : default_policy);
    g->fixed.bell = answer_bell_new();
    g->fixed.queue_timeout_us = o->queue_timeout_us;
    atomic_init(&g->told.is_idle, true);
    if (load(g, o, e) || make_runner(g, o, e) || make_drafts(g, o, e) || make_sched(g, o, e) ||
        make_tables(g, o, e)) {
        engine_free(g);
        return NULL;
    }
    fill_info(g, o);
    if (tools_init(g, o->tool_format, e)) {
        engine_free(g);
        return NULL;
    }
    fill_limits(g);
    g->fixed.constraints = constraints_new(g->fixed.res.tokenizer, (size_t)g->fixed.info.n_vocab,
                                           g->fixed.mark, g->fixed.info.n_mark);
    log_memory(g);
    log_compute(g);
    if (g->fixed.info.ctx < g->fixed.res.model->ctx)
        log_event(LOG_WARN, "keys and values are short of the context",
                  LOG_INT("context", g->fixed.res.model->ctx),
                  LOG_INT("tokens", g->fixed.info.ctx));
    return g;
}

void engine_free(struct engine *g)
{
    if (!g)
        return;
    engine_stop(g);
    samplers_free(g->own.samplers);
    sched_free(g->own.sched);
    drafts_release(g);
    runner_free(g->own.runner);
    registry_free(g->names.registry);
    owners_free(g->names.owners);
    constraints_free(g->fixed.constraints);
    free(g->fixed.mark);
    pthread_mutex_destroy(&g->names.lock);
    flights_release(g);
    fetch_release(&g->own.fetch);
    resident_release(&g->fixed.res);
    gate_free(g->fixed.gate);
    answer_bell_unref(g->fixed.bell);
    buf_release(&g->own.text);
    vec_release(&g->mail.gone);
    vec_release(&g->mail.ended);
    free(g->own.seq);
    free(g->fixed.name);
    pthread_cond_destroy(&g->mail.wake);
    pthread_cond_destroy(&g->mail.errand_done);
    pthread_mutex_destroy(&g->told.lock);
    pthread_mutex_destroy(&g->mail.lock);
    free(g);
}

/* ---- life ---------------------------------------------------------------------------------- */

int engine_start(struct engine *g, struct err *e)
{
    sigset_t all, before; /* signals are for the threads that expect them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&g->mail.lock); /* until `runs` is true of the thread, which takes errands */
    int rc = pthread_create(&g->start.thread, NULL, engine_main, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = rc;
    g->mail.runs = rc == 0;
    pthread_mutex_unlock(&g->mail.lock);
    if (rc)
        return err_sys(e, "starting the engine's thread");
    pthread_setname_np(g->start.thread, "engine");
    g->start.is_started = true;
    return 0;
}

void engine_stop(struct engine *g)
{
    pthread_mutex_lock(&g->mail.lock);
    g->mail.stops = true;
    pthread_cond_signal(&g->mail.wake);
    pthread_mutex_unlock(&g->mail.lock);
    if (g->start.is_started)
        pthread_join(g->start.thread, NULL);
    else if (g->own.sched)
        engine_end_all(g);
    g->start.is_started = false;
}

/* ---- what it is ---------------------------------------------------------------------------- */

const struct engine_info *engine_info(const struct engine *g)
{
    return &g->fixed.info;
}

enum engine_base engine_base_match(const struct engine *g, const char *fingerprint)
{
    static const enum engine_base as[] = {[BASE_UNKNOWN] = ENGINE_BASE_UNKNOWN,
                                          [BASE_SAME] = ENGINE_BASE_SAME,
                                          [BASE_OTHER_TYPES] = ENGINE_BASE_OTHER_TYPES,
                                          [BASE_OTHER] = ENGINE_BASE_OTHER};
    struct base_id of;
    base_id_parse(fingerprint, &of);
    return as[base_id_match(&of, &g->fixed.res.model->base)];
}

const char *engine_prompt(const struct engine *g, const char *name)
{
    return prompts_find(&g->fixed.res.dir.prompts, name);
}

const char *const *engine_prompt_names(const struct engine *g, size_t *n)
{
    *n = (size_t)g->fixed.res.dir.prompts.n;
    return (const char *const *)g->fixed.res.dir.prompts.name;
}

const struct tokenizer *engine_tokenizer(const struct engine *g)
{
    return g->fixed.res.tokenizer;
}

struct masks *engine_constraint_find(struct engine *g, const struct constraint *c, uint64_t tenant)
{
    return constraints_find(g->fixed.constraints, c, tenant);
}

struct masks *engine_constraint(struct engine *g, const struct constraint *c, uint64_t tenant,
                                struct err *e)
{
    return constraints_make(g->fixed.constraints, c, tenant, e);
}

struct template *engine_template(const struct engine *g)
{
    return g->fixed.res.template;
}

struct gate *engine_gate(const struct engine *g)
{
    return g->fixed.gate;
}

/* A thread that sleeps without work is as well as one that goes round. */
struct engine_stat engine_stat(struct engine *g)
{
    pthread_mutex_lock(&g->told.lock);
    struct engine_stat s = g->told.stat;
    pthread_mutex_unlock(&g->told.lock);
    s.n_waiting = engine_waiting(g);
    s.cell_all = g->fixed.room.n_cell;
    s.heartbeat_us =
        atomic_load(&g->told.is_idle) ? clock_us() : atomic_load(&g->told.heartbeat_us);
    return s;
}

int64_t engine_waiting(const struct engine *g)
{
    return atomic_load(&g->told.n_waiting);
}

const struct resident *engine_resident(const struct engine *g)
{
    return &g->fixed.res;
}
