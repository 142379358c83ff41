/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable array of any type, for counts that the program itself bounds (sizes from outside go
 * through buf or arena_try). VEC(int) v = {0}; vec_push(&v, 3); v.at[0]; vec_release(&v).
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_VEC_H
#define ENGINE_BASE_VEC_H

#include <stddef.h>

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
#define vec_pop(v)           ((v)->at[--(v)->n])
#define vec_release(v)       vec_free_((void **)&(v)->at, &(v)->n, &(v)->cap)

void vec_grow_(void **at, size_t *cap, size_t want, size_t size);
void vec_free_(void **at, size_t *n, size_t *cap);

#endif
