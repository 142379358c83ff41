/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of rotary positions. Both spellings are read: rope_theta with rope_scaling,
 * and the later rope_parameters that holds all. The frequencies follow in engine/model.
 */
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

static const char *const kind_name[] = {
    [ROPE_DEFAULT] = "default",
    [ROPE_LINEAR] = "linear",
    [ROPE_DYNAMIC] = "dynamic",
    [ROPE_LLAMA3] = "llama3",
    [ROPE_YARN] = "yarn",
    [ROPE_LONGROPE] = "longrope",
    [ROPE_PROPORTIONAL] = "proportional",
};

const char *config_rope_name(enum rope_kind k)
{
    return kind_name[k];
}

/* By the names that longrope had first. */
static bool is_old_longrope(const struct config *c, const char *name)
{
    return (config_traits_of(c)->obeys & OBEYS_OLD_LONGROPE) &&
           (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0);
}

/* Gemma 4: of layers that see all. */
static int parse_gemma4_kind(struct config *c, const struct json *m, const char *name,
                             struct err *e)
{
    bool is_default = strcmp(name, kind_name[ROPE_DEFAULT]) == 0;
    c->rope.kind = is_default ? ROPE_DEFAULT : ROPE_PROPORTIONAL;
    if (is_default || strcmp(name, kind_name[ROPE_PROPORTIONAL]) == 0)
        return 0;
    return json_err(m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; default and proportional are",
                    name);
}

static int parse_kind(struct config *c, const struct json *v, struct err *e)
{
    const char *name = "default";
    struct json m = json_member(v, "rope_type");
    if (json_absent(&m))
        m = json_member(v, "type");
    if (!json_absent(&m) && json_as_str(&m, &name, e))
        return -1;
    if (config_traits_of(c)->obeys & OBEYS_GEMMA4)
        return parse_gemma4_kind(c, &m, name, e);
    if (c->is_threefold && strcmp(name, "mrope") == 0)
        name = kind_name[ROPE_DEFAULT];
    if (is_old_longrope(c, name))
        name = kind_name[ROPE_LONGROPE];
    for (int k = 0; k <= ROPE_LONGROPE; k++)
        if (strcmp(name, kind_name[k]) == 0)
            return c->rope.kind = (enum rope_kind)k, 0;
    return json_err(&m, e, ERR_UNSUPPORTED,
                    "'%.40s' is not supported; default, linear, dynamic, llama3, yarn and longrope "
                    "are",
                    name);
}

/* A member that must be a number above zero when it is there; `must`: it must be there. */
static int positive(const struct json *v, const char *key, bool must, double *out, struct err *e)
{
    struct json m = json_member(v, key);
    if (must ? json_get_num(v, key, out, e) : json_opt_num(v, key, out, e))
        return -1;
    if (!json_absent(&m) && !(*out > 0))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number above 0, found %g", *out);
    return 0;
}

static int parse_factors(const struct json *v, const char *key, int n, double *out, struct err *e)
{
    struct json list, c;
    int i = 0;
    if (json_get(v, key, JSON_ARRAY, &list, e))
        return -1;
    if (json_count(&list) != (size_t)n)
        return json_err(&list, e, ERR_BAD_INPUT, "expected %d factors, found %zu", n,
                        json_count(&list));
    json_each(c, list)
    {
        double d;
        if (json_as_num(&c, &d, e))
            return -1;
        if (!(d > 0))
            return json_err(&c, e, ERR_BAD_INPUT, "expected a number above 0, found %g", d);
        out[i++] = d;
    }
    return 0;
}

/* It stands beside the scaling in older files, in it in later ones; the former has the word, and so
 * has what Phi-3's class takes for it. */
static int old_context(const struct config *c, const struct json *root, const struct json *v,
                       int64_t *n, struct err *e)
{
    const char *key = "original_max_position_embeddings";
    if (json_opt_int(v, key, 1, INT32_MAX, n, e))
        return -1;
    if (config_traits_of(c)->obeys & OBEYS_OLD_LONGROPE)
        *n = 4096;
    return json_opt_int(root, key, 1, INT32_MAX, n, e);
}

