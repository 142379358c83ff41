/* SPDX-License-Identifier: Apache-2.0
 *
 * The two allocation regimes. xmalloc and its kin serve small bookkeeping and cannot return NULL:
 * when the machine has no memory left for a list node, the process ends with one line. Anything
 * sized by a user, a file or a model is asked for with try_alloc, which can say no and takes its
 * multiplication apart so that an overflow is a refusal too.
 *
 * In paranoid mode the allocation number TANDEM_FAIL_ALLOC of try_alloc fails, fresh memory is
 * filled with a pattern, and so is memory given back.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_MEM_H
#define ENGINE_BASE_MEM_H

#include <stddef.h>

#include "engine/base/err.h"

void *xmalloc(size_t bytes);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

/* n * size bytes, 64-byte aligned, zeroed; NULL with ERR_NO_MEMORY naming `what`. Free with
 * mem_free. n * size of 0 gives a valid pointer. Large blocks lie on huge pages where the system
 * has them, and cost no memory until they are touched. */
void *try_alloc(size_t n, size_t size, const char *what, struct err *e);
/* As try_alloc, for room that is made for the most that may come and is seldom filled: what is
 * large takes memory page by page, as it is touched. */
void *try_lazy(size_t n, size_t size, const char *what, struct err *e);
void mem_free(void *p); /* of either; NULL is fine */

/* realloc that says no in the same words; p is of malloc's family and stays when it fails. */
void *try_resize(void *p, size_t bytes, const char *what, struct err *e);

/* What try_alloc has given out and not got back, over the whole process. */
struct mem_stat {
    size_t now_bytes, peak_bytes, n_block;
};

struct mem_stat mem_stat(void);
void mem_peak_reset(void); /* peak_bytes becomes now_bytes */

#endif
