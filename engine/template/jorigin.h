/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a piece of rendered text came from, packed in 32 bits: three bits of kind, one that says
 * the piece was written inside {% generation %}, and the index of a message. Origins travel with
 * the bytes through every filter, slice and concatenation.
 *
 * Kinds up to JORIGIN_ROLE are the template's and the model's own words: special tokens may be
 * parsed in them. The others came from outside: they are text, whatever they look like. A role is
 * trusted only when it is one of the few well-known names, because templates build tokens from it
 * ("<|" + role + "|>").
 */
#ifndef ENGINE_TEMPLATE_JORIGIN_H
#define ENGINE_TEMPLATE_JORIGIN_H

#include <stdbool.h>
#include <stdint.h>

enum jorigin_kind {
    JORIGIN_TEMPLATE, /* literals of the template; what it computed from nothing else */
    JORIGIN_TOKEN,    /* bos_token, eos_token and their kin */
    JORIGIN_ROLE,     /* the role of a message, when well known */
    JORIGIN_MESSAGE,  /* any other field of a message */
    JORIGIN_CONTENT,  /* the content of a message */
    JORIGIN_TOOLS,    /* the tools */
    JORIGIN_EXTRA     /* any other variable of the caller */
};

#define JORIGIN_KIND_BITS  3
#define JORIGIN_GENERATION (1u << JORIGIN_KIND_BITS)
#define JORIGIN_MAX_INDEX  ((1u << (31 - JORIGIN_KIND_BITS)) - 1)

static inline uint32_t jorigin_make(enum jorigin_kind kind, uint32_t message)
{
    return (message << (JORIGIN_KIND_BITS + 1)) | (uint32_t)kind;
}

static inline enum jorigin_kind jorigin_kind(uint32_t origin)
{
    return (enum jorigin_kind)(origin & (JORIGIN_GENERATION - 1));
}

static inline uint32_t jorigin_message(uint32_t origin)
{
    return origin >> (JORIGIN_KIND_BITS + 1);
}

static inline bool jorigin_is_trusted(uint32_t origin)
{
    return jorigin_kind(origin) <= JORIGIN_ROLE;
}

/* Of a value computed from two: the less trusted one marks the result. */
static inline uint32_t jorigin_join(uint32_t a, uint32_t b)
{
    return jorigin_is_trusted(a) ? b : a;
}

#endif
