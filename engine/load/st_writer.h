/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a safetensors file as a stream: first every tensor is declared, then the header is
 * written, then the data of each tensor in the file's order, in pieces of any size. Nothing but a
 * piece is in memory. The order is the reference implementation's (by type, wide ones first, then
 * by name), so that equal tensors give equal files, and every tensor is aligned to its element.
 *
 * The file is written aside and takes its name, synced, at st_writer_commit; a writer that is freed
 * before leaves nothing behind.
 *
 *     w = st_writer_new();
 *     st_writer_add(w, "a", ST_F32, 2, dim, e); ...
 *     st_writer_open(w, path, e);
 *     while ((t = st_writer_next(w)))
 *         st_writer_write(w, data_of(t), bytes_of(t), e);
 *     st_writer_commit(w, e);
 *     st_writer_free(w);
 *
 * Where tensors are made in another order than the file's, or by several threads, st_writer_put
 * writes to any place of any tensor instead; each byte once, before st_writer_commit.
 *
 * Thread: one at a time; st_writer_put from any.
 */
#ifndef ENGINE_LOAD_ST_WRITER_H
#define ENGINE_LOAD_ST_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "engine/load/st_header.h"

struct st_writer;

struct st_writer *st_writer_new(void);
void st_writer_free(struct st_writer *w);

/* Before st_writer_open. What is not legal in the format (a name twice, not UTF-8, too long) is
 * refused there. */
int st_writer_add(struct st_writer *w, const char *name, enum st_dtype dtype, int rank,
                  const int64_t *dim, struct err *e);
int st_writer_meta(struct st_writer *w, const char *key, const char *value, struct err *e);

int st_writer_open(struct st_writer *w, const char *path, struct err *e);
uint64_t st_writer_bytes(const struct st_writer *w); /* of the whole file, once open */

/* The tensor whose bytes come next, and how many of it are written; NULL: all of them are. */
const struct st_tensor *st_writer_next(const struct st_writer *w);
uint64_t st_writer_done(const struct st_writer *w);

/* At most what is left of that tensor. */
int st_writer_write(struct st_writer *w, const void *p, size_t n, struct err *e);

/* A tensor of one that is open; NULL: none has this name. n bytes from byte `at` of it on. A writer
 * is either written in order or put into. */
const struct st_tensor *st_writer_get(const struct st_writer *w, const char *name);
int st_writer_put(struct st_writer *w, const struct st_tensor *t, uint64_t at, const void *p,
                  size_t n, struct err *e);

int st_writer_commit(struct st_writer *w, struct err *e);

#endif
