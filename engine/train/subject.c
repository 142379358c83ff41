/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters begin as PEFT's do: A uniform in +-1 / sqrt(inputs), B zero, magnitudes the lengths of
 * the weight's rows. Names are PEFT's module paths, so that a checkpoint and an adapter's file
 * speak of the same things.
 */
#include "engine/train/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/model/saved.h"
#include "kernels/format.h"

enum { NAME_BYTES = 256, RNG_FIRST = 1 << 20 /* the stream of first values, beside a step's */ };

double train_lora_scale(const struct train_lora *l)
{
    return l->alpha / (l->is_rs ? sqrt((double)l->rank) : (double)l->rank);
}

/* Whether the first n bytes of a name end in `part`: "layers.0.self_attn.q_proj" has the last part
 * q_proj, "per_layer_model_projection" is one. */
static bool ends_in(const char *name, size_t n, const char *part)
{
    size_t k = strlen(part);
    bool is_part = k == n || (k < n && name[n - k - 1] == '.');
    return is_part && memcmp(name + n - k, part, k) == 0;
}

/* Adapters of experts are as many times larger than others as there are experts: they are there
 * where they are named, all products of a layer's experts by "experts". */
static bool is_target(const struct train_lora *l, const struct param *p)
{
    if (p->lora < 0)
        return false;
    size_t n = strlen(p->lora_name);
    size_t all = p->n_half ? (size_t)(strrchr(p->lora_name, '.') - p->lora_name) : n;
    for (int32_t i = 0; i < l->n_target; i++) {
        const char *t = l->target[i];
        bool is_experts = strstr(t, TRAIN_EXPERTS) != NULL;
        if (p->n_half ? is_experts && (ends_in(p->lora_name, n, t) || ends_in(p->lora_name, all, t))
                      : ends_in(p->lora_name, n, t))
            return true;
    }
    return l->n_target == 0 && !p->n_half;
}

const char *train_target_name(const char *path, size_t n)
{
    const char *end = path + n, *at = end;
    while (at > path && at[-1] != '.')
        at--;
    if (at == path || at == end || *at < '0' || *at > '9')
        return at;
    for (at--; at > path && at[-1] != '.';)
        at--;
    return at;
}

const char *train_subject_word(enum train_side side)
{
    switch (side) {
    case TRAIN_HALF_A:
        return "lora_A.weight";
    case TRAIN_HALF_B:
        return "lora_B.weight";
    case TRAIN_MAGNITUDE:
        return "lora_magnitude_vector";
    case TRAIN_SELF:
        break;
    }
    BUG("a parameter has its own name");
}

static void add_halves(struct train_subject *s, const struct param *p)
{
    enum train_side last = s->lora.is_dora ? TRAIN_MAGNITUDE : TRAIN_HALF_B;
    s->half_a[p->lora] = (int32_t)s->tensors.list.n;
    for (enum train_side side = TRAIN_HALF_A; side <= last; side++) {
        char name[NAME_BYTES];
        struct train_tensor x = {
            .name = name, .of = p, .rank = s->lora.rank, .decays = true, .side = side};
        snprintf(name, sizeof name, "%s.%s", p->lora_name, train_subject_word(side));
        train_tensors_add(&s->tensors, &x);
    }
}

static void add_self(struct train_subject *s, const struct param *p)
{
    struct train_tensor x = {.name = (char *)(uintptr_t)p->name, /* copied */
                             .of = p,
                             .decays = !p->is_vector || p->n_tap > 0,
                             .param = &model_stored(s->model)[p->index]};
    train_tensors_add(&s->tensors, &x);
}

/* PEFT has none of these: what is left out of an expert's input is not that of a product's. */
static int check_dropout(const struct train_lora *l, const struct model *m, struct err *e)
{
    for (int32_t i = 0; i < m->n_param && l->dropout > 0; i++)
        if (m->param[i].n_half && is_target(l, &m->param[i]))
            return err_set(e, ERR_UNSUPPORTED,
                           "lora_dropout: adapters of experts have none: leave it out, or the "
                           "target " TRAIN_EXPERTS);
    return 0;
}

int train_lora_check(const struct train_lora *l, const struct model *m, struct err *e)
{
    for (int32_t t = 0; t < l->n_target; t++) {
        struct train_lora one = {.target = {l->target[t]}, .n_target = 1};
        bool is_there = false;
        for (int32_t i = 0; i < m->n_param; i++)
            is_there = is_there || is_target(&one, &m->param[i]);
        if (!is_there)
            return err_set(e, ERR_BAD_INPUT, "target %s: no product of the model has this name",
                           l->target[t]);
    }
    return check_dropout(l, m, e);
}

