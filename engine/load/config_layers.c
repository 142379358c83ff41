/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of some layers only: which see but the last tokens, and which have no
 * positions.
 */
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

/* What a layer's word in the list says of it. */
static int parse_layer_type(struct config *c, const struct json *m, int64_t l, struct err *e)
{
    static const char *const word[MIXER_COUNT] = {
        "sliding_attention", [MIXER_CONV] = "conv", [MIXER_DELTA] = "linear_attention",
        [MIXER_SCAN] = "linear_attention"};
    enum config_mixer mixer = config_traits_of(c)->mixer;
    const char *name, *other = word[mixer];
    if (json_as_str(m, &name, e))
        return -1;
    bool is_old = mixer == MIXER_SCAN; /* names of before others had such layers */
    bool is_other = strcmp(name, other) == 0 || (is_old && strcmp(name, "mamba") == 0);
    bool is_full =
        strcmp(name, "full_attention") == 0 || (is_old && strcmp(name, "attention") == 0);
    c->mixer[l] = is_other ? mixer : MIXER_ATTENTION;
    c->slides[l] = is_other && !mixer;
    if (!is_other && !is_full)
        return json_err(m, e, ERR_UNSUPPORTED,
                        "'%.40s' is not supported; full_attention and %s are", name, other);
    if (c->slides[l] && !c->window)
        return json_err(m, e, ERR_BAD_INPUT, "sliding_attention without a sliding_window");
    return 0;
}

/* A list that says for each layer how its rows see each other. */
int config_layer_types_parse(struct config *c, const struct json *list, struct err *e)
{
    struct json m;
    int64_t i = 0;
    if (json_count(list) != (size_t)c->n_layer)
        return json_err(list, e, ERR_BAD_INPUT, "expected one for each of %lld layers, found %zu",
                        (long long)c->n_layer, json_count(list));
    json_each(m, *list)
    {
        if (parse_layer_type(c, &m, i++, e))
            return -1;
    }
    return 0;
}

/* The first layer that slides where no list says it. */
static int parse_window_size(struct config *c, const struct json *root, int64_t *first,
                             struct err *e)
{
    enum window_rule rule = config_traits_of(c)->window;
    struct json m = json_member(root, "sliding_window");
    bool used = rule == WINDOW_ON || rule == WINDOW_TOLD;
    *first = rule == WINDOW_SWITCHED || rule == WINDOW_SWITCHED_TURNS ? 28 : 0;
    if (rule >= WINDOW_SWITCHED && json_opt_bool(root, "use_sliding_window", &used, e))
        return -1;
    if (*first && json_opt_int(root, "max_window_layers", 0, CONFIG_WIDTH_MAX, first, e))
        return -1;
    used = used || rule == WINDOW_PATTERN;
    bool may_lack = rule == WINDOW_UNTURNED || rule == WINDOW_TOLD;
    if (!used || (m.node && json_absent(&m)) || (may_lack && !m.node))
        return 0;
    c->window = config_traits_of(c)->span ? config_traits_of(c)->span : 4096;
    return config_count_opt(root, "sliding_window", CONFIG_CTX_MAX, &c->window, e);
}

/* Whether layer l slides where no list says it; first: as above. */
static bool is_slider(const struct config *c, int64_t l, int64_t first, int64_t every)
{
    enum window_rule rule = config_traits_of(c)->window;
    if (!c->window || (rule == WINDOW_UNTURNED && !c->is_unturned[l]))
        return false;
    if (rule == WINDOW_SWITCHED_TURNS)
        return l < first && l % 2 == 0;
    return l >= first && (!every || (l + 1) % every != 0);
}

/* Which layers see only the last `window` tokens. Mistral: all, 4096 where the file does not tell;
 * Qwen: from max_window_layers on, where it says so at all, or every other one before that;
 * SmolLM3: those without positions; Phi-3: all, where it tells how many; Gemma: all but every n-th;
 * a list of layer_types rules. */
static int parse_window(struct config *c, const struct json *root, struct err *e)
{
    struct json types = {.node = NULL};
    int64_t first;
    bool any = false;
    int64_t every = config_traits_of(c)->pattern;
    if (json_opt(root, "layer_types", JSON_ARRAY, &types, e) ||
        parse_window_size(c, root, &first, e) ||
        (config_traits_of(c)->window == WINDOW_PATTERN &&
         json_opt_int(root, "sliding_window_pattern", 1, CONFIG_LAYER_MAX, &every, e)))
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++)
        c->slides[l] = is_slider(c, l, first, every);
    if (types.node && config_layer_types_parse(c, &types, e))
        return -1;
    for (int64_t l = 0; l < c->n_layer; l++)
        any |= c->slides[l];
    if (!any)
        c->window = 0;
    return 0;
}

/* 1 for each layer that turns. */
static int parse_turns_list(struct config *c, const struct json *list, struct err *e)
{
    struct json m;
    int64_t l = 0, turns;
    if (json_count(list) != (size_t)c->n_layer)
        return json_err(list, e, ERR_BAD_INPUT, "expected one for each of %lld layers, found %zu",
                        (long long)c->n_layer, json_count(list));
    json_each(m, *list)
    {
        if (json_as_int(&m, 0, 1, &turns, e))
            return -1;
        c->is_unturned[l++] = !turns;
    }
    return 0;
}

/* Layers without positions: as no_rope_layers lists them, or every no_rope_layer_interval-th. */
static int parse_turns(struct config *c, const struct json *root, struct err *e)
{
    struct json list = {.node = NULL};
    int64_t every = 4;
    if (!(config_traits_of(c)->obeys & OBEYS_NO_ROPE))
        return 0;
    if (json_opt(root, "no_rope_layers", JSON_ARRAY, &list, e) ||
        json_opt_int(root, "no_rope_layer_interval", 1, CONFIG_LAYER_MAX, &every, e))
        return -1;
    if (list.node)
        return parse_turns_list(c, &list, e);
    for (int64_t l = 0; l < c->n_layer; l++)
        c->is_unturned[l] = (l + 1) % every == 0;
    return 0;
}

/* Where tokens see both ways, the window is half as wide to either side. */
static int parse_sight(struct config *c, const struct json *root, struct err *e)
{
    bool both = false;
    if (!(config_traits_of(c)->obeys & OBEYS_BOTH_WAYS))
        return 0;
    if (json_opt_bool(root, "use_bidirectional_attention", &both, e))
        return -1;
    c->sees_ahead = both;
    if (both && c->window)
        c->window = c->window / 2 + 1;
    return 0;
}

int config_layers_parse(struct config *c, const struct json *root, struct err *e)
{
    return parse_turns(c, root, e) || parse_window(c, root, e) || parse_sight(c, root, e) ? -1 : 0;
}
