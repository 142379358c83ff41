/* SPDX-License-Identifier: Apache-2.0
 *
 * What the config.json of Gemma 4 and 3n says beside what others say: in 4 layers that see all have
 * heads of their own; the last layers attend to keys and values of one before them, and layers read
 * an embedding of each token that is theirs; in 3n rows go on several tracks, and gates are cut.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/config_layers.h"
#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/attention.h"

static bool sees_all(const struct config *c, int64_t layer)
{
    return !c->slides[layer];
}

int32_t config_d_head(const struct config *c, int64_t layer)
{
    return layer >= 0 && c->full_d_head && sees_all(c, layer) ? c->full_d_head : c->d_head;
}

int32_t config_n_kv_head(const struct config *c, int64_t layer)
{
    return layer >= 0 && c->full_n_kv_head && sees_all(c, layer) ? c->full_n_kv_head : c->n_kv_head;
}

bool config_shares_kv(const struct config *c, int64_t layer)
{
    return layer >= c->n_layer - c->n_kv_shared;
}

int64_t config_kv_layer(const struct config *c, int64_t layer)
{
    int64_t l = layer;
    while (l >= 0 && (config_shares_kv(c, l) || c->slides[l] != c->slides[layer]))
        l--;
    return l;
}

int64_t config_d_ff(const struct config *c, int64_t layer)
{
    if (layer < 0)
        return c->d_ff;
    if (c->own_d_ff[layer])
        return c->own_d_ff[layer];
    return c->widens_shared && config_shares_kv(c, layer) ? 2 * c->d_ff : c->d_ff;
}

/* The last layer sees all, whatever the list says: so its class makes it. */
static void end_with_sight(struct config *c)
{
    c->slides[c->n_layer - 1] = false;
}

/* ---- heads of layers that see all ------------------------------------------------------------ */

static int parse_override(struct config *c, const struct json *of, struct err *e)
{
    struct json m;
    int32_t d = c->d_head, n = c->n_kv_head;
    int64_t layer;
    char *end;
    layer = strtol(json_key(of), &end, 10);
    if (*end || end == json_key(of) || layer < 0 || layer >= c->n_layer)
        return json_err(of, e, ERR_BAD_INPUT, "expected the number of one of %lld layers",
                        (long long)c->n_layer);
    if (json_want(of, JSON_OBJECT, e) || config_count_opt(of, "head_dim", K_HEAD_MAX, &d, e) ||
        config_count_opt(of, "num_key_value_heads", c->n_head, &n, e))
        return -1;
    json_each(m, *of)
    {
        if (strcmp(json_key(&m), "head_dim") != 0 && strcmp(json_key(&m), "num_key_value_heads"))
            return json_err(&m, e, ERR_UNSUPPORTED,
                            "is not supported here; head_dim and num_key_value_heads are");
    }
    if (!sees_all(c, layer) && (d != c->d_head || n != c->n_kv_head))
        return json_err(of, e, ERR_UNSUPPORTED,
                        "heads of their own are supported in layers of full_attention alone");
    if (!sees_all(c, layer))
        return 0;
    if (c->full_d_head && (c->full_d_head != d || c->full_n_kv_head != n))
        return json_err(of, e, ERR_UNSUPPORTED,
                        "layers of full_attention with different heads are not supported");
    c->full_d_head = d, c->full_n_kv_head = n;
    return 0;
}

/* What later versions write in place of global_head_dim: each layer that differs. */
static int parse_overrides(struct config *c, const struct json *list, struct err *e)
{
    struct json m;
    int64_t n_all = 0;
    json_each(m, *list)
    {
        if (parse_override(c, &m, e))
            return -1;
    }
    for (int64_t l = 0; l < c->n_layer; l++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)l);
        n_all += sees_all(c, l) && !json_member(list, key).node;
    }
    if (n_all && c->full_d_head &&
        (c->full_d_head != c->d_head || c->full_n_kv_head != c->n_kv_head))
        return json_err(list, e, ERR_UNSUPPORTED,
                        "layers of full_attention with different heads are not supported");
    return 0;
}

static int parse_full_heads(struct config *c, const struct json *root, struct err *e)
{
    struct json list = {.node = NULL};
    if (json_opt_bool(root, "attention_k_eq_v", &c->k_is_v, e) ||
        json_opt(root, "per_layer_config", JSON_OBJECT, &list, e))
        return -1;
    if (list.node) {
        if (parse_overrides(c, &list, e))
            return -1;
    } else {
        c->full_d_head = 512;
        if (config_count_opt(root, "global_head_dim", K_HEAD_MAX, &c->full_d_head, e) ||
            (c->k_is_v && config_count_opt(root, "num_global_key_value_heads", c->n_head,
                                           &c->full_n_kv_head, e)))
            return -1;
    }
    if (c->full_d_head % 2)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "global_head_dim: %d is not supported; even numbers are", c->full_d_head);
    if (c->full_n_kv_head && c->n_head % c->full_n_kv_head)
        return json_err(root, e, ERR_BAD_INPUT,
                        "num_global_key_value_heads: %d heads cannot share %d", c->n_head,
                        c->full_n_kv_head);
    return 0;
}

/* ---- keys and values of layers before -------------------------------------------------------- */

static int parse_sharing(struct config *c, const struct json *root, int64_t n, struct err *e)
{
    struct json m = json_member(root, "num_kv_shared_layers");
    if (json_opt_int(root, "num_kv_shared_layers", 0, c->n_layer - 1, &n, e))
        return -1;
    c->n_kv_shared = (int32_t)n;
    for (int64_t l = 0; l < c->n_layer; l++)
        if (config_kv_layer(c, l) < 0)
            return json_err(&m, e, ERR_BAD_INPUT,
                            "layer %lld is of %s, of which no layer before the last %lld is",
                            (long long)l, c->slides[l] ? "sliding_attention" : "full_attention",
                            (long long)n);
    return 0;
}

