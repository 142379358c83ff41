/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-written splitters for the regexes that nearly all byte-level tokenizers use (GPT-2, cl100k,
 * Llama 3, Qwen2): the same cuts as the regex, an order of magnitude faster, and in linear time
 * where a backtracking matcher is quadratic. A pattern is recognized by its exact spelling; all
 * of them cover every character, so a text is cut into pieces without gaps.
 *
 * Thread: any.
 */
#ifndef ENGINE_TOKEN_SPLIT_H
#define ENGINE_TOKEN_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/token/uclass.h"

struct split_rules;

extern const struct split_rules *const split_gpt2; /* what ByteLevel's use_regex means */

/* The rules of a pattern, or NULL when it is none of the known ones. */
const struct split_rules *split_find(const char *pattern, size_t len);

/* How many patterns are known, and their spelling (for tests). */
size_t split_count(void);
const char *split_pattern(size_t i);

enum { SPLIT_CLASSES = UC_LETTER | UC_NUMBER | UC_SPACE };

/* Where the piece that begins at lo (< len) ends. u holds SPLIT_CLASSES. */
size_t split_next(const struct split_rules *r, const struct uclass *u, const uint8_t *text,
                  size_t len, size_t lo);

#endif
