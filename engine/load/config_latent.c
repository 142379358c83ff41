/* SPDX-License-Identifier: Apache-2.0
 *
 * What the config.json of DeepSeek V2 and V3 and of Mistral Small 4 says beside what others say:
 * the widths of attention through a latent, how a router picks among groups of experts, and which
 * experts every row has.
 */
#include <math.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/attention.h"

/* A word that must be this one where it is there. */
static int check_word(const struct json *root, const char *key, const char *want, struct err *e)
{
    struct json m = json_member(root, key);
    const char *found = want;
    if (json_opt_str(root, key, &found, e))
        return -1;
    return strcmp(found, want) == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; %s is", found, want);
}

/* A flag that must have this value where it is there. */
static int check_flag(const struct json *root, const char *key, bool want, struct err *e)
{
    struct json m = json_member(root, key);
    bool found = want;
    if (json_opt_bool(root, key, &found, e))
        return -1;
    return found == want ? 0
                         : json_err(&m, e, ERR_UNSUPPORTED, "%s is not supported; %s is",
                                    found ? "true" : "false", want ? "true" : "false");
}

/* A count that may be null, which is none. */
static int count_or_none(const struct json *root, const char *key, int64_t hi, int32_t *out,
                         struct err *e)
{
    struct json m = json_member(root, key);
    if (m.node && json_absent(&m))
        *out = 0;
    return config_count_opt(root, key, hi, out, e);
}

static int parse_widths(struct config *c, const struct json *root, struct err *e)
{
    const struct config_latent *t = &config_traits_of(c)->latent;
    struct json kv = json_member(root, "num_key_value_heads");
    int32_t nope = t->nope;
    c->d_latent_q = t->q_rank, c->d_latent = t->kv_rank, c->d_turned = t->rope, c->d_value = t->v;
    c->n_kv_head = c->n_head;
    if (count_or_none(root, "q_lora_rank", CONFIG_WIDTH_MAX, &c->d_latent_q, e) ||
        config_count_opt(root, "kv_lora_rank", CONFIG_WIDTH_MAX, &c->d_latent, e) ||
        config_count_opt(root, "qk_nope_head_dim", K_HEAD_MAX, &nope, e) ||
        config_count_opt(root, "qk_rope_head_dim", K_HEAD_MAX, &c->d_turned, e) ||
        config_count_opt(root, "v_head_dim", K_HEAD_MAX, &c->d_value, e) ||
        config_count_opt(root, "num_key_value_heads", CONFIG_WIDTH_MAX, &c->n_kv_head, e))
        return -1;
    c->d_head = nope + c->d_turned;
    if (c->n_kv_head != c->n_head)
        return json_err(&kv, e, ERR_UNSUPPORTED, "%d is not supported; as many as heads, %d, are",
                        c->n_kv_head, c->n_head);
    if (c->d_turned % 2)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "qk_rope_head_dim: %d is not supported; even numbers are", c->d_turned);
    if (nope % 2)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "qk_nope_head_dim: %d is not supported; even numbers are", nope);
    if (c->d_head > K_HEAD_MAX)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "qk_nope_head_dim: heads of %d numbers are not supported; up to %d are",
                        c->d_head, K_HEAD_MAX);
    return c->d_value <= c->d_head
               ? 0
               : json_err(root, e, ERR_UNSUPPORTED,
                          "v_head_dim: values of %d numbers are not supported with keys of %d; as "
                          "many are, and fewer",
                          c->d_value, c->d_head);
}

/* topk_method: V2 picks by the experts' scores alone, or among groups by the best of each; V3 by
 * the best two of each, with a bias. */
static int parse_method(struct config *c, const struct json *root, struct err *e)
{
    const char *method = "greedy";
    struct json m = json_member(root, "topk_method");
    if (!config_traits_of(c)->latent.has_methods)
        return check_word(root, "topk_method", "noaux_tc", e);
    if (json_opt_str(root, "topk_method", &method, e))
        return -1;
    if (strcmp(method, "greedy") == 0)
        c->n_group = c->n_top_group = 0;
    else if (strcmp(method, "group_limited_greedy") != 0)
        return json_err(&m, e, ERR_UNSUPPORTED,
                        "'%.40s' is not supported; greedy and group_limited_greedy are", method);
    else if (!c->n_group || !c->n_top_group)
        return json_err(&m, e, ERR_BAD_INPUT, "group_limited_greedy without n_group or topk_group");
    return 0;
}

static int check_groups(const struct config *c, const struct json *root, struct err *e)
{
    if (c->n_group < 2)
        return 0;
    if (c->n_group > K_ROUTE_GROUPS || c->n_expert % c->n_group ||
        c->n_expert / c->n_group < c->route_best)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "n_group: %d groups of %d experts are not supported; up to %d groups that "
                        "are alike, of at least %d, are",
                        c->n_group, c->n_expert, K_ROUTE_GROUPS, c->route_best);
    if (c->n_top_group > c->n_group)
        return json_err(root, e, ERR_BAD_INPUT, "topk_group: %d groups for a token, of %d",
                        c->n_top_group, c->n_group);
    return c->n_top <= c->n_top_group * (c->n_expert / c->n_group)
               ? 0
               : json_err(root, e, ERR_BAD_INPUT,
                          "num_experts_per_tok: %d experts for a token, of %d groups of %d",
                          c->n_top, c->n_top_group, c->n_expert / c->n_group);
}

