/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one part of a GGUF file: a cursor over its header that never passes its end, and
 * places in its data.
 *
 * Thread: one moves the cursor; any read the data.
 */
#ifndef ENGINE_LOAD_GGUF_FILE_H
#define ENGINE_LOAD_GGUF_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/load/disk_file.h"

struct gguf_file {
    struct disk_file disk;
    uint64_t at;   /* of the cursor */
    uint64_t data; /* where the tensors' data begins, once the header was read */
    char *window;  /* owned: bytes [window_at, window_at + window_n) of the file */
    uint64_t window_at;
    size_t window_n;
};

struct gguf_file *gguf_file_open(const char *path, const char *name, struct err *e);
void gguf_file_close(struct gguf_file *f);
void gguf_file_header_done(struct gguf_file *f); /* the cursor is of no more use */

/* The next n bytes; what: for the error of a file that ends before them. */
int gguf_file_take(struct gguf_file *f, void *dst, size_t n, const char *what, struct err *e);
uint64_t gguf_file_left(const struct gguf_file *f);
int gguf_file_read(const struct gguf_file *f, uint64_t at, void *dst, size_t n, struct err *e);

#endif
