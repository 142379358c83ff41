/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies share one block. What a copy lacks of f32 is zero at first, as of a full training.
 */
#include "engine/train/saved.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"
#include "engine/model/saved.h"

_Static_assert(TRAIN_SAVES_EMBED == 1 << SAVED_EMBED && TRAIN_SAVES_HEAD == 1 << SAVED_HEAD,
               "a bit for each");

static bool is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

int train_saved_parse(const char *names, unsigned *saves, struct err *e)
{
    *saves = 0;
    for (const char *at = names; *at;) {
        size_t n = strcspn(at, ",");
        if (is_word(at, n, "lm_head"))
            *saves |= TRAIN_SAVES_HEAD;
        else if (is_word(at, n, "embed_tokens") || is_word(at, n, "wte"))
            *saves |= TRAIN_SAVES_EMBED;
        else
            return err_set(e, ERR_UNSUPPORTED,
                           "modules_to_save: '%.*s': lm_head and embed_tokens can be trained whole",
                           n < 100 ? (int)n : 100, at);
        at += n + (at[n] == ',');
    }
    return 0;
}

const char *train_saved_text(unsigned saves)
{
    static const char *const text[] = {"", "embed_tokens", "lm_head", "embed_tokens,lm_head"};
    return text[saves & (TRAIN_SAVES_EMBED | TRAIN_SAVES_HEAD)];
}

/* Of an lm_head that is trained the gradient is summed before such a loss knows what its rows
 * count (engine/op/ce.c). */
static int check_loss(const struct train_options *o, struct err *e)
{
    bool weighs = train_has_preference(&o->preference) || o->policy.is_on;
    return !weighs || !(o->lora.saves & TRAIN_SAVES_HEAD)
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "modules_to_save: lm_head: losses of preferences and of rewards leave the "
                         "lm_head as it is; embed_tokens they train");
}

int train_saved_check(const struct model *m, const struct train_options *o, struct err *e)
{
    if (o->lora.saves && o->lora.rank == 0)
        return err_set(e, ERR_BAD_INPUT,
                       "modules_to_save: a training of all parameters has no adapter to keep them");
    for (int i = 0; i < SAVED_COUNT; i++)
        if (o->lora.saves >> i & 1 && saved_check(m, (enum saved)i, true, e))
            return -1;
    if (o->lora.saves && o->ranks.all)
        return err_set(e, ERR_UNSUPPORTED, "modules_to_save: not where several ranks train");
    return check_loss(o, e);
}

/* Cuts the block, or only measures where there is none. */
static void lay_out(struct train_saved *s)
{
    struct carve c = {.base = s->block};
    size_t own = 0;
    for (int i = 0; i < 2 * SAVED_COUNT; i++) {
        struct param *p = i < SAVED_COUNT ? s->is[i] : s->before[i - SAVED_COUNT];
        if (i == SAVED_COUNT)
            own = c.at;
        if (!p)
            continue;
        void *at = carve(&c, (int64_t)k_weight_bytes(p->w.type, p->n, p->k), 1);
        k_weight_bind(&p->w, p->w.type, p->n, p->k, at);
    }
    s->bytes = c.at;
    s->reference_bytes = c.at - own;
}

/* As the model's, but that nobody else has it. */
static struct param *copy_of(const struct model *m, enum saved which)
{
    struct param *p = xcalloc(1, sizeof *p);
    *p = *saved_param(m, which);
    p->reads_q8 = false;
    p->grad = NULL;
    p->late = NULL;
    return p;
}

static void copy_values(struct stream *stream, const struct param *to, const struct k_weight *from)
{
    size_t bytes = k_weight_bytes(to->w.type, to->n, to->k);
    stream_copy(stream, to->w.data, from->data, bytes, COPY_ON_DEVICE);
}

int train_saved_init(struct train_saved *s, const struct model *m, unsigned saves,
                     bool has_reference, struct stream *stream, struct err *e)
{
    *s = (struct train_saved){.model = m};
    for (int i = 0; i < SAVED_COUNT; i++) {
        if (!(saves >> i & 1))
            continue;
        s->is[i] = copy_of(m, (enum saved)i);
        s->before[i] = has_reference ? copy_of(m, (enum saved)i) : NULL;
    }
    if (!saves)
        return 0;
    lay_out(s);
    s->block = device_alloc(m->device, s->bytes, "matrices that are trained whole", e);
    if (!s->block)
        return -1;
    lay_out(s);
    for (int i = 0; i < SAVED_COUNT; i++)
        if (s->is[i])
            copy_values(stream, s->is[i], &saved_param(m, (enum saved)i)->w);
    return stream_sync(stream, e);
}

void train_saved_release(struct train_saved *s)
{
    for (int i = 0; i < SAVED_COUNT; i++) {
        free(s->is[i]);
        free(s->before[i]);
    }
    if (s->block)
        device_mem_free(s->model->device, s->block);
    *s = (struct train_saved){0};
}

void train_saved_refer(struct train_saved *s, struct stream *stream)
{
    for (int i = 0; i < SAVED_COUNT; i++)
        if (s->before[i])
            copy_values(stream, s->before[i], &s->is[i]->w);
}
