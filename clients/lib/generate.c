/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts: a prompt or a conversation becomes tokens, these a generation of the engine, and its
 * answer a text that is told as it grows. The thread that asks waits for the engine's and reads.
 */
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "api/messages.h"
#include "clients/lib/lib_own.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/template/template.h"
#include "engine/token/tokenizer.h"

enum { TEXT_BYTES_MAX = 256 << 20, TOK_MAX = 1 << 26, ROW_BYTES_MAX = 512 << 20 };

struct talk {
    struct tandem_model *m;                  /* borrowed */
    const struct tandem_generate_options *o; /* borrowed */
    struct tok_list prompt;
    struct adapter *adapter; /* counted; NULL: the base */
    struct answer *answer;   /* counted */
    struct detok *detok;
    struct buf text;
    size_t n_read, n_told; /* tokens that are in the text; bytes of it that were told */
    bool is_ended;         /* by who is told */
    sem_t bell, done;
};

static void on_token(void *ctx)
{
    struct talk *t = ctx;
    sem_post(&t->bell);
}

static void on_done(void *ctx)
{
    struct talk *t = ctx;
    sem_post(&t->done);
}

/* ---- what is asked ------------------------------------------------------------------------- */

static int fill_stops(const struct tandem_generate_options *o, struct gen_params *p, struct err *e)
{
    if (o->n_stop > GEN_STOP_MAX)
        return err_set(e, ERR_TOO_LARGE, "stop: %zu texts, at most %d there may be", o->n_stop,
                       GEN_STOP_MAX);
    for (size_t i = 0; i < o->n_stop; i++) {
        size_t n = strlen(o->stop[i]);
        if (n > GEN_STOP_BYTES_MAX)
            return err_set(e, ERR_TOO_LARGE, "stop: a text has %d bytes at most",
                           GEN_STOP_BYTES_MAX);
        p->stop[p->n_stop++] = (struct gen_text){o->stop[i], (uint32_t)n};
    }
    return 0;
}

static int fill_params(const struct talk *t, struct gen_params *p, struct err *e)
{
    const struct tandem_generate_options *o = t->o;
    const struct sample_params *own = &engine_info(t->m->engine)->sample;
    *p = (struct gen_params){.sample = *own, .max_new = o->max_tokens ? o->max_tokens : -1};
    if (o->max_tokens < 0)
        return err_set(e, ERR_BAD_INPUT, "max_tokens must not be below 0");
    if (!(o->temperature < 0))
        p->sample.temperature = o->temperature;
    if (!(o->top_p < 0))
        p->sample.top_p = o->top_p;
    if (o->top_k >= 0)
        p->sample.top_k = o->top_k;
    if (o->min_p != 0)
        p->sample.min_p = o->min_p;
    p->sample.seed = o->seed;
    p->text_goes_on = tokenizer_has_text(engine_tokenizer(t->m->engine), t->prompt.id, t->prompt.n);
    return fill_stops(o, p, e);
}

static int find_adapter(struct talk *t, struct err *e)
{
    const char *name = t->o->adapter;
    if (!name)
        return 0;
    t->adapter = engine_adapter_get(t->m->engine, name);
    return t->adapter ? 0 : err_set(e, ERR_NOT_FOUND, "no adapter has the name %.100s", name);
}

static int submit(struct talk *t, enum gen_kind kind, const struct gen_params *p, struct err *e)
{
    const struct gen_req req = {.kind = kind,
                                .prompt = t->prompt.id,
                                .n_prompt = (int64_t)t->prompt.n,
                                .params = p,
                                .adapter = t->adapter};
    const struct gen_notify notify = {
        .fn = on_token, .done = on_done, .ctx = t, .every_token = t->o && t->o->text};
    return engine_submit(t->m->engine, &req, 1, notify, &t->answer, e);
}

/* ---- what comes ---------------------------------------------------------------------------- */

static void tell(struct talk *t, size_t end)
{
    if (t->is_ended) /* what comes on top is no part of the answer */
        return;
    if (t->o->text && end > t->n_told)
        t->is_ended = t->o->text(t->o->ctx, t->text.data + t->n_told, end - t->n_told) != 0;
    t->n_told = end;
    if (t->is_ended)
        answer_cancel(t->answer);
}

/* Takes in what is new, up to what may be shown. */
static int read_new(struct talk *t, struct err *e)
{
    size_t n = answer_count(t->answer);
    uint64_t safe = 0; /* of what came before it is told already, or waits for the end */
    for (; t->n_read < n; t->n_read++) {
        const struct answer_token *at = answer_token(t->answer, t->n_read);
        safe = at->text_safe;
        if (detok_push(t->detok, at->id, &t->text, e))
            return -1;
    }
    if (buf_check(&t->text, "the answer", e))
        return -1;
    if (t->text.len > t->n_told && safe > t->n_told)
        tell(t, safe < t->text.len ? (size_t)safe : t->text.len);
    return 0;
}

