/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory is looked at twice: for how the adapter was made, where there is no model yet, and
 * for its numbers, each name and shape held to the model's.
 */
#include "engine/train/ancestor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/load/peft.h"
#include "engine/load/weights.h"
#include "engine/model/adapter_files.h"
#include "engine/model/saved.h"
#include "engine/train/state.h"

static int digest_file(const char *dir, const char *name, char text[SHA256_TEXT_BYTES],
                       struct err *e)
{
    char *path = path_join(dir, name);
    int64_t bytes;
    int fd = fs_open(path, e);
    int rc = fd < 0 ? -1 : made_digest(fd, name, text, &bytes, e);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* Of its two files, each by its own digest. */
static int digest_of(const char *dir, char text[SHA256_TEXT_BYTES], struct err *e)
{
    static const char *const name[] = {PEFT_CONFIG_NAME, PEFT_TENSORS_NAME};
    uint8_t digest[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char one[SHA256_TEXT_BYTES];
        if (digest_file(dir, name[i], one, e))
            return -1;
        sha256_add(&s, one, strlen(one));
    }
    sha256_end(&s, digest);
    sha256_text(digest, text);
    return 0;
}

/* ---- how it was made ----------------------------------------------------------------------- */

/* Matrices that it has whole. */
static int read_saves(const struct peft *p, struct train_lora *l, struct err *e)
{
    if (p->ties)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: ensure_weight_tying: a training goes on from adapters whose matrices "
                       "are apart",
                       PEFT_CONFIG_NAME);
    for (size_t i = 0; i < p->n_saved; i++) {
        unsigned one;
        const char *name = p->saved[i].end, *last = strrchr(name, '.');
        if (train_saved_parse(last ? last + 1 : name, &one, e))
            return -1;
        l->saves |= one;
    }
    return 0;
}

static int read_config(const char *dir, struct train_lora *l, struct err *e)
{
    struct peft p;
    int rc = peft_read(&p, dir, e);
    if (!rc && (p.n_rank || p.n_alpha || p.n_layer))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: rank_pattern, alpha_pattern and layers_to_transform: a training goes on "
                     "from adapters whose products are all alike",
                     PEFT_CONFIG_NAME);
    if (!rc && p.rank > TRAIN_RANK_MAX)
        rc = err_set(e, ERR_UNSUPPORTED, "%s: rank %lld: at most %d is trained", PEFT_CONFIG_NAME,
                     (long long)p.rank, TRAIN_RANK_MAX);
    if (!rc)
        *l = (struct train_lora){
            .rank = p.rank, .alpha = p.alpha, .is_rs = p.is_rs, .is_dora = p.is_dora};
    rc = rc || read_saves(&p, l, e) ? -1 : 0;
    peft_release(&p);
    return rc;
}

/* The product's name as a target: of "a.b.q_proj.lora_A.weight", "q_proj"; NULL: it is no A. */
static const char *product_of(const char *tensor, size_t *n)
{
    static const char tail[] = ".lora_A.weight";
    size_t len = strlen(tensor), end = sizeof tail - 1;
    if (len <= end || strcmp(tensor + len - end, tail) != 0)
        return NULL;
    const char *last = tensor + len - end, *from = train_target_name(tensor, len - end);
    *n = (size_t)(last - from);
    return from;
}

static int add_target(struct train_lora *l, const char *name, size_t n, struct arena *a,
                      struct err *e)
{
    for (int32_t i = 0; i < l->n_target; i++)
        if (strlen(l->target[i]) == n && memcmp(l->target[i], name, n) == 0)
            return 0;
    if (l->n_target == TRAIN_TARGET_MAX)
        return err_set(e, ERR_UNSUPPORTED, "%s: more than %d names of products", PEFT_TENSORS_NAME,
                       TRAIN_TARGET_MAX);
    l->target[l->n_target++] = arena_strndup(a, name, n);
    return 0;
}

/* Tensors of all experts of a layer are those of the config's parameters. */
static bool is_of_stack(const char *name, size_t n)
{
    return (n == sizeof TRAIN_EXPERTS - 1 && memcmp(name, TRAIN_EXPERTS, n) == 0) ||
           (n == sizeof "base_layer" - 1 && memcmp(name, "base_layer", n) == 0);
}

static int read_params(const char *dir, struct train_lora *l, struct arena *a, struct err *e)
{
    struct peft p;
    if (peft_read(&p, dir, e))
        return -1;
    int rc = 0;
    for (size_t i = 0; i < p.n_param && !rc; i++) {
        bool is_whole = strstr(p.param[i].end, TRAIN_EXPERTS) != NULL;
        const char *name =
            arena_printf(a, "%s%s", is_whole ? "" : TRAIN_EXPERTS ".", p.param[i].end);
        rc = add_target(l, name, strlen(name), a, e);
    }
    peft_release(&p);
    return rc;
}