static int parse_router(struct config *c, const struct json *root, struct err *e)
{
    const struct config_latent *t = &config_traits_of(c)->latent;
    struct json k = json_member(root, "num_experts_per_tok"),
                scale = json_member(root, "routed_scaling_factor");
    c->is_sigmoid_route = c->has_route_bias = t->is_sigmoid;
    c->n_group = t->n_group, c->n_top_group = t->top_group;
    c->route_scale = t->scale;
    c->route_best = t->has_methods ? 1 : 2;
    if (c->n_top < 1)
        return json_err(k.node ? &k : root, e, ERR_BAD_INPUT, "num_experts_per_tok is missing");
    if (count_or_none(root, "n_group", CONFIG_EXPERT_MAX, &c->n_group, e) ||
        count_or_none(root, "topk_group", CONFIG_EXPERT_MAX, &c->n_top_group, e) ||
        json_opt_num(root, "routed_scaling_factor", &c->route_scale, e) ||
        check_word(root, "scoring_func", t->is_sigmoid ? "sigmoid" : "softmax", e) ||
        parse_method(c, root, e))
        return -1;
    if (!(c->route_scale > 0 && c->route_scale <= 1e6))
        return json_err(&scale, e, ERR_BAD_INPUT, "expected a number above 0, up to 1e6, found %g",
                        c->route_scale);
    if (t->has_methods && check_flag(root, "norm_topk_prob", false, e))
        return -1;
    return check_groups(c, root, e);
}

/* The first layers have no experts; in the others every row has some beside those of its router,
 * which are one feed-forward as wide as they are together. */
static int parse_layers(struct config *c, const struct json *root, struct err *e)
{
    const struct config_latent *t = &config_traits_of(c)->latent;
    int64_t n_plain = t->n_plain;
    int32_t n_shared = t->n_shared;
    if (json_opt_int(root, "first_k_dense_replace", 0, CONFIG_LAYER_MAX, &n_plain, e) ||
        count_or_none(root, "n_shared_experts", CONFIG_EXPERT_MAX, &n_shared, e))
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++)
        c->has_experts[l] = l >= n_plain;
    c->d_shared = n_shared * c->d_expert;
    return c->d_shared <= CONFIG_WIDTH_MAX
               ? 0
               : json_err(
                     root, e, ERR_TOO_LARGE,
                     "n_shared_experts: the shared experts have %lld columns; %d are supported",
                     (long long)c->d_shared, CONFIG_WIDTH_MAX);
}

/* The scores' scale grows with the context that yarn stretches to: by the square of the factor that
 * mscale_all_dim says, which its class has taken out of the rotary tables. */
static int parse_positions(struct config *c, const struct json *root, struct err *e)
{
    bool beside = true;
    if (config_rope_parse(c, root, e))
        return -1;
    if (c->rope.kind != ROPE_DEFAULT && c->rope.kind != ROPE_YARN)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "rope_type: '%s' is not supported here; default and yarn are",
                        config_rope_name(c->rope.kind));
    if (json_opt_bool(root, "rope_interleave", &beside, e) ||
        (config_traits_of(c)->latent.has_methods && check_flag(root, "rope_interleave", true, e)))
        return -1;
    if (c->rope.partial != 1 && fabs(c->rope.partial * c->d_head - c->d_turned) > 1e-6)
        return json_err(root, e, ERR_BAD_INPUT,
                        "partial_rotary_factor: %g of %d numbers are not qk_rope_head_dim, %d",
                        c->rope.partial, c->d_head, c->d_turned);
    c->turns_beside = beside;
    double m = c->rope.kind == ROPE_YARN && c->rope.mscale_all_dim != 0 && c->rope.factor > 1
                   ? 0.1 * c->rope.mscale_all_dim * log(c->rope.factor) + 1
                   : 1;
    c->attn_scale = m * m / sqrt((double)c->d_head);
    return 0;
}

int config_latent_parse(struct config *c, const struct json *root, struct err *e)
{
    const struct config_traits *t = config_traits_of(c);
    bool attn_bias = false;
    c->norm_eps = t->norm_eps > 0 ? t->norm_eps : 1e-6, c->act = t->act;
    c->has_rope = c->is_gated = true;
    if (config_sizes_parse(c, root, e) ||
        json_opt_bool(root, "tie_word_embeddings", &c->is_tied, e) ||
        json_opt_bool(root, "attention_bias", &attn_bias, e) ||
        check_flag(root, "mlp_bias", false, e) || parse_widths(c, root, e) ||
        config_eps_parse(c, root, "rms_norm_eps", e) ||
        config_act_parse(c, root, "hidden_act", e) || config_experts_parse(c, root, e) ||
        parse_layers(c, root, e) || parse_router(c, root, e) || parse_positions(c, root, e))
        return -1;
    c->has_o_bias = c->has_qkv_bias = attn_bias;
    return 0;
}
