/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a GGUF file (engine/load/gguf_header.c has the layout): keys and tensors are declared,
 * then the header is written, then the tensors' bytes in the order of their declaration, in pieces
 * of any size. What was refused while keys were put together is told by gguf_writer_open.
 *
 * The file is written aside and takes its name, synced, at gguf_writer_commit; a writer that is
 * freed before leaves nothing behind.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_EXPORT_GGUF_WRITER_H
#define ENGINE_EXPORT_GGUF_WRITER_H

#include "engine/load/gguf.h"

struct gguf_writer;

struct gguf_writer *gguf_writer_new(void);
void gguf_writer_free(struct gguf_writer *w);

void gguf_writer_str(struct gguf_writer *w, const char *key, const char *s);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float v);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v);

/* An array, whose n elements are put behind it, all of this type. */
void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_type of, uint64_t n);
void gguf_writer_put_str(struct gguf_writer *w, const char *s, size_t n);
void gguf_writer_put_i32(struct gguf_writer *w, int32_t v);
void gguf_writer_put_f32(struct gguf_writer *w, float v);

/* kind: a number of ggml_type_get; dim[0] counts rows. */
void gguf_writer_add(struct gguf_writer *w, const char *name, uint32_t kind, int rank,
                     const int64_t *dim);

int gguf_writer_open(struct gguf_writer *w, const char *path, struct err *e);
uint64_t gguf_writer_bytes(const struct gguf_writer *w); /* of the whole file, once open */

/* Bytes of the tensor that comes next, at most what is left of it. */
int gguf_writer_write(struct gguf_writer *w, const void *p, size_t n, struct err *e);
int gguf_writer_commit(struct gguf_writer *w, struct err *e);

#endif
