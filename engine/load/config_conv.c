/* SPDX-License-Identifier: Apache-2.0
 *
 * What LFM2's config.json says beside what others say: short convolutions, which layers have one,
 * and a feed-forward's width that is made of another. Files of before transformers knew the family
 * use names of their own, which rule over the common ones.
 */
#include <math.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/types.h"

/* full_attn_idxs, where no list of layer_types says it: all others are convolutions. */
static int parse_attn_list(struct config *c, const struct json *root, struct err *e)
{
    struct json types = json_member(root, "layer_types"), list = {.node = NULL}, m;
    int64_t at;
    if (!json_absent(&types))
        return 0;
    if (json_opt(root, "full_attn_idxs", JSON_ARRAY, &list, e))
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++)
        c->mixer[l] = list.node ? MIXER_CONV : MIXER_ATTENTION;
    if (!list.node)
        return 0;
    json_each(m, list)
    {
        if (json_as_int(&m, 0, c->n_layer - 1, &at, e))
            return -1;
        c->mixer[at] = MIXER_ATTENTION;
    }
    return 0;
}

/* Two thirds of the width that is told, times a factor, rounded up to whole runs. */
static int adjust_ff(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "block_ffn_dim_multiplier");
    bool adjusts = true;
    double by = 1;
    int64_t run = 256;
    if (json_opt_bool(root, "block_auto_adjust_ff_dim", &adjusts, e) ||
        json_opt_num(root, "block_ffn_dim_multiplier", &by, e) ||
        json_opt_int(root, "block_multiple_of", 1, CONFIG_WIDTH_MAX, &run, e))
        return -1;
    if (!adjusts)
        return 0;
    c->d_ff = 2 * c->d_ff / 3;
    if (!m.node || !json_absent(&m)) {
        double width = by * (double)c->d_ff;
        if (!(width >= 1 && width <= CONFIG_WIDTH_MAX))
            return json_err(root, e, ERR_BAD_INPUT,
                            "block_ffn_dim_multiplier: a feed-forward of %g numbers; 1 to %d are "
                            "supported",
                            width, CONFIG_WIDTH_MAX);
        c->d_ff = ((int64_t)width + run - 1) / run * run;
    }
    return c->d_ff > 0 ? 0 : json_err(root, e, ERR_BAD_INPUT, "the feed-forward has no width");
}

static int parse_theta(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "theta");
    if (json_opt_num(root, "theta", &c->rope.theta, e))
        return -1;
    if (!(c->rope.theta > 0 && isfinite(c->rope.theta)))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number above 0, found %g", c->rope.theta);
    return 0;
}

int config_conv_parse(struct config *c, const struct json *root, struct err *e)
{
    c->n_tap = 3;
    return config_count_opt(root, "conv_L_cache", K_CONV_ROWS, &c->n_tap, e) ||
                   json_opt_bool(root, "conv_bias", &c->has_conv_bias, e) ||
                   json_opt_bool(root, "tie_embedding", &c->is_tied, e) ||
                   parse_theta(c, root, e) || parse_attn_list(c, root, e) || adjust_ff(c, root, e)
               ? -1
               : 0;
}
