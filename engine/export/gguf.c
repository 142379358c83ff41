/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf.h. Tensors come in the order of the model's parameters.
 */
#include "engine/export/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/export/gguf_keys.h"
#include "engine/export/gguf_vocab.h"
#include "engine/export/gguf_writer.h"
#include "engine/load/gguf_weights.h"
#include "engine/model/export.h"
#include "engine/model/stored.h"
#include "kernels/coded.h"
#include "kernels/format.h"

enum { PIECE_BYTES = 1 << 20, CODES_VERSION = 2 };

/* Numbers of kinds in files (engine/load/ggml_type.c), and of whole files of them
 * (general.file_type). */
enum kind { KIND_F32 = 0, KIND_F16 = 1, KIND_Q4_0 = 2, KIND_Q8_0 = 8, KIND_BF16 = 30 };

static const struct {
    enum k_type type;
    enum kind kind;
    uint32_t file;
} kind_row[] = {{K_F32, KIND_F32, 0},
                {K_F16, KIND_F16, 1},
                {K_BF16, KIND_BF16, 32},
                {K_INT4, KIND_Q4_0, 2},
                {K_INT8G, KIND_Q8_0, 7}};

struct tensor {
    const struct param *p;     /* borrowed */
    const struct weight *from; /* borrowed */
    enum k_type type;          /* as it is written */
    bool is_changed;           /* by the adapter */
    int32_t d_head;            /* rows are permuted in heads of so many; 0: they are not */
};

struct job {
    const struct model_dir *from;
    const struct gguf_export_options *opt;
    struct model *shape;       /* owned */
    struct model_merge *merge; /* owned; NULL: no adapter */
    struct export_change change;
    struct gguf_arch arch;
    struct gguf_writer *out; /* owned */
    struct tensor *tensor;   /* owned: [n_param] */
    float *factors;          /* owned: of rotary positions; NULL: none */
    float *x;                /* owned: rows at hand */
    size_t x_bytes;
};

/* ---- what is written ----------------------------------------------------------------------- */

/* As it is, where a kind has such numbers, and inputs in their own order. */
static enum k_type stored_type(const struct weight *w)
{
    enum k_type coded = weight_coded(w);
    bool is_kept = (coded == K_INT4 || coded == K_INT8G) && !weight_order(w);
    return is_kept ? coded : weight_k_type(w);
}

static int plan_tensor(struct job *j, struct tensor *t, const struct param *p, struct err *e)
{
    const int64_t dim[2] = {p->n, p->k};
    *t = (struct tensor){.p = p, .type = K_F32};
    if (stored_want(j->from->weights, &j->from->config, p->name, p->is_vector ? 1 : 2, dim,
                    &t->from, e))
        return -1;
    t->is_changed = j->merge && j->change.has(j->change.ctx, p);
    if (!p->is_vector)
        t->type = j->opt->type >= 0 ? (enum k_type)j->opt->type : stored_type(t->from);
    if (t->is_changed && coded_has(t->type))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: it is packed in few bits, which would lose what the adapter changes: "
                       "give --type f16, or take the model that it was made of",
                       p->name);
    return 0;
}

static int plan(struct job *j, struct err *e)
{
    struct model_options mo = {.type = -1, .kv_type = -1, .files = j->from->weights};
    if (gguf_arch_of(&j->from->config, &j->arch, e))
        return -1;
    if (j->from->config.is_encoder)
        return err_set(e, ERR_UNSUPPORTED, "models of vectors and labels are not written as GGUF");
    j->shape = model_new(&j->from->config, &mo, NULL, e);
    if (!j->shape || base_id_read(j->from, &j->shape->base, e))
        return -1;
    if (j->opt->adapter) {
        j->merge = model_merge_new(j->shape, j->opt->adapter, e);
        if (!j->merge)
            return -1;
        j->change = model_merge_change(j->merge);
    }
    j->tensor = xcalloc((size_t)j->shape->n_param + 1, sizeof *j->tensor);
    for (int32_t i = 0; i < j->shape->n_param; i++)
        if (plan_tensor(j, &j->tensor[i], &j->shape->param[i], e))
            return -1;
    return 0;
}

static enum kind kind_of(enum k_type type)
{
    for (size_t i = 0; i < sizeof kind_row / sizeof *kind_row; i++)
        if (kind_row[i].type == type)
            return kind_row[i].kind;
    BUG("no kind of %d", type);
}

/* The kind of most of the layers' numbers. */
static void put_file_type(struct job *j)
{
    int64_t n[sizeof kind_row / sizeof *kind_row] = {0};
    size_t most = 0;
    for (int32_t i = 0; i < j->shape->n_param; i++)
        for (size_t k = 0; k < sizeof kind_row / sizeof *kind_row; k++)
            if (j->tensor[i].type == kind_row[k].type && j->tensor[i].p->lora >= 0)
                n[k] += param_half_rows(j->tensor[i].p, true, 1) * j->tensor[i].p->k;
    for (size_t k = 0; k < sizeof kind_row / sizeof *kind_row; k++)
        most = n[k] > n[most] ? k : most;
    gguf_writer_u32(j->out, "general.file_type", kind_row[most].file);
    if (coded_has(kind_row[most].type))
        gguf_writer_u32(j->out, "general.quantization_version", CODES_VERSION);
}

