/* SPDX-License-Identifier: Apache-2.0
 *
 * A module Dense, as sentence-transformers writes it: a product of the pooled vector with weights
 * of its own folder, and what that goes through.
 */
#include <stdio.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"

/* Of what the vector is made, and what else could be done with it. */
static int check_use(const struct json *root, struct err *e)
{
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    bool adds = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *name = "sentence_embedding";
        if (json_opt_str(root, keys[i], &name, e))
            return -1;
        if (strcmp(name, "sentence_embedding") != 0)
            return json_err(root, e, ERR_UNSUPPORTED,
                            "%s: '%.40s' is not supported; sentence_embedding is", keys[i], name);
    }
    if (json_opt_bool(root, "use_residual", &adds, e))
        return -1;
    return adds ? json_err(root, e, ERR_UNSUPPORTED, "use_residual: true is not supported") : 0;
}

static int parse_activation(struct config_dense *d, const struct json *root, struct err *e)
{
    const char *name = "Tanh";
    if (json_opt_str(root, "activation_function", &name, e))
        return -1;
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    d->is_tanh = strcmp(last, "Tanh") == 0;
    if (d->is_tanh || strcmp(last, "Identity") == 0)
        return 0;
    return json_err(root, e, ERR_UNSUPPORTED,
                    "activation_function: '%.80s' is not supported; Identity and Tanh are", name);
}

int config_dense_parse(struct config *c, const struct json *root, const char *folder, struct err *e)
{
    int64_t before = config_vector_cols(c);
    if (c->n_dense == CONFIG_DENSE_MAX)
        return json_err(root, e, ERR_UNSUPPORTED, "more than %d modules Dense are not supported",
                        CONFIG_DENSE_MAX);
    struct config_dense *d = &c->dense[c->n_dense];
    *d = (struct config_dense){.has_bias = true};
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    if (json_get_int(root, "in_features", 1, CONFIG_WIDTH_MAX, &d->k, e) ||
        json_get_int(root, "out_features", 1, CONFIG_WIDTH_MAX, &d->n, e) ||
        json_opt_bool(root, "bias", &d->has_bias, e) || parse_activation(d, root, e) ||
        check_use(root, e))
        return -1;
    if (d->k != before)
        return json_err(root, e, ERR_BAD_INPUT, "in_features: %lld, and vectors have %lld numbers",
                        (long long)d->k, (long long)before);
    c->n_dense++;
    return 0;
}