static int parse_llama3(struct config_rope *r, const struct json *v, struct err *e)
{
    if (positive(v, "factor", true, &r->factor, e) ||
        positive(v, "low_freq_factor", true, &r->low_freq_factor, e) ||
        positive(v, "high_freq_factor", true, &r->high_freq_factor, e))
        return -1;
    if (r->high_freq_factor <= r->low_freq_factor)
        return json_err(v, e, ERR_BAD_INPUT, "high_freq_factor must be above low_freq_factor");
    return 0;
}

static int parse_yarn(struct config_rope *r, const struct json *v, struct err *e)
{
    r->beta_fast = 32, r->beta_slow = 1, r->truncate = true;
    if (positive(v, "factor", true, &r->factor, e) ||
        positive(v, "beta_fast", false, &r->beta_fast, e) ||
        positive(v, "beta_slow", false, &r->beta_slow, e) ||
        json_opt_num(v, "mscale", &r->mscale, e) ||
        json_opt_num(v, "mscale_all_dim", &r->mscale_all_dim, e) ||
        positive(v, "attention_factor", false, &r->attention_factor, e) ||
        json_opt_bool(v, "truncate", &r->truncate, e))
        return -1;
    return 0;
}

/* The factor is the ratio of the contexts where none is told. */
static int parse_longrope(struct config *c, const struct json *v, struct err *e)
{
    struct config_rope *r = &c->rope;
    r->n_factor = (int)(c->d_head * r->partial) / 2;
    if (positive(v, "factor", false, &r->factor, e) ||
        positive(v, "attention_factor", false, &r->attention_factor, e) ||
        parse_factors(v, "short_factor", r->n_factor, r->short_factor, e) ||
        parse_factors(v, "long_factor", r->n_factor, r->long_factor, e))
        return -1;
    if (r->original_max_pos && r->factor <= 0)
        r->factor = (double)c->max_pos / (double)r->original_max_pos;
    else if (r->factor <= 0 && r->attention_factor <= 0)
        return json_err(v, e, ERR_BAD_INPUT, "factor is missing");
    return 0;
}

static int parse_scaling(struct config *c, const struct json *root, const struct json *v,
                         struct err *e)
{
    struct config_rope *r = &c->rope;
    bool has_old = r->kind == ROPE_LLAMA3 || r->kind == ROPE_YARN || r->kind == ROPE_LONGROPE;
    if (has_old && old_context(c, root, v, &r->original_max_pos, e))
        return -1;
    switch (r->kind) {
    case ROPE_DEFAULT:
        return 0;
    case ROPE_DYNAMIC:
        if ((int)(c->d_head * r->partial) == 2)
            return json_err(v, e, ERR_UNSUPPORTED, "dynamic needs a head of more than 2");
        return positive(v, "factor", true, &r->factor, e);
    case ROPE_LINEAR:
        return positive(v, "factor", true, &r->factor, e);
    case ROPE_LLAMA3:
        return parse_llama3(r, v, e);
    case ROPE_YARN:
        return parse_yarn(r, v, e);
    case ROPE_LONGROPE:
        return parse_longrope(c, v, e);
    case ROPE_PROPORTIONAL:
        return positive(v, "factor", false, &r->factor, e);
    }
    BUG("rope kind %d", (int)r->kind);
}

/* The later spelling where layers differ: one object for each type of layer. */
static int parse_by_type(struct config *c, struct json *v, struct err *e)
{
    struct json full = json_member(v, "full_attention"),
                local = json_member(v, "sliding_attention");
    const char *kind = "default";
    if (!v->node || !full.node)
        return 0;
    if (json_want(&full, JSON_OBJECT, e))
        return -1;
    if (local.node &&
        (json_want(&local, JSON_OBJECT, e) || json_opt_str(&local, "rope_type", &kind, e) ||
         positive(&local, "rope_theta", false, &c->local_theta, e)))
        return -1;
    if (strcmp(kind, "default") != 0)
        return json_err(&local, e, ERR_UNSUPPORTED,
                        "rope_type: '%.40s' is not supported in layers that slide; default is",
                        kind);
    full.up = NULL;
    *v = full;
    return 0;
}