void train_lora_split(struct train_lora *l, const char *names, struct arena *a)
{
    l->n_target = 0;
    for (const char *p = names; *p && l->n_target < TRAIN_TARGET_MAX;) {
        size_t n = strcspn(p, ",");
        l->target[l->n_target++] = arena_strndup(a, p, n);
        p += n + (p[n] == ',');
    }
}

static bool has_target(const struct train_lora *l, const char *name)
{
    for (int32_t i = 0; i < l->n_target; i++)
        if (strcmp(l->target[i], name) == 0)
            return true;
    return false;
}

bool train_lora_same_targets(const struct train_lora *a, const struct train_lora *b)
{
    for (int32_t i = 0; i < a->n_target; i++)
        if (!has_target(b, a->target[i]))
            return false;
    for (int32_t i = 0; i < b->n_target; i++)
        if (!has_target(a, b->target[i]))
            return false;
    return true;
}

static void add_saved(struct train_subject *s)
{
    for (int i = 0; i < SAVED_COUNT; i++) {
        struct train_tensor x = {
            .of = saved_param(s->model, (enum saved)i), .decays = true, .param = s->saved.is[i]};
        char name[NAME_BYTES], module[SAVED_NAME_BYTES];
        if (!x.param)
            continue;
        saved_module(s->model, (enum saved)i, module);
        snprintf(name, sizeof name, "%.240s.weight", module);
        x.name = name;
        train_tensors_add(&s->tensors, &x);
    }
}

static int list(struct train_subject *s, struct err *e)
{
    const struct model *m = s->model;
    if (train_lora_check(&s->lora, m, e))
        return -1;
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (s->lora.rank == 0 && !p->is_fixed)
            add_self(s, p);
        else if (s->lora.rank > 0 && is_target(&s->lora, p))
            add_halves(s, p);
    }
    add_saved(s);
    return 0;
}

/* The tensor's bytes on the host and back: the CPU's are the host's, others' are copied. Draws are
 * told apart by the place that the tensor has where one rank has all, so that ranks begin alike. */
static int first_half_a(struct train_subject *s, const struct train_tensor *t, int64_t at,
                        uint64_t seed, struct err *e)
{
    int64_t lo = train_tensor_part(&s->tensors, t, s->tensors.model.rank).input.lo, k = t->of->k;
    double most = 1 / sqrt((double)k);
    float *x = try_alloc((size_t)(t->rows * t->cols), sizeof *x, t->name, e);
    if (!x)
        return -1;
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0; c < t->cols; c++) {
            double u = rng_unit(seed, RNG_FIRST + (uint64_t)at, (uint64_t)(r * k + lo + c));
            x[r * t->cols + c] = (float)((2 * u - 1) * most);
        }
    stream_copy(s->stream, t->p, x, (size_t)(t->rows * t->cols) * sizeof *x, COPY_TO_DEVICE);
    stream_rest(s->stream);
    int rc = stream_sync(s->stream, e);
    mem_free(x);
    return rc;
}

static int first_halves(struct train_subject *s, uint64_t seed, struct err *e)
{
    struct train_tensors one = s->tensors;
    int64_t *at = xcalloc(one.list.n + 1, sizeof *at);
    int rc = 0;
    one.model = (struct op_ranks){.size = 1};
    one.share = NULL;
    train_tensors_place(&one, 0, at);
    for (int32_t i = 0; i < s->model->n_lora && !rc; i++) {
        int32_t a = s->half_a[i];
        rc = a < 0 ? 0 : first_half_a(s, &s->tensors.list.at[a], at[a], seed, e);
    }
    free(at);
    return rc;
}

/* Where ranks share the model the graph is made from the parameters that all have together: they
 * say that they are trained, and their parts, which the graph then has, get the gradient. */
static void want_gradient(struct train_subject *s, struct train_tensor *t)
{
    struct param *p = t->param, *all = &s->model->param[p->index];
    if (s->lora.rank > 0) {
        p->late = &t->late;
        return;
    }
    all->grad = t->g;
    all->late = t->g ? NULL : &t->late;
    if (train_tensor_part(&s->tensors, t, s->tensors.model.rank).is_zero)
        return; /* another rank has it: zeros here, and so they stay */
    p->grad = all->grad;
    p->late = all->late;
}

/* What a parameter lacks of f32 is zero at first. */
static int first_values(struct train_subject *s, uint64_t seed, struct err *e)
{
    for (size_t i = 0; i < s->tensors.list.n; i++)
        if (s->tensors.list.at[i].param)
            want_gradient(s, &s->tensors.list.at[i]);
    return s->lora.rank > 0 && (first_halves(s, seed, e) || train_magnitudes_first(s, e)) ? -1 : 0;
}

