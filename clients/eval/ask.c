/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks are numbered: first the pieces, then the rows, of which those with an answer are asked. A
 * few dozen are under way; whichever ends makes room for the next. What the engine calls stays
 * until it has called for the last time, which may be after an answer was seen to end.
 */
#include "clients/eval/ask.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/token/tokenizer.h"

enum { AT_ONCE = 64, TEXT_BYTES_MAX = 16 << 20, MORE_TOKENS = 16 };

struct slot {
    struct answer *answer; /* owned; NULL: free */
    size_t task;
};

struct asking {
    const struct eval_ask *a; /* borrowed */
    struct eval_said *out;    /* borrowed */
    struct slot slot[AT_ONCE];
    sem_t ended, done; /* posted for answers that ended; for submissions that are over */
    int64_t n_submitted;
    size_t n_slot, n_busy, n_task, next, n_over;
};

static void on_end(void *ctx)
{
    struct asking *g = ctx;
    sem_post(&g->ended);
}

static void on_done(void *ctx)
{
    struct asking *g = ctx;
    sem_post(&g->done);
}

static const struct eval_row *row_of(const struct asking *g, size_t task)
{
    return &g->a->rows->row.at[task - g->a->rows->piece.n];
}

/* An answer that is longer than the right one and some is another one. */
static int64_t max_new_of(const struct asking *g, const struct eval_row *row)
{
    int64_t most = g->a->max_new ? g->a->max_new : 2 * row->n_answer + MORE_TOKENS;
    int64_t left = engine_info(g->a->engine)->ctx - row->n_prompt;
    return most < left ? most : left;
}

static int submit(struct asking *g, struct slot *s, size_t task, struct err *e)
{
    const struct eval_rows *rows = g->a->rows;
    bool is_piece = task < rows->piece.n;
    const struct eval_piece *p = &rows->piece.at[is_piece ? task : row_of(g, task)->piece];
    struct gen_params params = {
        .sample = SAMPLE_PARAMS_INIT, .wants_prompt = is_piece, .wants_logprob = is_piece};
    if (!is_piece)
        params.max_new = max_new_of(g, row_of(g, task));
    if (!is_piece && g->a->stop) {
        params.stop[0] = (struct gen_text){g->a->stop, (uint32_t)strlen(g->a->stop)};
        params.n_stop = 1;
    }
    const struct gen_req req = {.kind = GEN_TEXT,
                                .prompt = rows->id.at + p->at,
                                .n_prompt = is_piece ? p->n : row_of(g, task)->n_prompt,
                                .params = &params,
                                .adapter = g->a->adapter};
    const struct gen_notify notify = {.fn = on_end, .done = on_done, .ctx = g};
    if (engine_submit(g->a->engine, &req, 1, notify, &s->answer, e))
        return -1;
    s->task = task;
    g->n_submitted++;
    g->n_busy++;
    return 0;
}

static void take_piece(struct asking *g, const struct slot *s)
{
    const struct eval_rows *rows = g->a->rows;
    const struct eval_piece *p = &rows->piece.at[s->task];
    for (size_t i = 1; i < (size_t)p->n; i++) {
        if (!rows->is_counted.at[p->at + i])
            continue;
        g->out->logprob[s->task] += (double)answer_prompt_logprob(s->answer, i);
        g->out->n_tok[s->task]++;
    }
}

static int take_text(struct asking *g, const struct slot *s, struct err *e)
{
    size_t n = answer_count(s->answer), row = s->task - g->a->rows->piece.n;
    uint64_t end = answer_end(s->answer)->text_bytes;
    int32_t *id = try_alloc(n, sizeof *id, "an answer", e);
    struct buf text;
    if (!id)
        return -1;
    for (size_t i = 0; i < n; i++)
        id[i] = answer_token(s->answer, i)->id;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_str(&text, "");
    int rc = tokenizer_decode(engine_tokenizer(g->a->engine), id, n, true, &text, e) ||
                     buf_check(&text, "an answer", e)
                 ? -1
                 : 0;
    if (!rc && end < text.len)
        text.data[end] = 0;
    g->out->text[row] = rc ? NULL : buf_take(&text);
    buf_release(&text);
    mem_free(id);
    return rc;
}

