/* SPDX-License-Identifier: Apache-2.0
 *
 * A short list, looked through from its beginning.
 */
#include "engine/graph/kept.h"

#include <string.h>

void kept_release(struct kept *k)
{
    for (int i = 0; i < k->n; i++)
        replay_free(k->at[i].replay);
    k->n = 0;
}

static struct kept_step *longest_unused(struct kept *k)
{
    struct kept_step *old = &k->at[0];
    for (int i = 1; i < k->n; i++)
        if (k->at[i].used_at < old->used_at)
            old = &k->at[i];
    return old;
}

static struct kept_step *find(struct kept *k, const int64_t *n)
{
    for (int i = 0; i < k->n; i++)
        if (memcmp(k->at[i].n, n, sizeof k->at[i].n) == 0)
            return &k->at[i];
    return NULL;
}

struct kept_step *kept_get(struct kept *k, const int64_t *n, bool *is_new)
{
    struct kept_step *s = find(k, n);
    *is_new = s == NULL;
    if (!s) {
        s = k->n < KEPT_MAX ? &k->at[k->n++] : longest_unused(k);
        replay_free(s->replay);
        *s = (struct kept_step){.replay = NULL};
        memcpy(s->n, n, sizeof s->n);
    }
    s->used_at = ++k->turn;
    return s;
}
