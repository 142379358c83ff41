/* SPDX-License-Identifier: Apache-2.0
 *
 * See model_dir.h.
 */
#include "engine/load/model_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/load/gguf_config.h"
#include "engine/load/gguf_tokenizer.h"
#include "engine/load/json.h"
#include "engine/load/packed_weight.h"
#include "engine/load/path.h"
#include "engine/load/small_files.h"
#include "engine/load/stacked_weight.h"
#include "engine/load/tied_head.h"

enum { CONFIG_TEXT_MAX = 1 << 20 };

static int check_dir(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st))
        return err_sys(e, "the model directory cannot be read");
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_BAD_INPUT,
                       "not a directory; a model is a directory with config.json, "
                       "tokenizer.json and *.safetensors, or a GGUF file");
    return 0;
}

static int read_generation(struct model_dir *d, struct err *e)
{
    generation_default(&d->generation, &d->config);
    if (!path_exists(d->path, "generation_config.json"))
        return 0;
    char *path = path_join(d->path, "generation_config.json");
    int rc = generation_read(&d->generation, path, e);
    free(path);
    return rc;
}

/* sentence-transformers keeps the length in the tokenizer's file where its own does not tell it. A
 * text is never longer than there are positions. */
static void bound_text(struct model_dir *d)
{
    struct config *c = &d->config;
    if (!c->max_text && (c->classifier || path_exists(d->path, "modules.json")))
        c->max_text = d->tokenizer.max_len;
    if (c->max_text > c->max_pos)
        c->max_text = c->max_pos;
}

static int read_labels(struct model_dir *d, struct err *e)
{
    if (!d->config.classifier)
        return 0;
    struct json_doc *doc = model_dir_config_doc(d, e);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = labels_init(&d->labels, &root, e);
    json_free(doc);
    return rc;
}

static struct weights *open_weights(const struct model_dir *d, struct err *e)
{
    static const char *const prefix[CONFIG_DENSE_MAX] = {"dense.0.", "dense.1."};
    const struct config *c = &d->config;
    struct weights_module module[CONFIG_DENSE_MAX];
    for (int32_t i = 0; i < c->n_dense; i++)
        module[i] = (struct weights_module){c->dense[i].folder, prefix[i]};
    return weights_open_with(d->path, &c->packing, module, (size_t)c->n_dense, e);
}

/* What config.json says of the head, and the files otherwise. */
static int untie_head(struct model_dir *d, struct err *e)
{
    bool is_apart = false;
    if (d->config.is_tied && !d->config.is_encoder && tied_head_is_apart(d->weights, &is_apart, e))
        return -1;
    if (is_apart)
        d->config.is_tied = false;
    return 0;
}

static int read_all(struct model_dir *d, bool is_random, struct err *e)
{
    if (check_dir(d->path, e) || config_load(&d->config, d->path, e) || read_generation(d, e) ||
        read_labels(d, e) || tokenizer_config_init(&d->tokenizer, d->path, e))
        return -1;
    if (d->config.is_encoder)
        bound_text(d);
    if (d->config.is_encoder && !d->config.classifier && prompts_init(&d->prompts, d->path, e))
        return -1;
    if (path_exists(d->path, "tokenizer.json"))
        d->tokenizer_path = path_join(d->path, "tokenizer.json");
    d->weights = is_random ? weights_random(e) : open_weights(d, e);
    return d->weights && (is_random || untie_head(d, e) == 0) ? 0 : -1;
}

/* ---- a GGUF file --------------------------------------------------------------------------- */

typedef int gguf_text_fn(const struct gguf *g, struct buf *out, struct err *e);

static char *text_of(const struct gguf *g, gguf_text_fn *fn, size_t max_bytes, struct err *e)
{
    struct buf b;
    buf_init(&b, max_bytes);
    char *text = fn(g, &b, e) ? NULL : buf_take(&b);
    buf_release(&b);
    return text;
}

static int read_gguf_tokenizer(struct model_dir *d, const struct gguf *g, struct err *e)
{
    if (!gguf_has_tokenizer(g))
        return tokenizer_config_parse(&d->tokenizer, "{}", 2, e);
    char *text = text_of(g, gguf_tokenizer_config_text, GGUF_TEXT_BYTES_MAX, e);
    int rc = text ? tokenizer_config_parse(&d->tokenizer, text, strlen(text), e) : -1;
    free(text);
    d->tokenizer_path = xstrdup(d->path);
    return rc;
}

