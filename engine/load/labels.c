/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys are numbers in strings, in any order; each from 0 on must stand there once.
 */
#include "engine/load/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/config.h"
#include "engine/load/json.h"

enum { NAME_BYTES_MAX = 256 };

static int make_plain(struct labels *l, int64_t n)
{
    l->name = xcalloc((size_t)n, sizeof *l->name);
    for (; l->n < n; l->n++) {
        char name[32];
        snprintf(name, sizeof name, "LABEL_%d", l->n);
        l->name[l->n] = xstrdup(name);
    }
    return 0;
}

/* The number that a key says; -1: none of n. */
static int64_t number_of(const char *key, int64_t n)
{
    char *end;
    long long i = strtoll(key, &end, 10);
    return *key >= '0' && *key <= '9' && !*end && i < n ? i : -1;
}

static int put(struct labels *l, const struct json *m, struct err *e)
{
    int64_t i = number_of(json_key(m), l->n);
    const char *name;
    if (json_as_str(m, &name, e))
        return -1;
    if (i < 0 || l->name[i])
        return json_err(m, e, ERR_BAD_INPUT, "the %d labels must be numbered from 0 on", l->n);
    if (strlen(name) > NAME_BYTES_MAX)
        return json_err(m, e, ERR_TOO_LARGE, "a label of more than %d bytes", NAME_BYTES_MAX);
    l->name[i] = xstrdup(name);
    return 0;
}

int labels_init(struct labels *l, const struct json *root, struct err *e)
{
    struct json map = {.node = NULL}, m;
    int64_t n = 2;
    *l = (struct labels){.n = 0};
    if (json_opt(root, "id2label", JSON_OBJECT, &map, e) ||
        json_opt_int(root, "num_labels", 1, CONFIG_LABEL_MAX, &n, e))
        return -1;
    if (!map.node)
        return make_plain(l, n);
    size_t count = json_count(&map);
    if (count < 1 || count > CONFIG_LABEL_MAX)
        return json_err(&map, e, ERR_UNSUPPORTED, "%zu labels; 1 to %d can be", count,
                        CONFIG_LABEL_MAX);
    l->name = xcalloc(count, sizeof *l->name);
    l->n = (int32_t)count;
    json_each(m, map)
    {
        if (put(l, &m, e))
            return -1;
    }
    return 0;
}

void labels_release(struct labels *l)
{
    for (int32_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (struct labels){.n = 0};
}
