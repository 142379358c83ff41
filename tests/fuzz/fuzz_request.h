/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds of every request that was read, for the targets of its routes. These are the bounds
 * that nothing behind the parser looks at again, or only to fail late.
 */
#ifndef TESTS_FUZZ_FUZZ_REQUEST_H
#define TESTS_FUZZ_FUZZ_REQUEST_H

#include <string.h>

#include "api/request.h"

enum { FUZZ_VOCAB = 1000, FUZZ_DIM = 16 };

static inline void fuzz_check_sampling(const struct gen_params *g)
{
    const struct sample_params *s = &g->sample;
    ASSERT(s->temperature >= 0 && s->temperature <= 2);
    ASSERT(s->top_p > 0 && s->top_p <= 1 && s->min_p >= 0 && s->min_p <= 1 && s->top_k >= 0);
    ASSERT(s->repetition > 0 && s->repetition <= 100);
    ASSERT(s->presence >= -2 && s->presence <= 2 && s->frequency >= -2 && s->frequency <= 2);
    ASSERT(s->n_bias >= 0 && s->n_bias <= SAMPLE_BIAS_MAX);
    for (int32_t i = 0; i < s->n_bias; i++)
        ASSERT(s->bias[i].id >= 0 && s->bias[i].id < FUZZ_VOCAB && s->bias[i].add >= -100 &&
               s->bias[i].add <= 100);
    ASSERT(g->max_new >= -1 && g->max_new <= INT32_MAX && g->min_new >= 0);
    ASSERT(g->max_new < 0 || g->min_new <= g->max_new);
    ASSERT(g->n_stop >= 0 && g->n_stop <= GEN_STOP_MAX && g->n_stop_id <= GEN_STOP_ID_MAX);
    ASSERT(g->n_top >= 0 && g->n_top <= GEN_TOP_MAX);
    for (int32_t i = 0; i < g->n_stop; i++)
        ASSERT(g->stop[i].n >= 1 && g->stop[i].n <= GEN_STOP_BYTES_MAX &&
               jutf8_valid(g->stop[i].p, g->stop[i].n));
    for (int32_t i = 0; i < g->n_stop_id; i++)
        ASSERT(g->stop_id[i] >= 0 && g->stop_id[i] < FUZZ_VOCAB);
}

static inline void fuzz_check_inputs(const struct api_request *q)
{
    ASSERT(q->n_input >= 1 && q->n_input <= API_INPUTS_MAX);
    for (size_t i = 0; i < q->n_input; i++) {
        const struct api_input *in = &q->input[i];
        ASSERT(in->text ? jutf8_valid(in->text, in->n_text) : in->n_id > 0);
        for (size_t k = 0; !in->text && k < in->n_id; k++)
            ASSERT(in->id[k] >= 0 && in->id[k] < FUZZ_VOCAB);
    }
}

static inline void fuzz_check(const struct api_request *q)
{
    fuzz_check_sampling(&q->gen);
    ASSERT(q->n >= 1 && q->n <= API_N_MAX && q->best_of >= q->n && q->priority >= 0);
    ASSERT(!q->ignored || strlen(q->ignored) < 512);
    for (const char *p = q->ignored; p && *p; p++)
        ASSERT(*p >= ' ' && *p < 0x7f);
    if (q->asks_nothing)
        return;
    if (q->route & API_CHATS)
        ASSERT(q->messages.type == JT_LIST && q->messages.l->n > 0);
    else
        fuzz_check_inputs(q);
}

static inline void fuzz_request(enum api_route route, const uint8_t *data, size_t size)
{
    const struct api_limits limits = {
        .n_vocab = FUZZ_VOCAB, .n_vector = FUZZ_DIM, .ctx = FUZZ_VOCAB, .has_template = true};
    struct api_request q;
    struct api_error e = {.status = 0};
    struct arena a;
    arena_init(&a, (size_t)64 << 20);
    if (api_request_parse(route, (const char *)data, size, &limits, &a, &q, &e))
        ASSERT((e.status == 400 || e.status == 503) && *e.message && e.type);
    else
        fuzz_check(&q);
    arena_release(&a);
}

#endif
