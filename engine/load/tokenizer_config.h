/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_config.json with the files beside it: the special tokens by role, whether texts begin
 * with one, and the chat templates. Only what stands in those files: tokenizer.json itself belongs
 * to engine/token.
 *
 * Roles come from tokenizer_config.json, those it lacks from special_tokens_map.json. Of templates,
 * chat_template.jinja is the one called "default" and goes before a string of the config; a list
 * in the config brings names of its own ("tool_use", "rag").
 *
 * Thread: one to read it, any after.
 */
#ifndef ENGINE_LOAD_TOKENIZER_CONFIG_H
#define ENGINE_LOAD_TOKENIZER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

enum { TOKENIZER_MAX_TEMPLATE = 16, TOKENIZER_MAX_TEMPLATE_BYTES = 1 << 20 };

enum token_flag { TOKEN_UNSAID = -1, TOKEN_NO, TOKEN_YES };

struct chat_template {
    const char *name, *text; /* borrowed from the config */
};

struct tokenizer_config {
    struct arena arena;
    const char *bos, *eos, *unk, *pad, *sep, *cls, *mask; /* borrowed from the arena, or NULL */
    enum token_flag add_bos, add_eos;
    int64_t max_len; /* model_max_length; 0: not told, or a number that means none */
    struct chat_template template[TOKENIZER_MAX_TEMPLATE];
    int n_template;
};

/* All of it from the files that dir has; a directory with none of them is good. */
int tokenizer_config_init(struct tokenizer_config *t, const char *dir, struct err *e);
void tokenizer_config_release(struct tokenizer_config *t);

/* The template of that name; NULL for name: "default", else the only one. NULL: there is none. */
const char *tokenizer_config_template(const struct tokenizer_config *t, const char *name);

/* The two JSON files' texts, for callers that have them from elsewhere. */
int tokenizer_config_parse(struct tokenizer_config *t, const char *text, size_t len, struct err *e);

#endif
