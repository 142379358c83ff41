/* SPDX-License-Identifier: Apache-2.0
 *
 * The piece that % formatting and str.format share: one value under one specification.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_SPEC_H
#define ENGINE_TEMPLATE_JINJA_SPEC_H

#include "engine/template/jinja_ops.h"

struct jspec {
    uint32_t fill;  /* a code point */
    char align;     /* '<' '>' '^' '=', 0: by type */
    char sign;      /* '+' ' ' or 0 */
    bool alternate; /* '#' */
    char group;     /* ',' '_' or 0 */
    int64_t width;
    int64_t precision; /* -1: none */
    char type;         /* 0: none given */
};

/* Writes a string, cut to the precision and padded to the width. */
int jspec_string(struct jsink *s, const struct jspec *spec, const struct jvalue *str);
/* Writes an int, bool or float by spec->type. */
int jspec_number(struct jsink *s, const struct jspec *spec, const struct jvalue *v);

#endif
