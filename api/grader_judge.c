/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that judges: score_model and label_model. It is asked by the body of a chat request,
 * whose answer is held to a schema: a number, or one of the labels. So what it says can be read
 * wherever the schema is obeyed; a model elsewhere that does not is a fault of the sample.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/grader_own.h"
#include "api/jout.h"
#include "api/params.h"

enum {
    MESSAGES_MAX = 32,
    PARTS_MAX = 16,
    LABELS_MAX = 64,
    LABEL_BYTES_MAX = 256,
    URL_BYTES_MAX = 1024,
    BODY_BYTES_MAX = 16 << 20,
    NEW_AUTO = 1024, /* elsewhere; here what the context has left */
    NEW_MAX = 65536,
    PRIORITY = 16 /* behind those of clients */
};

struct message {
    const char *role;
    const struct grade_text *part[PARTS_MAX];
    size_t n_part;
};

struct grader_judge {
    const char *model, *base_url; /* base_url: NULL: it is served here */
    struct message *message;
    size_t n_message;
    double low, high; /* of a score */
    const char *label[LABELS_MAX];
    bool passes[LABELS_MAX];
    size_t n_label;
    double temperature, top_p;
    int64_t seed, max_new; /* max_new: 0: what there is room for */
    const char *effort;    /* NULL: not said */
    bool has_top_p, has_seed;
};

const char *grader_judge_url(const struct grader *g)
{
    return g->judge->base_url;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_part(struct grader_place_at *p, const json_t *v, struct message *m)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *text = json_is_string(v) ? v : json_object_get(v, "text");
    if (m->n_part == PARTS_MAX)
        return param_bad(p->r, grader_member(p, "input"), "has more than %d parts in a message",
                         PARTS_MAX);
    if (!json_is_string(text) ||
        (type && strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0))
        return param_bad(p->r, grader_member(p, "input"),
                         "must have texts: a string, or {\"type\": \"input_text\", \"text\": ...}");
    m->part[m->n_part] = grade_text_read(p->r, grader_member(p, "input"), text);
    return m->part[m->n_part++] ? 0 : -1;
}

static int read_message(struct grader_place_at *p, const json_t *v, struct message *m)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const json_t *content = json_object_get(v, "content");
    const char *role = json_string_value(json_object_get(v, "role"));
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0)
            m->role = roles[i];
    if (!m->role)
        return param_bad(p->r, grader_member(p, "input"),
                         "must have messages with a role of user, assistant, system or developer");
    if (!json_is_array(content))
        return read_part(p, content, m);
    for (size_t i = 0; i < json_array_size(content); i++)
        if (read_part(p, json_array_get(content, i), m))
            return -1;
    return 0;
}

static int read_input(struct grader_place_at *p, struct grader_judge *j)
{
    const json_t *v = grader_need(p, "input");
    size_t n = json_array_size(v);
    if (!v)
        return -1;
    if (n < 1 || n > MESSAGES_MAX)
        return param_bad(p->r, grader_member(p, "input"), "must be a list of 1 to %d messages",
                         MESSAGES_MAX);
    j->message = ARENA_ARRAY(p->r->arena, struct message, n);
    j->n_message = n;
    for (size_t i = 0; i < n; i++)
        if (read_message(p, json_array_get(v, i), &j->message[i]))
            return -1;
    return 0;
}

static int read_sampling_member(struct grader_place_at *p, const char *key, const json_t *v,
                                struct grader_judge *j)
{
    struct api_reader *r = p->r;
    const char *name = grader_member(p, key);
    if (json_is_null(v))
        return 0;
    if (strcmp(key, "temperature") == 0)
        return param_num(r, name, v, 0, 2, &j->temperature);
    if (strcmp(key, "top_p") == 0) {
        j->has_top_p = true;
        return param_num(r, name, v, 0, 1, &j->top_p);
    }
    if (strcmp(key, "seed") == 0) {
        j->has_seed = true;
        return param_int(r, name, v, INT64_MIN, INT64_MAX, &j->seed);
    }
    if (strcmp(key, "max_completions_tokens") == 0 || strcmp(key, "max_completion_tokens") == 0)
        return param_int(r, name, v, 1, NEW_MAX, &j->max_new);
    if (strcmp(key, "reasoning_effort") == 0) {
        j->effort = grader_word(p, key, v, 16);
        return j->effort ? 0 : -1;
    }
    return param_bad(r, name, "is no sampling parameter of a grader");
}

