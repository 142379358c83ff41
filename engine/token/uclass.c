/* SPDX-License-Identifier: Apache-2.0
 *
 * For each class a regex is matched once over a text of all characters that Unicode has assigned
 * or may assign to a class: planes 0 to 3 and the tags of plane 14. The rest is private use or
 * empty, and has no class.
 */
#include "engine/token/uclass.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/regex.h"

static const struct {
    unsigned bit;
    const char *pattern;
} class_row[] = {
    {UC_LETTER, "\\p{L}+"},
    {UC_NUMBER, "\\p{N}+"},
    {UC_SPACE, "\\p{White_Space}+"},
    {UC_PUNCT, "[!-/:-@\\[-`{-~\\p{P}]+"},
    {UC_WORD, "[\\w\\x{200c}\\x{200d}]+"},
    {UC_MARK, "\\p{M}+"},
};

static const struct {
    uint32_t lo, hi;
} range[] = {{0, 0xd800}, {0xe000, 0x40000}, {0xe0000, 0xe1000}};

enum { TEXT_BYTES = 4 * 0x41000 };

static uint8_t *all_characters(size_t *len, struct err *e)
{
    uint8_t *text = try_alloc(TEXT_BYTES, 1, "table of characters", e);
    size_t n = 0;
    if (!text)
        return NULL;
    for (size_t r = 0; r < sizeof range / sizeof *range; r++)
        for (uint32_t c = range[r].lo; c < range[r].hi; c++)
            n += utf8_put(text + n, c);
    *len = n;
    return text;
}

/* A leaf of its own for the block of c; leaf 1 is shared by the empty ones. */
static uint8_t *leaf_for(struct uclass *u, uint32_t c)
{
    uint16_t *at = &u->block[c >> 8];
    if (*at == 1) {
        if ((u->n_leaf & (u->n_leaf - 1)) == 0) /* all that there was room for */
            u->leaf = xrealloc(u->leaf, 2 * u->n_leaf * sizeof *u->leaf);
        memset(u->leaf[u->n_leaf], 0, sizeof *u->leaf);
        *at = (uint16_t)u->n_leaf++;
    }
    return u->leaf[*at];
}

static int fill_class(struct uclass *u, unsigned bit, const char *pattern, const uint8_t *text,
                      size_t len, struct err *e)
{
    size_t lo = 0, hi = 0;
    int rc = -1;
    struct regex *r = regex_new(pattern, strlen(pattern), e);
    struct regex_run *m = r ? regex_run_new(r, e) : NULL;
    if (!m)
        goto out;
    while ((rc = regex_find(r, m, text, len, hi, &lo, &hi, e)) == 1) {
        for (size_t i = lo; i < hi;) {
            uint32_t c;
            i += utf8_get(text + i, &c);
            leaf_for(u, c)[c & 255] |= (uint8_t)bit;
        }
    }
out:
    regex_run_free(m);
    regex_free(r);
    return rc;
}

struct uclass *uclass_new(unsigned mask, struct err *e)
{
    size_t len = 0;
    struct uclass *u = xcalloc(1, sizeof *u);
    u->leaf = xcalloc(2, sizeof *u->leaf);
    u->n_leaf = 2;
    for (size_t i = 1; i < UCLASS_BLOCKS; i++)
        u->block[i] = 1;
    u->leaf[0]['\r'] = u->leaf[0]['\n'] = UC_CR_LF;
    uint8_t *text = mask ? all_characters(&len, e) : NULL;
    for (size_t i = 0; text && i < sizeof class_row / sizeof *class_row; i++) {
        if ((mask & class_row[i].bit) &&
            fill_class(u, class_row[i].bit, class_row[i].pattern, text, len, e)) {
            mem_free(text);
            text = NULL;
        }
    }
    if (mask && !text) {
        uclass_free(u);
        return NULL;
    }
    mem_free(text);
    return u;
}

void uclass_free(struct uclass *u)
{
    if (!u)
        return;
    free(u->leaf);
    free(u);
}
