/* SPDX-License-Identifier: Apache-2.0
 *
 * One file, whose tensors are the family's rows; some numbers are in memory at a time.
 */
#include "engine/model/first.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/load/json.h"
#include "engine/load/path.h"
#include "engine/load/small_files.h"
#include "engine/load/st_writer.h"
#include "engine/model/model.h"
#include "engine/model/stored.h"
#include "kernels/float16.h"

enum { PIECE = 1 << 16, NAME_BYTES = 256, RNG_WEIGHTS = 1 << 24 /* the first stream of them */ };

static const double EMBED_WIDTH = 0.02, EMBED_WIDTH_MAX = 1;

struct first {
    struct model *m; /* owned: names and shapes, no memory */
    struct st_writer *out;
    enum k_type type;
    uint64_t seed;
    bool *is_transposed; /* owned: [n_param] */
    double *width;       /* owned: [n_param]: standard deviation, or the value of a plain vector */
    double embed;        /* the standard deviation of embeddings */
};

static double width_of(const struct first *f, enum slot s, const struct param *p)
{
    const struct config *c = &f->m->cfg;
    double inputs = 1 / sqrt((double)(p->n_tap ? p->n_tap : p->k));
    switch (s) {
    case SLOT_FINAL_NORM:
    case SLOT_ATTN_NORM:
    case SLOT_MLP_NORM:
    case SLOT_ATTN_OUT_NORM:
    case SLOT_MLP_OUT_NORM:
    case SLOT_Q_NORM:
    case SLOT_K_NORM:
    case SLOT_Q_LATENT_NORM:
    case SLOT_KV_LATENT_NORM:
    case SLOT_PLE_NORM:
    case SLOT_PLE_OUT_NORM:
    case SLOT_TRACK_NORM:
    case SLOT_LAUREL_NORM:
        return c->norm_plus_one ? 0 : 1;
    case SLOT_STATE_NORM:
    case SLOT_STATE_DT_BIAS:
    case SLOT_SCAN_SKIP:
    case SLOT_TRACK_SCALE:
        return 1;
    case SLOT_TOKEN_EMBED:
    case SLOT_POS_EMBED:
    case SLOT_PLE_EMBED:
        return f->embed;
    case SLOT_O:
    case SLOT_CONV_OUT:
    case SLOT_STATE_OUT:
    case SLOT_DOWN:
    case SLOT_PLE_UP:
    case SLOT_EXPERT_DOWN:
    case SLOT_SHARED_DOWN:
        return inputs / sqrt(2 * (double)c->n_layer);
    default:
        return p->is_vector && !p->n_tap ? 0 : inputs;
    }
}

static void describe(struct first *f)
{
    struct spec_walk w = spec_walk_begin(&f->m->cfg);
    const struct param *p = f->m->param;
    f->is_transposed = xcalloc((size_t)f->m->n_param + 1, sizeof *f->is_transposed);
    f->width = xcalloc((size_t)f->m->n_param + 1, sizeof *f->width);
    for (const struct spec_row *r; (r = spec_walk_next(&w)); p++) {
        f->is_transposed[p->index] = r->is_transposed;
        f->width[p->index] = width_of(f, r->slot, p);
    }
}

static const char *prefix_of(const struct first *f)
{
    return spec_prefix(&f->m->cfg)[0];
}

static int declare(struct first *f, struct err *e)
{
    int rc = st_writer_meta(f->out, "format", "pt", e);
    for (int32_t i = 0; i < f->m->n_param && !rc; i++) {
        const struct param *p = &f->m->param[i];
        int64_t dim[3];
        int rank = stored_shape(p, f->is_transposed[i], dim);
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s%s", prefix_of(f), p->name);
        rc = st_writer_add(f->out, name, st_dtype_of(f->type), rank, dim, e);
    }
    return rc;
}

