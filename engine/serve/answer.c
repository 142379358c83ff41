/* SPDX-License-Identifier: Apache-2.0
 *
 * One block: the struct, then the arrays one after the other. The arrays have room for the longest
 * answer that was asked for; the block is lazy (engine/base/mem.h), so what is not written costs
 * nothing. `count` and `state` publish with release what was written before them, and the reader
 * takes them with acquire; nothing that was published is written again.
 */
#include "engine/serve/answer_write.h"

#include <stdalign.h>
#include <stdlib.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"

struct answer_bell {
    _Atomic int32_t n_ref;
    _Atomic bool rang;
};

struct answer {
    _Atomic int32_t n_ref;
    _Atomic bool is_cancelled;
    struct answer_bell *bell; /* counted */
    struct answer_room room;
    struct answer_token *token;    /* [max_new] */
    struct answer_top *top;        /* [max_new, n_top] */
    float *prompt_logprob;         /* [n_prompt] where wanted */
    int32_t *prompt_rank;          /* [n_prompt] where wanted */
    struct answer_top *prompt_top; /* [n_prompt, n_top] where wanted */
    float *vector;                 /* [n_vector] */
    struct answer_end end;
    alignas(64) _Atomic size_t count;
    _Atomic int state;
};

struct answer_bell *answer_bell_new(void)
{
    struct answer_bell *b = xcalloc(1, sizeof *b);
    atomic_init(&b->n_ref, 1);
    return b;
}

void answer_bell_unref(struct answer_bell *b)
{
    if (b && atomic_fetch_sub(&b->n_ref, 1) == 1)
        free(b);
}

bool answer_bell_rang(struct answer_bell *b)
{
    return atomic_load_explicit(&b->rang, memory_order_relaxed) && atomic_exchange(&b->rang, false);
}

/* ---- making -------------------------------------------------------------------------------- */

static size_t lay_out(struct answer *a, char *base)
{
    const struct answer_room *r = &a->room;
    int64_t n_prompt = r->wants_prompt ? r->n_prompt : 0;
    struct carve c = {.base = base};
    carve(&c, 1, sizeof *a); /* itself */
    a->token = carve(&c, r->max_new, sizeof *a->token);
    a->top = carve(&c, r->max_new * r->n_top, sizeof *a->top);
    a->prompt_logprob = carve(&c, n_prompt, sizeof *a->prompt_logprob);
    a->prompt_rank = carve(&c, r->wants_ranks ? n_prompt : 0, sizeof *a->prompt_rank);
    a->prompt_top = carve(&c, n_prompt * r->n_top, sizeof *a->prompt_top);
    a->vector = carve(&c, r->n_vector, sizeof *a->vector);
    return c.at;
}

size_t answer_bytes(const struct answer_room *room)
{
    struct answer a = {.room = *room};
    return lay_out(&a, NULL);
}

struct answer *answer_new(const struct answer_room *room, struct answer_bell *bell, struct err *e)
{
    struct answer *a = try_lazy(answer_bytes(room), 1, "an answer", e);
    if (!a)
        return NULL;
    atomic_init(&a->n_ref, 1);
    a->room = *room;
    a->bell = bell;
    atomic_fetch_add(&bell->n_ref, 1);
    a->end = (struct answer_end){.stop_id = -1, .stop_index = -1, .text_bytes = UINT64_MAX};
    lay_out(a, (char *)a);
    return a;
}

struct answer *answer_ref(struct answer *a)
{
    atomic_fetch_add(&a->n_ref, 1);
    return a;
}

void answer_unref(struct answer *a)
{
    if (!a || atomic_fetch_sub(&a->n_ref, 1) != 1)
        return;
    answer_bell_unref(a->bell);
    mem_free(a);
}

/* ---- writing ------------------------------------------------------------------------------- */

bool answer_is_cancelled(const struct answer *a)
{
    return atomic_load_explicit(&a->is_cancelled, memory_order_relaxed);
}

static void put_top(const struct answer *a, struct answer_top *at, const struct sample_top *top,
                    int32_t n)
{
    for (int32_t i = 0; i < a->room.n_top; i++)
        at[i] =
            i < n ? (struct answer_top){top[i].id, top[i].logprob} : (struct answer_top){.id = -1};
}

void answer_put(struct answer *a, const struct answer_token *t, const struct sample_top *top,
                int32_t n_top)
{
    size_t i = atomic_load_explicit(&a->count, memory_order_relaxed);
    ASSERT(i < (size_t)a->room.max_new);
    a->token[i] = *t;
    put_top(a, a->top + i * (size_t)a->room.n_top, top, n_top);
    atomic_store_explicit(&a->count, i + 1, memory_order_release);
}

void answer_put_prompt(struct answer *a, int64_t i, const struct sample_taken *t)
{
    ASSERT(a->room.wants_prompt && i < a->room.n_prompt);
    if (atomic_load_explicit(&a->count, memory_order_relaxed))
        return;
    a->prompt_logprob[i] = t->logprob;
    if (a->room.wants_ranks)
        a->prompt_rank[i] = t->rank;
    put_top(a, a->prompt_top + i * a->room.n_top, t->top, t->n_top);
}

float *answer_vector_room(struct answer *a)
{
    return a->vector;
}

struct answer_end *answer_end_room(struct answer *a)
{
    return &a->end;
}

void answer_close(struct answer *a, enum gen_end why)
{
    ASSERT(atomic_load_explicit(&a->state, memory_order_relaxed) == GEN_RUNS && why != GEN_RUNS);
    atomic_store_explicit(&a->state, (int)why, memory_order_release);
}

/* ---- reading ------------------------------------------------------------------------------- */

size_t answer_count(const struct answer *a)
{
    return atomic_load_explicit(&a->count, memory_order_acquire);
}

const struct answer_token *answer_token(const struct answer *a, size_t i)
{
    return &a->token[i];
}

const struct answer_top *answer_top(const struct answer *a, size_t i)
{
    return a->top + i * (size_t)a->room.n_top;
}

float answer_prompt_logprob(const struct answer *a, size_t i)
{
    return a->prompt_logprob[i];
}

int32_t answer_prompt_rank(const struct answer *a, size_t i)
{
    return a->room.wants_ranks ? a->prompt_rank[i] : 0;
}

const struct answer_top *answer_prompt_top(const struct answer *a, size_t i)
{
    return a->prompt_top + i * (size_t)a->room.n_top;
}

const float *answer_vector(const struct answer *a, size_t *n)
{
    *n = (size_t)a->room.n_vector;
    return a->vector;
}

enum gen_end answer_state(const struct answer *a)
{
    return (enum gen_end)atomic_load_explicit(&a->state, memory_order_acquire);
}

const struct answer_end *answer_end(const struct answer *a)
{
    return &a->end;
}

void answer_cancel(struct answer *a)
{
    atomic_store(&a->is_cancelled, true);
    atomic_store(&a->bell->rang, true);
}
