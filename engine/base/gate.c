/* SPDX-License-Identifier: Apache-2.0
 *
 * One mutex around a few counters; it is held for nanoseconds, the gate itself for milliseconds.
 * Each class has tickets: `next` is the one to be drawn, `now` the one that may enter. Between two
 * ops gate_go_on looks at two numbers under the mutex, which costs less than launching an op.
 */
#include "engine/base/gate.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"

struct line { /* of one class */
    pthread_cond_t cond;
    uint64_t next, now; /* tickets; next - now are waiting */
};

struct gate {
    pthread_mutex_t lock;
    struct line line[GATE_CLASS_COUNT];
    bool is_held;
    enum gate_class holder;
    bool train_first;        /* a step has passed since the last turn */
    int64_t ask_us, take_us; /* of the present hold */
    struct gate_meter meter;
    struct gate_stat stat;
};

struct gate *gate_new(struct gate_policy policy)
{
    struct gate *g = xcalloc(1, sizeof *g);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        pthread_cond_init(&g->line[i].cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&g->lock, NULL);
    gate_meter_init(&g->meter, policy, clock_us());
    return g;
}

void gate_free(struct gate *g)
{
    if (!g)
        return;
    ASSERT(!g->is_held);
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        pthread_cond_destroy(&g->line[i].cond);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static bool waits(const struct gate *g, enum gate_class class)
{
    return g->line[class].next != g->line[class].now;
}

static void wake(struct gate *g)
{
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        if (waits(g, i))
            pthread_cond_broadcast(&g->line[i].cond);
}

/* Whether the first of its line may enter; when not, *ask_us says when to look again if nobody
 * wakes it before, or -1. */
static bool may_enter(struct gate *g, enum gate_class class, int64_t *ask_us)
{
    int64_t ignored;
    *ask_us = -1;
    if (g->is_held)
        return false;
    bool train_may =
        (class == GATE_TRAIN || waits(g, GATE_TRAIN)) &&
        gate_meter_may_begin(&g->meter, clock_us(), class == GATE_TRAIN ? ask_us : &ignored);
    if (class == GATE_TRAIN)
        return train_may && (g->train_first || !waits(g, GATE_SERVE));
    return !(train_may && g->train_first && waits(g, GATE_TRAIN));
}

static void wait_on(struct gate *g, enum gate_class class, int64_t ask_us)
{
    if (ask_us < 0) {
        pthread_cond_wait(&g->line[class].cond, &g->lock);
        return;
    }
    int64_t at_ns = clock_ns() + ask_us * 1000;
    struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};
    pthread_cond_timedwait(&g->line[class].cond, &g->lock, &at);
}

static void take_locked(struct gate *g, enum gate_class class)
{
    struct line *line = &g->line[class];
    int64_t asked_us = clock_us(), again_us;
    uint64_t ticket = line->next++;
    while (ticket != line->now || !may_enter(g, class, &again_us))
        wait_on(g, class, ticket == line->now ? again_us : -1);
    line->now++;
    g->is_held = true;
    g->holder = class;
    g->ask_us = asked_us;
    g->take_us = clock_us();
    g->train_first = class == GATE_SERVE;
    if (class == GATE_TRAIN)
        gate_meter_begin(&g->meter, g->take_us);
}

static void give_locked(struct gate *g, enum gate_class class)
{
    ASSERT(g->is_held && g->holder == class);
    int64_t now = clock_us(), wait = g->take_us - g->ask_us;
    g->is_held = false;
    g->stat.of[class].n_take++;
    g->stat.of[class].held_us += now - g->take_us;
    g->stat.of[class].wait_us += wait;
    if (wait > g->stat.of[class].wait_max_us)
        g->stat.of[class].wait_max_us = wait;
    if (class == GATE_SERVE)
        gate_meter_served(&g->meter, g->ask_us, g->take_us, now);
    else
        gate_meter_end(&g->meter, now);
    wake(g);
}

void gate_take(struct gate *g, enum gate_class class)
{
    pthread_mutex_lock(&g->lock);
    take_locked(g, class);
    pthread_mutex_unlock(&g->lock);
}

void gate_give(struct gate *g, enum gate_class class)
{
    pthread_mutex_lock(&g->lock);
    if (class == GATE_TRAIN)
        gate_meter_op(&g->meter, clock_us());
    give_locked(g, class);
    pthread_mutex_unlock(&g->lock);
}

void gate_go_on(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    gate_meter_op(&g->meter, clock_us());
    if (!gate_meter_may_go_on(&g->meter, waits(g, GATE_SERVE))) {
        give_locked(g, GATE_TRAIN);
        take_locked(g, GATE_TRAIN);
    }
    pthread_mutex_unlock(&g->lock);
}

void gate_active(struct gate *g, int change)
{
    pthread_mutex_lock(&g->lock);
    gate_meter_active(&g->meter, change, clock_us());
    ASSERT(g->meter.n_active >= 0);
    wake(g);
    pthread_mutex_unlock(&g->lock);
}

void gate_policy_set(struct gate *g, struct gate_policy policy)
{
    pthread_mutex_lock(&g->lock);
    g->meter.policy = policy;
    wake(g);
    pthread_mutex_unlock(&g->lock);
}

struct gate_stat gate_stat(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    struct gate_stat stat = g->stat;
    pthread_mutex_unlock(&g->lock);
    return stat;
}
