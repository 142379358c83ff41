/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of mixtures of experts: how many there are, how many of them a row goes to,
 * which layers have them, and whether one more has all rows.
 */
#include <math.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

/* decoder_sparse_step: of so many layers the last has experts; mlp_only_layers: none of these. */
static int parse_plain(struct config *c, const struct json *root, struct err *e)
{
    struct json list = {.node = NULL}, m;
    int64_t every = 1, at;
    if (json_opt_int(root, "decoder_sparse_step", 1, CONFIG_LAYER_MAX, &every, e) ||
        json_opt(root, "mlp_only_layers", JSON_ARRAY, &list, e))
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++)
        c->has_experts[l] = (l + 1) % every == 0;
    if (!list.node)
        return 0;
    json_each(m, list)
    {
        if (json_as_int(&m, 0, c->n_layer - 1, &at, e))
            return -1;
        c->has_experts[at] = false;
    }
    return 0;
}

/* gpt-oss; older configs leave the slope to its class. */
static int parse_clamp(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "swiglu_limit"), alpha = json_member(root, "swiglu_alpha");
    c->has_sinks = c->has_expert_bias = true;
    c->swiglu_limit = 7, c->swiglu_alpha = 1.702;
    if (json_opt_num(root, "swiglu_limit", &c->swiglu_limit, e) ||
        json_opt_num(root, "swiglu_alpha", &c->swiglu_alpha, e))
        return -1;
    if (c->swiglu_limit < 1e-6 || c->swiglu_limit > 1e6)
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number from 1e-6 to 1e6, found %g",
                        c->swiglu_limit);
    return fabs(c->swiglu_alpha) <= 1e6
               ? 0
               : json_err(&alpha, e, ERR_BAD_INPUT, "expected a number up to 1e6, found %g",
                          c->swiglu_alpha);
}

/* Its makers add the loss where the router's logits are asked for; of some families they have none.
 */
static int parse_balance(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "router_aux_loss_coef");
    double by = config_traits_of(c)->experts.balance;
    bool is_on = false;
    if (json_opt_bool(root, "output_router_logits", &is_on, e) ||
        json_opt_num(root, "router_aux_loss_coef", &by, e))
        return -1;
    if (!(by >= 0 && by <= 1e6))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number from 0 to 1e6, found %g", by);
    c->balance = is_on && config_traits_of(c)->experts.balance > 0 ? by : 0;
    return 0;
}

/* transformers takes either name for the other, and writes of some families now this, now that. */
static const char *count_key(const struct config_experts *x, const struct json *root)
{
    static const char *const name[2] = {"num_experts", "num_local_experts"};
    struct json own = json_member(root, x->count);
    for (int i = 0; json_absent(&own) && i < 2; i++) {
        struct json other = json_member(root, name[1 - i]);
        if (strcmp(x->count, name[i]) == 0 && !json_absent(&other))
            return name[1 - i];
    }
    return x->count;
}

/* Where a field says whether there are experts, those that say which are there if they are. */
static int parse_switch(const struct config_experts *x, const struct json *root, bool *is_on,
                        struct err *e)
{
    const char *const key[] = {x->count, x->width, x->top_key};
    if (!x->switch_key)
        return 0;
    *is_on = false;
    if (json_opt_bool(root, x->switch_key, is_on, e))
        return -1;
    for (size_t i = 0; *is_on && i < sizeof key / sizeof *key; i++) {
        struct json m = json_member(root, key[i]);
        if (json_absent(&m))
            return json_err(root, e, ERR_BAD_INPUT, "%s is missing", key[i]);
    }
    return 0;
}

int config_experts_parse(struct config *c, const struct json *root, struct err *e)
{
    const struct config_experts *x = &config_traits_of(c)->experts;
    const char *top_key = x->top_key ? x->top_key : "num_experts_per_tok";
    bool is_on = true;
    if (!x->count)
        return 0;
    if (parse_switch(x, root, &is_on, e))
        return -1;
    if (!is_on)
        return 0;
    c->n_expert = x->n, c->n_top = x->top, c->d_expert = x->d_ff;
    c->normalises_top = x->normalises || x->is_normal;
    c->d_shared = x->d_shared;
    int64_t n = x->n;
    if (json_opt_int(root, count_key(x, root), x->may_be_none ? 0 : 1, CONFIG_EXPERT_MAX, &n, e))
        return -1;
    c->n_expert = (int32_t)n;
    if (!n)
        return c->n_top = 0, c->d_expert = 0, 0;
    c->has_stacked_experts = x->are_stacked;
    if (config_count_opt(root, top_key, CONFIG_EXPERT_MAX, &c->n_top, e) ||
        json_opt_int(root, x->width, 1, CONFIG_WIDTH_MAX, &c->d_expert, e) ||
        parse_balance(c, root, e) ||
        (x->d_shared && json_opt_int(root, "shared_expert_intermediate_size", 1, CONFIG_WIDTH_MAX,
                                     &c->d_shared, e)) ||
        (!x->normalises && json_opt_bool(root, "norm_topk_prob", &c->normalises_top, e)))
        return -1;
    if (c->n_top > c->n_expert)
        return json_err(root, e, ERR_BAD_INPUT, "%s: %d experts for a token, of %d", top_key,
                        c->n_top, c->n_expert);
    for (int64_t l = 0; l < c->n_layer; l++)
        c->has_experts[l] = true;
    if ((config_traits_of(c)->obeys & OBEYS_CLAMP) && parse_clamp(c, root, e))
        return -1;
    return x->may_be_plain ? parse_plain(c, root, e) : 0;
}
