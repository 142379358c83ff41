/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/embeddings: every input is a sequence that gives one vector; all are submitted in one
 * piece, and answered together.
 */
#include <math.h>
#include <stdlib.h>

#include "api/reply.h"
#include "engine/base/clock.h"
#include "server/answer/generate.h"
#include "server/answer/prompt.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

enum { BODY_BYTES_MAX = 512 << 20 };

struct embedding {
    struct call *call;
    struct admitted at;
    const struct prompt *prompt; /* in the arena */
    struct answer **answer;      /* in the arena; references owned */
    float *cut;                  /* in the arena: [dimensions]; NULL: vectors are shown whole */
    size_t n;
    int64_t submit_us;
    bool is_over;
};

static int submit(struct embedding *m, struct err *e)
{
    struct arena *a = call_arena(m->call);
    uint64_t salt = generate_salt(m->call, &m->at.q);
    const struct who *who = call_request(m->call)->who;
    int64_t n_cut = m->at.q.dimensions, d = engine_info(m->at.engine)->d_model;
    m->answer = arena_try(a, m->n, sizeof *m->answer, e);
    struct gen_req *req = m->answer ? arena_try(a, m->n, sizeof *req, e) : NULL;
    if (req && n_cut > 0 && n_cut < d)
        m->cut = arena_try(a, (size_t)n_cut, sizeof *m->cut, e);
    if (!req || (n_cut > 0 && n_cut < d && !m->cut))
        return -1;
    for (size_t i = 0; i < m->n; i++)
        req[i] = (struct gen_req){.kind = GEN_EMBED,
                                  .prompt = m->prompt[i].id,
                                  .n_prompt = m->prompt[i].n,
                                  .adapter = m->at.adapter,
                                  .salt = salt,
                                  .tenant = who->tenant,
                                  .weight = who->weight,
                                  .priority = (int32_t)m->at.q.priority};
    call_ref(m->call);
    m->submit_us = clock_us();
    if (!engine_submit(m->at.engine, req, m->n, generate_notify(m->call, false), m->answer, e))
        return 0;
    call_unref(m->call);
    return -1;
}

static struct api_usage usage(const struct embedding *m)
{
    struct api_usage u = {.prompt = 0};
    for (size_t i = 0; i < m->n; i++)
        u.prompt += m->prompt[i].n;
    return u;
}

static void note(struct embedding *m)
{
    m->is_over = true;
    call_note(m->call, m->at.q.model, usage(m).prompt, 0);
}

static void cancel(struct embedding *m)
{
    for (size_t i = 0; i < m->n; i++)
        answer_cancel(m->answer[i]);
}

static void fail(struct embedding *m, const struct err *why)
{
    struct api_error e;
    api_fail_err(&e, why, NULL);
    cancel(m);
    note(m);
    call_error(m->call, &e);
}

/* The first numbers of a vector, of length 1 again where the model's are. */
static const float *cut(const struct embedding *m, const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (size_t i = 0; i < n; i++)
        m->cut[i] =
            engine_info(m->at.engine)->normalizes && sum > 0 ? (float)(v[i] / sqrt(sum)) : v[i];
    return m->cut;
}

static void reply(struct embedding *m)
{
    struct buf out;
    struct err e = ERR_INIT;
    struct api_usage u = usage(m);
    buf_init(&out, BODY_BYTES_MAX);
    struct jout j = jout_on(&out);
    api_vectors_begin(&j);
    for (size_t i = 0; i < m->n; i++) {
        size_t n;
        const float *v = answer_vector(m->answer[i], &n);
        if (m->cut) {
            n = (size_t)m->at.q.dimensions;
            v = cut(m, v, n);
        }
        api_vector_write(&j, (int64_t)i, v, n, m->at.q.as_base64);
    }
    api_vectors_end(&j, m->at.q.model, &u);
    if (buf_check(&out, "the answer", &e)) {
        fail(m, &e);
    } else {
        note(m);
        call_reply(m->call, 200, "application/json", &out);
    }
    buf_release(&out);
}

static void step(struct call *call, void *ctx)
{
    struct embedding *m = ctx;
    struct err stops = ERR_INIT;
    (void)call;
    for (size_t i = 0; i < m->n && !m->is_over; i++) {
        enum gen_end state = answer_state(m->answer[i]);
        if (state == GEN_FAILED) {
            fail(m, &answer_end(m->answer[i])->err);
        } else if (state == GEN_CANCELLED) {
            err_set(&stops, ERR_BUSY, "The server is being stopped.");
            fail(m, &stops);
        } else if (state == GEN_RUNS) {
            return;
        }
    }
    if (!m->is_over)
        reply(m);
}

static void gone(void *ctx)
{
    struct embedding *m = ctx;
    cancel(m);
    note(m);
}

static void done(void *ctx)
{
    struct embedding *m = ctx;
    struct metrics *metrics = server_metrics(call_server(m->call));
    for (size_t i = 0; i < m->n; i++) {
        const struct metrics_request r = {.begin_us = call_request(m->call)->begin_us,
                                          .submit_us = m->submit_us,
                                          .n_prompt = m->prompt[i].n};
        if (metrics && answer_state(m->answer[i]) != GEN_RUNS)
            metrics_answer(metrics, m->answer[i], &r);
        answer_unref(m->answer[i]);
    }
}

static int make(struct embedding *m, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t most = engine_info(m->at.engine)->max_waiting;
    if (prompts_make(m->at.engine, &m->at.q, call_arena(m->call), &m->prompt, &m->n, e))
        return -1;
    if (m->n > (size_t)most)
        return api_fail(e, 400, "invalid_value", "input",
                        "'input' has %zu texts: %lld at once are possible here.", m->n,
                        (long long)most);
    if (call_reserve(m->call, (int64_t)m->n, usage(m).prompt, e))
        return -1;
    return submit(m, &why) ? api_fail_err(e, &why, "input") : 0;
}

void route_embeddings(struct call *c)
{
    struct embedding *m = ARENA_NEW(call_arena(c), struct embedding);
    const struct call_later later = {.step = step, .gone = gone, .done = done, .ctx = m};
    struct api_error e;
    m->call = c;
    if (!generate_admit(c, API_EMBEDDINGS, &m->at))
        return;
    if (make(m, &e)) {
        call_error(c, &e);
        return;
    }
    if (m->at.q.ignored)
        call_set_header(c, "x-tandem-ignored", m->at.q.ignored);
    call_wait(c, &later);
}