/* ---- embeddings of layers -------------------------------------------------------------------- */

static int parse_embeddings(struct config *c, const struct json *root, struct err *e)
{
    c->d_ple = 256, c->n_ple_vocab = 262144;
    if (json_opt_int(root, "hidden_size_per_layer_input", 0, CONFIG_WIDTH_MAX, &c->d_ple, e) ||
        json_opt_int(root, "vocab_size_per_layer_input", 1, CONFIG_VOCAB_MAX, &c->n_ple_vocab, e))
        return -1;
    c->ple_scale = config_round_scale(c, sqrt((double)c->d_ple));
    if (c->d_ple * c->n_layer > CONFIG_WIDTH_MAX)
        return json_err(root, e, ERR_TOO_LARGE,
                        "hidden_size_per_layer_input: %lld of %lld layers; %d in all are supported",
                        (long long)c->d_ple, (long long)c->n_layer, CONFIG_WIDTH_MAX);
    return 0;
}

/* Of tokens of pictures alone in a model that has a part for these. */
static int check_sight(const struct json *root, struct err *e)
{
    const char *of = "vision";
    struct json m = json_member(root, "use_bidirectional_attention");
    if (json_opt_str(root, "use_bidirectional_attention", &of, e))
        return -1;
    return strcmp(of, "vision") == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; vision is", of);
}

static int check_unsupported(const struct json *root, struct err *e)
{
    bool is_on = false;
    struct json m = json_member(root, "attention_bias");
    if (json_opt_bool(root, "attention_bias", &is_on, e))
        return -1;
    return is_on ? json_err(&m, e, ERR_UNSUPPORTED, "true is not supported; false is") : 0;
}

int config_gemma4_parse(struct config *c, const struct json *root, struct err *e)
{
    c->has_layer_scale = c->norms_v = true;
    end_with_sight(c);
    return check_unsupported(root, e) || check_sight(root, e) || parse_full_heads(c, root, e) ||
                   parse_sharing(c, root, 0, e) || parse_embeddings(c, root, e) ||
                   json_opt_bool(root, "use_double_wide_mlp", &c->widens_shared, e)
               ? -1
               : 0;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

enum { TRACKS = 4, SPARSE_LAYERS = 10 };

static int parse_share(struct config *c, const struct json *m, int64_t l, struct err *e)
{
    double share;
    if (json_as_num(m, &share, e))
        return -1;
    if (!(share >= 0 && share < 1))
        return json_err(m, e, ERR_BAD_INPUT, "expected a number from 0 to below 1, found %g",
                        share);
    c->sparsity[l] = (float)share;
    return 0;
}

/* Of its class: the first layers of a model that has more than these. */
static int parse_sparsity(struct config *c, const struct json *root, struct err *e)
{
    struct json list = {.node = NULL}, m;
    int64_t l = 0;
    if (json_opt(root, "activation_sparsity_pattern", JSON_ARRAY, &list, e))
        return -1;
    for (; !list.node && l < SPARSE_LAYERS && c->n_layer > SPARSE_LAYERS; l++)
        c->sparsity[l] = 0.95f;
    if (!list.node)
        return 0;
    if (json_count(&list) != (size_t)c->n_layer)
        return json_err(&list, e, ERR_BAD_INPUT, "expected one for each of %lld layers, found %zu",
                        (long long)c->n_layer, json_count(&list));
    json_each(m, list)
    {
        if (parse_share(c, &m, l++, e))
            return -1;
    }
    return 0;
}

static int parse_tracks(struct config *c, const struct json *root, struct err *e)
{
    int64_t n = TRACKS, active = 0;
    struct json m = json_member(root, "altup_num_inputs"),
                at = json_member(root, "altup_active_idx");
    struct json clip = json_member(root, "altup_coef_clip");
    c->d_laurel = 64, c->scales_track = true;
    c->coef_bound = clip.node && json_absent(&clip) ? 0 : 120;
    if (json_opt_int(root, "altup_num_inputs", 1, 64, &n, e) ||
        json_opt_int(root, "altup_active_idx", 0, 63, &active, e) ||
        json_opt_int(root, "laurel_rank", 1, CONFIG_WIDTH_MAX, &c->d_laurel, e) ||
        json_opt_num(root, "altup_coef_clip", &c->coef_bound, e) ||
        json_opt_bool(root, "altup_correct_scale", &c->scales_track, e))
        return -1;
    if (!(c->coef_bound >= 0))
        return json_err(&clip, e, ERR_BAD_INPUT, "expected a number from 0 on, found %g",
                        c->coef_bound);
    if (n != TRACKS)
        return json_err(&m, e, ERR_UNSUPPORTED, "%lld is not supported; %d is", (long long)n,
                        TRACKS);
    if (active != 0)
        return json_err(&at, e, ERR_UNSUPPORTED, "%lld is not supported; 0 is", (long long)active);
    c->n_track = (int32_t)n;
    return 0;
}

int config_gemma3n_parse(struct config *c, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "hidden_size_per_layer_input");
    c->norms_v = true;
    if (check_unsupported(root, e) || parse_sharing(c, root, 15, e) ||
        parse_embeddings(c, root, e) || parse_tracks(c, root, e) || parse_sparsity(c, root, e))
        return -1;
    return c->d_ple ? 0 : json_err(&m, e, ERR_UNSUPPORTED, "0 is not supported here");
}