static int read_sampling(struct grader_place_at *p, struct grader_judge *j)
{
    const char *key;
    json_t *member;
    const json_t *v = json_object_get(p->v, "sampling_params");
    char where[GRADER_PLACE_BYTES];
    j->max_new = j->base_url ? NEW_AUTO : 0;
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_object(v))
        return param_type(p->r, grader_member(p, "sampling_params"), "an object", v);
    struct grader_place_at in = {.r = p->r, .where = where, .v = v};
    memcpy(where, grader_member(p, "sampling_params"), sizeof where);
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        if (read_sampling_member(&in, key, member, j))
            return -1;
    }
    return 0;
}

static int read_range(struct grader_place_at *p, struct grader_judge *j)
{
    const json_t *v = json_object_get(p->v, "range");
    j->high = 1;
    if (!v || json_is_null(v))
        return 0;
    j->low = json_number_value(json_array_get(v, 0));
    j->high = json_number_value(json_array_get(v, 1));
    if (json_array_size(v) != 2 || !json_is_number(json_array_get(v, 0)) ||
        !json_is_number(json_array_get(v, 1)) || !(j->low < j->high))
        return param_bad(p->r, grader_member(p, "range"),
                         "must be two numbers, of which the first is the smaller one");
    return 0;
}

static int find_label(const struct grader_judge *j, const char *word)
{
    for (size_t i = 0; i < j->n_label; i++)
        if (strcmp(j->label[i], word) == 0)
            return (int)i;
    return -1;
}

static int read_labels(struct grader_place_at *p, struct grader_judge *j)
{
    const json_t *all = grader_need(p, "labels"),
                 *good = all ? grader_need(p, "passing_labels") : NULL;
    if (!good)
        return -1;
    if (json_array_size(all) < 1 || json_array_size(all) > LABELS_MAX)
        return param_bad(p->r, grader_member(p, "labels"), "must be a list of 1 to %d labels",
                         LABELS_MAX);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *word = grader_word(p, "labels", json_array_get(all, i), LABEL_BYTES_MAX);
        if (!word)
            return -1;
        if (find_label(j, word) >= 0)
            return param_bad(p->r, grader_member(p, "labels"), "has a label twice");
        j->label[j->n_label++] = word;
    }
    if (json_array_size(good) < 1)
        return param_bad(p->r, grader_member(p, "passing_labels"), "must be a list of labels");
    for (size_t i = 0; i < json_array_size(good); i++) {
        const char *word =
            grader_word(p, "passing_labels", json_array_get(good, i), LABEL_BYTES_MAX);
        int at = word ? find_label(j, word) : -1;
        if (!word)
            return -1;
        if (at < 0)
            return param_bad(p->r, grader_member(p, "passing_labels"), "has one that is no label");
        j->passes[at] = true;
    }
    return 0;
}

static int read_model(struct grader_place_at *p, struct grader_judge *j)
{
    const json_t *model = grader_need(p, "model"), *base = json_object_get(p->v, "base_url");
    if (!model)
        return -1;
    j->model = grader_word(p, "model", model, GRADER_MODEL_BYTES - 1);
    if (!j->model || !base || json_is_null(base))
        return j->model ? 0 : -1;
    j->base_url = grader_word(p, "base_url", base, URL_BYTES_MAX);
    return j->base_url ? 0 : -1;
}

int grader_read_judge(struct grader_place_at *p, struct grader *g)
{
    static const char *const of_score[] = {"model",           "input",    "range",
                                           "sampling_params", "base_url", NULL};
    static const char *const of_label[] = {
        "model", "input", "labels", "passing_labels", "sampling_params", "base_url", NULL};
    struct grader_judge *j = ARENA_NEW(p->r->arena, struct grader_judge);
    bool is_score = g->kind == GRADER_SCORE_MODEL;
    g->judge = j;
    if (grader_only(p, is_score ? of_score : of_label) || read_model(p, j) || read_input(p, j) ||
        read_sampling(p, j))
        return -1;
    return is_score ? read_range(p, j) : read_labels(p, j);
}

