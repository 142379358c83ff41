/* SPDX-License-Identifier: Apache-2.0
 *
 * Two buckets and a count; see the header.
 */
#include "server/http/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"

static const double minute_us = 60e6;

void limit_init(struct limit *l, struct limit_rule rule, int64_t now_us)
{
    struct limit_level *v = xcalloc(1, sizeof *v);
    atomic_init(&v->refs, 1);
    v->rule = rule;
    v->requests = (double)rule.requests_min;
    v->tokens = (double)rule.tokens_min;
    v->seen_us = now_us;
    pthread_mutex_init(&v->lock, NULL);
    *l = (struct limit){rule, v};
}

void limit_release(struct limit *l)
{
    struct limit_level *v = l->level;
    l->level = NULL;
    if (!v || atomic_fetch_sub(&v->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&v->lock);
    free(v);
}

static double filled(double level, int64_t a_minute, int64_t us)
{
    level += (double)a_minute * (double)us / minute_us;
    return level < (double)a_minute ? level : (double)a_minute;
}

static void fill(struct limit_level *v, int64_t now_us)
{
    int64_t us = now_us > v->seen_us ? now_us - v->seen_us : 0;
    v->requests = filled(v->requests, v->rule.requests_min, us);
    v->tokens = filled(v->tokens, v->rule.tokens_min, us);
    v->seen_us += us;
}

/* Until the level is `want`. */
static int64_t wait_us(double level, double want, int64_t a_minute)
{
    return level >= want || !a_minute
               ? 0
               : (int64_t)((want - level) / (double)a_minute * minute_us) + 1;
}

static enum limit_answer ask(const struct limit *l, int64_t *retry_us)
{
    *retry_us = 0;
    if (l->rule.requests_min && l->level->requests < 1) {
        *retry_us = wait_us(l->level->requests, 1, l->rule.requests_min);
        return LIMIT_REQUESTS;
    }
    if (l->rule.tokens_min && l->level->tokens < 1) {
        *retry_us = wait_us(l->level->tokens, 1, l->rule.tokens_min);
        return LIMIT_TOKENS;
    }
    if (l->rule.at_once && l->level->n_now >= l->rule.at_once) {
        *retry_us = 1000 * 1000;
        return LIMIT_AT_ONCE;
    }
    return LIMIT_GOOD;
}

static void see(const struct limit *l, struct limit_view *view)
{
    view->left_requests = l->level->requests > 0 ? (int64_t)l->level->requests : 0;
    view->left_tokens = l->level->tokens > 0 ? (int64_t)l->level->tokens : 0;
    view->full_requests_us =
        wait_us(l->level->requests, (double)l->rule.requests_min, l->rule.requests_min);
    view->full_tokens_us =
        wait_us(l->level->tokens, (double)l->rule.tokens_min, l->rule.tokens_min);
}

enum limit_answer limit_take(struct limit *l, int64_t now_us, struct grant *g,
                             struct limit_view *view, int64_t *retry_us)
{
    pthread_mutex_lock(&l->level->lock);
    fill(l->level, now_us);
    enum limit_answer a = ask(l, retry_us);
    if (a == LIMIT_GOOD) {
        l->level->requests -= l->rule.requests_min ? 1 : 0;
        l->level->n_now++;
        *g = (struct grant){.limit = l};
    }
    see(l, view);
    pthread_mutex_unlock(&l->level->lock);
    return a;
}

static enum limit_answer ask_more(const struct limit *l, int64_t texts, int64_t tokens,
                                  int64_t *retry_us)
{
    const struct limit_rule *r = &l->rule;
    *retry_us = 0;
    if ((r->tokens_min && tokens > r->tokens_min) || (r->texts && texts > r->texts))
        return LIMIT_NEVER;
    if (r->tokens_min && l->level->tokens < (double)tokens) {
        *retry_us = wait_us(l->level->tokens, (double)tokens, r->tokens_min);
        return LIMIT_TOKENS;
    }
    if (r->texts && l->level->n_text + texts > r->texts) {
        *retry_us = 1000 * 1000;
        return LIMIT_TEXTS;
    }
    return LIMIT_GOOD;
}

enum limit_answer limit_reserve(struct grant *g, int64_t texts, int64_t tokens, int64_t now_us,
                                struct limit_view *view, int64_t *retry_us)
{
    struct limit *l = g->limit;
    pthread_mutex_lock(&l->level->lock);
    fill(l->level, now_us);
    enum limit_answer a = ask_more(l, texts, tokens, retry_us);
    if (a == LIMIT_GOOD) {
        g->text = texts;
        g->tokens = l->rule.tokens_min ? tokens : 0;
        l->level->n_text += texts;
        l->level->tokens -= (double)g->tokens;
    }
    see(l, view);
    pthread_mutex_unlock(&l->level->lock);
    return a;
}

bool limit_hold(struct grant *g, int64_t bytes)
{
    struct limit *l = g->limit;
    if (!l)
        return true;
    pthread_mutex_lock(&l->level->lock);
    int64_t others = l->level->held - g->held;
    g->held += bytes;
    l->level->held += bytes;
    bool is_good = !l->rule.held || !others || l->level->held <= l->rule.held;
    pthread_mutex_unlock(&l->level->lock);
    return is_good;
}

void limit_give(struct grant *g, int64_t tokens, int64_t now_us)
{
    struct limit *l = g->limit;
    if (!l)
        return;
    g->limit = NULL;
    pthread_mutex_lock(&l->level->lock);
    fill(l->level, now_us);
    l->level->n_now--;
    l->level->n_text -= g->text;
    l->level->held -= g->held;
    l->level->tokens += (double)(g->tokens - (l->rule.tokens_min ? tokens : 0));
    l->level->tokens = l->level->tokens < 0 ? 0 : l->level->tokens;
    fill(l->level, now_us); /* a bucket holds no more than a minute's worth */
    pthread_mutex_unlock(&l->level->lock);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

void limit_carry(struct limit *to, struct limit *from)
{
    struct limit_level *v = from->level;
    const struct limit_rule *now = &to->rule;
    limit_release(to);
    atomic_fetch_add(&v->refs, 1);
    to->level = v;
    pthread_mutex_lock(&v->lock);
    double requests = (double)now->requests_min, tokens = (double)now->tokens_min;
    v->requests = v->rule.requests_min ? least(v->requests, requests) : requests;
    v->tokens = v->rule.tokens_min ? least(v->tokens, tokens) : tokens;
    v->rule = *now;
    pthread_mutex_unlock(&v->lock);
}

char *limit_text(int64_t us, char text[LIMIT_TEXT_BYTES])
{
    if (us < 1000 * 1000)
        snprintf(text, LIMIT_TEXT_BYTES, "%" PRId64 "ms", (us + 999) / 1000);
    else if (us < 60 * 1000 * 1000)
        snprintf(text, LIMIT_TEXT_BYTES, "%.1fs", (double)us / 1e6);
    else
        snprintf(text, LIMIT_TEXT_BYTES, "%" PRId64 "m%" PRId64 "s", us / 60000000,
                 us / 1000000 % 60);
    return text;
}
