/* SPDX-License-Identifier: Apache-2.0
 *
 * What each request of a model does to its loop, and is answered with. What is wrong with one is
 * told by its error, and leaves the model as it was; but for a pass that fails in its middle, which
 * takes the gradients since the last update with it.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "api/jout.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "server/tinker/tinker_own.h"

static int refused(const struct api_error *said, struct err *e)
{
    return err_set(e, ERR_BAD_INPUT, "%s", said->message);
}

/* ---- beginning ------------------------------------------------------------------------------- */

int tinker_begin_loop(struct tinker_run *r, struct err *e)
{
    struct engine *g = r->all->opt.engine;
    const struct loop_model *m = &r->model;
    const struct tune_loop_options o = {
        .rank = m->rank,
        .alpha = TINKER_ALPHA,
        .targets = tune_loop_targets(g, (m->parts & LOOP_ATTENTION) != 0,
                                     (m->parts & LOOP_OTHERS) != 0, r->arena),
        .seed = (uint64_t)m->seed,
        .memory = r->all->opt.train_memory};
    r->loop = tune_loop_new(g, &o, e);
    return r->loop ? 0 : -1;
}

static int check_base(const struct tinker_run *r, const char *base, struct err *e)
{
    const char *name = engine_info(r->all->opt.engine)->name;
    return !base || strcmp(base, name) == 0
               ? 0
               : err_set(e, ERR_BAD_INPUT, "there is no base model '%.100s' here: it is '%s'", base,
                         name);
}

static int begin(struct tinker_run *r, int64_t rank, int64_t seed, int64_t parts, struct err *e)
{
    int64_t most = engine_info(r->all->opt.engine)->max_lora_rank;
    if (rank > most)
        return err_set(e, ERR_BAD_INPUT,
                       "a rank of %lld: adapters here have at most %lld "
                       "(--max-lora-rank)",
                       (long long)rank, (long long)most);
    r->model.rank = rank;
    r->model.seed = seed;
    r->model.parts = parts;
    r->begins = true;
    return tinker_begin_loop(r, e);
}