/* The experts of a layer stand behind each other, here and in the one tensor that they become. */
static int declare_tensor(struct job *j, struct tensor *t, struct err *e)
{
    const struct tensor *last = j->tensor + j->shape->n_param;
    const int64_t n_expert = j->from->config.n_expert, stack[3] = {n_expert, t->p->n, t->p->k};
    char name[ST_MAX_NAME_BYTES];
    bool is_permuted;
    int64_t expert;
    if (!gguf_tensor_name(t->p->name, name, &is_permuted, &expert))
        return err_set(e, ERR_UNSUPPORTED, "%s: GGUF has no name for it", t->p->name);
    t->d_head = is_permuted && j->arch.is_permuted ? j->from->config.d_head : 0;
    for (int64_t i = 1; expert == 0 && i < n_expert && t + i < last; i++)
        if (t[i].type != t->type)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: experts of a layer are in other numbers than its first, which GGUF "
                           "has no place for: give --type f16",
                           t[i].p->name);
    if (expert < 0)
        gguf_writer_add(j->out, name, kind_of(t->type), t->p->is_vector ? 1 : 2, stack + 1);
    else if (expert == 0)
        gguf_writer_add(j->out, name, kind_of(t->type), 3, stack);
    return 0;
}

static int declare(struct job *j, struct err *e)
{
    for (int32_t i = 0; i < j->shape->n_param; i++)
        if (declare_tensor(j, &j->tensor[i], e))
            return -1;
    if (j->factors) {
        const int64_t dim[1] = {j->from->config.d_head / 2};
        gguf_writer_add(j->out, "rope_freqs.weight", KIND_F32, 1, dim);
    }
    return 0;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static int reserve(struct job *j, size_t bytes, struct err *e)
{
    if (bytes <= j->x_bytes)
        return 0;
    mem_free(j->x);
    j->x = try_alloc(1, bytes, "rows of a tensor", e);
    j->x_bytes = j->x ? bytes : 0;
    return j->x ? 0 : -1;
}

/* Rows [row, row + n) of the source. */
/* What is more would be no number any more. */
static int check_f16(const float *x, int64_t n, struct err *e)
{
    const float most = k_format(K_F16)->most;
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] <= most && x[i] >= -most))
            return err_set(e, ERR_UNSUPPORTED, "%g is more than f16 holds, %g: take another --type",
                           (double)x[i], (double)most);
    return 0;
}

static int write_rows(struct job *j, const struct tensor *t, int64_t row, int64_t n, struct err *e)
{
    int64_t len = n * t->p->k;
    if (coded_has(t->type))
        return weight_read_coded(t->from, row, 0, len, j->x, e) ||
               gguf_writer_write(j->out, j->x, (size_t)coded_bytes(t->type, len), e);
    if (weight_read_f32(t->from, row, n, j->x, e) ||
        (t->is_changed && j->change.fill(j->change.ctx, t->p, false, row, n, j->x, e)))
        return -1;
    if (t->type == K_F16 && check_f16(j->x, len, e))
        return -1;
    return gguf_writer_write(j->out, model_export_narrow(j->x, len, t->type),
                             (size_t)len * k_type_bytes(t->type), e);
}

static int write_tensor(struct job *j, const struct tensor *t, struct err *e)
{
    int64_t row_bytes = t->p->k * (int64_t)sizeof(float), step = PIECE_BYTES / row_bytes + 1;
    step = t->d_head ? 1 : step < t->p->n ? step : t->p->n;
    if (reserve(j, (size_t)(step * row_bytes) + CODED_BYTES_MAX, e))
        return -1;
    for (int64_t at = 0; at < t->p->n; at += step) {
        int64_t n = t->p->n - at < step ? t->p->n - at : step;
        if (write_rows(j, t, t->d_head ? gguf_row_at(at, t->d_head) : at, n, e))
            return err_wrap(e, "%s", t->p->name);
    }
    return 0;
}

static int write_all(struct job *j, struct err *e)
{
    for (int32_t i = 0; i < j->shape->n_param; i++)
        if (write_tensor(j, &j->tensor[i], e))
            return -1;
    size_t n = (size_t)j->from->config.d_head / 2;
    return j->factors ? gguf_writer_write(j->out, j->factors, n * sizeof *j->factors, e) : 0;
}

int gguf_export(const struct model_dir *from, const char *to, const struct gguf_export_options *o,
                uint64_t *bytes, struct err *e)
{
    struct job j = {.from = from, .opt = o};
    struct stat st;
    if (stat(to, &st) == 0 || errno != ENOENT)
        return err_set(e, ERR_EXISTS, "%s: is there already", to);
    int rc = plan(&j, e);
    j.out = rc ? NULL : gguf_writer_new();
    if (!rc)
        rc = gguf_keys_put(j.out, &from->config, &j.factors, e);
    if (!rc) {
        put_file_type(&j);
        rc = gguf_vocab_put(j.out, from, o->tokenizer, e) || declare(&j, e) ||
                     gguf_writer_open(j.out, to, e) || write_all(&j, e) ||
                     gguf_writer_commit(j.out, e)
                 ? -1
                 : 0;
    }
    if (!rc)
        *bytes = gguf_writer_bytes(j.out);
    gguf_writer_free(j.out);
    model_merge_free(j.merge);
    model_free(j.shape);
    free(j.tensor);
    mem_free(j.factors);
    mem_free(j.x);
    return rc ? err_wrap(e, "%s", from->path) : 0;
}
