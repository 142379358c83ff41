/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable run of bytes with a ceiling, chosen when it is made. Writers need not look at each
 * return value: the first refusal (ceiling or memory) is remembered in `failed`, later writes do
 * nothing, and buf_check turns it into an error once at the end.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_BUF_H
#define ENGINE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct buf {
    char *data; /* owned; data[len] is 0 once anything was written */
    size_t len, cap, max_bytes;
    bool failed, no_memory; /* no_memory: of memory, and not of the ceiling */
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* length 0, memory kept, failure forgotten */
int buf_add(struct buf *b, const void *p, size_t n);
int buf_str(struct buf *b, const char *s);
int buf_char(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_reserve(struct buf *b, size_t more); /* room for `more` bytes behind len */
char *buf_take(struct buf *b); /* moves the terminated bytes out; free() them; NULL if failed */
int buf_check(const struct buf *b, const char *what, struct err *e);

#endif