static int read_targets(const char *dir, struct train_lora *l, struct arena *a, struct err *e)
{
    char *path = path_join(dir, PEFT_TENSORS_NAME);
    struct weights *w = weights_open_file(path, e);
    int rc = w ? read_params(dir, l, a, e) : -1;
    for (size_t i = 0; !rc && i < weights_count(w); i++) {
        size_t n;
        const char *name = product_of(weights_at(w, i)->t->name, &n);
        rc = name && !is_of_stack(name, n) ? add_target(l, name, n, a, e) : 0;
    }
    if (!rc && l->n_target == 0)
        rc = err_set(e, ERR_BAD_INPUT, "%s: holds no adapter", PEFT_TENSORS_NAME);
    if (w)
        weights_close(w);
    free(path);
    return rc;
}

int train_ancestor_read(const char *dir, struct train_ancestor *out, struct train_lora *l,
                        struct arena *a, struct err *e)
{
    *out = (struct train_ancestor){.dir = dir};
    return digest_of(dir, out->digest, e) || read_config(dir, l, e) || read_targets(dir, l, a, e)
               ? -1
               : 0;
}

/* ---- its numbers --------------------------------------------------------------------------- */

static int check_alike(const struct adapter_files *f, const struct train_subject *s, struct err *e)
{
    for (int32_t i = 0; i < s->model->n_lora; i++) {
        const struct adapter_halves *h = &f->at[i];
        bool is_trained = s->half_a[i] >= 0, is_there = adapter_halves_are_there(h);
        if (h->each)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %.200s: a training goes on from adapters that have one tensor for "
                           "all experts of a layer",
                           PEFT_TENSORS_NAME, h->param->name);
        if (is_trained != is_there)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %s is %s: a training goes on from adapters "
                           "that have the same products in all layers",
                           PEFT_TENSORS_NAME, h->param->name, is_trained ? "missing" : "there");
        if (is_there && (adapter_halves_rank(f, h) != s->lora.rank ||
                         adapter_files_scale(f, h) != train_lora_scale(&s->lora)))
            return err_set(e, ERR_BAD_INPUT, "%s: %s has another rank or scale than the training",
                           PEFT_TENSORS_NAME, h->param->name);
    }
    if (f->config.is_dora != s->lora.is_dora)
        return err_set(e, ERR_BAD_INPUT, "%s: use_dora: the training has it otherwise",
                       PEFT_CONFIG_NAME);
    for (int i = 0; i < SAVED_COUNT; i++)
        if (!f->saved[i] != !s->saved.is[i])
            return err_set(e, ERR_BAD_INPUT, "%s: %s of the adapter is %s", PEFT_TENSORS_NAME,
                           saved_word(s->model, (enum saved)i), f->saved[i] ? "there" : "missing");
    return 0;
}

/* A matrix that is whole, some rows at a time. */
static int put_saved(struct train_state *state, size_t i, const struct train_subject *s,
                     const struct adapter_files *f, struct err *e)
{
    const struct train_tensor *x = &state->on->list.at[i];
    enum saved which = x->param == s->saved.is[SAVED_HEAD] ? SAVED_HEAD : SAVED_EMBED;
    int64_t n = x->of->n, each = 256;
    float *rows = try_alloc((size_t)(each * x->of->k), sizeof *rows, x->name, e);
    int rc = rows ? 0 : -1;
    for (int64_t row = 0; row < n && !rc; row += each) {
        int64_t m = n - row < each ? n - row : each;
        rc = adapter_saved_read(f, which, row, m, rows, e) ||
             train_state_put(state, i, TRAIN_VALUE, row, m, rows, e);
    }
    mem_free(rows);
    return rc ? -1 : 0;
}

static int put(struct train_state *state, size_t i, const struct train_subject *s,
               const struct adapter_files *f, struct err *e)
{
    const struct train_tensor *x = &state->on->list.at[i];
    const struct adapter_halves *h = x->side == TRAIN_SELF ? NULL : &f->at[x->of->lora];
    int64_t dim[2];
    if (!h)
        return put_saved(state, i, s, f, e);
    train_state_shape(x, dim);
    float *half = x->side == TRAIN_MAGNITUDE ? adapter_magnitude_read(h, e)
                                             : adapter_half_read(f, h, x->side == TRAIN_HALF_B, e);
    int rc = half ? train_state_put(state, i, TRAIN_VALUE, 0, dim[0], half, e) : -1;
    mem_free(half);
    return rc;
}

static int load(const struct train_ancestor *from, const struct train_subject *s,
                struct train_state *state, struct err *e)
{
    char digest[SHA256_TEXT_BYTES];
    struct adapter_files f;
    if (digest_of(from->dir, digest, e))
        return -1;
    if (strcmp(digest, from->digest) != 0)
        return err_set(e, ERR_CORRUPT, "it is not what it was when the training began");
    int rc = adapter_files_init(&f, s->model, from->dir, e) || check_alike(&f, s, e) ? -1 : 0;
    for (size_t i = 0; !rc && i < s->tensors.list.n; i++)
        rc = put(state, i, s, &f, e);
    adapter_files_release(&f);
    return rc;
}

int train_ancestor_load(const struct train_ancestor *from, struct train_subject *s, struct err *e)
{
    struct train_state state;
    train_state_begin(&state, &s->tensors, s->stream);
    int rc = train_is_lead(&s->tensors.ranks) ? load(from, s, &state, e) : 0;
    if (train_state_end(&state, rc, e))
        return err_wrap(e, "the adapter that the training goes on from");
    return train_agree(&s->tensors.ranks, train_subject_refer(s, e), e);
}
