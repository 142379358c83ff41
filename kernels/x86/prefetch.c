/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts are taken group by group, all products of one before those of the next: an adapter's stand
 * one behind the other in memory and are one run.
 */
#include "kernels/x86/prefetch.h"

enum { BYTES_MAX = 16 << 20 }; /* half of a last-level cache */

static int64_t n_part(const struct prefetch *s)
{
    return s->of->n_group * s->of->n_table;
}

static const struct k_lora_group *part_at(const struct prefetch *s, int64_t i)
{
    return &s->of->group[i % s->of->n_table * s->of->stride + i / s->of->n_table];
}

static int64_t part_bytes(const struct prefetch *s, int64_t i)
{
    const struct k_lora_group *g = part_at(s, i);
    return g->stored ? (int64_t)g->stored_bytes : 0;
}

void prefetch_init(struct prefetch *s, const struct k_prefetch *of, int64_t n_share)
{
    *s = (struct prefetch){.of = of, .n_share = n_share};
    for (int64_t i = 0; of->group && i < n_part(s); i++)
        s->bytes += part_bytes(s, i);
    s->bytes = linear_min(s->bytes, BYTES_MAX);
}

struct prefetch_share prefetch_share(const struct prefetch *s, int64_t i)
{
    if (s->bytes == 0)
        return (struct prefetch_share){0, 0};
    return (struct prefetch_share){s->bytes * i / s->n_share, s->bytes * (i + 1) / s->n_share};
}

const char *prefetch_cut(struct prefetch *s, struct prefetch_share *share, int64_t *bytes)
{
    if (share->lo < s->first)
        s->part = s->first = 0;
    while (s->first + part_bytes(s, s->part) <= share->lo)
        s->first += part_bytes(s, s->part++);
    int64_t i = s->part, want = share->hi - share->lo, have = s->first + part_bytes(s, i);
    const char *at = (const char *)part_at(s, i)->stored + (share->lo - s->first);
    for (have -= share->lo; have < want && i + 1 < n_part(s); have += part_bytes(s, i)) {
        const char *end = (const char *)part_at(s, i)->stored + part_bytes(s, i);
        if (end != part_at(s, ++i)->stored)
            break;
    }
    *bytes = linear_min(have, want);
    share->lo += *bytes;
    return at;
}
