/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass is cut into micro-batches by its own rows alone, so that what is computed again later has
 * the same bits whatever was computed before. Memory is planned as of any training, for rows as
 * long as the longest that came.
 */
#include "engine/train/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/serve/resident.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/checkpoint.h"
#include "engine/train/gated.h"
#include "engine/train/limit.h"
#include "engine/train/plan.h"
#include "engine/train/trainer.h"

enum {
    MICRO_BATCH = 2048, /* tokens that are computed at once, where rows are not longer */
    NAMES_BYTES = 1 << 16,
    NAME_BYTES = 128,
    SUBJECT_BYTES = 512
};

struct tune_loop {
    struct engine *engine; /* borrowed */
    struct arena arena;    /* the targets' names */
    struct train_options opt;
    int64_t memory, cap_tok; /* given; what the plan is for */
    struct stream *stream;   /* owned */
    struct trainer *trainer; /* owned */
};

/* ---- what is trained ----------------------------------------------------------------------- */

/* The last parts of a product's name, "layers.0.self_attn.q_proj": q_proj, or two of them; of
 * experts what stands for all their products. */
static void last_parts(const struct param *p, int n_part, char name[NAME_BYTES])
{
    size_t at = strlen(p->lora_name);
    while (at > 0 && (p->lora_name[at - 1] != '.' || --n_part > 0))
        at--;
    snprintf(name, NAME_BYTES, "%s", p->n_half ? TRAIN_EXPERTS : p->lora_name + at);
}

