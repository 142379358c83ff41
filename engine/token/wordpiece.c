/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens of a word are appended as they are found and taken back when the word turns out to
 * be unknown. A token that begins with the prefix can stand at the beginning of a word too (the
 * text "##ing" is a word like any other), so such tokens are in both tries. A word that goes on
 * from the text before has no beginning here.
 */
#include "engine/token/wordpiece.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/tok_list.h"

void wordpiece_init(struct wordpiece *w)
{
    *w = (struct wordpiece){.unk = -1, .max_chars = 100};
    trie_init(&w->head);
    trie_init(&w->tail);
}

void wordpiece_release(struct wordpiece *w)
{
    trie_release(&w->head);
    trie_release(&w->tail);
    free(w->prefix);
    *w = (struct wordpiece){0};
}

int wordpiece_add(struct wordpiece *w, const char *text, size_t len, int32_t id, struct err *e)
{
    size_t n = strlen(w->prefix);
    if (len && trie_add(&w->head, text, len, id, e))
        return -1;
    if (len > n && !memcmp(text, w->prefix, n))
        return trie_add(&w->tail, text + n, len - n, id, e);
    return 0;
}

/* The longest entry at p: its value, its length in *len; -1 when there is none. */
static int32_t longest(const struct trie *t, const uint8_t *p, uint32_t n, uint32_t *len)
{
    int32_t found = -1;
    uint32_t node = n ? t->first[p[0]] : 0;
    for (uint32_t i = 1; node; i++) {
        if (t->value[node] >= 0) {
            found = t->value[node];
            *len = i;
        }
        node = i < n ? trie_step(t, node, p[i]) : 0;
    }
    return found;
}

static uint32_t count_chars(const struct piece *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->len; i++)
        n += (p->p[i] & 0xc0) != 0x80;
    return n;
}

int wordpiece_encode(const struct wordpiece *w, const struct piece *p, struct tok_list *out,
                     struct err *e)
{
    size_t n_before = out->n;
    uint32_t lo = 0, len = 0;
    if (p->len > w->max_chars && count_chars(p) > w->max_chars)
        return tok_list_push(out, w->unk, piece_span(p, 0, p->len), e);
    while (lo < p->len) {
        bool goes_on = lo > 0 || p->place == PIECE_AFTER;
        int32_t id = longest(goes_on ? &w->tail : &w->head, p->p + lo, p->len - lo, &len);
        if (id < 0) {
            out->n = n_before;
            return tok_list_push(out, w->unk, piece_span(p, 0, p->len), e);
        }
        if (tok_list_push(out, id, piece_span(p, lo, lo + len), e))
            return -1;
        lo += len;
    }
    return 0;
}
