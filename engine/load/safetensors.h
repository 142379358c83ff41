/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file, open for reading: its header is parsed once, its data is read in pieces
 * with pread into the caller's buffer.
 *
 * Not mapped, on purpose: a file cut under a mapping kills the process with SIGBUS at the next
 * touch, whoever's request that serves; a short pread is an error with a name. It is no slower
 * either: packing touches each byte once, through a buffer that stays in cache, and a mapping
 * would pay a page fault for every few pages and count the whole file as resident memory beside
 * the packed copy.
 *
 * Thread: any number of readers.
 */
#ifndef ENGINE_LOAD_SAFETENSORS_H
#define ENGINE_LOAD_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/load/st_header.h"

struct st_file;

/* `name` is what errors call the file. */
struct st_file *st_open(const char *path, const char *name, struct err *e);
void st_prefix(struct st_file *f, const char *prefix); /* as st_header_prefix */
void st_close(struct st_file *f);

const struct st_header *st_file_header(const struct st_file *f);
const char *st_file_name(const struct st_file *f);
uint64_t st_file_bytes(const struct st_file *f);

/* n bytes of a tensor of this file, from byte `offset` of the tensor on. */
int st_read(const struct st_file *f, const struct st_tensor *t, uint64_t offset, void *dst,
            size_t n, struct err *e);

/* Tells the system that the whole file will be read soon. */
void st_prefetch(const struct st_file *f);

#endif
