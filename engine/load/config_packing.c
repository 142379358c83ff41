/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config: which packed weights are read. What the tensors themselves say (bits,
 * groups, zero points) is left to them; here is refused what would change what is computed with
 * them.
 */
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

static int want_word(const struct json *v, const char *key, const char *word, struct err *e)
{
    struct json m = json_member(v, key);
    const char *text;
    if (json_absent(&m) || json_as_str(&m, &text, e))
        return json_absent(&m) ? 0 : -1;
    return strcmp(text, word) == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; %s is", text, word);
}

static int want_none(const struct json *v, const char *key, struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_err(&m, e, ERR_UNSUPPORTED, "is not supported; null is");
}

static int check_group(const struct json *group, struct err *e)
{
    struct json weights = {0};
    if (json_want(group, JSON_OBJECT, e) || want_none(group, "input_activations", e) ||
        want_none(group, "output_activations", e) ||
        want_word(group, "format", "pack-quantized", e))
        return -1;
    if (json_opt(group, "weights", JSON_OBJECT, &weights, e))
        return -1;
    return json_absent(&weights) ? 0 : want_word(&weights, "type", "int", e);
}

int config_packing_check(const struct json *root, struct err *e)
{
    struct json m = json_member(root, "quantization_config"), method, groups = {0}, group;
    if (json_absent(&m))
        return 0;
    method = json_member(&m, "quant_method");
    if (!json_is(&m, JSON_OBJECT) || json_absent(&method))
        return json_err(&m, e, ERR_UNSUPPORTED, "is not supported with this value");
    if (want_word(&m, "quant_method", "compressed-tensors", e) ||
        want_word(&m, "format", "pack-quantized", e) ||
        want_word(&m, "quantization_status", "compressed", e) ||
        want_none(&m, "kv_cache_scheme", e) ||
        json_opt(&m, "config_groups", JSON_OBJECT, &groups, e))
        return -1;
    if (json_absent(&groups))
        return 0;
    json_each(group, groups)
    {
        if (check_group(&group, e))
            return -1;
    }
    return 0;
}
