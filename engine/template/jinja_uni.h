/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode as Python's str sees it, over valid UTF-8: what is a blank, what may stand in a name,
 * which characters repr() shows as they are, and the case mappings. Properties come from utf8proc.
 *
 * Thread: any.
 */
#ifndef ENGINE_TEMPLATE_JINJA_UNI_H
#define ENGINE_TEMPLATE_JINJA_UNI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JUNI_MAX_BYTES = 16 }; /* the longest that one character becomes when its case changes */

enum juni_case { JUNI_LOWER, JUNI_UPPER, JUNI_TITLE };

/* One code point at p < end of valid UTF-8; *len is set to its bytes. */
uint32_t juni_get(const char *p, const char *end, size_t *len);
size_t juni_put(uint32_t c, char out[4]); /* bytes written */

bool juni_is_space(uint32_t c);     /* str.isspace, strip(), split() */
bool juni_is_printable(uint32_t c); /* str.isprintable, repr() */
bool juni_is_cased(uint32_t c);
bool juni_is_upper(uint32_t c);
bool juni_is_lower(uint32_t c);
bool juni_is_alpha(uint32_t c);
bool juni_is_digit(uint32_t c); /* decimal digits */
bool juni_is_word(uint32_t c);  /* what \w matches */

/* The bytes of c in another case; returns how many. */
size_t juni_map(uint32_t c, enum juni_case to, char out[JUNI_MAX_BYTES]);

const char *juni_skip_space(const char *p, const char *end);
const char *juni_rstrip_space(const char *begin, const char *p);
/* Bytes of the identifier at p, 0 when none begins there. */
size_t juni_name_len(const char *p, const char *end);

#endif
