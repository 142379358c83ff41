/* SPDX-License-Identifier: Apache-2.0
 *
 * See generation.h.
 */
#include "engine/load/generation.h"

#include <stdio.h>
#include <string.h>

#include "engine/load/json.h"

#define NAME "generation_config.json"

void generation_default(struct generation *g, const struct config *c)
{
    *g = (struct generation){.bos = c->bos,
                             .pad = c->pad,
                             .n_eos = c->n_eos,
                             .temperature = 1,
                             .top_p = 1,
                             .typical_p = 1,
                             .repetition_penalty = 1};
    memcpy(g->eos, c->eos, sizeof g->eos);
}

static int opt_range(const struct json *v, const char *key, double lo, double hi, double *out,
                     struct err *e)
{
    struct json m = json_member(v, key);
    double d = *out;
    if (json_absent(&m))
        return 0;
    if (json_as_num(&m, &d, e))
        return -1;
    if (!(d >= lo && d <= hi))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number from %g to %g, found %g", lo, hi,
                        d);
    *out = d;
    return 0;
}

/* Fields that would change what is written, and at what number they don't; a list does where it is
 * empty. How long a text may be is for requests to say. */
static const struct {
    const char *key;
    double neutral;
} unread[] = {
    {"bad_words_ids", 0},
    {"begin_suppress_tokens", 0},
    {"constraints", 0},
    {"diversity_penalty", 0},
    {"dola_layers", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"exponential_decay_length_penalty", 0},
    {"force_words_ids", 0},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"guidance_scale", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"no_repeat_ngram_size", 0},
    {"num_beams", 1},
    {"penalty_alpha", 0},
    {"sequence_bias", 0},
    {"stop_strings", 0},
    {"suppress_tokens", 0},
    {"token_healing", 0},
    {"top_h", 0},
    {"watermarking_config", 0},
};

static bool is_neutral(const struct json *m, double neutral)
{
    struct err unused = ERR_INIT;
    double num = neutral;
    bool flag = false;
    if (json_is(m, JSON_NUMBER))
        return json_as_num(m, &num, &unused) == 0 && num == neutral;
    if (json_is(m, JSON_BOOL))
        return json_as_bool(m, &flag, &unused) == 0 && !flag;
    return json_absent(m) ||
           ((json_is(m, JSON_ARRAY) || json_is(m, JSON_OBJECT)) && json_count(m) == 0);
}

static void name_unread(struct generation *g, const struct json *root)
{
    size_t n = 0;
    g->ignored[0] = 0;
    for (size_t i = 0; i < sizeof unread / sizeof unread[0] && n < sizeof g->ignored; i++) {
        struct json m = json_member(root, unread[i].key);
        if (!is_neutral(&m, unread[i].neutral))
            n += (size_t)snprintf(g->ignored + n, sizeof g->ignored - n, "%s%s", n ? ", " : "",
                                  unread[i].key);
    }
}

static int parse_root(struct generation *g, const struct json *root, struct err *e)
{
    if (json_want(root, JSON_OBJECT, e) || config_id_opt(root, "bos_token_id", &g->bos, e) ||
        config_eos_opt(root, g->eos, &g->n_eos, e) ||
        config_id_opt(root, "pad_token_id", &g->pad, e) ||
        json_opt_bool(root, "do_sample", &g->do_sample, e) ||
        opt_range(root, "temperature", 0, 100, &g->temperature, e) ||
        opt_range(root, "top_p", 0, 1, &g->top_p, e) ||
        opt_range(root, "min_p", 0, 1, &g->min_p, e) ||
        opt_range(root, "typical_p", 0, 1, &g->typical_p, e) ||
        opt_range(root, "repetition_penalty", 0, 100, &g->repetition_penalty, e) ||
        json_opt_int(root, "top_k", -1, INT32_MAX, &g->top_k, e))
        return -1;
    g->top_k = g->top_k < 0 ? 0 : g->top_k;
    name_unread(g, root);
    return 0;
}

static int parse_doc(struct generation *g, struct json_doc *doc, struct err *e)
{
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = parse_root(g, &root, e);
    json_free(doc);
    return rc;
}

int generation_parse(struct generation *g, const char *text, size_t len, struct err *e)
{
    return parse_doc(g, json_parse(text, len, NAME, &json_rules_config, e), e);
}

int generation_read(struct generation *g, const char *path, struct err *e)
{
    return parse_doc(g, json_read(path, NAME, &json_rules_config, e), e);
}
