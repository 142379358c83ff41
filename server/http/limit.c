/* SPDX-License-Identifier: Apache-2.0
 *
 * Two buckets and a count; see the header.
 */
#include "server/http/limit.h"

#include <inttypes.h>
#include <stdio.h>

static const double minute_us = 60e6;

void limit_init(struct limit *l, struct limit_rule rule, int64_t now_us)
{
    *l = (struct limit){.rule = rule,
                        .requests = (double)rule.requests_min,
                        .tokens = (double)rule.tokens_min,
                        .seen_us = now_us};
    pthread_mutex_init(&l->lock, NULL);
}

void limit_release(struct limit *l)
{
    pthread_mutex_destroy(&l->lock);
}

static double filled(double level, int64_t a_minute, int64_t us)
{
    level += (double)a_minute * (double)us / minute_us;
    return level < (double)a_minute ? level : (double)a_minute;
}

static void fill(struct limit *l, int64_t now_us)
{
    int64_t us = now_us > l->seen_us ? now_us - l->seen_us : 0;
    l->requests = filled(l->requests, l->rule.requests_min, us);
    l->tokens = filled(l->tokens, l->rule.tokens_min, us);
    l->seen_us += us;
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
    if (l->rule.requests_min && l->requests < 1) {
        *retry_us = wait_us(l->requests, 1, l->rule.requests_min);
        return LIMIT_REQUESTS;
    }
    if (l->rule.tokens_min && l->tokens < 1) {
        *retry_us = wait_us(l->tokens, 1, l->rule.tokens_min);
        return LIMIT_TOKENS;
    }
    if (l->rule.at_once && l->n_now >= l->rule.at_once) {
        *retry_us = 1000 * 1000;
        return LIMIT_AT_ONCE;
    }
    return LIMIT_GOOD;
}

static void see(const struct limit *l, struct limit_view *view)
{
    view->left_requests = l->requests > 0 ? (int64_t)l->requests : 0;
    view->left_tokens = l->tokens > 0 ? (int64_t)l->tokens : 0;
    view->full_requests_us =
        wait_us(l->requests, (double)l->rule.requests_min, l->rule.requests_min);
    view->full_tokens_us = wait_us(l->tokens, (double)l->rule.tokens_min, l->rule.tokens_min);
}

enum limit_answer limit_take(struct limit *l, int64_t now_us, struct grant *g,
                             struct limit_view *view, int64_t *retry_us)
{
    pthread_mutex_lock(&l->lock);
    fill(l, now_us);
    enum limit_answer a = ask(l, retry_us);
    if (a == LIMIT_GOOD) {
        l->requests -= l->rule.requests_min ? 1 : 0;
        l->n_now++;
        *g = (struct grant){.limit = l};
    }
    see(l, view);
    pthread_mutex_unlock(&l->lock);
    return a;
}

static enum limit_answer ask_more(const struct limit *l, int64_t texts, int64_t tokens,
                                  int64_t *retry_us)
{
    const struct limit_rule *r = &l->rule;
    *retry_us = 0;
    if ((r->tokens_min && tokens > r->tokens_min) || (r->texts && texts > r->texts))
        return LIMIT_NEVER;
    if (r->tokens_min && l->tokens < (double)tokens) {
        *retry_us = wait_us(l->tokens, (double)tokens, r->tokens_min);
        return LIMIT_TOKENS;
    }
    if (r->texts && l->n_text + texts > r->texts) {
        *retry_us = 1000 * 1000;
        return LIMIT_TEXTS;
    }
    return LIMIT_GOOD;
}

enum limit_answer limit_reserve(struct grant *g, int64_t texts, int64_t tokens, int64_t now_us,
                                struct limit_view *view, int64_t *retry_us)
{
    struct limit *l = g->limit;
    pthread_mutex_lock(&l->lock);
    fill(l, now_us);
    enum limit_answer a = ask_more(l, texts, tokens, retry_us);
    if (a == LIMIT_GOOD) {
        g->text = texts;
        g->tokens = l->rule.tokens_min ? tokens : 0;
        l->n_text += texts;
        l->tokens -= (double)g->tokens;
    }
    see(l, view);
    pthread_mutex_unlock(&l->lock);
    return a;
}

void limit_give(struct grant *g, int64_t tokens, int64_t now_us)
{
    struct limit *l = g->limit;
    if (!l)
        return;
    g->limit = NULL;
    pthread_mutex_lock(&l->lock);
    fill(l, now_us);
    l->n_now--;
    l->n_text -= g->text;
    l->tokens += (double)(g->tokens - (l->rule.tokens_min ? tokens : 0));
    l->tokens = l->tokens < 0 ? 0 : l->tokens;
    fill(l, now_us); /* a bucket holds no more than a minute's worth */
    pthread_mutex_unlock(&l->lock);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

void limit_carry(struct limit *to, struct limit *from)
{
    pthread_mutex_lock(&from->lock);
    if (from->rule.requests_min)
        to->requests = least(from->requests, (double)to->rule.requests_min);
    if (from->rule.tokens_min)
        to->tokens = least(from->tokens, (double)to->rule.tokens_min);
    to->seen_us = from->seen_us;
    pthread_mutex_unlock(&from->lock);
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
