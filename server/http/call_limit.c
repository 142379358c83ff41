/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call takes of its key's limits once its handler knows what it may come to, and what
 * answers say of them.
 */
#include <inttypes.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "server/http/call_own.h"
#include "server/http/http_own.h"

static void say(struct call *c, const char *what, int64_t limit, int64_t left, int64_t us)
{
    char text[LIMIT_TEXT_BYTES];
    if (limit == 0)
        return;
    struct arena *a = &c->arena;
    call_set_header(c, arena_printf(a, "x-ratelimit-limit-%s", what),
                    arena_printf(a, "%" PRId64, limit));
    call_set_header(c, arena_printf(a, "x-ratelimit-remaining-%s", what),
                    arena_printf(a, "%" PRId64, left));
    call_set_header(c, arena_printf(a, "x-ratelimit-reset-%s", what), limit_text(us, text));
}

void call_say_left(struct call *c, const struct limit_rule *rule, const struct limit_view *v)
{
    say(c, "requests", rule->requests_min, v->left_requests, v->full_requests_us);
    say(c, "tokens", rule->tokens_min, v->left_tokens, v->full_tokens_us);
}

int64_t call_tokens_most(const struct call *c)
{
    return c->grant.limit ? c->grant.limit->rule.tokens_min : 0;
}

void call_uncharge(struct call *c)
{
    if (!c->n_charged)
        return;
    limit_hold(&c->grant, -(int64_t)c->n_charged);
    atomic_fetch_sub(&c->http->body_bytes, (int64_t)c->n_charged);
    c->n_charged = 0;
}

int call_charge(struct call *c, size_t bytes, struct api_error *e)
{
    struct http *h = c->http;
    int64_t n = (int64_t)bytes;
    c->n_charged += bytes;
    bool fits_key = limit_hold(&c->grant, n),
         fits_all = atomic_fetch_add(&h->body_bytes, n) + n <= h->o.body_bytes;
    if (fits_key && fits_all)
        return 0;
    if ((int64_t)c->n_charged > h->o.body_bytes)
        return api_fail(e, 413, NULL, NULL,
                        "this request takes more than the %" PRId64
                        " bytes that all at once may have (--body-memory): ask for less",
                        h->o.body_bytes);
    if (!fits_key)
        api_fail(e, 429, NULL, NULL,
                 "requests of this API key hold the %" PRId64
                 " bytes that they may have, half of --body-memory",
                 c->grant.limit->rule.held);
    else
        api_fail(e, 503, NULL, NULL, "the server has no memory for this request now");
    e->retry_after_s = 1;
    return -1;
}

static int refuse(const struct limit_rule *rule, enum limit_answer why, const struct call_most *m,
                  struct api_error *e)
{
    bool is_text = why == LIMIT_TEXTS || (rule->texts && m->texts > rule->texts);
    int64_t most = is_text ? rule->texts : rule->tokens_min, want = is_text ? m->texts : m->tokens;
    const char *what = is_text ? "texts at once (texts)" : "tokens a minute (tpm)";
    if (why == LIMIT_NEVER)
        return api_fail(e, 400, "over_limit", is_text ? m->texts_field : m->tokens_field,
                        "This request may come to %" PRId64 ", and its API key may have %" PRId64
                        " %s: ask for less.",
                        want, most, what);
    return api_fail(e, 429, NULL, NULL,
                    "this API key may have %" PRId64 " %s, and this request may come to %" PRId64,
                    most, what, want);
}

int call_reserve(struct call *c, const struct call_most *m, struct api_error *e)
{
    struct limit_view v;
    int64_t retry_us;
    if (!c->grant.limit)
        return 0;
    const struct limit_rule *rule = &c->grant.limit->rule;
    enum limit_answer a = limit_reserve(&c->grant, m->texts, m->tokens, clock_us(), &v, &retry_us);
    call_say_left(c, rule, &v);
    if (a == LIMIT_GOOD)
        return 0;
    refuse(rule, a, m, e);
    e->retry_after_s = a == LIMIT_NEVER ? 0 : (int)((retry_us + 999999) / 1000000);
    return -1;
}
