/* SPDX-License-Identifier: Apache-2.0
 *
 * What the config.json of Granite 4 says beside what others say: which layers have a state-space
 * scan in place of attention, its heads, bounds of its steps, and whether what attends has
 * positions.
 */
#include <math.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/types.h"

/* A list by its older name; where there is none, every layer has a scan. */
static int parse_layers(struct config *c, const struct json *root, struct err *e)
{
    struct json types = json_member(root, "layer_types"), old = {.node = NULL};
    if (!json_absent(&types))
        return 0;
    if (json_opt(root, "layers_block_type", JSON_ARRAY, &old, e))
        return -1;
    if (old.node)
        return config_layer_types_parse(c, &old, e);
    memset(c->mixer, MIXER_SCAN, (size_t)c->n_layer * sizeof *c->mixer);
    return 0;
}

/* A number, or "auto": what the heads have of mamba_expand times the width. */
static int parse_head(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "mamba_d_head");
    const char *word = "auto";
    int32_t expand = 2;
    if (config_count_opt(root, "mamba_expand", 1 << 10, &expand, e))
        return -1;
    int64_t width = expand * c->d_model, auto_head = width / c->n_state_v;
    c->d_state_v = auto_head > CONFIG_STATE_HEAD_MAX ? 0 : (int32_t)auto_head;
    bool is_auto = m.node && json_is(&m, JSON_STRING);
    if (is_auto && json_as_str(&m, &word, e))
        return -1;
    if (strcmp(word, "auto") != 0)
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number or auto, found '%.40s'", word);
    if (!is_auto && config_count_opt(root, "mamba_d_head", CONFIG_WIDTH_MAX, &c->d_state_v, e))
        return -1;
    if (c->d_state_v < 1 || c->d_state_v > CONFIG_STATE_HEAD_MAX)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "mamba_d_head: heads of %lld numbers are not supported; 1 to %d are",
                        (long long)(c->d_state_v ? c->d_state_v : auto_head),
                        CONFIG_STATE_HEAD_MAX);
    if ((int64_t)c->d_state_v * c->n_state_v != width)
        return json_err(root, e, ERR_BAD_INPUT,
                        "mamba_n_heads: %d heads of %d are not mamba_expand, %d, times %lld",
                        c->n_state_v, c->d_state_v, expand, (long long)c->d_model);
    return 0;
}

static int parse_heads(struct config *c, const struct json *root, struct err *e)
{
    c->n_state_k = 1, c->n_state_v = 128, c->d_state_k = 256;
    if (config_count_opt(root, "mamba_n_groups", CONFIG_WIDTH_MAX, &c->n_state_k, e) ||
        config_count_opt(root, "mamba_n_heads", CONFIG_WIDTH_MAX, &c->n_state_v, e) ||
        config_count_opt(root, "mamba_d_state", CONFIG_STATE_HEAD_MAX, &c->d_state_k, e) ||
        parse_head(c, root, e))
        return -1;
    if (c->n_state_v % c->n_state_k)
        return json_err(root, e, ERR_BAD_INPUT,
                        "mamba_n_groups: %d groups share no %d heads evenly", c->n_state_k,
                        c->n_state_v);
    if (config_conv_width(c) > CONFIG_WIDTH_MAX)
        return json_err(root, e, ERR_TOO_LARGE,
                        "mamba_n_heads: the heads have %lld columns; %d are supported",
                        (long long)config_conv_width(c), CONFIG_WIDTH_MAX);
    return 0;
}

/* A number, or one that JSON has not, as transformers writes it: {"__float__": "Infinity"}. */
static int parse_bound(const struct json *m, double *out, struct err *e)
{
    const char *name = "";
    if (!json_is(m, JSON_OBJECT))
        return json_as_num(m, out, e);
    if (json_opt_str(m, "__float__", &name, e))
        return -1;
    if (strcmp(name, "Infinity") != 0)
        return json_err(m, e, ERR_BAD_INPUT, "expected a number, or Infinity as its __float__");
    *out = INFINITY;
    return 0;
}

static int parse_steps(struct config *c, const struct json *root, struct err *e)
{
    struct json list = {.node = NULL}, lo, hi;
    c->scan_lo = 0, c->scan_hi = INFINITY;
    if (json_opt(root, "time_step_limit", JSON_ARRAY, &list, e))
        return -1;
    if (!list.node)
        return 0;
    if (json_count(&list) != 2)
        return json_err(&list, e, ERR_BAD_INPUT, "expected two numbers, found %zu",
                        json_count(&list));
    lo = json_child(&list);
    hi = json_next(&lo);
    if (parse_bound(&lo, &c->scan_lo, e) || parse_bound(&hi, &c->scan_hi, e))
        return -1;
    return c->scan_lo >= 0 && c->scan_lo <= c->scan_hi
               ? 0
               : json_err(&list, e, ERR_BAD_INPUT,
                          "expected a number from 0 up, and one not below");
}

/* Layers that attend turn where it says so, and have no positions else. */
static int parse_positions(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "position_embedding_type");
    const char *name = "nope";
    if (json_opt_str(root, "position_embedding_type", &name, e))
        return -1;
    c->has_rope = strcmp(name, "rope") == 0;
    if (!c->has_rope && strcmp(name, "nope") != 0)
        return json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; nope and rope are",
                        name);
    return 0;
}

int config_scan_parse(struct config *c, const struct json *root, struct err *e)
{
    struct json ff = json_member(root, "shared_intermediate_size");
    c->n_tap = 4, c->has_conv_bias = true;
    if (!ff.node)
        c->d_ff = 1024;
    return parse_layers(c, root, e) || parse_heads(c, root, e) || parse_steps(c, root, e) ||
                   parse_positions(c, root, e) ||
                   config_count_opt(root, "mamba_d_conv", K_CONV_ROWS, &c->n_tap, e) ||
                   json_opt_bool(root, "mamba_conv_bias", &c->has_conv_bias, e) ||
                   json_opt_bool(root, "mamba_proj_bias", &c->has_scan_bias, e)
               ? -1
               : 0;
}
