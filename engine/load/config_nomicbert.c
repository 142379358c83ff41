/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of NomicBERT: BERT with rotary positions, a gated feed-forward, and no
 * biases but those of norms. Its makers' files have GPT-2's names, later ones BERT's; the first
 * have settings beside, of which those are read that the models were made with.
 */
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

/* Of the makers' settings what the models have; another value would change the arithmetic. */
static int check_settings(const struct json *root, struct err *e)
{
    static const char *const off[] = {"prenorm",        "qkv_proj_bias",         "mlp_fc1_bias",
                                      "mlp_fc2_bias",   "use_rms_norm",          "causal",
                                      "parallel_block", "rotary_emb_interleaved"};
    static const char *const absent[] = {"rotary_scaling_factor", "rotary_emb_scale_base",
                                         "rope_scaling"};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        bool is_on = false;
        if (json_opt_bool(root, off[i], &is_on, e))
            return -1;
        if (is_on)
            return json_err(root, e, ERR_UNSUPPORTED, "%s: true is not supported; false is",
                            off[i]);
    }
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        struct json m = json_member(root, absent[i]);
        if (!json_absent(&m))
            return json_err(&m, e, ERR_UNSUPPORTED, "is not supported for this family; null is");
    }
    return 0;
}

/* Later transformers say it too. */
static int check_head(const struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "head_dim");
    int32_t d = c->d_head;
    if (config_count_opt(root, "head_dim", CONFIG_WIDTH_MAX, &d, e))
        return -1;
    return d == c->d_head ? 0
                          : json_err(&m, e, ERR_UNSUPPORTED,
                                     "%d is not supported; hidden_size over num_attention_heads, "
                                     "%d, is",
                                     d, c->d_head);
}

static int parse_sizes(struct config *c, const struct json *root, struct err *e)
{
    struct json old = json_member(root, "n_embd");
    bool is_old = !json_absent(&old);
    int64_t n_head;
    if (json_get_int(root, "vocab_size", 1, CONFIG_VOCAB_MAX, &c->n_vocab, e) ||
        json_get_int(root, is_old ? "n_embd" : "hidden_size", 1, CONFIG_WIDTH_MAX, &c->d_model,
                     e) ||
        json_get_int(root, is_old ? "n_inner" : "intermediate_size", 1, CONFIG_WIDTH_MAX, &c->d_ff,
                     e) ||
        json_get_int(root, is_old ? "n_layer" : "num_hidden_layers", 1, CONFIG_LAYER_MAX,
                     &c->n_layer, e) ||
        json_get_int(root, is_old ? "n_head" : "num_attention_heads", 1, CONFIG_WIDTH_MAX, &n_head,
                     e) ||
        json_get_int(root, is_old ? "n_positions" : "max_position_embeddings", 1, CONFIG_CTX_MAX,
                     &c->max_pos, e) ||
        config_eps_parse(c, root, is_old ? "layer_norm_epsilon" : "layer_norm_eps", e) ||
        config_count_opt(root, "type_vocab_size", CONFIG_VOCAB_MAX, &c->n_segment, e))
        return -1;
    c->n_head = c->n_kv_head = (int32_t)n_head;
    return config_split_width(c, root, is_old ? "n_embd" : "hidden_size", e) ||
                   check_head(c, root, e)
               ? -1
               : 0;
}

/* "swiglu" in its makers' files, what it is gated by in others. */
static int parse_act(const struct json *root, struct err *e)
{
    const char *act = "silu", *kind = "swiglu";
    if (json_opt_str(root, "hidden_act", &act, e) ||
        json_opt_str(root, "activation_function", &kind, e))
        return -1;
    if (strcmp(act, "silu") != 0)
        return json_err(root, e, ERR_UNSUPPORTED, "hidden_act: '%.40s' is not supported; silu is",
                        act);
    if (strcmp(kind, "swiglu") != 0)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "activation_function: '%.40s' is not supported; swiglu is", kind);
    return 0;
}

/* The base has a name of its own in its makers' files. */
static int parse_rope(struct config *c, const struct json *root, struct err *e)
{
    struct json base = json_member(root, "rotary_emb_base");
    double share = 1, theta;
    if (config_rope_parse(c, root, e) || json_opt_num(root, "rotary_emb_fraction", &share, e))
        return -1;
    if (share != 1)
        return json_err(root, e, ERR_UNSUPPORTED, "rotary_emb_fraction: %g is not supported; 1 is",
                        share);
    if (json_absent(&base))
        return 0;
    if (json_as_num(&base, &theta, e))
        return -1;
    c->rope.theta = theta;
    return theta > 0
               ? 0
               : json_err(&base, e, ERR_BAD_INPUT, "expected a number above 0, found %g", theta);
}

int config_nomicbert_parse(struct config *c, const struct json *root, struct err *e)
{
    c->norm_eps = 1e-12, c->act = ACT_SILU, c->n_segment = 2;
    c->is_encoder = c->sees_ahead = c->is_gated = c->has_rope = true;
    c->norms = NORMS_SUM;
    return check_settings(root, e) || parse_sizes(c, root, e) || parse_act(root, e) ||
                   parse_rope(c, root, e)
               ? -1
               : 0;
}