/* ---- asking -------------------------------------------------------------------------------- */

static enum grade_fault put_messages(struct jout *o, const struct grader_judge *j,
                                     const struct grader_sample *s, struct err *e)
{
    enum grade_fault fault = GRADE_GOOD;
    jout_key(o, "messages");
    jout_open(o, '[');
    for (size_t i = 0; i < j->n_message && !fault; i++) {
        struct buf all;
        buf_init(&all, BODY_BYTES_MAX);
        for (size_t k = 0; k < j->message[i].n_part && !fault; k++) {
            const char *text = "";
            size_t n = 0;
            fault = grade_text_fill(j->message[i].part[k], &s->of, s->arena, &text, &n, e);
            if (k > 0)
                buf_char(&all, '\n');
            buf_add(&all, text, n);
        }
        if (!fault && buf_check(&all, "a grader's text", e))
            fault = GRADE_OTHER;
        jout_open(o, '{');
        jout_put_str(o, "role", j->message[i].role);
        jout_put_bytes(o, "content", all.len ? all.data : "", all.len);
        jout_close(o, '}');
        buf_release(&all);
    }
    jout_close(o, ']');
    return fault;
}

/* {"result": a number}, or {"label": one of them} */
static void put_schema(struct jout *o, const struct grader *g)
{
    const char *member = g->kind == GRADER_SCORE_MODEL ? "result" : "label";
    jout_key(o, "response_format");
    jout_open(o, '{');
    jout_put_str(o, "type", "json_schema");
    jout_key(o, "json_schema");
    jout_open(o, '{');
    jout_put_str(o, "name", "grade");
    jout_put_bool(o, "strict", true);
    jout_key(o, "schema");
    jout_open(o, '{');
    jout_put_str(o, "type", "object");
    jout_key(o, "properties");
    jout_open(o, '{');
    jout_key(o, member);
    jout_open(o, '{');
    jout_put_str(o, "type", g->kind == GRADER_SCORE_MODEL ? "number" : "string");
    if (g->kind == GRADER_LABEL_MODEL) {
        jout_key(o, "enum");
        jout_open(o, '[');
        for (size_t i = 0; i < g->judge->n_label; i++)
            jout_str(o, g->judge->label[i]);
        jout_close(o, ']');
    }
    jout_close(o, '}');
    jout_close(o, '}');
    jout_key(o, "required");
    jout_open(o, '[');
    jout_str(o, member);
    jout_close(o, ']');
    jout_put_bool(o, "additionalProperties", false);
    jout_close(o, '}');
    jout_close(o, '}');
    jout_close(o, '}');
}

static enum grade_fault put_body(const struct grader *g, const struct grader_sample *s,
                                 struct buf *out, struct err *e)
{
    const struct grader_judge *j = g->judge;
    struct jout o = jout_on(out);
    jout_open(&o, '{');
    jout_put_str(&o, "model", j->model);
    enum grade_fault fault = put_messages(&o, j, s, e);
    put_schema(&o, g);
    jout_put_num(&o, "temperature", j->temperature);
    if (j->max_new)
        jout_put_int(&o, "max_completion_tokens", j->max_new);
    if (j->has_top_p)
        jout_put_num(&o, "top_p", j->top_p);
    if (j->has_seed)
        jout_put_int(&o, "seed", j->seed);
    if (j->effort)
        jout_put_str(&o, "reasoning_effort", j->effort);
    if (!j->base_url)
        jout_put_int(&o, "priority", PRIORITY);
    jout_close(&o, '}');
    return fault ? fault : buf_check(out, "a grader's question", e) ? GRADE_OTHER : GRADE_GOOD;
}

