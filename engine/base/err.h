/* SPDX-License-Identifier: Apache-2.0
 *
 * One error idiom for the whole program: a fallible function returns int, 0 for good and -1 for
 * bad, and fills the `struct err` its caller gave it. The text is made where the fault is known;
 * callers add what they were doing with err_wrap ("loading model.safetensors: ...").
 *
 * BUG() and ASSERT() are for our own faults. They abort, and nothing that a client sends reaches
 * them; input is checked with err_set.
 *
 * Thread: any; a struct err belongs to one caller.
 */
#ifndef ENGINE_BASE_ERR_H
#define ENGINE_BASE_ERR_H

enum err_code {
#define ERR(name, text) ERR_##name,
#include "engine/base/err.def"
#undef ERR
    ERR_COUNT
};

struct err {
    enum err_code code;
    char msg[512]; /* always terminated; cut with "..." when longer */
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = ERR_NONE                                                                           \
    }

/* Sets code and text; returns -1 so that `return err_set(e, ...)` reads well. e may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text that is there; keeps the code; returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set with strerror(errno) appended; the code follows from errno (ENOENT -> NOT_FOUND,
 * EEXIST -> EXISTS, ENOSPC and EDQUOT -> NO_SPACE, ENOMEM -> NO_MEMORY, else IO). */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The short stable name of a code, as "bad_input". */
const char *err_name(enum err_code code);

__attribute__((noreturn, format(printf, 3, 4))) void bug_at(const char *file, int line,
                                                            const char *fmt, ...);

#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)

/* Checked in every mode: an invariant that a fault of ours, and only that, can break. */
#define ASSERT(cond)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            BUG("%s", #cond);                                                                      \
    } while (0)

#endif
