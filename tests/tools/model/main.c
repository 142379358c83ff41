/* SPDX-License-Identifier: Apache-2.0
 *
 * make_model DIR [--preset NAME] [--family NAME] [--hidden N] ...
 *
 * Writes a model directory with random weights, for tests and benchmarks: the shape of a real model
 * (--preset), or any other. With a tokenizer of bytes, so that the program can run it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/opt.h"
#include "engine/load/path.h"
#include "tests/tools/model/model.h"

struct options {
    struct shape shape;
    int64_t n_shard, seed;
    bool has_tokenizer, has_weights;
};

#define AT(field)   offsetof(struct options, field)
#define DIM(f)      OPT_INT, NULL, 0, 1 << 28, "N", f
#define PRESETS     "tiny|stories-15m|smollm-135m|qwen2-0.5b|llama-1.2b|gpt2-124m|minilm-22m"
#define FAMILY_LIST "llama|mistral|qwen2|qwen3|gpt2|bert"

static const struct opt_row rows[] = {
    {"Shape", "preset", 0, OPT_CHOICE, "tiny", 0, 0, PRESETS, "what the rest changes",
     AT(shape.preset)},
    {NULL, "family", 0, OPT_CHOICE, NULL, 0, 0, FAMILY_LIST, "family, if not the preset's",
     AT(shape.family)},
    {NULL, "vocab", 0, DIM("tokens"), AT(shape.n_vocab)},
    {NULL, "hidden", 0, DIM("width of the residual stream"), AT(shape.d_model)},
    {NULL, "ff", 0, DIM("width of the feed-forward"), AT(shape.d_ff)},
    {NULL, "layers", 0, DIM("blocks"), AT(shape.n_layer)},
    {NULL, "heads", 0, DIM("heads of queries"), AT(shape.n_head)},
    {NULL, "kv-heads", 0, DIM("heads of keys and values"), AT(shape.n_kv_head)},
    {NULL, "head-dim", 0, DIM("width of a head, if not hidden over heads"), AT(shape.d_head)},
    {NULL, "ctx", 0, DIM("positions"), AT(shape.max_pos)},
    {NULL, "window", 0, DIM("sliding window"), AT(shape.window)},
    {NULL, "rope-theta", 0, OPT_DOUBLE, NULL, 1, 1e12, "X", "base of the rotary frequencies",
     AT(shape.theta)},
    {NULL, "rope", 0, OPT_CHOICE, NULL, 0, 0, "default|linear|dynamic|llama3|yarn|longrope",
     "kind of rope_scaling", AT(shape.rope)},
    {NULL, "tied", 0, OPT_BOOL, NULL, 0, 0, NULL, "the head is the embedding", AT(shape.is_tied)},
    {NULL, "untied", 0, OPT_BOOL, NULL, 0, 0, NULL, "the head is its own", AT(shape.is_untied)},
    {NULL, "bias", 0, OPT_BOOL, NULL, 0, 0, NULL, "biases where the family can have them",
     AT(shape.has_bias)},
    {"Files", "dtype", 0, OPT_CHOICE, "bf16", 0, 0, "f32|bf16|f16", "type of the weights",
     AT(shape.dtype)},
    {NULL, "shards", 0, OPT_INT, "1", 1, 1000, "N", "files", AT(n_shard)},
    {NULL, "seed", 0, OPT_INT, "1", 0, 1e15, "N", "of the weights", AT(seed)},
    {NULL, "tokenizer", 0, OPT_BOOL, "true", 0, 0, NULL, "write a tokenizer", AT(has_tokenizer)},
    {NULL, "weights", 0, OPT_BOOL, "true", 0, 0, NULL, "write weights; else the shape alone",
     AT(has_weights)},
};

static const struct opt_cmd cmd = {
    "make_model",
    "DIR",
    "Writes a model directory with random weights.",
    1,
    1,
    rows,
    sizeof rows / sizeof rows[0],
};

int text_put(const char *dir, const char *name, struct buf *text, struct err *e)
{
    if (buf_check(text, name, e))
        return -1;
    char *path = path_join(dir, name);
    int rc = aside_put(path, text->data, text->len, e);
    free(path);
    return rc;
}

static enum st_dtype file_dtype(const char *name)
{
    return strcmp(name, "f32") == 0 ? ST_F32 : strcmp(name, "f16") == 0 ? ST_F16 : ST_BF16;
}

static int make(const char *dir, const struct options *o, struct err *e)
{
    struct config c;
    struct buf text;
    struct made *t = NULL;
    int rc = -1;
    buf_init(&text, 1 << 20);
    if (fs_mkdirs(dir, e) || shape_config(&o->shape, &text, &c, e) ||
        text_put(dir, "config.json", &text, e))
        goto out;
    if (o->has_tokenizer && tokenizer_make(dir, &c, e))
        goto out;
    t = xcalloc((size_t)tensors_max(&c), sizeof *t);
    int64_t n = tensors_list(&c, t), n_param = 0;
    for (int64_t i = 0; i < n; i++)
        n_param += t[i].dim[0] * (t[i].rank == 2 ? t[i].dim[1] : 1);
    if (o->has_weights &&
        weights_make(dir, t, n, file_dtype(o->shape.dtype), o->n_shard, (uint64_t)o->seed, e))
        goto out;
    printf("%s: %s, %lld tensors, %lld parameters, %s\n", dir, c.architecture, (long long)n,
           (long long)n_param, o->shape.dtype);
    rc = 0;
out:
    free(t);
    buf_release(&text);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.n_shard = 1};
    struct opt opt;
    struct err e = ERR_INIT;
    int rc = opt_init(&opt, &cmd, &o, argc - 1, (const char *const *)argv + 1, &e);
    if (rc == 0 && opt.wants_help) {
        struct buf page;
        buf_init(&page, 1 << 16);
        opt_help(&cmd, OPT_PAGE_COLUMNS, &page);
        fwrite(page.data, 1, page.len, stdout);
        buf_release(&page);
    } else if (rc == 0) {
        rc = make(opt.arg[0], &o, &e);
    }
    if (rc)
        fprintf(stderr, "make_model: %s\n", e.msg);
    opt_release(&opt);
    return rc ? 2 : 0;
}
