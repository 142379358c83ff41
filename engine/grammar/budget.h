/* SPDX-License-Identifier: Apache-2.0
 *
 * What one compilation may use: memory, time of its thread's CPU, and states. Everything that a
 * compiler makes on its way lies in the budget's arena and goes with it.
 *
 * The first failure stays in `err`; after it every call is harmless, so that a compiler need only
 * look at `failed` where it loops and at its end. budget_alloc always gives memory (its sizes are
 * the program's own); what grows with the input grows by list_push, which can say no.
 *
 * Thread: one at a time; time is that of the thread which called budget_init.
 */
#ifndef ENGINE_GRAMMAR_BUDGET_H
#define ENGINE_GRAMMAR_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

struct grammar_limits;

struct budget {
    struct arena arena;
    size_t cap_bytes, charged_bytes;
    uint32_t max_states;
    int64_t until_ns, cpu_ns;
    uint32_t n_tick;
    bool failed;
    struct err err;
};

void budget_init(struct budget *b, const struct grammar_limits *limits);
void budget_release(struct budget *b);

/* Zeroed, never NULL. */
void *budget_alloc(struct budget *b, size_t n, size_t size);
#define BUDGET_NEW(b, type) ((type *)budget_alloc((b), 1, sizeof(type)))

/* Bytes that lie elsewhere count too. */
void budget_charge(struct budget *b, size_t bytes);

/* Some step of a loop; false when the budget is spent or something failed. */
bool budget_tick(struct budget *b, uint32_t n);

/* Sets the error if it is the first; -1. */
int budget_fail(struct budget *b, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int budget_too_many_states(struct budget *b);

bool budget_grow(struct budget *b, void **at, uint32_t *cap, uint32_t want, size_t size);

/* A list in the arena of a budget. */
#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t n, cap;                                                                           \
    }
#define list_push(b, v, ...)                                                                       \
    (budget_grow((b), (void **)&(v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at)                   \
         ? ((v)->at[(v)->n++] = (__VA_ARGS__), true)                                               \
         : false)

#endif