static int read_end(struct talk *t, struct tandem_answer *out, struct err *e)
{
    const struct answer_end *end = answer_end(t->answer);
    enum gen_end state = answer_state(t->answer);
    if (state == GEN_FAILED)
        return err_set(e, end->err.code, "%s", end->err.msg);
    if (state == GEN_CANCELLED && !t->is_ended)
        return err_set(e, ERR_BUSY, "the model was closed");
    if (detok_finish(t->detok, &t->text, e) || buf_check(&t->text, "the answer", e))
        return -1;
    if (end->text_bytes < t->text.len)
        t->text.len = (size_t)end->text_bytes;
    if (t->is_ended)
        t->text.len = t->n_told;
    t->text.data[t->text.len] = 0;
    if (!t->is_ended)
        tell(t, t->text.len);
    out->prompt_tokens = (int64_t)t->prompt.n;
    out->new_tokens = (int64_t)t->n_read;
    out->end = t->is_ended            ? TANDEM_END_ASKED
               : state == GEN_STOPPED ? TANDEM_END_STOP
                                      : TANDEM_END_LENGTH;
    out->n = t->text.len;
    out->text = buf_take(&t->text);
    return 0;
}

static void wait_for_end(struct talk *t)
{
    while (answer_state(t->answer) == GEN_RUNS)
        sem_wait(&t->bell);
}

static int follow(struct talk *t, struct tandem_answer *out, struct err *e)
{
    int rc = 0;
    bool is_over = false;
    buf_str(&t->text, "");
    while (!rc && !is_over) {
        is_over = answer_state(t->answer) != GEN_RUNS;
        rc = read_new(t, e);
        if (!rc && !is_over)
            sem_wait(&t->bell);
    }
    if (!rc)
        rc = read_end(t, out, e);
    if (rc)
        answer_cancel(t->answer);
    return rc;
}

/* ---- a talk -------------------------------------------------------------------------------- */

static int talk_init(struct talk *t, struct tandem_model *m,
                     const struct tandem_generate_options *o, struct err *e)
{
    lib_enter(m);
    *t = (struct talk){.m = m, .o = o};
    tok_list_init(&t->prompt, TOK_MAX, false);
    buf_init(&t->text, TEXT_BYTES_MAX);
    sem_init(&t->bell, 0, 0);
    sem_init(&t->done, 0, 0);
    return engine_tokenizer(m->engine) ? 0
                                       : err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer");
}

static void talk_release(struct talk *t)
{
    if (t->answer) /* the engine has it until it has called for the last time */
        while (sem_wait(&t->done))
            ;
    answer_unref(t->answer);
    adapter_unref(t->adapter);
    detok_free(t->detok);
    buf_release(&t->text);
    tok_list_release(&t->prompt);
    sem_destroy(&t->bell);
    sem_destroy(&t->done);
    lib_leave(t->m);
}

/* The prompt is there. */
static int run(struct talk *t, struct tandem_answer *out, struct err *e)
{
    struct gen_params p;
    if (find_adapter(t, e) || fill_params(t, &p, e))
        return -1;
    t->detok = detok_new(engine_tokenizer(t->m->engine), true);
    if (p.text_goes_on)
        detok_inside(t->detok);
    return submit(t, GEN_TEXT, &p, e) ? -1 : follow(t, out, e);
}

static int encode(struct talk *t, const char *text, struct err *e)
{
    return text ? tokenizer_encode(engine_tokenizer(t->m->engine), text, strlen(text), true, true,
                                   &t->prompt, e)
                : err_set(e, ERR_BAD_INPUT, "a text is needed");
}

/* What `as` makes of the text is the prompt. */
static int answer(struct tandem_model *m, const char *text,
                  int (*as)(struct talk *t, const char *text, struct err *e),
                  const struct tandem_generate_options *o, struct tandem_answer *out,
                  struct tandem_error *e)
{
    struct tandem_generate_options all = TANDEM_GENERATE_OPTIONS;
    struct err why = ERR_INIT;
    struct talk t;
    *out = (struct tandem_answer){.text = NULL};
    int rc = talk_init(&t, m, &all, &why) || lib_options(&all, o, &why) || as(&t, text, &why) ||
                     run(&t, out, &why)
                 ? -1
                 : 0;
    talk_release(&t);
    return rc ? lib_fail(e, &why) : 0;
}

