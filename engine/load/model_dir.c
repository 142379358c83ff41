/* SPDX-License-Identifier: Apache-2.0
 *
 * See model_dir.h.
 */
#include "engine/load/model_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"

static int check_dir(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st))
        return err_sys(e, "the model directory cannot be read");
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_BAD_INPUT,
                       "not a directory; a model is a directory with config.json, "
                       "tokenizer.json and *.safetensors");
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

static int read_all(struct model_dir *d, bool is_random, struct err *e)
{
    if (check_dir(d->path, e) || config_load(&d->config, d->path, e) || read_generation(d, e) ||
        tokenizer_config_init(&d->tokenizer, d->path, e))
        return -1;
    if (path_exists(d->path, "tokenizer.json"))
        d->tokenizer_path = path_join(d->path, "tokenizer.json");
    d->weights = is_random ? weights_random(e) : weights_open(d->path, e);
    return d->weights ? 0 : -1;
}

static int init(struct model_dir *d, const char *path, bool is_random, struct err *e)
{
    *d = (struct model_dir){.path = xstrdup(path)};
    if (read_all(d, is_random, e) == 0)
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
    tokenizer_config_release(&d->tokenizer);
    free(d->tokenizer_path);
    free(d->path);
    *d = (struct model_dir){.path = NULL};
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
        const struct st_tensor *t = weights_at(d->weights, i)->t;
        uint64_t n = (uint64_t)st_tensor_count(t);
        s->n_param += n;
        s->n_param_embed += is_embedding(t->name) ? n : 0;
    }
    if (c->family != FAMILY_BERT)
        s->kv_bytes = (uint64_t)(2 * 2 * c->n_layer * c->n_kv_head * c->d_head);
}
