/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file's hyperparameters as the text of a config.json, which then goes the way of every
 * other: what is understood there is understood here, and what would change the arithmetic is
 * refused by the same list.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_GGUF_CONFIG_H
#define ENGINE_LOAD_GGUF_CONFIG_H

#include "engine/base/buf.h"
#include "engine/load/config.h"
#include "engine/load/gguf.h"
#include "engine/load/gguf_names.h"

struct gguf_shape {
    const char *arch;    /* "qwen2"; borrowed from g */
    const char *hf_arch; /* "Qwen2ForCausalLM" */
    const char *hf_type; /* "qwen2" */
    enum gguf_style style;
    unsigned has; /* bits of gguf_config.c */
    int32_t n_head, d_head;
    int64_t n_layer, n_beyond;  /* n_beyond: layers behind them, which guess ahead */
    int64_t n_expert;           /* of a layer; 0: no mixtures */
    int64_t n_k, n_v, d_k, d_v; /* of gated delta rules; 0: there are none */
};

int gguf_shape_read(struct gguf_shape *s, const struct gguf *g, struct err *e);

/* The rotary factors that stand among the tensors and belong to the config. */
bool gguf_is_rope_factors(const struct gguf_tensor *t);

int gguf_config_text(const struct gguf *g, struct buf *out, struct err *e);

/* A JSON string; bytes as they are but for what JSON escapes. */
void gguf_json_str(struct buf *out, const char *p, size_t n);

#endif