int tandem_generate(struct tandem_model *m, const char *prompt,
                    const struct tandem_generate_options *o, struct tandem_answer *out,
                    struct tandem_error *e)
{
    return answer(m, prompt, encode, o, out, e);
}

/* ---- conversations ------------------------------------------------------------------------- */

static int read_messages(const struct template *t, const char *text, struct arena *a,
                         struct jvalue *out, struct err *e)
{
    struct api_error why = {0};
    struct api_limits limits = {.knows_developer = template_mentions(t, "developer")};
    struct api_request unused = {0};
    struct api_reader r = {
        .arena = a, .limits = &limits, .out = &unused, .e = &why, .values = API_JSON_VALUES_MAX};
    char *body = arena_printf(a, "{\"messages\":%s}", text ? text : "null");
    json_t *row = api_json_line(a, body, strlen(body), &why);
    if (row && json_object_size(row) == 1 &&
        !api_messages(&r, "messages", json_object_get(row, "messages"), out))
        return 0;
    return err_set(e, why.status >= 500 ? ERR_NO_MEMORY : ERR_BAD_INPUT, "%s",
                   why.status ? why.message : "messages: a JSON list is needed");
}

static int encode_chat(struct talk *t, const struct template_out *out, struct err *e)
{
    struct tok_segment *seg = try_alloc(out->n_span + 1, sizeof *seg, "a conversation", e);
    if (!seg)
        return -1;
    size_t n = template_out_segments(out, seg);
    int rc =
        tokenizer_encode_segments(engine_tokenizer(t->m->engine), seg, n, false, &t->prompt, e);
    mem_free(seg);
    return rc;
}

static int render(struct talk *t, const char *messages, struct err *e)
{
    const struct template *by = engine_template(t->m->engine);
    struct template_token token[TEMPLATE_TOKENS];
    struct template_out out = {0};
    struct jvalue list;
    struct arena a;
    if (!by)
        return err_set(e, ERR_UNSUPPORTED, "the model has no chat template");
    struct template_in in = {.messages = &list,
                             .token = token,
                             .n_token = template_tokens(engine_tokenizer(t->m->engine), token),
                             .add_generation_prompt = true,
                             .now = clock_local_s(clock_wall_us() / 1000000)};
    arena_init(&a, ROW_BYTES_MAX);
    int rc = read_messages(by, messages, &a, &list, e) || template_render(by, &in, &out, e) ||
                     encode_chat(t, &out, e)
                 ? -1
                 : 0;
    template_out_release(&out);
    arena_release(&a);
    return rc;
}

int tandem_chat(struct tandem_model *m, const char *messages,
                const struct tandem_generate_options *o, struct tandem_answer *out,
                struct tandem_error *e)
{
    return answer(m, messages, render, o, out, e);
}

void tandem_answer_release(struct tandem_answer *a)
{
    if (a)
        free(a->text);
    if (a)
        a->text = NULL;
}

/* ---- vectors ------------------------------------------------------------------------------- */

/* As the model wants it: behind what its files put before a text, cut to what they say. */
static int encode_whole(struct talk *t, const char *text, struct err *e)
{
    const struct engine *g = t->m->engine;
    const struct tokenizer *by = engine_tokenizer(g);
    const char *before = engine_prompt(g, NULL);
    if (!text)
        return err_set(e, ERR_BAD_INPUT, "a text is needed");
    const struct tok_segment seg[] = {{.text = before, .len = strlen(before)},
                                      {.text = text, .len = strlen(text)}};
    size_t skip = *before ? 0 : 1;
    if (tokenizer_encode_segments(by, seg + skip, 2 - skip, true, &t->prompt, e))
        return -1;
    tokenizer_cut(by, &t->prompt, (size_t)engine_info(g)->max_text, true);
    return 0;
}

int tandem_embed(struct tandem_model *m, const char *text, float *vector, struct tandem_error *e)
{
    struct err why = ERR_INIT;
    struct talk t;
    int rc = talk_init(&t, m, NULL, &why) || encode_whole(&t, text, &why) ||
                     submit(&t, GEN_EMBED, NULL, &why)
                 ? -1
                 : 0;
    if (!rc) {
        wait_for_end(&t);
        const struct err *failed = &answer_end(t.answer)->err;
        if (answer_state(t.answer) == GEN_FAILED) {
            rc = err_set(&why, failed->code, "%s", failed->msg);
        } else if (answer_state(t.answer) == GEN_CANCELLED) {
            rc = err_set(&why, ERR_BUSY, "the model was closed");
        } else {
            size_t n;
            const float *v = answer_vector(t.answer, &n);
            memcpy(vector, v, n * sizeof *v);
        }
    }
    talk_release(&t);
    return rc ? lib_fail(e, &why) : 0;
}
