/* SPDX-License-Identifier: Apache-2.0
 *
 * The marks are tokens of their own; before the one that begins thoughts stand spaces at most.
 */
#include "engine/serve/thoughts.h"

#include <string.h>

void thoughts_init(struct thoughts *t, const struct gen_thoughts *ask, const struct tokenizer *tok)
{
    *t = (struct thoughts){.tokenizer = tok, .at = THOUGHTS_OVER};
    if (!ask->is_limited)
        return;
    t->at = ask->is_open ? THOUGHTS_INSIDE : THOUGHTS_MAY;
    t->open = ask->open;
    t->close = ask->close;
    t->left = ask->most;
}

/* As vocabularies write them: themselves, by GPT-2's letters for bytes, or by U+2581. */
static bool is_space(const struct tokenizer *tok, int32_t id)
{
    static const char *const space[] = {" ", "\n", "\r", "\t", "Ġ", "Ċ", "ĉ", "č", "▁"};
    size_t n, k;
    const char *p = tokenizer_piece(tok, id, &n), *end = p ? p + n : p;
    while (p && p < end) {
        for (k = 0; k < sizeof space / sizeof *space; k++)
            if ((size_t)(end - p) >= strlen(space[k]) && !memcmp(p, space[k], strlen(space[k])))
                break;
        if (k == sizeof space / sizeof *space)
            return false;
        p += strlen(space[k]);
    }
    return p != NULL;
}

void thoughts_heard(struct thoughts *t, int32_t id)
{
    if (t->at == THOUGHTS_INSIDE && id == t->close)
        t->at = THOUGHTS_OVER;
    else if (t->at == THOUGHTS_INSIDE)
        t->left--;
    else if (t->at == THOUGHTS_MAY && id == t->open)
        t->at = THOUGHTS_INSIDE;
    else if (t->at == THOUGHTS_MAY && !is_space(t->tokenizer, id))
        t->at = THOUGHTS_OVER;
}
