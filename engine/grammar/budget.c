/* SPDX-License-Identifier: Apache-2.0
 *
 * The account of a compilation. The clock is read once in a few thousand steps.
 */
#include "engine/grammar/budget.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/grammar/grammar.h"

enum { TICKS_PER_LOOK = 4096 };

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void budget_init(struct budget *b, const struct grammar_limits *limits)
{
    *b = (struct budget){
        .cap_bytes = limits->max_bytes,
        .max_states = limits->max_states,
        .cpu_ns = (int64_t)limits->cpu_ms * 1000000,
        .err = ERR_INIT,
    };
    b->until_ns = cpu_ns() + b->cpu_ns;
    arena_init(&b->arena, limits->max_bytes);
}

void budget_release(struct budget *b)
{
    arena_release(&b->arena);
}

int budget_fail(struct budget *b, enum err_code code, const char *fmt, ...)
{
    char text[sizeof b->err.msg];
    va_list ap;
    if (b->failed)
        return -1;
    b->failed = true;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(&b->err, code, "%s", text);
}

int budget_too_many_states(struct budget *b)
{
    return budget_fail(b, ERR_TOO_LARGE,
                       "the constraint needs more than %u states: fewer repetitions, or shorter "
                       "lists, would do",
                       b->max_states);
}

static void look_at_memory(struct budget *b)
{
    if (b->arena.used_bytes + b->charged_bytes > b->cap_bytes)
        budget_fail(b, ERR_TOO_LARGE, "compiling the constraint takes more than %zu MB of memory",
                    b->cap_bytes >> 20);
}

void *budget_alloc(struct budget *b, size_t n, size_t size)
{
    void *p = arena_alloc(&b->arena, n * size);
    look_at_memory(b);
    return p;
}

void budget_charge(struct budget *b, size_t bytes)
{
    b->charged_bytes += bytes;
    look_at_memory(b);
}

bool budget_tick(struct budget *b, uint32_t n)
{
    b->n_tick += n;
    if (b->n_tick >= TICKS_PER_LOOK) {
        b->n_tick = 0;
        if (cpu_ns() > b->until_ns)
            budget_fail(b, ERR_TOO_LARGE, "compiling the constraint takes more than %d ms of CPU",
                        (int)(b->cpu_ns / 1000000));
    }
    return !b->failed;
}

bool budget_grow(struct budget *b, void **at, uint32_t *cap, uint32_t want, size_t size)
{
    if (b->failed)
        return false;
    if (want <= *cap)
        return true;
    uint32_t more = *cap ? *cap * 2 : 8;
    if (more > UINT32_MAX / 4 || (size_t)more * size > b->cap_bytes) {
        budget_charge(b, b->cap_bytes);
        return false;
    }
    void *p = budget_alloc(b, more, size);
    if (*cap)
        memcpy(p, *at, *cap * size);
    *at = p;
    *cap = more;
    return !b->failed;
}
