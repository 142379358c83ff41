/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a packed matrix has its inputs where their groups are not side by side: of
 * GPTQ with `desc_act`, of compressed-tensors with `actorder: group` (packed_weight.h). Inputs
 * sorted by group are what formats of groups hold.
 */
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/load/packed_layout.h"
#include "kernels/linear.h"

static bool is_in_order(const struct packed_weight *p)
{
    int64_t i = 0;
    while (i < p->k && p->group_of[i] == i / p->group)
        i++;
    return i == p->k;
}

/* Compressed-tensors' where no order was chosen. */
static bool is_unset(const struct packed_weight *p)
{
    int64_t i = 0;
    while (i < p->k && p->group_of[i] == -1)
        i++;
    return i == p->k && p->layout == &packed_layout_ct;
}

/* Inputs by their groups, of each as the file has them; none where one has more or less than its
 * inputs. */
static int sort_by_group(struct packed_weight *p, int64_t groups, struct err *e)
{
    int32_t *n = try_alloc((size_t)groups, sizeof *n, "the groups of inputs", e);
    p->order = n ? try_alloc((size_t)p->k, sizeof *p->order, "the order of inputs", e) : NULL;
    bool is_full = true;
    for (int64_t i = 0; p->order && i < p->k && is_full; i++) {
        int64_t g = p->group_of[i], at = g * p->group + n[g]++;
        is_full = at < linear_min((g + 1) * p->group, p->k);
        if (is_full)
            p->order[at] = (int32_t)i;
    }
    int rc = p->order ? 0 : -1;
    mem_free(n);
    if (is_full)
        return rc;
    mem_free(p->order);
    p->order = NULL;
    return rc;
}

int packed_order(struct packed_weight *p, const struct weight *group_of, struct err *e)
{
    int64_t groups = (p->k + p->group - 1) / p->group;
    const struct st_tensor *t = group_of->t;
    if (t->dtype != ST_I32 || t->rank != 1 || t->dim[0] != p->k)
        return packed_bad(group_of, e, "expected I32, a group for each input");
    p->group_of = try_alloc((size_t)p->k, sizeof *p->group_of, "the groups of inputs", e);
    if (!p->group_of || weight_read(group_of, 0, p->k, p->group_of, e))
        return -1;
    if (is_in_order(p) || is_unset(p)) {
        mem_free(p->group_of);
        p->group_of = NULL;
        return 0;
    }
    for (int64_t i = 0; i < p->k; i++)
        if (p->group_of[i] < 0 || p->group_of[i] >= groups)
            return err_set(e, ERR_BAD_INPUT,
                           "%s: %.200s: input %lld is of group %d, of which there are %lld",
                           weight_file_name(group_of), t->name, (long long)i, p->group_of[i],
                           (long long)groups);
    return sort_by_group(p, groups, e);
}