static enum grade_fault ask(const struct grader *g, const struct grader_sample *s,
                            const struct buf *body, struct buf *out, struct err *e)
{
    const struct grader_outside *o = s->outside;
    const char *base = g->judge->base_url;
    if (!o) {
        err_set(e, ERR_UNSUPPORTED, "no model can be asked here");
        return GRADE_MODEL_SERVER;
    }
    const struct grader_question q = {
        .to = base ? GRADER_URL : GRADER_MODEL_HERE,
        .url = base ? arena_printf(s->arena, "%s%schat/completions", base,
                                   base[strlen(base) - 1] == '/' ? "" : "/")
                    : NULL,
        .owner = o->owner,
        .body = body->data,
        .n_body = body->len,
        .ends = o->ends,
        .until_us = o->until_us};
    if (!o->ask(o->ctx, &q, out, e))
        return GRADE_GOOD;
    return grader_unanswered(o, e, GRADE_MODEL_SERVER);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void add_usage(const struct grader_judge *j, const json_t *answer, struct grade *out)
{
    const json_t *u = json_object_get(answer, "usage");
    if (out->n_usage == GRADER_SUB_MAX)
        return;
    out->usage[out->n_usage++] = (struct grade_usage){
        .model = j->model,
        .prompt = json_integer_value(json_object_get(u, "prompt_tokens")),
        .completion = json_integer_value(json_object_get(u, "completion_tokens"))};
}

static enum grade_fault read_score(const struct grader_judge *j, const json_t *said, double *reward,
                                   struct err *e)
{
    const json_t *v = json_object_get(said, "result");
    double x = json_number_value(v);
    if (!json_is_number(v)) {
        err_set(e, ERR_BAD_INPUT, "the model's answer has no number 'result'");
        return GRADE_MODEL_PARSE;
    }
    if (!(x >= j->low && x <= j->high)) {
        err_set(e, ERR_BAD_INPUT, "the model's score %g is not in the range %g to %g", x, j->low,
                j->high);
        return GRADE_MODEL_PARSE;
    }
    *reward = x;
    return GRADE_GOOD;
}

static enum grade_fault read_label(const struct grader_judge *j, const json_t *said, double *reward,
                                   struct err *e)
{
    const char *word = json_string_value(json_object_get(said, "label"));
    int at = word ? find_label(j, word) : -1;
    if (at < 0) {
        err_set(e, ERR_BAD_INPUT, "the model's answer has no 'label' that is one of the labels");
        return GRADE_MODEL_PARSE;
    }
    *reward = j->passes[at];
    return GRADE_GOOD;
}

static enum grade_fault read_answer(const struct grader *g, const struct grader_sample *s,
                                    const struct buf *text, struct grade *out, double *reward,
                                    struct err *e)
{
    struct api_error why = {0};
    struct err unused = ERR_INIT;
    int values = API_JSON_VALUES_MAX;
    const json_t *answer = api_json_line(s->arena, text->data ? text->data : "", text->len, &why);
    const json_t *first = json_array_get(json_object_get(answer, "choices"), 0);
    const json_t *message = json_object_get(first, "message");
    const json_t *content = json_object_get(message, "content");
    const char *refusal = json_string_value(json_object_get(message, "refusal"));
    if (!message) {
        err_set(e, ERR_BAD_INPUT, "the model's answer is no chat completion");
        return GRADE_MODEL_SERVER;
    }
    add_usage(g->judge, answer, out);
    if (refusal && *refusal) {
        err_set(e, ERR_BAD_INPUT, "the model refused: %.200s", refusal);
        return GRADE_MODEL_REFUSAL;
    }
    const json_t *said = json_is_string(content)
                             ? api_json_inner(s->arena, json_string_value(content),
                                              json_string_length(content), &values, &unused)
                             : NULL;
    return g->kind == GRADER_SCORE_MODEL ? read_score(g->judge, said, reward, e)
                                         : read_label(g->judge, said, reward, e);
}

enum grade_fault grader_ask_judge(const struct grader *g, const struct grader_sample *s,
                                  struct grade *out, double *reward, struct err *e)
{
    struct buf body, answer;
    buf_init(&body, BODY_BYTES_MAX);
    buf_init(&answer, GRADER_ANSWER_BYTES);
    enum grade_fault fault = put_body(g, s, &body, e);
    if (!fault)
        fault = ask(g, s, &body, &answer, e);
    if (!fault)
        fault = read_answer(g, s, &answer, out, reward, e);
    buf_release(&body);
    buf_release(&answer);
    return fault;
}