static float number(const struct first *f, const struct param *p, uint64_t at)
{
    const double whole = sqrt(12); /* the width of a uniform draw whose deviation is 1 */
    double width = f->width[p->index];
    if (p->is_vector && !p->n_tap)
        return (float)width;
    return (float)((rng_unit(f->seed, RNG_WEIGHTS + (uint64_t)p->index, at) - 0.5) * whole * width);
}

static int write_tensor(struct first *f, const struct param *p, struct err *e)
{
    size_t size = f->type == K_F32 ? sizeof(float) : sizeof(uint16_t);
    uint64_t all = (uint64_t)(p->n * p->k);
    unsigned char piece[PIECE];
    size_t n = 0;
    for (uint64_t i = 0; i < all; i++) {
        float x = number(f, p, i);
        uint16_t half = bf16_from_f32(x);
        memcpy(piece + n, f->type == K_F32 ? (const void *)&x : &half, size);
        n += size;
        if ((n == sizeof piece || i + 1 == all) && st_writer_write(f->out, piece, n, e))
            return -1;
        n %= sizeof piece;
    }
    return 0;
}

static int write_file(struct first *f, const char *dir, struct err *e)
{
    char *path = path_join(dir, "model.safetensors");
    const struct st_tensor *next;
    int rc = declare(f, e) || st_writer_open(f->out, path, e);
    while (!rc && (next = st_writer_next(f->out)))
        rc = write_tensor(f, model_find(f->m, next->name + strlen(prefix_of(f))), e);
    if (!rc)
        rc = st_writer_commit(f->out, e);
    free(path);
    return rc ? -1 : 0;
}

static int write_dir(struct first *f, const char *shape, const char *to, struct err *e)
{
    char *dir = fs_temp_dir(to, e);
    if (!dir)
        return -1;
    int rc = write_file(f, dir, e) || small_files_copy(shape, dir, e) || made_list(dir, e) ||
                     fs_sync_dir(dir, e) || fs_rename(dir, to, e)
                 ? err_wrap(e, "%s", to)
                 : 0;
    if (rc)
        fs_remove_tree(dir, NULL);
    free(dir);
    return rc;
}

/* It is no part of what the model is, so `struct config` does not have it. */
static int read_embed(struct first *f, const char *shape, struct err *e)
{
    char *path = path_join(shape, "config.json");
    struct json_doc *doc = json_read(path, "config.json", &json_rules_config, e);
    free(path);
    if (!doc)
        return -1;
    struct json root = json_root(doc), width = json_member(&root, "initializer_range");
    f->embed = EMBED_WIDTH;
    int rc = json_opt_num(&root, "initializer_range", &f->embed, e);
    if (!rc && !(f->embed > 0 && f->embed <= EMBED_WIDTH_MAX))
        rc = json_err(&width, e, ERR_BAD_INPUT, "expected a number above 0, up to %g, found %g",
                      EMBED_WIDTH_MAX, f->embed);
    json_free(doc);
    return rc;
}

int model_first_write(const char *shape, enum k_type type, uint64_t seed, const char *to,
                      struct err *e)
{
    const struct model_options mo = {.type = type, .kv_type = -1};
    struct first f = {.type = type, .seed = seed};
    struct config cfg;
    if (config_load(&cfg, shape, e) || read_embed(&f, shape, e))
        return err_wrap(e, "%s", shape);
    if (cfg.is_encoder)
        return err_set(e, ERR_UNSUPPORTED, "%s: an encoder does not learn to go on with a text",
                       shape);
    if (cfg.is_wrapped)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: only the text part of %s is known here: begin a model of its family",
                       shape, cfg.architecture);
    if (cfg.has_expert_bias || cfg.has_stacked_experts)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s has all experts of a layer in one tensor, which is not begun here",
                       shape, cfg.architecture);
    f.m = model_new(&cfg, &mo, NULL, e);
    if (!f.m)
        return -1;
    f.out = st_writer_new();
    describe(&f);
    int rc = write_dir(&f, shape, to, e);
    st_writer_free(f.out);
    model_free(f.m);
    free(f.is_transposed);
    free(f.width);
    return rc;
}