/* The share of a head that turns. */
static int check_partial(const struct config *c, const struct json *root, struct err *e)
{
    double share = c->rope.partial;
    if (share == 1)
        return 0;
    if (!(config_traits_of(c)->obeys & OBEYS_PARTIAL_ROPE))
        return json_err(root, e, ERR_UNSUPPORTED,
                        "partial_rotary_factor: %g is not supported; 1 is", share);
    if (c->rope.kind != ROPE_PROPORTIONAL && (config_traits_of(c)->obeys & OBEYS_GEMMA4))
        return json_err(root, e, ERR_UNSUPPORTED,
                        "partial_rotary_factor: %g is not supported beside rope_type default",
                        share);
    if (!(share > 0 && share <= 1))
        return json_err(root, e, ERR_BAD_INPUT,
                        "partial_rotary_factor: expected a number above 0 and up to 1, found %g",
                        share);
    if (c->rope.kind == ROPE_PROPORTIONAL)
        return 0;
    int turned = (int)(c->d_head * share);
    if (turned < 2 || turned % 2)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "partial_rotary_factor: %g turns %d numbers of a head; even numbers are "
                        "supported",
                        share, turned);
    return 0;
}

/* Gemma 4: of its class where the file has none; where it has, both kinds of layers are told. */
static int begin_gemma4(struct config *c, const struct json *v, struct err *e)
{
    struct json full;
    c->rope.kind = ROPE_PROPORTIONAL;
    c->rope.partial = v->node ? 1 : 0.25;
    c->rope.factor = 1;
    return v->node ? json_get(v, "full_attention", JSON_OBJECT, &full, e) : 0;
}

/* llama_4_scaling_beta: queries grow with the logarithm of their position, past the context of the
 * first training. */
static int parse_growth(struct config *c, const struct json *root, const struct json *v,
                        struct err *e)
{
    bool grows = config_traits_of(c)->obeys & OBEYS_GROWTH;
    struct json m = v->node ? json_member(v, "llama_4_scaling_beta") : *v;
    if (!grows)
        return !m.node || json_absent(&m)
                   ? 0
                   : json_err(&m, e, ERR_UNSUPPORTED, "is not supported here");
    if (!v->node)
        return json_err(root, e, ERR_BAD_INPUT, "rope_parameters is missing");
    return json_get_num(v, "llama_4_scaling_beta", &c->query_growth, e) ||
                   old_context(c, v, v, &c->rope.original_max_pos, e)
               ? -1
               : 0;
}

/* After max_pos and d_head are known. */
int config_rope_parse(struct config *c, const struct json *root, struct err *e)
{
    struct json v = {.up = root, .file = root->file};
    struct config_rope *r = &c->rope;
    const struct config_traits *t = config_traits_of(c);
    double by_class = r->theta > 0 ? r->theta : t->theta; /* of the model around it, or its own */
    *r = (struct config_rope){.theta = by_class > 0 ? by_class : 10000,
                              .partial = t->partial > 0 ? t->partial : 1};
    if (c->d_head % 2)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "head_dim: %d is not supported with rotary positions; even numbers are",
                        c->d_head);
    if (t->obeys & OBEYS_LOCAL_ROPE)
        c->local_theta = t->local_theta > 0 ? t->local_theta : 10000;
    if (positive(root, "rope_theta", false, &r->theta, e) ||
        positive(root, "rope_local_base_freq", false, &c->local_theta, e) ||
        json_opt_num(root, "partial_rotary_factor", &r->partial, e) ||
        json_opt(root, "rope_scaling", JSON_OBJECT, &v, e) ||
        json_opt(root, "rope_parameters", JSON_OBJECT, &v, e))
        return -1;
    if ((t->obeys & OBEYS_CLAMP) &&
        !v.node) /* gpt-oss: its class would scale by a yarn of its own */
        return json_err(root, e, ERR_UNSUPPORTED, "rope_parameters is missing");
    if ((t->obeys & OBEYS_GEMMA4) && begin_gemma4(c, &v, e))
        return -1;
    if ((t->obeys & OBEYS_LOCAL_ROPE) && parse_by_type(c, &v, e))
        return -1;
    if (v.node && (parse_kind(c, &v, e) || positive(&v, "rope_theta", false, &r->theta, e) ||
                   json_opt_num(&v, "partial_rotary_factor", &r->partial, e)))
        return -1;
    return check_partial(c, root, e) || parse_scaling(c, root, &v, e) ||
                   parse_growth(c, root, &v, e)
               ? -1
               : 0;
}
