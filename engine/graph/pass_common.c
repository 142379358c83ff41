/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts that compute the same from the same: the rows that q, k and v each had rounded.
 */
#include <string.h>

#include "engine/base/map.h"
#include "engine/graph/passes.h"

struct key {
    int32_t op, in[OP_IN_MAX];
    unsigned char attr[OP_ATTR_BYTES];
};

static struct key key_of(const struct rewrite *r, const struct op_node *n)
{
    struct key k;
    memset(&k, 0, sizeof k);
    k.op = (int32_t)n->op;
    for (int j = 0; j < OP_IN_MAX; j++)
        k.in[j] = j < n->n_in ? r->map[n->in[j]] : -1;
    memcpy(k.attr, n->attr, sizeof k.attr);
    return k;
}

int graph_pass_common(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    struct map seen;
    int rc = 0;
    map_init(&seen);
    rewrite_init(&r, in, out, PASS_common);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        const struct op_node *n = &in->node.at[i].op;
        struct key k = key_of(&r, n);
        const struct op_node *first = map_get(&seen, &k, sizeof k);
        if (first && !op_get(n->op)->has_effect) {
            for (int o = 0; o < n->n_out; o++)
                r.map[n->out[o]] = r.map[first->out[o]];
            continue;
        }
        rc = rewrite_copy(&r, i, e);
        map_put(&seen, &k, sizeof k, (void *)(uintptr_t)n);
    }
    rewrite_finish(&r);
    map_release(&seen);
    return rc;
}
