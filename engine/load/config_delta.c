/* SPDX-License-Identifier: Apache-2.0
 *
 * What the config.json of Qwen3-Next and Qwen3.5 says beside what others say: which layers have a
 * gated delta rule in place of attention, and its heads; and that attention is gated.
 */
#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/types.h"

/* Where no list of layer_types says it: every n-th layer attends. */
static int parse_interval(struct config *c, const struct json *root, struct err *e)
{
    struct json types = json_member(root, "layer_types");
    int64_t every = 4;
    if (json_opt_int(root, "full_attention_interval", 1, CONFIG_LAYER_MAX, &every, e))
        return -1;
    for (int64_t l = 0; l < c->n_layer && json_absent(&types); l++)
        c->mixer[l] = (l + 1) % every ? MIXER_DELTA : MIXER_ATTENTION;
    return 0;
}

static int parse_heads(struct config *c, const struct json *root, struct err *e)
{
    c->n_state_k = 16, c->n_state_v = 32;
    c->d_state_k = c->d_state_v = 128;
    if (config_count_opt(root, "linear_num_key_heads", CONFIG_WIDTH_MAX, &c->n_state_k, e) ||
        config_count_opt(root, "linear_num_value_heads", CONFIG_WIDTH_MAX, &c->n_state_v, e) ||
        config_count_opt(root, "linear_key_head_dim", CONFIG_STATE_HEAD_MAX, &c->d_state_k, e) ||
        config_count_opt(root, "linear_value_head_dim", CONFIG_STATE_HEAD_MAX, &c->d_state_v, e))
        return -1;
    if (c->n_state_v % c->n_state_k)
        return json_err(root, e, ERR_BAD_INPUT,
                        "linear_num_value_heads: %d heads of values cannot share %d of keys",
                        c->n_state_v, c->n_state_k);
    if (config_conv_width(c) > CONFIG_WIDTH_MAX)
        return json_err(root, e, ERR_TOO_LARGE,
                        "linear_num_value_heads: the heads have %lld columns; %d are supported",
                        (long long)config_conv_width(c), CONFIG_WIDTH_MAX);
    return 0;
}

/* Its classes read no such field: the gate is always there. */
static int parse_gate(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "attn_output_gate");
    c->has_attn_gate = true;
    if (json_opt_bool(root, "attn_output_gate", &c->has_attn_gate, e))
        return -1;
    return c->has_attn_gate ? 0
                            : json_err(&m, e, ERR_UNSUPPORTED, "false is not supported; true is");
}

int64_t config_conv_width(const struct config *c)
{
    return c->n_state_v
               ? 2 * (int64_t)c->n_state_k * c->d_state_k + (int64_t)c->n_state_v * c->d_state_v
               : c->d_model;
}

bool config_has_states(const struct config *c, int64_t layer)
{
    return c->mixer[layer] == MIXER_DELTA || c->mixer[layer] == MIXER_SCAN;
}

int config_delta_parse(struct config *c, const struct json *root, struct err *e)
{
    c->n_tap = 4;
    c->is_delta_joined = config_traits_of(c)->is_delta_joined;
    return parse_interval(c, root, e) || parse_heads(c, root, e) || parse_gate(c, root, e) ||
                   config_count_opt(root, "linear_conv_kernel_dim", K_CONV_ROWS, &c->n_tap, e)
               ? -1
               : 0;
}
