/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file, opened: its metadata and the places of its tensors, of all its parts where it is
 * split. The rules are the format's own, and more: no key or name twice, counts that the bytes
 * which are left can hold, tensors that follow each other aligned and end within the file, each of
 * a known kind, strings without control characters where they are names; versions 2 and 3.
 *
 * Values are looked up by key and type; a value of another type is an error with file and key.
 * Everything that was read lives in the arena; data is read by pread, like that of safetensors.
 *
 * Thread: one opens, any number read.
 */
#ifndef ENGINE_LOAD_GGUF_H
#define ENGINE_LOAD_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/map.h"
#include "engine/load/ggml_type.h"

enum {
    GGUF_MAX_RANK = 4,
    GGUF_MAX_KEYS = 1 << 16,
    GGUF_MAX_PARTS = 4096,
    GGUF_MAX_ALIGN = 1 << 16,
};

/* As they stand in files. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

struct gguf_str {
    const char *p; /* borrowed from the arena; terminated */
    size_t n;
};

struct gguf_value {
    const char *key;         /* borrowed from the arena */
    enum gguf_type type, of; /* of: the elements' type of an array */
    size_t n;                /* of an array */
    union {
        uint64_t u; /* bool, whole numbers that are not negative */
        int64_t i;
        double f;
        struct gguf_str s;
        const struct gguf_str *strings; /* [n] */
        const uint8_t *bytes;           /* [n] numbers as they stand in the file */
    };
};

struct gguf_file;

struct gguf_tensor {
    const char *name; /* borrowed from the arena */
    const struct gguf_file *file;
    const struct ggml_type *type;
    uint64_t begin, bytes; /* begin: in the file's data */
    int64_t dim[GGUF_MAX_RANK];
    int rank; /* dim[0] is what the file has last: rows come first */
};

struct gguf {
    struct arena arena;
    struct map by_key;          /* of struct gguf_value; of the first part */
    struct map by_name;         /* of struct gguf_tensor */
    struct gguf_file **file;    /* owned, [n_file] */
    struct gguf_tensor *tensor; /* borrowed from the arena, [n_tensor], by part, then by place */
    size_t n_file, n_tensor;
    char *name; /* owned: what errors call the first part */
};

/* Whether a path is that of a file, and not of a directory, whose first bytes are a GGUF file's. */
bool gguf_is_file(const char *path);

/* The first part of a split file opens the others, which stand beside it. */
struct gguf *gguf_open(const char *path, struct err *e);
void gguf_close(struct gguf *g);

const struct gguf_value *gguf_get(const struct gguf *g, const char *key); /* NULL: none */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);
const char *gguf_tensor_file(const struct gguf_tensor *t);

/* Typed, *out untouched where the key is absent. A whole number of any type that is not negative.
 */
int gguf_opt_int(const struct gguf *g, const char *key, int64_t *out, struct err *e);
int gguf_opt_num(const struct gguf *g, const char *key, double *out, struct err *e);
int gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *e);
int gguf_opt_str(const struct gguf *g, const char *key, const char **out, struct err *e);

/* An array, NULL where it is absent; `of`: what its elements must be. */
int gguf_opt_array(const struct gguf *g, const char *key, enum gguf_type of,
                   const struct gguf_value **out, struct err *e);
int gguf_err_type(const struct gguf *g, const struct gguf_value *v, const char *want,
                  struct err *e);
int32_t gguf_array_i32(const struct gguf_value *v, size_t i);
float gguf_array_f32(const struct gguf_value *v, size_t i);

/* n bytes of a tensor's data from byte `at` of it on. */
int gguf_read(const struct gguf_tensor *t, uint64_t at, void *dst, size_t n, struct err *e);
uint64_t gguf_bytes(const struct gguf *g); /* of all tensors */
void gguf_prefetch(const struct gguf *g);

#endif
