/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of the user's own that grades: behind an address, which gets {"sample", "item"}, or in
 * Python, sent along, whose function grade(sample, item) is called. Either says {"score": a
 * number}.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "api/grader_own.h"
#include "api/jout.h"
#include "api/params.h"

enum {
    URL_BYTES_MAX = 1024,
    HEADERS_MAX = 16,
    HEADER_BYTES_MAX = 4096,
    SOURCE_BYTES_MAX = 256 << 10,
    BODY_BYTES_MAX = 16 << 20
};

struct grader_service {
    const char *url; /* NULL: a program */
    struct grader_header header[HEADERS_MAX];
    size_t n_header;
    const char *source;
};

const char *grader_service_url(const struct grader *g)
{
    return g->service->url;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_token(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("!#$%&'*+-.^_`|~", *s))
            return false;
    return true;
}

static bool is_visible(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            return false;
    return true;
}

/* Those that say where a request goes and how long it is are the carrier's. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {
        "Host",         "Content-Length", "Transfer-Encoding", "Connection",
        "Content-Type", "Expect",         "Upgrade",           "Te",
        "Trailer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "proxy-", 6) == 0;
}

static int read_headers(struct grader_place_at *p, struct grader_service *s)
{
    const json_t *v = json_object_get(p->v, "headers");
    const char *key;
    json_t *member;
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_object(v) || json_object_size(v) > HEADERS_MAX)
        return param_bad(p->r, grader_member(p, "headers"),
                         "must be an object of at most %d headers", HEADERS_MAX);
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        const char *value = json_string_value(member);
        if (!*key || !is_token(key) || is_reserved(key))
            return param_bad(p->r, grader_member(p, "headers"), "has a name that cannot be sent");
        if (!value || strlen(value) != json_string_length(member) ||
            strlen(value) > HEADER_BYTES_MAX || !is_visible(value))
            return param_bad(p->r, grader_member(p, "headers"),
                             "must have strings of at most %d bytes, without control bytes",
                             HEADER_BYTES_MAX);
        s->header[s->n_header].name = arena_strdup(p->r->arena, key);
        s->header[s->n_header++].value = arena_strdup(p->r->arena, value);
    }
    return 0;
}

int grader_read_endpoint(struct grader_place_at *p, struct grader *g)
{
    static const char *const members[] = {"url", "headers", NULL};
    struct grader_service *s = ARENA_NEW(p->r->arena, struct grader_service);
    g->service = s;
    if (grader_only(p, members))
        return -1;
    const json_t *v = grader_need(p, "url");
    s->url = v ? grader_word(p, "url", v, URL_BYTES_MAX) : NULL;
    return s->url ? read_headers(p, s) : -1;
}

int grader_read_program(struct grader_place_at *p, struct grader *g)
{
    static const char *const members[] = {"source", "image_tag", NULL};
    struct grader_service *s = ARENA_NEW(p->r->arena, struct grader_service);
    const json_t *tag = json_object_get(p->v, "image_tag");
    g->service = s;
    if (grader_only(p, members))
        return -1;
    if (tag && !json_is_null(tag))
        return param_bad(p->r, grader_member(p, "image_tag"),
                         "is not supported: there is one image");
    const json_t *v = grader_need(p, "source");
    s->source = v ? grader_word(p, "source", v, SOURCE_BYTES_MAX) : NULL;
    return s->source ? 0 : -1;
}

/* ---- asking -------------------------------------------------------------------------------- */

static void put_body(const struct grader_service *g, const struct grader_sample *s, struct buf *out)
{
    struct jout o = jout_on(out);
    jout_open(&o, '{');
    if (g->source)
        jout_put_str(&o, "source", g->source);
    jout_key(&o, "sample");
    jout_open(&o, '{');
    jout_put_bytes(&o, "output_text", s->of.text, s->of.n);
    jout_key(&o, "output_json");
    if (s->of.json)
        grade_json_put(&o, s->of.json);
    else
        jout_null(&o);
    jout_close(&o, '}');
    jout_key(&o, "item");
    if (s->of.item) {
        grade_json_put(&o, s->of.item);
    } else {
        jout_open(&o, '{');
        jout_close(&o, '}');
    }
    jout_close(&o, '}');
}

/* {"score": 0.5}, or of a program {"error": "...", "is_ours": ...} */
static enum grade_fault read_answer(const struct grader_service *g, const struct grader_sample *s,
                                    const struct buf *text, double *reward, struct err *e)
{
    enum grade_fault wrong = g->url ? GRADE_UNRESPONSIVE : GRADE_PYTHON_RUNTIME;
    struct api_error why = {0};
    const json_t *answer = api_json_line(s->arena, text->data ? text->data : "", text->len, &why);
    const json_t *v = json_object_get(answer, "score");
    const char *error = json_string_value(json_object_get(answer, "error"));
    if (!g->url && error) {
        err_set(e, ERR_BAD_INPUT, "%.400s", error);
        return wrong;
    }
    if (!json_is_number(v)) {
        err_set(e, ERR_BAD_INPUT, "the answer is no {\"score\": a number}");
        return wrong;
    }
    *reward = json_number_value(v);
    return GRADE_GOOD;
}

enum grade_fault grader_ask_service(const struct grader *g, const struct grader_sample *s,
                                    double *reward, struct err *e)
{
    const struct grader_service *of = g->service;
    const struct grader_outside *o = s->outside;
    enum grade_fault fault = of->url ? GRADE_UNRESPONSIVE : GRADE_PYTHON_SERVER;
    struct buf body, answer;
    if (!o) {
        err_set(e, ERR_UNSUPPORTED, "no program can be asked here");
        return fault;
    }
    buf_init(&body, BODY_BYTES_MAX);
    buf_init(&answer, GRADER_ANSWER_BYTES);
    put_body(of, s, &body);
    const struct grader_question q = {.to = of->url ? GRADER_URL : GRADER_PYTHON,
                                      .url = of->url,
                                      .header = of->header,
                                      .n_header = of->n_header,
                                      .owner = o->owner,
                                      .body = body.data,
                                      .n_body = body.len,
                                      .ends = o->ends,
                                      .until_us = o->until_us};
    if (buf_check(&body, "a grader's question", e))
        fault = GRADE_OTHER;
    else if (!o->ask(o->ctx, &q, &answer, e))
        fault = read_answer(of, s, &answer, reward, e);
    else
        fault = grader_unanswered(o, e, fault);
    buf_release(&body);
    buf_release(&answer);
    return fault;
}