static int check_trained(const struct model *m, struct err *e)
{
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (!p->is_vector && format_is_frozen(p->w.type))
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: weights of %s are not trained themselves: take bf16 or f32 "
                           "(--quantize), or an adapter",
                           p->name, k_format(p->w.type)->name);
    }
    return 0;
}

static int init_list(struct train_subject *s, struct model *m, struct stream *stream,
                     const struct train_options *o, struct err *e)
{
    const struct train_lora *lora = &o->lora;
    *s = (struct train_subject){.model = m, .stream = stream, .lora = *lora};
    train_tensors_init(&s->tensors, m->device);
    s->tensors.has_codes = o->has_codes;
    s->tensors.model = m->ranks;
    if (o->ranks.model)
        s->tensors.model.comm = o->ranks.model;
    s->tensors.share = m->part ? m->share : NULL;
    s->tensors.ranks = o->ranks;
    s->half_a = xcalloc((size_t)m->n_lora + 1, sizeof *s->half_a);
    for (int32_t i = 0; i < m->n_lora; i++)
        s->half_a[i] = -1;
    if (lora->rank == 0 && check_trained(m, e))
        return -1;
    if (lora->rank < 0 || lora->rank > TRAIN_RANK_MAX)
        return err_set(e, ERR_BAD_INPUT, "rank %lld: 1 to %d", (long long)lora->rank,
                       TRAIN_RANK_MAX);
    return train_saved_check(m, o, e) || train_magnitudes_check(m, lora, e) ||
                   train_saved_init(&s->saved, m, lora->saves,
                                    o->has_ancestor && train_has_reference(o), stream, e) ||
                   list(s, e)
               ? -1
               : 0;
}

int train_subject_init(struct train_subject *s, struct model *m, struct stream *stream,
                       const struct train_options *o, struct err *e)
{
    bool has_reference = o->has_ancestor && train_has_reference(o);
    if (init_list(s, m, stream, o, e) || train_tensors_alloc(&s->tensors, e) ||
        train_magnitudes_init(s, has_reference, e))
        return -1;
    if (has_reference) {
        size_t bytes = (size_t)s->tensors.n_half * sizeof(float);
        s->reference = device_alloc(m->device, bytes, "the adapter to compare with", e);
        if (!s->reference)
            return -1;
    }
    return first_values(s, o->seed, e);
}

size_t train_subject_reference_bytes(const struct train_subject *s)
{
    size_t halves = (size_t)s->tensors.n_half * sizeof(float);
    return s->reference ? halves + s->saved.reference_bytes : 0;
}

int train_subject_ready(struct train_subject *s, struct err *e)
{
    return train_magnitudes_find(s, false, e);
}

int train_subject_refer(struct train_subject *s, struct err *e)
{
    if (!s->reference)
        return 0;
    stream_copy(s->stream, s->reference, s->tensors.p, (size_t)s->tensors.n_half * sizeof(float),
                COPY_ON_DEVICE);
    train_saved_refer(&s->saved, s->stream);
    return train_magnitudes_find(s, true, e) || stream_sync(s->stream, e) ? -1 : 0;
}

void train_subject_release(struct train_subject *s)
{
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        struct param *p = s->tensors.list.at[i].param;
        if (p && s->lora.rank == 0) {
            struct param *all = &s->model->param[p->index];
            p->grad = all->grad = NULL;
            p->late = all->late = NULL;
        }
    }
    train_tensors_release(&s->tensors);
    train_saved_release(&s->saved);
    train_magnitudes_release(&s->magnitudes);
    if (s->reference)
        device_mem_free(s->model->device, s->reference);
    s->reference = NULL;
    free(s->half_a);
    s->half_a = NULL;
}

void train_subject_bind(const struct train_subject *s, bool is_reference, struct packed *p,
                        const struct param *saved[SAVED_COUNT])
{
    struct k_lora_group *g = packed_lora(p);
    for (int i = 0; i < SAVED_COUNT; i++)
        saved[i] = is_reference ? s->saved.before[i] : s->saved.is[i];
    if (s->lora.rank == 0 || (is_reference && !s->reference))
        return;
    for (int32_t i = 0; i < s->model->n_lora; i++) {
        g[i] = (struct k_lora_group){0};
        if (s->half_a[i] < 0)
            continue;
        const struct train_tensor *a = &s->tensors.list.at[s->half_a[i]], *b = a + 1;
        g[i].rank = s->lora.rank;
        g[i].scale = (float)train_lora_scale(&s->lora);
        g[i].a = is_reference ? s->reference + a->at : a->p;
        g[i].b = is_reference ? s->reference + b->at : b->p;
        g[i].da = a->g;
        g[i].db = b->g;
        train_magnitudes_bind(s, i, is_reference, &g[i]);
    }
}
