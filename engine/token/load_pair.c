/* SPDX-License-Identifier: Apache-2.0
 *
 * The post-processor of tokenizer.json where two texts become one input: which tokens stand around
 * and between them, and which of all are of the second type. Most models never see a pair, so one
 * that is not understood is remembered, and an error where a pair is asked for.
 */
#include <string.h>

#include "engine/token/internal.h"

/* A template on its way: which side of the texts it is at, and the highest type so far. */
struct reader {
    struct tokenizer_pair *p;
    const struct json *tokens;
    int n_text; /* that have come */
    int64_t type;
};

/* Types go up from 0 to 1 once, between the texts or with the second. */
static int take_type(struct reader *r, const struct json *piece, struct err *e)
{
    int64_t type = 0;
    if (json_opt_int(piece, "type_id", 0, 1, &type, e))
        return -1;
    if (type < r->type || (type > 0 && r->n_text < 1))
        return json_err(piece, e, ERR_UNSUPPORTED, "the second type must follow the first");
    r->type = type;
    return 0;
}

static int take_text(struct reader *r, const struct json *text, struct err *e)
{
    const char *id;
    if (json_get_str(text, "id", &id, e))
        return -1;
    if (r->n_text > 1 || strcmp(id, r->n_text ? "B" : "A") != 0)
        return json_err(text, e, ERR_UNSUPPORTED, "each text must stand there once, in order");
    if (take_type(r, text, e))
        return -1;
    r->p->has_one_type = r->type == 0;
    r->n_text++;
    return 0;
}

static int take_special(struct reader *r, const struct json *token, struct err *e)
{
    struct tokenizer_pair *p = r->p;
    struct tokenizer_affix *to = r->n_text == 0   ? &p->before
                                 : r->n_text == 1 ? &p->between
                                                  : &p->after;
    if (take_type(r, token, e) || load_special(to, r->tokens, token, e))
        return -1;
    if (r->n_text == 2 && r->type > 0 && p->has_one_type)
        return json_err(token, e, ERR_UNSUPPORTED, "the second type begins behind the texts");
    if (r->n_text == 1 && r->type == 0)
        p->n_between_first = p->between.n;
    return 0;
}

static int read_template(struct tokenizer_pair *p, const struct json *v, struct err *e)
{
    struct json pair, tokens, item;
    struct reader r = {.p = p, .tokens = &tokens};
    if (json_get(v, "pair", JSON_ARRAY, &pair, e) ||
        json_get(v, "special_tokens", JSON_OBJECT, &tokens, e))
        return -1;
    json_each(item, pair)
    {
        struct json token = json_member(&item, "SpecialToken"),
                    text = json_member(&item, "Sequence");
        if (token.node ? take_special(&r, &token, e) : take_text(&r, &text, e))
            return -1;
    }
    return r.n_text == 2 ? 0 : json_err(&pair, e, ERR_UNSUPPORTED, "two texts must stand there");
}

/* RoBERTa's ends the first text twice, and has one type. */
static int read_markers(struct tokenizer_pair *p, const struct json *v, bool is_roberta,
                        struct err *e)
{
    p->has_one_type = is_roberta;
    if (load_marker(v, "cls", &p->before, e) || load_marker(v, "sep", &p->between, e) ||
        (is_roberta && load_marker(v, "sep", &p->between, e)) ||
        load_marker(v, "sep", &p->after, e))
        return -1;
    p->n_between_first = p->between.n;
    return 0;
}

void load_pair(struct tokenizer_pair *p, const char *type, const struct json *v)
{
    struct err why = ERR_INIT;
    bool is_template = strcmp(type, "TemplateProcessing") == 0;
    if (strcmp(type, "ByteLevel") == 0)
        return;
    p->is_unknown |= p->is_made; /* one around another */
    p->is_made = true;
    if (is_template ? read_template(p, v, &why)
                    : read_markers(p, v, strcmp(type, "RobertaProcessing") == 0, &why))
        p->is_unknown = true;
}
