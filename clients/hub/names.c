/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists are a few thousand names at most, and searched from their beginning.
 */
#include "clients/hub/names.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

bool hub_names_has(const struct hub_names *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->at[i], name))
            return true;
    return false;
}

void hub_names_add(struct hub_names *l, const char *name)
{
    if (hub_names_has(l, name))
        return;
    l->at = xrealloc(l->at, (l->n + 1) * sizeof *l->at);
    l->at[l->n++] = xstrdup(name);
}

void hub_names_release(struct hub_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i]);
    free(l->at);
    *l = (struct hub_names){0};
}
