/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the header of one part of a GGUF file: its metadata into the set's map where the part is
 * the first, and its tensors.
 *
 * Thread: who opens.
 */
#ifndef ENGINE_LOAD_GGUF_HEADER_H
#define ENGINE_LOAD_GGUF_HEADER_H

#include "engine/load/gguf.h"

struct gguf_header {
    struct map by_key;          /* of struct gguf_value; the caller's to release */
    struct gguf_tensor *tensor; /* in g's arena, in order of place */
    size_t n_tensor;
};

int gguf_header_read(struct gguf *g, struct gguf_file *f, struct gguf_header *h, struct err *e);

#endif
