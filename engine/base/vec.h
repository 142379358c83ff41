/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable array of any type. VEC(int) v = {0}; vec_push(&v, 3); v.at[0]; vec_release(&v).
 *
 * vec_push is for counts that the program itself bounds. What a user, a file or a model counts is
 * pushed by vec_try_push, which can say no; the array is then as it was.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_VEC_H
#define ENGINE_BASE_VEC_H

#include <stddef.h>

#include "engine/base/err.h"

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at; /* owned */                                                                      \
        size_t n, cap;                                                                             \
    }

#define vec_push(v, ...)                                                                           \
    do {                                                                                           \
        vec_grow_((void **)&(v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at);                      \
        (v)->at[(v)->n++] = (__VA_ARGS__);                                                         \
    } while (0)

#define vec_reserve(v, want) vec_grow_((void **)&(v)->at, &(v)->cap, (want), sizeof *(v)->at)

/* 0, or -1 with ERR_NO_MEMORY naming `what`. */
#define vec_try_reserve(v, want, what, e)                                                          \
    vec_try_grow_((void **)&(v)->at, &(v)->cap, (want), sizeof *(v)->at, (what), (e))
#define vec_try_push(v, what, e, ...)                                                              \
    (vec_try_reserve(v, (v)->n + 1, what, e) ? -1 : ((v)->at[(v)->n++] = (__VA_ARGS__), 0))

#define vec_pop(v)     ((v)->at[--(v)->n])
#define vec_release(v) vec_free_((void **)&(v)->at, &(v)->n, &(v)->cap)

void vec_grow_(void **at, size_t *cap, size_t want, size_t size);
int vec_try_grow_(void **at, size_t *cap, size_t want, size_t size, const char *what,
                  struct err *e);
void vec_free_(void **at, size_t *n, size_t *cap);

#endif