static int create(struct tinker_run *r, struct err *e)
{
    const struct loop_request *q = r->request;
    struct tinker_create c;
    struct api_error said;
    struct siphash_key key = {0, 1}; /* ids are drawn, so what follows from one is too */
    if (tinker_create_read(q->body, q->n_body, r->arena, &c, &said))
        return refused(&said, e);
    uint64_t seed = c.has_seed ? c.seed : siphash(key, q->id, strlen(q->id)) >> 1;
    int64_t parts = (c.has_attention ? LOOP_ATTENTION : 0) | (c.has_others ? LOOP_OTHERS : 0);
    if (check_base(r, c.base_model, e) || begin(r, c.rank, (int64_t)seed, parts, e))
        return -1;
    struct jout j = jout_on(r->answer);
    jout_open(&j, '{');
    jout_put_str(&j, "model_id", q->line);
    jout_put_str(&j, "type", "create_model");
    jout_close(&j, '}');
    return 0;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static int read_loss(const struct tinker_pass *p, struct label_loss *l, struct err *e)
{
    if (!label_loss_find(p->loss, l))
        return err_set(e, ERR_BAD_INPUT,
                       "there is no loss '%.64s' here: there are cross_entropy, "
                       "importance_sampling, ppo, cispo and dro",
                       p->loss);
    l->low = isnan(p->low) ? l->low : p->low;
    l->high = isnan(p->high) ? l->high : p->high;
    l->beta = isnan(p->beta) ? l->beta : p->beta;
    return l->low <= l->high
               ? 0
               : err_set(e, ERR_BAD_INPUT, "clip_low_threshold is above clip_high_threshold");
}

/* All that could fail for a row's sake is looked at before anything is computed. */
static int check_row(const struct tinker_run *r, const struct label_loss *l,
                     const struct tinker_row *x, int64_t i, struct err *e)
{
    const struct engine_info *on = engine_info(r->all->opt.engine);
    if (x->n > on->ctx)
        return err_set(e, ERR_BAD_INPUT, "row %lld of 'data' has %lld tokens, the model takes %lld",
                       (long long)i, (long long)x->n, (long long)on->ctx);
    if (label_loss_compares(l) && (!x->counts || !x->sampled))
        return err_set(e, ERR_BAD_INPUT, "row %lld of 'data' lacks '%s', which the loss asks for",
                       (long long)i, x->counts ? "logprobs" : "advantages");
    for (int64_t k = 0; k < x->n; k++)
        if (x->id[k] < 0 || x->id[k] >= on->n_vocab || x->label[k] >= on->n_vocab)
            return err_set(e, ERR_BAD_INPUT,
                           "row %lld of 'data': token %lld, or its target, is not in the "
                           "vocabulary of %lld",
                           (long long)i, (long long)k, (long long)on->n_vocab);
    return 0;
}

static const float *ones(struct tinker_run *r, int64_t n)
{
    float *one = ARENA_ARRAY(r->arena, float, n);
    for (int64_t i = 0; i < n; i++)
        one[i] = 1;
    return one;
}

/* All that a key has saved, bodies of passes included, is within what its files may have. */
static int check_room(struct tinker_run *r, struct err *e)
{
    struct who who;
    int64_t bytes, quota = 0;
    if (!r->all->opt.who(r->all->opt.ctx, r->request->owner, &who, &quota) || quota == 0)
        return 0;
    if (store_loop_bytes(r->all->opt.store, r->request->owner, &bytes, e))
        return -1;
    return bytes < quota
               ? 0
               : err_set(e, ERR_BAD_INPUT,
                         "what trainings of this key keep takes %lld bytes, and it may have "
                         "%lld (--files-quota): delete what it saved, or step",
                         (long long)bytes, (long long)quota);
}

struct pass {
    struct tinker_pass ask;
    struct label_loss loss;
    struct tune_loop_row *row;
    float *logprob; /* of all rows */
};

static int read_pass(struct tinker_run *r, struct pass *p, struct err *e)
{
    struct api_error said;
    int64_t n = 0, longest = 0;
    if (tinker_pass_read(r->request->body, r->request->n_body, r->arena, &p->ask, &said))
        return refused(&said, e);
    if (read_loss(&p->ask, &p->loss, e))
        return -1;
    for (int64_t i = 0; i < p->ask.n_row; n += p->ask.row[i++].n) {
        if (check_row(r, &p->loss, &p->ask.row[i], i, e))
            return -1;
        longest = p->ask.row[i].n > longest ? p->ask.row[i].n : longest;
    }
    const float *one = ones(r, longest);
    p->row = ARENA_ARRAY(r->arena, struct tune_loop_row, p->ask.n_row);
    p->logprob = ARENA_ARRAY(r->arena, float, n);
    n = 0;
    for (int64_t i = 0; i < p->ask.n_row; n += p->ask.row[i++].n) {
        const struct tinker_row *x = &p->ask.row[i];
        p->row[i] = (struct tune_loop_row){.id = x->id,
                                           .label = x->label,
                                           .counts = x->counts ? x->counts : one,
                                           .sampled = x->sampled,
                                           .logprob = p->logprob + n,
                                           .n = x->n};
    }
    return 0;
}

static int pass(struct tinker_run *r, struct err *e)
{
    struct pass p;
    struct tune_loop_sums sums;
    if (read_pass(r, &p, e) ||
        tune_loop_pass(r->loop, p.row, p.ask.n_row, &p.loss, !p.ask.is_forward_only, &sums, e))
        return -1;
    r->changes = !p.ask.is_forward_only;
    tinker_pass_write(r->answer, &p.ask, p.logprob, sums.loss, sums.n_clipped, sums.n_moved);
    return 0;
}

/* ---- updates --------------------------------------------------------------------------------- */

static int step(struct tinker_run *r, struct err *e)
{
    struct tinker_step s;
    struct api_error said;
    double norm;
    int64_t n;
    if (tinker_step_read(r->request->body, r->request->n_body, r->arena, &s, &said))
        return refused(&said, e);
    if (!tune_loop_has_gradient(r->loop))
        return err_set(e, ERR_BAD_INPUT,
                       "there is no gradient: no forward_backward came, or came to its end, since "
                       "the last optim_step");
    const struct tune_loop_adam how = {s.lr, s.beta1, s.beta2, s.eps, s.decay, s.max_norm};
    if (tune_loop_update(r->loop, &how, &norm, &n, e))
        return -1;
    r->changes = true;
    struct jout j = jout_on(r->answer);
    jout_open(&j, '{');
    jout_key(&j, "metrics");
    jout_open(&j, '{');
    jout_put_num(&j, "grad_norm", norm);
    jout_put_num(&j, "step", (double)n);
    jout_close(&j, '}');
    jout_close(&j, '}');
    return 0;
}

/* ---- saves ----------------------------------------------------------------------------------- */

/* Of an earlier save under this name; NULL: none, or what this request itself has left. */
static int find_old(struct tinker_run *r, bool overwrites, struct err *e)
{
    struct loop_weights old;
    struct err none = ERR_INIT;
    if (store_loop_weights(r->all->opt.store, r->request->owner, r->weights.path, r->arena, &old,
                           &none))
        return none.code == ERR_NOT_FOUND ? 0 : err_set(e, none.code, "%s", none.msg);
    if (!overwrites)
        return err_set(e, ERR_EXISTS, "there are weights of this path already: '%.300s'",
                       r->weights.path);
    r->old_dir = old.dir;
    return 0;
}

static int describe(struct tinker_run *r, bool is_sampler, struct tinker_save *s, struct err *e)
{
    const struct loop_request *q = r->request;
    struct api_error said;
    if (tinker_save_read(q->body, q->n_body, r->arena, s, &said))
        return refused(&said, e);
    if (check_room(r, e))
        return -1;
    const char *name = s->name ? s->name
                               : arena_printf(r->arena, "%s-%lld", is_sampler ? "unnamed" : "state",
                                              (long long)q->seq);
    r->weights = (struct loop_weights){
        .path = arena_printf(r->arena, "tinker://%s/%s/%s", q->line,
                             is_sampler ? "sampler_weights" : "weights", name),
        .owner = q->owner,
        .model = q->line,
        .dir = tinker_saved_name(q->id, r->arena),
        .base = r->model.base,
        .fingerprint = r->model.fingerprint,
        .rank = r->model.rank,
        .parts = r->model.parts,
        .created = (int64_t)time(NULL),
        .expires = s->ttl_s ? (int64_t)time(NULL) + s->ttl_s : 0,
        .is_sampler = is_sampler,
        .is_named = s->name || !is_sampler};
    return find_old(r, is_sampler || s->overwrites, e);
}

static void tell_saved(struct tinker_run *r, const char *type)
{
    struct jout j = jout_on(r->answer);
    jout_open(&j, '{');
    jout_put_str(&j, "path", r->weights.path);
    if (r->sampler.id)
        jout_put_str(&j, "sampling_session_id", r->sampler.id);
    jout_put_str(&j, "type", type);
    jout_close(&j, '}');
}

static int save(struct tinker_run *r, struct err *e)
{
    struct tinker_save s;
    if (describe(r, false, &s, e) ||
        tune_loop_save(r->loop, tinker_path(r->all, r->weights.dir, r->arena), e))
        return -1;
    r->weights.bytes = tinker_bytes(r->all, r->weights.dir);
    tell_saved(r, "save_weights");
    return 0;
}

static int save_sampler(struct tinker_run *r, struct err *e)
{
    struct tinker_save s;
    if (describe(r, true, &s, e))
        return -1;
    const char *path = tinker_path(r->all, r->weights.dir, r->arena);
    if (made_remove(path, e) || tune_loop_publish(r->loop, path, r->model.base, e))
        return -1;
    if (r->old_dir)
        engine_adapter_forget(r->all->opt.engine, r->weights.path);
    if (tinker_know(r->all, &r->weights, e))
        return -1;
    r->weights.bytes = tinker_bytes(r->all, r->weights.dir);
    if (s.sampler_seq >= 0)
        r->sampler =
            (struct loop_sampler){.id = arena_printf(r->arena, "%s:sample:%lld", r->model.session,
                                                     (long long)s.sampler_seq),
                                  .owner = r->request->owner,
                                  .session = r->model.session,
                                  .path = r->weights.path,
                                  .created = r->weights.created};
    tell_saved(r, "save_weights_for_sampler");
    return 0;
}

/* ---- loads ----------------------------------------------------------------------------------- */

static int load(struct tinker_run *r, struct err *e)
{
    const struct loop_request *q = r->request;
    struct tinker_load l;
    struct loop_weights w;
    struct api_error said;
    struct err none = ERR_INIT;
    if (tinker_load_read(q->body, q->n_body, r->arena, &l, &said))
        return refused(&said, e);
    if (check_base(r, l.base_model, e))
        return -1;
    if (store_loop_weights(r->all->opt.store, q->owner, l.path, r->arena, &w, &none))
        return none.code == ERR_NOT_FOUND
                   ? err_set(e, ERR_NOT_FOUND, "this key has no weights '%.300s'", l.path)
                   : err_set(e, none.code, "%s", none.msg);
    if (w.is_sampler)
        return err_set(e, ERR_BAD_INPUT,
                       "'%.300s' are weights for samplers, which no training goes on from: "
                       "save_state makes those",
                       l.path);
    if (engine_base_match(r->all->opt.engine, w.fingerprint) != ENGINE_BASE_SAME)
        return err_set(e, ERR_UNSUPPORTED, "'%.300s' are of another base, '%.80s'", l.path, w.base);
    if (!r->loop && begin(r, w.rank, 0, w.parts, e))
        return -1;
    if (w.rank != r->model.rank || w.parts != r->model.parts)
        return err_set(e, ERR_BAD_INPUT,
                       "'%.300s' are of another shape than the model: of rank %lld, not %lld, or "
                       "of other products",
                       l.path, (long long)w.rank, (long long)r->model.rank);
    if (tune_loop_load(r->loop, tinker_path(r->all, w.dir, r->arena), l.has_optimizer, e))
        return -1;
    struct jout j = jout_on(r->answer);
    jout_open(&j, '{');
    jout_put_str(&j, "path", l.path);
    jout_put_str(&j, "model_id", q->line);
    jout_put_str(&j, "type", "load_weights");
    jout_close(&j, '}');
    return 0;
}

/* ---- any ------------------------------------------------------------------------------------- */

int tinker_run(struct tinker_run *r, struct err *e)
{
    bool is_first = r->request->seq == 0;
    if (!is_first && !r->loop)
        return err_set(e, ERR_BAD_INPUT, "the model could not be begun: %s",
                       "its first request says why");
    switch ((enum tinker_kind)r->request->kind) {
    case TINKER_CREATE:
        return create(r, e);
    case TINKER_PASS: /* an update is always taken: it frees their bodies */
        return check_room(r, e) || pass(r, e) ? -1 : 0;
    case TINKER_STEP:
        return step(r, e);
    case TINKER_SAVE:
        return save(r, e);
    case TINKER_LOAD:
        return load(r, e);
    case TINKER_SAVE_SAMPLER:
        return save_sampler(r, e);
    case TINKER_SAMPLE:
        break;
    }
    return err_set(e, ERR_BAD_INPUT, "no request of a model");
}

/* What changed nothing left no body; but where gradients went with what failed they are gone
 * again. What loads is behind the state that the model is begun from. */
int tinker_rerun(struct tinker_run *r, struct err *e)
{
    const struct loop_request *q = r->request;
    if (q->state == LOOP_BROKE)
        tune_loop_drop_gradient(r->loop);
    if (q->state != LOOP_DONE || !q->body)
        return 0;
    return q->kind == TINKER_PASS ? pass(r, e) : q->kind == TINKER_STEP ? step(r, e) : 0;
}
