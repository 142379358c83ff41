/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the head of one part of a GGUF file: its metadata into the set's map where the part is the
 * first, and its tensors.
 *
 * Thread: who opens.
 */
#ifndef ENGINE_LOAD_GGUF_HEAD_H
#define ENGINE_LOAD_GGUF_HEAD_H

#include "engine/load/gguf.h"

struct gguf_head {
    struct map by_key;          /* of struct gguf_value; the caller's to release */
    struct gguf_tensor *tensor; /* in g's arena, in order of place */
    size_t n_tensor;
};

int gguf_head_read(struct gguf *g, struct gguf_file *f, struct gguf_head *h, struct err *e);

#endif
