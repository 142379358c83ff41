/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over the matrices asks for each, a second gives those their orders that have them.
 */
#include "engine/model/formats.h"

#include "engine/load/weights.h"
#include "engine/model/order.h"
#include "engine/model/stored.h"
#include "kernels/coded.h"
#include "kernels/format.h"
#include "kernels/q8.h"

static int find(const struct model *m, const struct model_options *o, const struct spec_row *r,
                const struct param *p, const struct weight **out, struct err *e)
{
    int64_t dim[2] = {r->is_transposed ? p->k : p->n, r->is_transposed ? p->n : p->k};
    return stored_want(o->files, &m->cfg, p->name, 2, dim, out, e);
}

/* Whether codes whose inputs have an order of their own can be taken: what multiplies the matrix is
 * op linear alone, which brings its rows into it. */
static bool takes_order(const struct model_options *o, const struct spec_row *r)
{
    return r->takes_lora && !r->is_each && !r->is_transposed && !o->is_trained;
}

/* As the files have it, in codes where they are some of a format's; bf16 where there are none. */
static int stored_format(const struct model *m, const struct model_options *o,
                         const struct spec_row *r, const struct param *p, enum k_type *out,
                         struct err *e)
{
    const struct weight *w;
    *out = K_BF16;
    if (!o->files)
        return 0;
    if (find(m, o, r, p, &w, e))
        return -1;
    *out = weight_k_type(w);
    if (weight_coded(w) != K_F32 && !r->is_transposed && !o->is_trained &&
        (!weight_order(w) || takes_order(o, r)))
        *out = weight_coded(w);
    return 0;
}

/* A router chooses, a row's gate is one number, a classifier ends in few numbers, and a text's
 * vector goes through little: they keep theirs where others are made codes. */
static bool keeps_numbers(enum slot s)
{
    return s == SLOT_ROUTER || s == SLOT_SHARED_WEIGHT || s == SLOT_POOLER ||
           s == SLOT_CLASSIFIER || s == SLOT_DENSE || s == SLOT_DENSE_2;
}

static int pick(const struct model *m, const struct model_options *o, const struct spec_row *r,
                struct param *p, struct err *e)
{
    enum k_type stored;
    if (p->is_vector)
        return 0;
    p->w.type = (enum k_type)o->type;
    if (o->type >= 0 && !(keeps_numbers(r->slot) && format_is_frozen(p->w.type)))
        return 0;
    if (stored_format(m, o, r, p, &stored, e))
        return -1;
    p->w.type = o->like ? o->like->param[p->index].w.type : stored;
    if (o->is_trained && format_is_frozen(p->w.type))
        p->w.type = format_is_frozen(stored) ? K_BF16 : stored;
    return 0;
}

/* Whether a format has a tensor's codes as they are. */
static bool has_codes(enum k_type type, const struct weight *w)
{
    return coded_has(type) && type == weight_coded(w);
}

bool formats_keep_codes(const struct param *p, const struct weight *w)
{
    return has_codes(p->w.type, w) && (!weight_order(w) || p->order);
}

/* Where codes are kept whose inputs have an order of their own, the matrix has it. */
static int pick_order(struct model *m, const struct model_options *o, const struct spec_row *r,
                      struct param *p, struct err *e)
{
    const struct weight *w;
    if (p->is_vector || !coded_has(p->w.type) || !takes_order(o, r) || !o->files ||
        !weights_are_packed(o->files))
        return 0;
    if (find(m, o, r, p, &w, e))
        return -1;
    return weight_order(w) && has_codes(p->w.type, w) ? model_order_add(m, p, weight_order(w), e)
                                                      : 0;
}

int formats_pick(struct model *m, const struct model_options *o, struct err *e)
{
    struct spec_walk w = spec_walk_begin(&m->cfg);
    struct param *p = m->param;
    for (const struct spec_row *r; (r = spec_walk_next(&w)); p++)
        if (pick(m, o, r, p, e))
            return -1;
    w = spec_walk_begin(&m->cfg);
    p = m->param;
    for (const struct spec_row *r; (r = spec_walk_next(&w)); p++)
        if (pick_order(m, o, r, p, e))
            return -1;
    for (int32_t i = 0; i < m->n_param; i++)
        m->param[i].reads_q8 = o->is_int8 && !m->param[i].is_vector && q8_has(m->param[i].w.type);
    return 0;
}

enum k_type model_main_type(const struct model *m)
{
    int64_t n[K_TYPE_COUNT] = {0};
    enum k_type most = K_F32;
    for (int32_t i = 0; i < m->n_param; i++)
        if (!m->param[i].is_vector)
            n[m->param[i].w.type] += m->param[i].n * m->param[i].k;
    for (int t = 0; t < K_TYPE_COUNT; t++)
        most = n[t] > n[most] ? (enum k_type)t : most;
    return most;
}

struct model_options model_options_trained(const struct model *served, struct weights *files)
{
    return (struct model_options){.type = -1,
                                  .is_trained = true,
                                  .like = served,
                                  .files = files,
                                  .kv_type = (int)served->kv_type,
                                  .ctx = served->ctx};
}
