/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model of vectors wants put before its texts, by what they are for: prompts of
 * config_sentence_transformers.json, and which of them holds where nothing is said.
 *
 * Thread: constant once read.
 */
#ifndef ENGINE_LOAD_PROMPTS_H
#define ENGINE_LOAD_PROMPTS_H

#include <stdint.h>

#include "engine/base/err.h"

enum { PROMPTS_MAX = 64, PROMPT_BYTES_MAX = 4096 };

struct prompts {
    char **name, **text; /* owned: [n] */
    int32_t n;
    const char *usual; /* in text: what holds where none is named; NULL: nothing does */
};

/* Of a model's directory; a file that is not there has none. After a failure prompts_release, too.
 */
int prompts_init(struct prompts *p, const char *dir, struct err *e);
void prompts_release(struct prompts *p);

/* NULL: there is none of this name; for NULL: the usual one, or an empty text. */
const char *prompts_find(const struct prompts *p, const char *name);

#endif
