/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's config as a GGUF file's keys, so that engine/load/gguf_config.c makes the same of them:
 * what that reads is what can be written, and the rest is refused by name.
 *
 * Thread: any.
 */
#ifndef ENGINE_EXPORT_GGUF_KEYS_H
#define ENGINE_EXPORT_GGUF_KEYS_H

#include "engine/export/gguf_writer.h"
#include "engine/load/model_dir.h"

struct gguf_arch {
    const char *name; /* "qwen2" */
    bool is_permuted; /* queries and keys stand in llama.cpp's order */
    bool has_sums;    /* a row's weights of its experts sum to 1 */
    bool says_width;  /* of experts that are as wide as a dense feed-forward, too: llama.cpp takes
                       * that over the experts of a row where it is not said */
};

/* What GGUF calls the family. */
int gguf_arch_of(const struct config *c, struct gguf_arch *out, struct err *e);

/* The keys of shape and positions; *factors: [d_head / 2] where the file needs a tensor of them, to
 * be freed by mem_free, else NULL. */
int gguf_keys_put(struct gguf_writer *w, const struct config *c, float **factors, struct err *e);

#endif
