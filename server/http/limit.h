/* SPDX-License-Identifier: Apache-2.0
 *
 * How much one key may ask for: requests and tokens a minute, requests and texts at once. Two
 * buckets that fill steadily and hold a minute's worth, and two counts; the same few words for each
 * key whatever it does. What it may keep stands beside them for those who look after that.
 *
 * A request takes one from the first bucket when it begins. Once it is known what it may come to,
 * prompt and longest answer, that is taken from the second, and what was not used is given back at
 * its end. So no bucket is ever below nothing, and who is told to come back then finds enough
 * there.
 *
 * Thread: any.
 */
#ifndef SERVER_HTTP_LIMIT_H
#define SERVER_HTTP_LIMIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct limit_rule {
    int64_t requests_min, tokens_min, at_once; /* 0: no limit, here and below */
    int64_t texts;                             /* that are made for it, or wait to be, at once */
    int64_t jobs, jobs_waiting;                /* in all; that have not ended */
    int64_t adapters, bytes;                   /* loaded; of files and rows */
    int64_t model_bytes;                       /* of what jobs made */
    int64_t weight;                            /* of its work beside others'; 0: 1 */
    int64_t held; /* bytes of bodies and of what is made for answers, of several requests */
};

/* Buckets and counts. Counted: those of a key outlive the rule that they began with. */
struct limit_level {
    atomic_int refs;
    pthread_mutex_t lock;
    struct limit_rule rule;  /* the newest */
    double requests, tokens; /* in the buckets */
    int64_t seen_us;         /* when they were last filled */
    int64_t n_now, n_text, held;
};

struct limit {
    struct limit_rule rule;    /* constant */
    struct limit_level *level; /* counted */
};

/* What one request holds, from its admission to its end. */
struct grant {
    struct limit *limit;  /* borrowed; NULL: nothing */
    int64_t text, tokens; /* set aside */
    int64_t held;
};

/* For the headers: what is left, and when the buckets are full again. */
struct limit_view {
    int64_t left_requests, left_tokens, full_requests_us, full_tokens_us;
};

enum limit_answer {
    LIMIT_GOOD,
    LIMIT_REQUESTS,
    LIMIT_TOKENS,
    LIMIT_AT_ONCE,
    LIMIT_TEXTS,
    LIMIT_NEVER /* more than the limit at once: it will not do later either */
};

void limit_init(struct limit *l, struct limit_rule rule, int64_t now_us);
void limit_release(struct limit *l);
/* Refused: *retry_us says when it is worth trying again. */
enum limit_answer limit_take(struct limit *l, int64_t now_us, struct grant *g,
                             struct limit_view *view, int64_t *retry_us);
/* Of a request that was admitted, what it may come to; once. */
enum limit_answer limit_reserve(struct grant *g, int64_t texts, int64_t tokens, int64_t now_us,
                                struct limit_view *view, int64_t *retry_us);
/* So many bytes more, or fewer; they are counted either way. False: with those of others of the
 * key's requests they are more than it may have. A request alone may have what it wants. */
bool limit_hold(struct grant *g, int64_t bytes);
/* tokens: what it came to. */
void limit_give(struct grant *g, int64_t tokens, int64_t now_us);

/* A new rule for the same key: it goes on with what is left in the buckets, of no more than they
 * hold, and with what is in work, which gives back what it has set aside. `to` is nobody's yet. */
void limit_carry(struct limit *to, struct limit *from);

/* "12ms", "1.5s", "6m0s": a time as the headers write it; returns text. */
enum { LIMIT_TEXT_BYTES = 32 };
char *limit_text(int64_t us, char text[LIMIT_TEXT_BYTES]);

#endif
