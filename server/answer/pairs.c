/* SPDX-License-Identifier: Apache-2.0
 *
 * Two texts in one prompt. Each text is cut into tokens once, whatever the number of its pairs;
 * what is too long for the model, or for what the request wants, loses the ends of its texts.
 */
#include "engine/token/tokenizer.h"
#include "server/answer/prompt.h"

struct pairs {
    struct engine *g;
    const struct tokenizer *t;
    const struct api_request *q;
    struct arena *a;
    int64_t most; /* tokens of a prompt; 0: any number */
    struct tok_run *first, *second;
};

/* The model's own length is as its files say; the request may want less, or all that fits. */
static int64_t most_of(const struct engine *g, const struct api_request *q)
{
    int64_t most = engine_info(g)->max_text, wanted = q->truncate;
    if (wanted < 0)
        wanted = engine_info(g)->ctx;
    return wanted > 0 && (!most || wanted < most) ? wanted : most;
}

static void release_list(void *list)
{
    tok_list_release(list);
}

/* What is cut anyway is not counted to its end: no token is of less than a byte. */
static size_t list_max(const struct pairs *p, size_t bytes)
{
    size_t ctx = (size_t)engine_info(p->g)->ctx;
    return p->most || p->q->max_doc ? bytes + 64 : 4 * ctx + 64;
}

static int encode(struct pairs *p, const struct api_input *in, const char *field,
                  struct tok_run *out, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct tok_list *list = ARENA_NEW(p->a, struct tok_list);
    tok_list_init(list, list_max(p, in->n_text), false);
    arena_defer(p->a, release_list, list);
    if (tokenizer_encode(p->t, in->text, in->n_text, false, false, list, &why))
        return why.code == ERR_TOO_LARGE ? prompt_too_long(p->g, p->q, (int64_t)list->max, true, e)
                                         : api_fail_err(e, &why, field);
    *out = (struct tok_run){.id = list->id, .n = list->n};
    return 0;
}

static struct tok_run *encode_all(struct pairs *p, const struct api_input *in, size_t n,
                                  const char *field, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct tok_run *run = arena_try(p->a, n, sizeof *run, &why);
    if (!run)
        api_fail_err(e, &why, field);
    for (size_t i = 0; run && i < n; i++)
        if (encode(p, &in[i], field, &run[i], e))
            return NULL;
    return run;
}

static int join(struct pairs *p, struct tok_run first, struct tok_run second, struct prompt *out,
                struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t ctx = engine_info(p->g)->ctx;
    if (p->most)
        tokenizer_pair_cut(p->t, (size_t)p->most, &first.n, &second.n);
    out->n = (int64_t)(first.n + second.n + tokenizer_pair_added(p->t));
    if (out->n > ctx)
        return prompt_too_long(p->g, p->q, out->n, false, e);
    if (!out->n)
        return api_fail(e, 400, "invalid_value", "documents",
                        "A pair comes to no token at all, and this model begins with none.");
    int32_t *id = arena_try(p->a, (size_t)out->n, sizeof *id, &why);
    if (!id)
        return api_fail_err(e, &why, NULL);
    out->n_first = (int64_t)tokenizer_pair_put(p->t, &first, &second, id);
    out->id = id;
    return 0;
}

static int join_all(struct pairs *p, struct prompt *out, struct api_error *e)
{
    for (size_t i = 0; i < p->q->n_document; i++) {
        struct tok_run second = p->second[i];
        if (p->q->max_doc && second.n > (size_t)p->q->max_doc)
            second.n = (size_t)p->q->max_doc;
        out[i] = (struct prompt){.n = 0};
        if (join(p, p->first[p->q->n_input > 1 ? i : 0], second, &out[i], e))
            return -1;
    }
    return 0;
}

int pairs_make(struct engine *g, const struct api_request *q, struct arena *a,
               const struct prompt **out, size_t *n, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct pairs p = {.g = g, .t = engine_tokenizer(g), .q = q, .a = a, .most = most_of(g, q)};
    const char *one = q->route == API_RERANK ? "query" : "text_1",
               *other = q->route == API_RERANK ? "documents" : "text_2";
    if (!p.t)
        return api_fail(e, 400, "unsupported", "model", "This model has no tokenizer.");
    if (tokenizer_pair_check(p.t, &why))
        return api_fail_err(e, &why, "model");
    p.first = encode_all(&p, q->input, q->n_input, one, e);
    p.second = p.first ? encode_all(&p, q->document, q->n_document, other, e) : NULL;
    if (!p.second)
        return -1;
    struct prompt *prompt = arena_try(a, q->n_document, sizeof *prompt, &why);
    if (!prompt)
        return api_fail_err(e, &why, other);
    *out = prompt;
    *n = q->n_document;
    return join_all(&p, prompt, e);
}
