/* SPDX-License-Identifier: Apache-2.0
 *
 * How a text's token vectors become one embedding: modules.json and the folders it names, as
 * sentence-transformers writes them. Without modules.json: the mean, not normalised. A model that
 * could go on with a text, but has modules, is made for vectors.
 */
#include "engine/load/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

/* Every way to pool that the files may switch on, and whether we have it. */
static const struct {
    const char *key, *name;
    enum pool_kind kind;
    bool is_known;
} mode[] = {
    {"pooling_mode_cls_token", "cls", POOL_CLS, true},
    {"pooling_mode_mean_tokens", "mean", POOL_MEAN, true},
    {"pooling_mode_max_tokens", "max", POOL_MEAN, false},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOL_MEAN, false},
    {"pooling_mode_weightedmean_tokens", "weightedmean", POOL_MEAN, false},
    {"pooling_mode_lasttoken", "lasttoken", POOL_LAST, true},
};

#define N_MODE (sizeof mode / sizeof mode[0])

static struct json_doc *read_json(const char *dir, const char *name, struct err *e)
{
    char *path = path_join(dir, name);
    struct json_doc *doc = json_read(path, name, &json_rules_config, e);
    free(path);
    return doc;
}

static int err_mode(const struct json *v, const char *name, struct err *e)
{
    return json_err(v, e, ERR_UNSUPPORTED, "%s is not supported; the mean, cls and lasttoken are",
                    name);
}

/* The later spelling: one name. */
static int parse_named(struct config *c, const struct json *v, struct err *e)
{
    const char *name;
    if (json_as_str(v, &name, e))
        return -1;
    for (size_t i = 0; i < N_MODE; i++)
        if (mode[i].is_known && strcmp(name, mode[i].name) == 0)
            return c->pool = mode[i].kind, 0;
    return err_mode(v, name, e);
}

static int parse_pooling(struct config *c, const struct json *root, struct err *e)
{
    struct json named = json_member(root, "pooling_mode");
    bool pools_prompt = true;
    int n_on = 0;
    if (json_opt_bool(root, "include_prompt", &pools_prompt, e))
        return -1;
    if (!pools_prompt)
        return json_err(root, e, ERR_UNSUPPORTED, "include_prompt: false is not supported");
    if (json_is(&named, JSON_STRING))
        return parse_named(c, &named, e);
    for (size_t i = 0; i < N_MODE; i++) {
        bool on = false;
        if (json_opt_bool(root, mode[i].key, &on, e))
            return -1;
        if (!on)
            continue;
        if (!mode[i].is_known)
            return err_mode(root, mode[i].key, e);
        c->pool = mode[i].kind;
        n_on++;
    }
    if (n_on == 1)
        return 0;
    return json_err(root, e, ERR_UNSUPPORTED,
                    "expected one pooling_mode_... that is true, found %d", n_on);
}

/* The last part of "sentence_transformers.models.Pooling". */
static const char *last_part(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

/* A module that has a config in a folder of its own. */
static int parse_folder(struct config *c, const struct json *m, const char *dir, const char *path,
                        bool is_dense, struct err *e)
{
    if (!*path || *path == '.' || strchr(path, '/') || strlen(path) > 64)
        return json_err(m, e, ERR_BAD_INPUT, "path: '%.80s' is not the plain name of a folder",
                        path);
    char name[80];
    snprintf(name, sizeof name, "%s/config.json", path);
    struct json_doc *doc = read_json(dir, name, e);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = json_want(&root, JSON_OBJECT, e);
    if (rc == 0)
        rc = is_dense ? config_dense_parse(c, &root, path, e) : parse_pooling(c, &root, e);
    json_free(doc);
    return rc;
}

static int parse_module(struct config *c, const struct json *m, const char *dir, struct err *e)
{
    const char *type, *path;
    if (json_want(m, JSON_OBJECT, e) || json_get_str(m, "type", &type, e) ||
        json_get_str(m, "path", &path, e))
        return -1;
    if (strcmp(last_part(type), "Transformer") == 0)
        return 0;
    if (strcmp(last_part(type), "Normalize") == 0)
        return c->normalizes = true, 0;
    bool is_dense = strcmp(last_part(type), "Dense") == 0;
    if (!is_dense && strcmp(last_part(type), "Pooling") != 0)
        return json_err(m, e, ERR_UNSUPPORTED,
                        "type: '%.80s' is not supported; Transformer, Pooling, Dense and "
                        "Normalize are",
                        type);
    if (is_dense && c->normalizes)
        return json_err(m, e, ERR_UNSUPPORTED, "Dense behind Normalize is not supported");
    return parse_folder(c, m, dir, path, is_dense, e);
}

static int read_max_text(struct config *c, const char *dir, struct err *e)
{
    const char *name = "sentence_bert_config.json";
    if (!path_exists(dir, name))
        return 0;
    struct json_doc *doc = read_json(dir, name, e);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = json_opt_int(&root, "max_seq_length", 1, INT32_MAX, &c->max_text, e);
    json_free(doc);
    return rc;
}

int config_pooling_load(struct config *c, const char *dir, struct err *e)
{
    c->is_encoder = true;
    c->pool = POOL_MEAN;
    c->normalizes = false;
    c->n_dense = 0;
    c->max_text = 0;
    if (!path_exists(dir, "modules.json"))
        return 0;
    struct json_doc *doc = read_json(dir, "modules.json", e);
    if (!doc)
        return -1;
    struct json root = json_root(doc), m;
    int rc = json_want(&root, JSON_ARRAY, e);
    for (m = json_child(&root); rc == 0 && m.node; m = json_next(&m))
        rc = parse_module(c, &m, dir, e);
    json_free(doc);
    return rc ? rc : read_max_text(c, dir, e);
}
