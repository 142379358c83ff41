/* SPDX-License-Identifier: Apache-2.0
 *
 * One lazy block holds the struct, the ids that end it, the lists of its sampling and, last, the
 * tokens and what DRY works with; the means that few requests need are made beside it.
 */
#include "engine/serve/work.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/model/adapter.h"
#include "engine/sample/dry.h"
#include "engine/sample/sampler.h"
#include "engine/serve/beams.h"

struct sizes {
    int64_t n_end_id, n_bias, n_allow, n_bad, n_breaker, n_word, n_max, n_length;
};

static struct sizes sizes_of(const struct work_model *m, const struct gen_req *r, int64_t max_new)
{
    const struct gen_params *p = r->params;
    struct sizes s = {.n_max = r->n_prompt + max_new};
    if (p) {
        s.n_end_id = p->n_stop_id + (p->ignore_eos ? 0 : m->n_eos);
        s.n_bias = p->sample.n_bias;
        s.n_allow = p->sample.n_allow;
        s.n_bad = p->sample.n_bad;
        s.n_breaker = p->sample.n_dry_breaker;
        s.n_word = p->sample.dry_breaks ? (m->n_vocab + 31) / 32 : 0;
        s.n_length = sample_is_dry(&p->sample) ? DRY_KNOWN + s.n_max : 0;
    }
    return s;
}

static struct work *make_block(struct sizes s, struct err *e)
{
    int64_t n_id = s.n_end_id + s.n_allow + s.n_bad + s.n_breaker + s.n_word + s.n_max + s.n_length;
    size_t bytes = sizeof(struct work) + (size_t)s.n_bias * sizeof(struct sample_bias) +
                   (size_t)n_id * sizeof(int32_t);
    struct work *w = try_lazy(bytes, 1, "a request", e);
    if (w)
        w->bytes = bytes;
    return w;
}

/* A copy of n numbers, which moves `to` behind it; NULL: there are none. */
static void *put_list(int32_t **to, const void *from, int64_t n)
{
    int32_t *at = *to;
    if (n)
        memcpy(at, from, (size_t)n * sizeof *at);
    *to += n;
    return n ? at : NULL;
}

static void copy_params(struct work *w, const struct work_model *m, const struct gen_params *p,
                        struct sizes s)
{
    struct sample_bias *bias = (struct sample_bias *)(w + 1);
    w->end_id = (int32_t *)(bias + s.n_bias);
    int32_t *to = w->end_id + s.n_end_id;
    w->seq.token = to + s.n_allow + s.n_bad + s.n_breaker + s.n_word;
    if (!p)
        return;
    struct sample_params *sample = &w->params.sample;
    w->params = *p;
    if (p->beams.width) /* nothing is drawn */
        *sample = (struct sample_params)SAMPLE_PARAMS_INIT;
    if (s.n_bias)
        memcpy(bias, p->sample.bias, (size_t)s.n_bias * sizeof *bias);
    sample->bias = bias;
    sample->allow = put_list(&to, p->sample.allow, s.n_allow);
    sample->bad = put_list(&to, p->sample.bad, s.n_bad);
    sample->dry_breaker = put_list(&to, p->sample.dry_breaker, s.n_breaker);
    sample->dry_breaks = put_list(&to, p->sample.dry_breaks, s.n_word);
    w->length = s.n_length ? w->seq.token + s.n_max : NULL;
    if (w->length)
        memset(w->length, 0, DRY_KNOWN * sizeof *w->length);
    w->mu = 2 * sample->mirostat_tau;
    for (int32_t i = 0; !p->ignore_eos && i < m->n_eos; i++)
        w->end_id[w->n_end_id++] = m->eos[i];
    for (int32_t i = 0; i < p->n_stop_id; i++)
        w->end_id[w->n_end_id++] = p->stop_id[i];
    w->params.stop_id = NULL;
}

/* Keys that turn by another form are not those of the same text. */
static uint64_t salt_of(const struct gen_req *r, int32_t turn)
{
    const uint64_t of[] = {r->salt, (uint64_t)turn};
    return turn ? siphash((struct siphash_key){0}, of, sizeof of) : r->salt;
}