static int read_gguf_texts(struct model_dir *d, const struct gguf *g, struct err *e)
{
    d->config_text = text_of(g, gguf_config_text, CONFIG_TEXT_MAX, e);
    if (!d->config_text || config_parse(&d->config, d->config_text, strlen(d->config_text),
                                        "the metadata as config.json", e))
        return -1;
    generation_default(&d->generation, &d->config);
    return read_gguf_tokenizer(d, g, e);
}

static int read_gguf(struct model_dir *d, bool is_random, struct err *e)
{
    struct gguf *g = gguf_open(d->path, e);
    int rc = g ? read_gguf_texts(d, g, e) : -1;
    gguf_close(g);
    if (rc)
        return -1;
    d->weights = is_random ? weights_random(e) : weights_open_gguf(d->path, e);
    return d->weights ? 0 : -1;
}

/* ---- as a whole ---------------------------------------------------------------------------- */

static int init(struct model_dir *d, const char *path, bool is_random, struct err *e)
{
    *d = (struct model_dir){.path = xstrdup(path)};
    if ((gguf_is_file(path) ? read_gguf : read_all)(d, is_random, e) == 0)
        return 0;
    err_wrap(e, "%s", path);
    model_dir_release(d);
    return -1;
}

int model_dir_init(struct model_dir *d, const char *path, struct err *e)
{
    return init(d, path, false, e);
}

int model_dir_init_random(struct model_dir *d, const char *path, struct err *e)
{
    return init(d, path, true, e);
}

void model_dir_release(struct model_dir *d)
{
    weights_close(d->weights);
    labels_release(&d->labels);
    prompts_release(&d->prompts);
    tokenizer_config_release(&d->tokenizer);
    free(d->tokenizer_path);
    free(d->config_text);
    free(d->path);
    *d = (struct model_dir){.path = NULL};
}

struct json_doc *model_dir_config_doc(const struct model_dir *d, struct err *e)
{
    const char *name = "config.json";
    if (d->config_text)
        return json_parse(d->config_text, strlen(d->config_text), name, &json_rules_config, e);
    char *path = path_join(d->path, name);
    struct json_doc *doc = json_read(path, name, &json_rules_config, e);
    free(path);
    return doc;
}

static int put_text(const char *dir, const char *name, const char *text, struct err *e)
{
    char *path = path_join(dir, name);
    int rc = text ? aside_put(path, text, strlen(text), e) : -1;
    free(path);
    return rc;
}

static int put_gguf_tokenizer(const struct model_dir *d, const char *to, struct err *e)
{
    struct gguf *g = gguf_open(d->path, e);
    char *tokenizer = g ? text_of(g, gguf_tokenizer_text, GGUF_TEXT_BYTES_MAX, e) : NULL;
    char *config =
        tokenizer ? text_of(g, gguf_tokenizer_config_text, GGUF_TEXT_BYTES_MAX, e) : NULL;
    int rc = config && put_text(to, "tokenizer.json", tokenizer, e) == 0
                 ? put_text(to, "tokenizer_config.json", config, e)
                 : -1;
    free(tokenizer);
    free(config);
    gguf_close(g);
    return rc;
}

int model_dir_copy_small(const struct model_dir *d, const char *to, struct err *e)
{
    if (!d->config_text)
        return small_files_copy(d->path, to, e);
    if (put_text(to, "config.json", d->config_text, e))
        return -1;
    return d->tokenizer_path ? put_gguf_tokenizer(d, to, e) : 0;
}

static bool is_embedding(const char *name)
{
    static const char *const part[] = {"embed_tokens", "embeddings.", "wte.", "wpe.", "lm_head."};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (strstr(name, part[i]))
            return true;
    return false;
}

void model_dir_size(const struct model_dir *d, struct model_size *s)
{
    const struct config *c = &d->config;
    *s = (struct model_size){.file_bytes = weights_bytes(d->weights)};
    for (size_t i = 0; i < weights_count(d->weights); i++) {
        const struct st_tensor *t = packed_weight_counted(d->weights, weights_at(d->weights, i)->t);
        if (!t)
            continue;
        uint64_t n = stacked_weight_numbers(d->weights, t);
        s->n_param += n;
        s->n_param_embed += is_embedding(t->name) ? n : 0;
    }
    if (!c->is_encoder)
        s->kv_bytes = (uint64_t)(2 * 2 * c->n_layer * c->n_kv_head * c->d_head);
}
