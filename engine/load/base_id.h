/* SPDX-License-Identifier: Apache-2.0
 *
 * Which weights something was computed over: an adapter, a checkpoint, a job belongs to its base.
 *
 * `files` is a fingerprint of a model directory: what config.json says (but for a few members that
 * change no number), and of each tensor its name, type, shape and some blocks of its bytes. It
 * costs milliseconds whatever the model's size, and is the same on every machine, for every rank,
 * device, context and number of threads, however the tensors are spread over files. It tells
 * models apart, not forgeries: of a large tensor a few kilobytes count.
 *
 * `types` is what the matrices are packed in, and what else of the options changes numbers:
 * products of codes, another format of keys and values. The same files in other types are the same
 * base, but not the same numbers: an adapter may be served over them, and a training does not go
 * on.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_BASE_ID_H
#define ENGINE_LOAD_BASE_ID_H

#include "engine/load/model_dir.h"

enum {
    BASE_FILES_BYTES = 33, /* 32 digits of hexadecimal */
    BASE_TYPES_BYTES = 24,
    BASE_ID_TEXT_BYTES = BASE_FILES_BYTES + BASE_TYPES_BYTES
};

struct base_id {
    char files[BASE_FILES_BYTES]; /* "": not known */
    char types[BASE_TYPES_BYTES]; /* "bf16"; "": not known */
};

/* Sets id->files. Reads the small files and some blocks of the large ones. */
int base_id_read(const struct model_dir *d, struct base_id *id, struct err *e);

/* "FILES:TYPES", and back; what is no such text is not known. Returns text. */
const char *base_id_text(const struct base_id *id, char text[BASE_ID_TEXT_BYTES]);
void base_id_parse(const char *text, struct base_id *id);

enum base_match { BASE_UNKNOWN, BASE_SAME, BASE_OTHER_TYPES, BASE_OTHER };
enum base_match base_id_match(const struct base_id *a, const struct base_id *b);

/* The file beside an adapter that says over what it was trained, which PEFT does not read; name:
 * what people call the base, NULL: nothing. Where there is no such file the base is not known. */
#define BASE_ID_NAME "tandem.json"
enum { BASE_NAME_BYTES = 128 };
int base_id_put(const struct base_id *id, const char *name, const char *path, struct err *e);
int base_id_get(const char *dir, struct base_id *id, char name[BASE_NAME_BYTES], struct err *e);

#endif