static int take(struct asking *g, struct slot *s, struct err *e)
{
    bool is_piece = s->task < g->a->rows->piece.n;
    const struct err *why = &answer_end(s->answer)->err;
    int rc = answer_state(s->answer) == GEN_FAILED ? err_set(e, why->code, "%s", why->msg) : 0;
    if (!rc && is_piece)
        take_piece(g, s);
    else if (!rc)
        rc = take_text(g, s, e);
    answer_unref(s->answer);
    s->answer = NULL;
    g->n_busy--;
    g->n_over++;
    if (g->a->progress)
        g->a->progress(g->a->ctx, g->n_over, g->n_task);
    return rc;
}

/* Rows without an answer have no task; false: there is none left. */
static bool next_task(struct asking *g, size_t *task)
{
    size_t n_piece = g->a->rows->piece.n, end = n_piece + g->out->n_row;
    while (g->next >= n_piece && g->next < end && row_of(g, g->next)->kind != EVAL_ANSWER)
        g->next++;
    *task = g->next;
    return g->next < end;
}

/* Whoever ended is taken; whoever is free is given the next task. */
static int look_round(struct asking *g, struct err *e)
{
    for (size_t i = 0; i < g->n_slot; i++) {
        struct slot *s = &g->slot[i];
        size_t task;
        if (s->answer && answer_state(s->answer) != GEN_RUNS && take(g, s, e))
            return -1;
        if (s->answer || !next_task(g, &task))
            continue;
        if (submit(g, s, task, e))
            return -1;
        g->next++;
    }
    return 0;
}

static int run(struct asking *g, struct err *e)
{
    int rc = look_round(g, e);
    while (!rc && g->n_busy > 0) {
        sem_wait(&g->ended);
        rc = look_round(g, e);
    }
    return rc;
}

/* Those of a round that broke off still run. */
static void leave(struct asking *g)
{
    for (size_t i = 0; i < g->n_slot; i++)
        if (g->slot[i].answer)
            answer_cancel(g->slot[i].answer);
    while (g->n_submitted > 0)
        g->n_submitted -= sem_wait(&g->done) == 0;
    for (size_t i = 0; i < g->n_slot; i++)
        answer_unref(g->slot[i].answer);
    sem_destroy(&g->done);
    sem_destroy(&g->ended);
}

int eval_ask(const struct eval_ask *a, struct eval_said *out, struct err *e)
{
    int64_t most = engine_info(a->engine)->max_waiting;
    size_t n_piece = a->rows->piece.n, n_row = a->rows->row.n;
    struct asking *g = xcalloc(1, sizeof *g);
    *out = (struct eval_said){.logprob = try_alloc(n_piece, sizeof(double), "results", e),
                              .n_tok = try_alloc(n_piece, sizeof(int64_t), "results", e),
                              .text = try_alloc(n_row, sizeof(char *), "results", e),
                              .n_row = n_row};
    g->a = a;
    g->out = out;
    g->n_slot = most < AT_ONCE ? (size_t)most : AT_ONCE;
    g->n_task = n_piece + (size_t)a->rows->n_of[EVAL_ANSWER];
    sem_init(&g->ended, 0, 0);
    sem_init(&g->done, 0, 0);
    int rc = out->logprob && out->n_tok && out->text ? run(g, e) : -1;
    leave(g);
    free(g);
    return rc;
}

void eval_said_release(struct eval_said *s)
{
    for (size_t i = 0; s->text && i < s->n_row; i++)
        free(s->text[i]);
    mem_free(s->logprob);
    mem_free(s->n_tok);
    mem_free(s->text);
}
