/* SPDX-License-Identifier: Apache-2.0
 *
 * See vectors.h.
 */
#include "server/answer/vectors.h"

#include "engine/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

enum { BODY_BYTES_MAX = 512 << 20 };

static int submit(struct vectors *v, enum gen_kind kind, struct err *e)
{
    struct arena *a = call_arena(v->call);
    uint64_t salt = generate_salt(v->call, &v->at.q);
    const struct who *who = call_request(v->call)->who;
    v->answer = arena_try(a, v->n, sizeof *v->answer, e);
    struct gen_req *req = v->answer ? arena_try(a, v->n, sizeof *req, e) : NULL;
    if (!req)
        return -1;
    for (size_t i = 0; i < v->n; i++)
        req[i] = (struct gen_req){.kind = kind,
                                  .prompt = v->prompt[i].id,
                                  .n_prompt = v->prompt[i].n,
                                  .n_first = v->prompt[i].n_first,
                                  .adapter = v->at.adapter,
                                  .salt = salt,
                                  .tenant = who->tenant,
                                  .weight = who->weight,
                                  .is_idle = who->is_idle,
                                  .priority = (int32_t)v->at.q.priority};
    call_ref(v->call);
    v->submit_us = clock_us();
    if (!engine_submit(v->at.engine, req, v->n, generate_notify(v->call, false), v->answer, e))
        return 0;
    call_unref(v->call);
    return -1;
}

int64_t vectors_tokens(const struct vectors *v)
{
    int64_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        n += v->prompt[i].n;
    return n;
}

const float *vectors_at(const struct vectors *v, size_t i, size_t *n)
{
    return answer_vector(v->answer[i], n);
}

static void note(struct vectors *v)
{
    v->is_over = true;
    call_note(v->call, v->at.q.model, vectors_tokens(v), 0);
}

static void cancel(struct vectors *v)
{
    for (size_t i = 0; i < v->n; i++)
        answer_cancel(v->answer[i]);
}

static void fail(struct vectors *v, const struct err *why)
{
    struct api_error e;
    api_fail_err(&e, why, NULL);
    cancel(v);
    note(v);
    call_error(v->call, &e);
}

static void reply(struct vectors *v)
{
    struct buf out;
    struct err e = ERR_INIT;
    buf_init(&out, BODY_BYTES_MAX);
    struct jout j = jout_on(&out);
    v->write(v, &j);
    if (buf_check(&out, "the answer", &e)) {
        fail(v, &e);
    } else {
        note(v);
        call_reply(v->call, 200, "application/json", &out);
    }
    buf_release(&out);
}

static void step(struct call *call, void *ctx)
{
    struct vectors *v = ctx;
    struct err stops = ERR_INIT;
    (void)call;
    for (size_t i = 0; i < v->n && !v->is_over; i++) {
        enum gen_end state = answer_state(v->answer[i]);
        if (state == GEN_FAILED) {
            fail(v, &answer_end(v->answer[i])->err);
        } else if (state == GEN_CANCELLED) {
            err_set(&stops, ERR_BUSY, "The server is being stopped.");
            fail(v, &stops);
        } else if (state == GEN_RUNS) {
            return;
        }
    }
    if (!v->is_over)
        reply(v);
}

static void gone(void *ctx)
{
    struct vectors *v = ctx;
    cancel(v);
    note(v);
}

static void done(void *ctx)
{
    struct vectors *v = ctx;
    struct metrics *metrics = server_metrics(call_server(v->call));
    for (size_t i = 0; i < v->n; i++) {
        const struct metrics_request r = {.begin_us = call_request(v->call)->begin_us,
                                          .submit_us = v->submit_us,
                                          .n_prompt = v->prompt[i].n};
        if (metrics && answer_state(v->answer[i]) != GEN_RUNS)
            metrics_answer(metrics, v->answer[i], &r);
        answer_unref(v->answer[i]);
    }
}

static int begin(struct vectors *v, enum gen_kind kind, const char *field, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t most = engine_info(v->at.engine)->max_waiting;
    if (v->n > (size_t)most)
        return api_fail(e, 400, "invalid_value", field,
                        "'%s' has %zu texts: %lld at once are possible here.", field, v->n,
                        (long long)most);
    const struct call_most all = {(int64_t)v->n, vectors_tokens(v), field, field};
    if (call_reserve(v->call, &all, e))
        return -1;
    return submit(v, kind, &why) ? api_fail_err(e, &why, field) : 0;
}

void vectors_ask(struct vectors *v, enum gen_kind kind, const char *field)
{
    const struct call_later later = {.step = step, .gone = gone, .done = done, .ctx = v};
    struct api_error e;
    if (begin(v, kind, field, &e)) {
        call_error(v->call, &e);
        return;
    }
    if (v->at.q.ignored)
        call_set_header(v->call, "x-tandem-ignored", v->at.q.ignored);
    call_wait(v->call, &later);
}
