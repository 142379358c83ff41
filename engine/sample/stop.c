/* SPDX-License-Identifier: Apache-2.0
 *
 * A state per string: the length of its longest begin that the text ends with. back[i] is the
 * state to fall to from i: the length of the longest begin of the string that is also a proper end
 * of its first i bytes.
 */
#include "engine/sample/stop.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

struct matcher {
    const char *p;        /* borrowed from the block: [n] */
    const uint16_t *back; /* borrowed from the block: [n + 1] */
    uint16_t n, state;
};

struct stop {
    struct matcher m[STOP_MAX];
    int n, found; /* found: -1 none */
    uint64_t n_text, end;
    void *block; /* owned: the strings and their tables */
};

static void fill_back(const char *p, uint16_t n, uint16_t *back)
{
    uint16_t k = 0;
    back[0] = 0;
    back[1] = 0;
    for (uint16_t i = 1; i < n; i++) {
        while (k > 0 && p[i] != p[k])
            k = back[k];
        k = (uint16_t)(k + (p[i] == p[k]));
        back[i + 1] = k;
    }
}

static int check(const struct stop_string *string, int n, size_t *all, struct err *e)
{
    *all = 0;
    if (n < 1 || n > STOP_MAX)
        return err_set(e, ERR_TOO_LARGE, "stop: %d strings, at most %d", n, STOP_MAX);
    for (int i = 0; i < n; i++) {
        if (string[i].n < 1 || string[i].n > STOP_BYTES_MAX)
            return err_set(e, string[i].n ? ERR_TOO_LARGE : ERR_BAD_INPUT,
                           "stop: a string of %zu bytes is not of 1 to %d", string[i].n,
                           STOP_BYTES_MAX);
        *all += string[i].n;
    }
    return 0;
}

struct stop *stop_new(const struct stop_string *string, int n, struct err *e)
{
    size_t all;
    if (check(string, n, &all, e))
        return NULL;
    struct stop *s = xcalloc(1, sizeof *s);
    size_t tables = all + (size_t)n;
    *s = (struct stop){.n = n, .found = -1};
    s->block = try_alloc(tables * sizeof(uint16_t) + all, 1, "stop strings", e);
    if (!s->block) {
        stop_free(s);
        return NULL;
    }
    uint16_t *back = s->block;
    char *text = (char *)(back + tables);
    for (int i = 0; i < n; i++) {
        uint16_t len = (uint16_t)string[i].n;
        memcpy(text, string[i].p, len);
        fill_back(text, len, back);
        s->m[i] = (struct matcher){.p = text, .back = back, .n = len};
        text += len;
        back += len + 1;
    }
    return s;
}

void stop_free(struct stop *s)
{
    if (!s)
        return;
    mem_free(s->block);
    free(s);
}

/* The state behind one more byte; n: the string is whole. */
static uint16_t step(const struct matcher *m, char c)
{
    uint16_t k = m->state;
    if (k == m->n)
        k = m->back[k];
    while (k > 0 && m->p[k] != c)
        k = m->back[k];
    return (uint16_t)(k + (m->p[k] == c));
}

bool stop_push(struct stop *s, const char *text, size_t n, bool counts)
{
    for (size_t i = 0; i < n && s->found < 0; i++, s->n_text++) {
        for (int k = 0; k < s->n; k++) {
            struct matcher *m = &s->m[k];
            m->state = step(m, text[i]);
            if (counts && m->state == m->n && (s->found < 0 || m->n > s->m[s->found].n)) {
                s->found = k;
                s->end = s->n_text + 1;
            }
        }
    }
    return s->found >= 0;
}

uint64_t stop_safe(const struct stop *s)
{
    uint16_t held = 0;
    if (s->found >= 0)
        return s->end - s->m[s->found].n;
    for (int i = 0; i < s->n;
         i++) { /* a whole one did not count: only what it falls back to does */
        const struct matcher *m = &s->m[i];
        uint16_t k = m->state == m->n ? m->back[m->n] : m->state;
        held = k > held ? k : held;
    }
    return s->n_text - held;
}

int stop_index(const struct stop *s)
{
    return s->found;
}

uint64_t stop_end(const struct stop *s)
{
    return s->end;
}
