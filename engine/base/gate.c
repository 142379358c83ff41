/* SPDX-License-Identifier: Apache-2.0
 *
 * One mutex around a few counters; it is held for nanoseconds, the gate itself for milliseconds.
 * Each class has tickets: `next` is the one to be drawn, `now` the one that may enter. Who is next
 * depends on who waits and on what the meter has settled, so each change of either wakes the one
 * class that may enter, and the other sleeps on: a step does not wake training that may not begin.
 */
#include "engine/base/gate.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

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
    bool train_first;                  /* a step has passed since training last had the gate */
    int64_t ask_us, take_us, piece_us; /* of the present hold; piece: when the one at hand began */
    struct gate_meter meter;
    struct gate_stat stat; /* of finished holds */
};

struct gate *gate_new(struct gate_policy policy)
{
    struct gate *g = xcalloc(1, sizeof *g);
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        pthread_cond_init(&g->line[i].cond, NULL);
    pthread_mutex_init(&g->lock, NULL);
    gate_meter_init(&g->meter, policy, clock_us());
    return g;
}

void gate_free(struct gate *g)
{
    if (!g)
        return;
    ASSERT(!g->meter.is_held);
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        pthread_cond_destroy(&g->line[i].cond);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static bool waits(const struct gate *g, enum gate_class class)
{
    return g->line[class].next != g->line[class].now;
}

/* Who may enter now; GATE_CLASS_COUNT: nobody. The meter is settled. */
static enum gate_class who_is_next(const struct gate *g)
{
    bool serve_waits = waits(g, GATE_SERVE);
    if (g->meter.is_held)
        return GATE_CLASS_COUNT;
    if (waits(g, GATE_TRAIN) && (g->train_first || !serve_waits) && gate_meter_may_begin(&g->meter))
        return GATE_TRAIN;
    return serve_waits ? GATE_SERVE : GATE_CLASS_COUNT;
}

static void wake(struct gate *g)
{
    enum gate_class class = who_is_next(g);
    if (class != GATE_CLASS_COUNT)
        pthread_cond_broadcast(&g->line[class].cond);
}

static void take_locked(struct gate *g, enum gate_class class)
{
    struct line *line = &g->line[class];
    uint64_t ticket = line->next++;
    int64_t asked_us = clock_us();
    if (class == GATE_SERVE)
        gate_meter_want(&g->meter, asked_us);
    else
        gate_meter_settle(&g->meter, asked_us);
    for (enum gate_class next; (next = who_is_next(g)) != class || ticket != line->now;) {
        if (next != class) /* what was settled may have let in the others */
            wake(g);
        pthread_cond_wait(&line->cond, &g->lock);
        gate_meter_settle(&g->meter, clock_us());
    }
    line->now++;
    g->ask_us = asked_us;
    g->take_us = g->piece_us = clock_us();
    g->train_first = class == GATE_SERVE;
    gate_meter_begin(&g->meter, class, g->take_us);
}

static void end_piece(struct gate *g, int64_t now)
{
    if (now - g->piece_us > g->stat.piece_max_us)
        g->stat.piece_max_us = now - g->piece_us;
    g->piece_us = now;
}

static void give_locked(struct gate *g, enum gate_class class, int64_t now)
{
    int64_t wait = g->take_us - g->ask_us;
    ASSERT(g->meter.is_held && g->meter.holder == class);
    g->stat.of[class].n_take++;
    g->stat.of[class].held_us += now - g->take_us;
    g->stat.of[class].wait_us += wait;
    if (wait > g->stat.of[class].wait_max_us)
        g->stat.of[class].wait_max_us = wait;
    if (class == GATE_TRAIN)
        end_piece(g, now);
    gate_meter_end(&g->meter, now);
    wake(g);
}

void gate_enter(struct gate *g, enum gate_class class)
{
    pthread_mutex_lock(&g->lock);
    take_locked(g, class);
    pthread_mutex_unlock(&g->lock);
}

void gate_leave(struct gate *g, enum gate_class class)
{
    pthread_mutex_lock(&g->lock);
    give_locked(g, class, clock_us());
    pthread_mutex_unlock(&g->lock);
}

/* Another training waits, serving does not, and this one has had its turn. */
static bool is_anothers_turn(const struct gate *g, int64_t now)
{
    return waits(g, GATE_TRAIN) && !waits(g, GATE_SERVE) && now - g->take_us >= GATE_EACH_US &&
           gate_meter_may_begin(&g->meter);
}

int64_t gate_go_on(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    int64_t now = clock_us();
    end_piece(g, now);
    gate_meter_settle(&g->meter, now);
    bool has_to = !gate_meter_may_go_on(&g->meter);
    if (has_to || is_anothers_turn(g, now)) {
        g->stat.n_yield += has_to;
        give_locked(g, GATE_TRAIN, now);
        take_locked(g, GATE_TRAIN);
    }
    int64_t piece_us = gate_meter_piece_us(&g->meter);
    pthread_mutex_unlock(&g->lock);
    return piece_us;
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
    gate_meter_settle(&g->meter, clock_us());
    g->meter.policy = policy;
    wake(g);
    pthread_mutex_unlock(&g->lock);
}

struct gate_stat gate_stat(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    int64_t now = clock_us();
    gate_meter_settle(&g->meter, now);
    struct gate_stat stat = g->stat;
    if (g->meter.is_held)
        stat.of[g->meter.holder].held_us += now - g->take_us;
    for (int i = 0; i < GATE_CLASS_COUNT; i++)
        stat.of[i].n_wait = (int64_t)(g->line[i].next - g->line[i].now);
    stat.idle_us = g->meter.idle_us;
    stat.idle_used_us = g->meter.idle_used_us;
    stat.busy_us = g->meter.busy_us;
    stat.busy_used_us = g->meter.busy_used_us;
    stat.policy = g->meter.policy;
    pthread_mutex_unlock(&g->lock);
    return stat;
}
