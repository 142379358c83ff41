/* SPDX-License-Identifier: Apache-2.0
 *
 * A repository that a hub lists: lines of names, an empty line, and the text that its index of
 * weights has. What is picked are names that were listed, each once.
 */
#include <stdlib.h>
#include <string.h>

#include "clients/hub/pick.h"
#include "engine/base/mem.h"
#include "tests/fuzz/fuzz.h"

enum { LONGEST = 16 << 10, NAMES_MAX = 256 };

struct rest {
    const char *text;
    size_t n;
};

static int read_rest(void *ctx, const char *name, struct buf *out, struct err *e)
{
    const struct rest *r = ctx;
    ASSERT(*name);
    buf_add(out, r->text, r->n);
    return buf_check(out, name, e);
}

static struct rest take_names(char *text, size_t n, struct hub_names *all)
{
    char *end = text + n;
    while (text < end && *text != '\n' && all->n < NAMES_MAX) {
        char *line = memchr(text, '\n', (size_t)(end - text));
        if (!line)
            return (struct rest){end, 0};
        *line = 0;
        if (*text)
            hub_names_add(all, text);
        text = line + 1;
    }
    return (struct rest){text, (size_t)(end - text)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const what[] = {NULL, "Q4_K_M", "a.gguf"};
    struct hub_names all = {0}, out = {0};
    const char *file = NULL;
    struct err e = ERR_INIT;
    if (!size || size > LONGEST)
        return 0;
    char *text = xmalloc(size);
    memcpy(text, data + 1, size - 1);
    struct rest rest = take_names(text, size - 1, &all);
    if (hub_pick(&all, what[data[0] % 3], read_rest, &rest, &out, &file, &e) == 0) {
        ASSERT(out.n > 0 && out.n <= all.n && (!file || hub_names_has(&all, file)));
        for (size_t i = 0; i < out.n; i++)
            ASSERT(hub_names_has(&all, out.at[i]));
    } else {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
    }
    hub_names_release(&all);
    hub_names_release(&out);
    free(text);
    return 0;
}