static bool has_name(const char *all, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = all; (p = strstr(p, name)); p += n)
        if ((p == all || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

/* Which products stand in a layer's mixer: [n_param], by index. */
static bool *mixers_of(const struct model *m, struct arena *a)
{
    bool *is_mixer = arena_alloc(a, (size_t)m->n_param * sizeof *is_mixer); /* zeros */
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        for (int s = SLOT_GLOBAL_COUNT; s < SLOT_MIXER_END; s++) {
            const struct param *p = model_layer(m, l, (enum slot)s);
            if (p)
                is_mixer[p->index] = true;
        }
    return is_mixer;
}

/* Whether a product of the other kind ends in the same name: GPT-2 has two of c_proj. */
static bool is_shared(const struct model *m, const bool *is_mixer, const struct param *p)
{
    char name[NAME_BYTES], other[NAME_BYTES];
    last_parts(p, 1, name);
    for (int32_t i = 0; i < m->n_param; i++) {
        if (m->param[i].lora < 0 || is_mixer[i] == is_mixer[p->index])
            continue;
        last_parts(&m->param[i], 1, other);
        if (strcmp(name, other) == 0)
            return true;
    }
    return false;
}

static bool has_experts(const struct model *m)
{
    for (int32_t i = 0; i < m->n_param; i++)
        if (m->param[i].n_half)
            return true;
    return false;
}

const char *tune_loop_targets(const struct engine *g, bool attention, bool others, struct arena *a)
{
    const struct model *m = engine_resident(g)->model;
    const char *all = "";
    bool is_all = attention && others;
    if (is_all && !has_experts(m)) /* which have adapters where they are named alone */
        return all;
    const bool *is_mixer = mixers_of(m, a);
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        char name[NAME_BYTES];
        if (p->lora < 0 || !(is_all || is_mixer[i] == attention))
            continue;
        last_parts(p, !is_all && is_shared(m, is_mixer, p) ? 2 : 1, name);
        if (!has_name(all, name))
            all = arena_printf(a, "%s%s%s", all, *all ? "," : "", name);
    }
    return all;
}

int tune_loop_check(const struct engine *g, struct err *e)
{
    const struct resident *on = engine_resident(g);
    if (on->crew)
        return err_set(e, ERR_UNSUPPORTED,
                       "training step by step is not supported where ranks share the model (--tp)");
    if (on->model->cfg.balance > 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "config.json: output_router_logits: training step by step knows only the "
                       "losses of its passes, not the one that balances a router "
                       "(router_aux_loss_coef): set it to false to train without");
    return on->model->n_lora ? 0
                             : err_set(e, ERR_UNSUPPORTED,
                                       "the model has no product that takes "
                                       "adapters");
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Rows of so many tokens, of which each is learned: what a training of them takes. */
static int plan(struct tune_loop *l, int64_t cap_tok, struct err *e)
{
    const struct resident *on = engine_resident(l->engine);
    const struct dataset_options none = {.max_tok = cap_tok};
    struct train_plan p;
    struct dataset d;
    dataset_init(&d, &none);
    const struct dataset_row row = {.n = cap_tok, .n_learn = cap_tok};
    vec_push(&d.row, row);
    d.longest = cap_tok;
    struct tuning_options o = {.train = l->opt, .n_epoch = 1, .batch = 1, .data = &d};
    o.train.cap_tok = cap_tok;
    int rc = train_plan(on->model, on->device, &o, RECOMPUTE_AUTO, false,
                        train_limit(l->engine, l->memory), &p, e);
    dataset_release(&d);
    if (rc)
        return -1;
    l->opt.value_bytes = p.value_bytes;
    l->opt.checkpoints_blocks = p.recomputes;
    l->cap_tok = cap_tok;
    return 0;
}

/* The cut of a pass with such a longest row. */
static int64_t micro_batch(const struct tune_loop *l, int64_t longest)
{
    int64_t ctx = engine_info(l->engine)->ctx, least = ctx < MICRO_BATCH ? ctx : MICRO_BATCH;
    return longest > least ? longest : least;
}

static void enter(struct tune_loop *l)
{
    gated_enter(engine_gate(l->engine), l->stream, NULL);
}

static void leave(struct tune_loop *l)
{
    gated_leave(engine_gate(l->engine), l->stream, NULL);
}

/* ---- its life ------------------------------------------------------------------------------ */

static int make(struct tune_loop *l, struct err *e)
{
    const struct resident *on = engine_resident(l->engine);
    l->opt.cap_tok = micro_batch(l, 0);
    if (tune_loop_check(l->engine, e) || plan(l, l->opt.cap_tok, e))
        return -1;
    l->stream = stream_new_yielding(on->device, e);
    if (!l->stream)
        return -1;
    enter(l);
    l->trainer = trainer_new(on->model, &l->opt, l->stream, e);
    leave(l);
    return l->trainer ? 0 : -1;
}

struct tune_loop *tune_loop_new(struct engine *g, const struct tune_loop_options *o, struct err *e)
{
    struct tune_loop *l = xcalloc(1, sizeof *l);
    l->engine = g;
    l->memory = o->memory;
    arena_init(&l->arena, NAMES_BYTES);
    train_options_default(&l->opt);
    l->opt.lora = (struct train_lora){.rank = o->rank, .alpha = o->alpha};
    train_lora_split(&l->opt.lora, o->targets, &l->arena);
    l->opt.seed = o->seed;
    if (!make(l, e))
        return l;
    tune_loop_free(l);
    return NULL;
}

void tune_loop_free(struct tune_loop *l)
{
    if (!l)
        return;
    trainer_free(l->trainer);
    if (l->stream)
        stream_free(l->stream);
    arena_release(&l->arena);
    free(l);
}

/* ---- steps --------------------------------------------------------------------------------- */

static int fit(struct tune_loop *l, int64_t longest, struct err *e)
{
    int64_t cap = micro_batch(l, longest);
    if (cap > l->cap_tok && plan(l, cap, e))
        return -1;
    return trainer_fit(l->trainer, cap, l->opt.value_bytes, l->opt.checkpoints_blocks, e);
}

int tune_loop_pass(struct tune_loop *l, const struct tune_loop_row *row, int64_t n,
                   const struct label_loss *loss, bool trains, struct tune_loop_sums *out,
                   struct err *e)
{
    struct train_result got;
    struct train_row *at = try_alloc((size_t)n, sizeof *at, "rows of a pass", e);
    int64_t longest = 0;
    int rc = at ? 0 : -1;
    for (int64_t i = 0; i < n && !rc; i++) {
        at[i] = (struct train_row){.id = row[i].id,
                                   .label = row[i].label,
                                   .counts = row[i].counts,
                                   .sampled = row[i].sampled,
                                   .logprob = row[i].logprob,
                                   .n = row[i].n,
                                   .key = (uint64_t)i};
        longest = row[i].n > longest ? row[i].n : longest;
    }
    enter(l);
    if (!rc)
        rc = fit(l, longest, e) || trainer_pass(l->trainer, at, n, loss, trains, &got, e) ? -1 : 0;
    if (rc)
        trainer_forget(l->trainer);
    leave(l);
    mem_free(at);
    if (!rc)
        *out = (struct tune_loop_sums){got.loss, got.n_label, got.n_clipped, got.n_moved};
    return rc;
}

bool tune_loop_has_gradient(const struct tune_loop *l)
{
    return trainer_has_gradient(l->trainer);
}

void tune_loop_drop_gradient(struct tune_loop *l)
{
    enter(l);
    trainer_forget(l->trainer);
    leave(l);
}

void tune_loop_rest(struct tune_loop *l)
{
    trainer_rest(l->trainer);
}

int tune_loop_update(struct tune_loop *l, const struct tune_loop_adam *how, double *grad_norm,
                     int64_t *step, struct err *e)
{
    const struct train_adam a = {how->lr,  how->beta1, how->beta2,
                                 how->eps, how->decay, how->max_norm};
    enter(l);
    int rc = trainer_update(l->trainer, &a, grad_norm, e);
    leave(l);
    *step = trainer_n_step(l->trainer);
    return rc;
}

/* ---- its state ----------------------------------------------------------------------------- */

/* What a state must have been made with. */
static void subject_of(const struct tune_loop *l, char text[SHA256_TEXT_BYTES])
{
    const struct train_lora *o = &l->opt.lora;
    uint8_t digest[SHA256_BYTES];
    char made[SUBJECT_BYTES];
    struct sha256 s;
    sha256_init(&s);
    int n = snprintf(made, sizeof made, "loop %lld %a|", (long long)o->rank, o->alpha);
    sha256_add(&s, made, (size_t)n);
    for (int32_t i = 0; i < o->n_target; i++) {
        sha256_add(&s, o->target[i], strlen(o->target[i]));
        sha256_add(&s, ",", 1);
    }
    sha256_end(&s, digest);
    sha256_text(digest, text);
}

static void describe(const struct tune_loop *l, struct checkpoint *c)
{
    *c = (struct checkpoint){.step = trainer_n_step(l->trainer)};
    subject_of(l, c->subject);
    c->base = engine_resident(l->engine)->model->base;
}

static struct train_tensors *tensors_of(struct tune_loop *l)
{
    return &trainer_subject(l->trainer)->tensors;
}

int tune_loop_save(struct tune_loop *l, const char *dir, struct err *e)
{
    struct checkpoint c;
    describe(l, &c);
    return checkpoint_forget(dir, e) || checkpoint_open(dir, e) ||
                   checkpoint_save(dir, &c, tensors_of(l), l->stream, e)
               ? -1
               : 0;
}

/* Zeros, as of a loop that has taken no step. */
static void clear_moments(struct tune_loop *l)
{
    const struct train_tensors *on = tensors_of(l);
    float *const of[] = {on->m, on->v};
    for (int i = 0; i < 2; i++) {
        int64_t n = on->own_hi - on->own_lo;
        struct k_copy zero = {.y = of[i], .m = 1, .d = n, .ld_y = n};
        stream_launch(l->stream, K_copy, &zero, sizeof zero);
    }
    trainer_set_step(l->trainer, 0);
}

int tune_loop_load(struct tune_loop *l, const char *dir, bool has_moments, struct err *e)
{
    struct checkpoint c;
    describe(l, &c);
    tune_loop_drop_gradient(l);
    if (checkpoint_load(dir, &c, tensors_of(l), l->stream, e))
        return -1;
    trainer_set_step(l->trainer, c.step);
    if (!has_moments)
        clear_moments(l);
    return stream_sync(l->stream, e);
}

int tune_loop_forget(const char *dir, struct err *e)
{
    if (checkpoint_forget(dir, e))
        return -1;
    return !rmdir(dir) || errno == ENOENT || errno == ENOTEMPTY ? 0
                                                                : err_sys(e, "removing %s", dir);
}

int tune_loop_publish(struct tune_loop *l, const char *path, const char *base, struct err *e)
{
    return adapter_dir_write(path, trainer_subject(l->trainer), base, e);
}