static void copy_prompt(struct work *w, const struct work_model *m, const struct gen_req *r,
                        struct sizes s)
{
    w->turn = model_turn(m->model, s.n_max);
    w->seq.n_prompt = w->seq.n_tok = r->n_prompt;
    w->seq.n_max = s.n_max;
    w->seq.priority = r->priority;
    w->seq.tenant = r->tenant;
    w->seq.weight = r->weight;
    w->seq.salt = salt_of(r, w->turn);
    w->seq.wants_prompt = w->params.wants_prompt;
    w->seq.is_whole = r->kind != GEN_TEXT;
    w->n_first = m->model->cfg.n_segment > 1 ? r->n_first : 0;
    w->seq.is_idle = r->is_idle;
    w->seq.owner = w;
    memcpy(w->seq.token, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
}

static int make_stop(struct work *w, const struct work_model *m, struct err *e)
{
    struct stop_string string[GEN_STOP_MAX];
    struct gen_params *p = &w->params;
    if (p->n_stop == 0)
        return 0;
    for (int32_t i = 0; i < p->n_stop; i++)
        string[i] = (struct stop_string){.p = p->stop[i].p, .n = p->stop[i].n};
    w->stop = stop_new(string, p->n_stop, e);
    w->detok = w->stop ? detok_new(m->tokenizer, !p->special_shown) : NULL;
    if (w->detok && p->marks_shown)
        detok_show(w->detok, m->mark, m->n_mark);
    if (w->detok && p->text_goes_on)
        detok_inside(w->detok);
    return w->detok ? 0 : -1;
}

static int make_seen(struct work *w, struct err *e)
{
    if (!sample_wants_seen(&w->params.sample))
        return 0;
    w->seen = seen_new(w->seq.n_max, e);
    w->bytes += seen_bytes(w->seq.n_max);
    for (int64_t i = 0; w->seen && i < w->seq.n_prompt; i++)
        seen_prompt(w->seen, w->seq.token[i]);
    return w->seen ? 0 : -1;
}

/* The prompt is read here, where nobody waits for it. */
static int make_draft(struct work *w, const struct work_model *m, struct err *e)
{
    if (!m->guesses || w->params.beams.width)
        return 0;
    if (draft_init(&w->draft, w->seq.n_max, e))
        return -1;
    w->bytes += draft_bytes(w->seq.n_max);
    ngram_read(w->draft.ngram, w->seq.token, w->seq.n_prompt);
    return 0;
}

static int make_masks(struct work *w, const struct work_model *m, struct err *e)
{
    struct masks *masks = w->params.masks;
    thoughts_init(&w->thoughts, &w->params.thoughts, m->tokenizer);
    if (!masks && !thoughts_count(&w->thoughts))
        return 0;
    size_t n_row = m->guesses ? DRAFT_MAX + 1 : 1;
    w->params.masks = NULL;
    w->mask_words = masks ? masks_words(masks) : ((size_t)m->n_vocab + 31) / 32;
    w->mask = try_alloc(n_row * w->mask_words, sizeof *w->mask, "the masks of a text", e);
    if (!w->mask)
        return -1;
    w->bytes += n_row * w->mask_words * sizeof *w->mask;
    if (masks)
        w->matcher = matcher_new(masks, DRAFT_MAX);
    return 0;
}

static int make_answer(struct work *w, const struct work_model *m, struct err *e)
{
    struct answer_room room = {.n_prompt = w->seq.n_prompt,
                               .max_new = w->max_new,
                               .n_vector = w->kind == GEN_TEXT ? 0 : m->n_vector,
                               .n_top = w->params.n_top,
                               .wants_prompt = w->params.wants_prompt,
                               .wants_ranks = w->params.wants_ranks};
    w->answer = answer_new(&room, m->bell, e);
    w->bytes += answer_bytes(&room);
    return w->answer ? 0 : -1;
}

struct work *work_new(const struct work_model *m, const struct gen_req *r, int64_t max_new,
                      struct group *g, struct err *e)
{
    struct sizes s = sizes_of(m, r, max_new);
    struct work *w = make_block(s, e);
    if (!w)
        return NULL;
    w->kind = r->kind;
    w->max_new = max_new;
    w->group = g;
    w->submit_us = clock_us();
    copy_params(w, m, r->params, s);
    copy_prompt(w, m, r, s);
    if (r->adapter) {
        w->adapter = adapter_ref(r->adapter);
        w->seq.adapter = adapter_version(r->adapter);
    }
    if (make_answer(w, m, e) ||
        (w->kind == GEN_TEXT &&
         (make_stop(w, m, e) || make_seen(w, e) || make_draft(w, m, e) || make_masks(w, m, e)))) {
        work_free(w);
        return NULL;
    }
    return w;
}

void work_free(struct work *w)
{
    if (!w)
        return;
    beams_unref(w->beams);
    draft_release(&w->draft);
    matcher_free(w->matcher);
    mem_free(w->mask);
    seen_free(w->seen);
    stop_free(w->stop);
    detok_free(w->detok);
    answer_unref(w->answer);
    adapter_unref(w->adapter);
    mem_free(w);
}

bool work_ends_with(const struct work *w, int32_t id)
{
    for (int32_t i = 0; i < w->n_end_id; i++)
        if (w->end_id[i] == id)
            return true;
    return false;
}
