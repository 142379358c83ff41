/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a schema as texts: between bounds exactly, digit by digit, and multiples. Numbers with
 * bounds are written without an exponent, and 0 without a sign.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_NUMBER_H
#define ENGINE_GRAMMAR_NUMBER_H

#include "engine/grammar/build.h"
#include "engine/template/jvalue.h"

struct bound {
    bool is_set, is_exclusive;
    double value;  /* for comparing; the text is exact */
    char text[64]; /* [-]digits[.digits], no zeros that say nothing; "" when it is too far to matter
                    */
};

struct number_range {
    struct bound lo, hi;
    bool is_integer;
    const struct jvalue *multiple; /* or NULL */
};

/* The narrower of what is there and the value. False: no number can be compared with it. */
bool number_at_least(struct number_range *r, const struct jvalue *v, bool is_exclusive);
bool number_at_most(struct number_range *r, const struct jvalue *v, bool is_exclusive);
bool number_is_free(const struct number_range *r); /* neither bounds nor multiples */
bool number_admits(const struct number_range *r, const struct jvalue *v);

/* PROGRAM_FAIL where nothing lies between the bounds; errors begin with `path`. */
uint32_t number_build(struct build *d, const struct number_range *r, const char *path,
                      uint32_t next);

#endif
