/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of ModernBERT: rotary positions with two thetas, layers in turn that see
 * all or but their surroundings, norms before each half, most of it without biases. Both spellings
 * are read: a theta for each kind of layer beside every n-th that sees all, and the later lists.
 */
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

static int get_theta(const struct json *v, const char *key, double *out, struct err *e)
{
    struct json m = json_member(v, key);
    if (json_opt_num(v, key, out, e))
        return -1;
    return *out > 0 ? 0
                    : json_err(&m, e, ERR_BAD_INPUT, "expected a number above 0, found %g", *out);
}

/* The later spelling: an object for each kind of layer. */
static int parse_kind(const struct json *all, const char *key, double *theta, struct err *e)
{
    struct json v = {.node = NULL};
    const char *kind = "default";
    if (json_opt(all, key, JSON_OBJECT, &v, e) || !v.node)
        return v.node ? -1 : 0;
    if (json_opt_str(&v, "rope_type", &kind, e))
        return -1;
    if (strcmp(kind, "default") != 0)
        return json_err(&v, e, ERR_UNSUPPORTED, "rope_type: '%.40s' is not supported; default is",
                        kind);
    return get_theta(&v, "rope_theta", theta, e);
}

static int parse_rope(struct config *c, const struct json *root, struct err *e)
{
    struct json all = {.node = NULL}, local = json_member(root, "local_rope_theta"),
                scaling = json_member(root, "rope_scaling");
    c->rope = (struct config_rope){.theta = 160000, .partial = 1};
    c->has_rope = true;
    if (!json_absent(&scaling))
        return json_err(&scaling, e, ERR_UNSUPPORTED, "is not supported for this family");
    if (get_theta(root, "global_rope_theta", &c->rope.theta, e))
        return -1;
    c->local_theta = local.node && json_absent(&local) ? c->rope.theta : 10000;
    if (get_theta(root, "local_rope_theta", &c->local_theta, e) ||
        json_opt(root, "rope_parameters", JSON_OBJECT, &all, e))
        return -1;
    if (all.node && (parse_kind(&all, "full_attention", &c->rope.theta, e) ||
                     parse_kind(&all, "sliding_attention", &c->local_theta, e)))
        return -1;
    return c->d_head % 2 == 0 ? 0
                              : json_err(root, e, ERR_UNSUPPORTED,
                                         "heads of %d numbers are not supported: turned "
                                         "ones are even",
                                         c->d_head);
}

/* Half of local_attention to either side. */
static int parse_windows(struct config *c, const struct json *root, struct err *e)
{
    struct json types = {.node = NULL};
    int64_t every = 3, local = 128;
    if (json_opt_int(root, "global_attn_every_n_layers", 1, CONFIG_LAYER_MAX, &every, e) ||
        json_opt_int(root, "local_attention", 1, CONFIG_CTX_MAX, &local, e) ||
        json_opt(root, "layer_types", JSON_ARRAY, &types, e))
        return -1;
    c->window = (int32_t)(local / 2 + 1);
    for (int64_t l = 0; l < c->n_layer; l++)
        c->slides[l] = l % every != 0;
    return types.node ? config_layer_types_parse(c, &types, e) : 0;
}

static int parse_biases(struct config *c, const struct json *root, struct err *e)
{
    bool attn = false, mlp = false;
    if (json_opt_bool(root, "attention_bias", &attn, e) ||
        json_opt_bool(root, "mlp_bias", &mlp, e) ||
        json_opt_bool(root, "norm_bias", &c->has_norm_bias, e) ||
        json_opt_bool(root, "classifier_bias", &c->has_pooler_bias, e))
        return -1;
    c->has_qkv_bias = c->has_o_bias = attn;
    c->has_mlp_bias = mlp;
    return 0;
}

/* What a classifier makes one row of, and through what that goes. */
static int parse_pooling(struct config *c, const struct json *root, struct err *e)
{
    const char *pool = "cls", *act = "gelu";
    if (json_opt_str(root, "classifier_pooling", &pool, e) ||
        json_opt_str(root, "classifier_activation", &act, e))
        return -1;
    if (strcmp(pool, "cls") != 0 && strcmp(pool, "mean") != 0)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "classifier_pooling: '%.40s' is not supported; cls and mean are", pool);
    if (strcmp(act, "gelu") != 0)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "classifier_activation: '%.40s' is not supported; gelu is", act);
    c->pool = *pool == 'c' ? POOL_CLS : POOL_MEAN;
    return 0;
}

int config_modernbert_parse(struct config *c, const struct json *root, struct err *e)
{
    c->norm_eps = 1e-5, c->act = ACT_GELU;
    c->is_encoder = c->sees_ahead = c->is_gated = c->is_joined = true;
    c->norms = NORMS_INPUT, c->norm_by_mean = c->skips_first_norm = true;
    if (config_sizes_parse(c, root, e) || config_split_width(c, root, "hidden_size", e) ||
        config_eps_parse(c, root, "norm_eps", e) ||
        config_act_parse(c, root, "hidden_activation", e) || parse_biases(c, root, e) ||
        parse_windows(c, root, e) || parse_rope(c, root, e) || parse_pooling(c, root, e))
        return -1;
    c->n_kv_head = c->n_head;
    return 0;
}
