/* SPDX-License-Identifier: Apache-2.0
 *
 * See generation.h.
 */
#include "engine/load/generation.h"

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

static int parse_root(struct generation *g, const struct json *root, struct err *e)
{
    if (json_want(root, JSON_OBJECT, e) || config_id_opt(root, "bos_token_id", &g->bos, e) ||
        config_eos_opt(root, g->eos, &g->n_eos, e) ||
        config_id_opt(root, "pad_token_id", &g->pad, e) ||
        json_opt_bool(root, "do_sample", &g->do_sample, e) ||
        opt_range(root, "temperature", 0, 100, &g->temperature, e) ||
        opt_range(root, "top_p", 0, 1, &g->top_p, e) ||
        opt_range(root, "min_p", 0, 1, &g->min_p, e) ||
        opt_range(root, "repetition_penalty", 0, 100, &g->repetition_penalty, e) ||
        json_opt_int(root, "top_k", 0, INT32_MAX, &g->top_k, e) ||
        json_opt_int(root, "max_new_tokens", 0, INT32_MAX, &g->max_new_tokens, e))
        return -1;
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
