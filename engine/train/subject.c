/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters begin as PEFT's do: A uniform in +-1 / sqrt(inputs), B zero. Names are PEFT's module
 * paths, so that a checkpoint and an adapter's file speak of the same things.
 */
#include "engine/train/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { NAME_BYTES = 256, RNG_FIRST = 1 << 20 /* the stream of first values, beside a step's */ };

double train_lora_scale(const struct train_lora *l)
{
    return l->alpha / (l->is_rs ? sqrt((double)l->rank) : (double)l->rank);
}

/* "layers.0.self_attn.q_proj.weight" has the last part q_proj. */
static bool is_target(const struct train_lora *l, const struct param *p)
{
    size_t n = strlen(p->name) - strlen(".weight");
    if (p->lora < 0)
        return false;
    for (int32_t i = 0; i < l->n_target; i++) {
        size_t k = strlen(l->target[i]);
        if (k < n && p->name[n - k - 1] == '.' && memcmp(p->name + n - k, l->target[i], k) == 0)
            return true;
    }
    return l->n_target == 0;
}

static void add_halves(struct train_subject *s, const struct param *p)
{
    char name[NAME_BYTES];
    int n = (int)(strlen(p->name) - strlen(".weight"));
    s->half_a[p->lora] = (int32_t)s->tensors.list.n;
    snprintf(name, sizeof name, "%.*s.lora_A.weight", n, p->name);
    train_tensors_add(&s->tensors, name, s->lora.rank, p->k, true, NULL);
    snprintf(name, sizeof name, "%.*s.lora_B.weight", n, p->name);
    train_tensors_add(&s->tensors, name, p->n, s->lora.rank, true, NULL);
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
    return 0;
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

static int list(struct train_subject *s, struct err *e)
{
    const struct model *m = s->model;
    if (train_lora_check(&s->lora, m, e))
        return -1;
    for (int32_t i = 0; i < m->n_param; i++) {
        struct param *p = &m->param[i];
        if (s->lora.rank == 0)
            train_tensors_add(&s->tensors, p->name, p->n, p->k, !p->is_vector, p);
        else if (is_target(&s->lora, p))
            add_halves(s, p);
    }
    return 0;
}

/* The tensor's bytes on the host and back: the CPU's are the host's, others' are copied. */
static int first_half_a(struct train_subject *s, const struct train_tensor *t, uint64_t seed,
                        struct err *e)
{
    int64_t n = t->rows * t->cols;
    double most = 1 / sqrt((double)t->cols);
    float *x = try_alloc((size_t)n, sizeof *x, t->name, e);
    if (!x)
        return -1;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((2 * rng_unit(seed, RNG_FIRST + (uint64_t)t->at, (uint64_t)i) - 1) * most);
    stream_copy(s->stream, t->p, x, (size_t)n * sizeof *x, COPY_TO_DEVICE);
    stream_rest(s->stream);
    int rc = stream_sync(s->stream, e);
    mem_free(x);
    return rc;
}

static void first_original(struct train_subject *s, struct train_tensor *t)
{
    struct param *p = t->param;
    if (p->is_vector) {
        stream_copy(s->stream, t->p, p->vec, (size_t)p->n * sizeof(float), COPY_ON_DEVICE);
    } else {
        struct k_weight_unpack a = {.w = p->w, .dst = t->p, .ld_dst = p->k};
        stream_launch(s->stream, K_weight_unpack, &a, sizeof a);
    }
    p->grad = t->g;
    p->late = t->g ? NULL : &t->late;
}

static int first_values(struct train_subject *s, uint64_t seed, struct err *e)
{
    if (s->lora.rank == 0) {
        for (size_t i = 0; i < s->tensors.list.n; i++)
            first_original(s, &s->tensors.list.at[i]);
        return stream_sync(s->stream, e);
    }
    for (int32_t i = 0; i < s->model->n_lora; i++)
        if (s->half_a[i] >= 0 && first_half_a(s, &s->tensors.list.at[s->half_a[i]], seed, e))
            return -1;
    return 0;
}

static int init_list(struct train_subject *s, struct model *m, struct stream *stream,
                     const struct train_lora *lora, struct err *e)
{
    *s = (struct train_subject){.model = m, .stream = stream, .lora = *lora};
    train_tensors_init(&s->tensors, m->device);
    s->half_a = xcalloc((size_t)m->n_lora + 1, sizeof *s->half_a);
    for (int32_t i = 0; i < m->n_lora; i++)
        s->half_a[i] = -1;
    if (lora->rank == 0 && m->type == K_INT8)
        return err_set(e, ERR_UNSUPPORTED,
                       "weights of eight bits are not trained themselves: take bf16 or f32, or an "
                       "adapter");
    if (lora->rank < 0 || lora->rank > TRAIN_RANK_MAX)
        return err_set(e, ERR_BAD_INPUT, "rank %lld: 1 to %d", (long long)lora->rank,
                       TRAIN_RANK_MAX);
    return list(s, e);
}

int train_subject_init(struct train_subject *s, struct model *m, struct stream *stream,
                       const struct train_lora *lora, uint64_t seed, struct err *e)
{
    if (init_list(s, m, stream, lora, e) || train_tensors_alloc(&s->tensors, e))
        return -1;
    return first_values(s, seed, e);
}

void train_subject_release(struct train_subject *s)
{
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        struct param *p = s->tensors.list.at[i].param;
        if (p) {
            p->grad = NULL;
            p->late = NULL;
        }
    }
    train_tensors_release(&s->tensors);
    free(s->half_a);
    s->half_a = NULL;
}

int train_subject_bytes(struct model *m, const struct train_lora *lora, size_t *bytes,
                        struct err *e)
{
    struct train_subject s;
    int rc = init_list(&s, m, NULL, lora, e);
    *bytes = train_tensors_bytes(&s.tensors);
    train_subject_release(&s);
    return rc;
}

void train_subject_bind(const struct train_subject *s, struct packed *p)
{
    struct k_lora_group *g = packed_lora(p);
    if (s->lora.rank == 0)
        return;
    for (int32_t i = 0; i < s->model->n_lora; i++) {
        g[i] = (struct k_lora_group){0};
        if (s->half_a[i] < 0)
            continue;
        const struct train_tensor *a = &s->tensors.list.at[s->half_a[i]], *b = a + 1;
        g[i].rank = s->lora.rank;
        g[i].scale = (float)train_lora_scale(&s->lora);
        g[i].a = a->p;
        g[i].b = b->p;
        g[i].da = a->g;
        g[i].db = b->g;
    }
}

void train_subject_changed(struct train_subject *s)
{
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        const struct train_tensor *t = &s->tensors.list.at[i];
        struct param *p = t->param;
        if (!p)
            continue;
        if (p->is_vector) {
            stream_copy(s->stream, p->vec, t->p, (size_t)p->n * sizeof(float), COPY_ON_DEVICE);
        } else {
            struct k_weight_pack w = {
                .src = t->p, .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
            stream_launch(s->stream, K_weight_pack, &w, sizeof w);
        }
    }
}
