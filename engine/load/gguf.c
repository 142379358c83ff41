/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf.h. A split file's parts are called NAME-00001-of-00003.gguf; each has a header of its
 * own, the first one all the metadata.
 */
#include "engine/load/gguf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/load/gguf_file.h"
#include "engine/load/gguf_header.h"
#include "engine/load/st_header.h"

enum { PART_END_BYTES = sizeof "-00001-of-00003.gguf" - 1 };

/* Twice what vocabularies and merges of the largest models take. */
#define MAX_ARENA_BYTES ((size_t)1 << 29)

bool gguf_is_file(const char *path)
{
    char magic[4] = "";
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              read(fd, magic, sizeof magic) == sizeof magic &&
              memcmp(magic, "GGUF", sizeof magic) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int add_tensors(struct gguf *g, const struct gguf_header *h, struct err *e)
{
    for (size_t i = 0; i < h->n_tensor; i++) {
        struct gguf_tensor *t = &h->tensor[i], *other = map_put_str(&g->by_name, t->name, t);
        if (other)
            return err_set(e, ERR_BAD_INPUT, "%s: the tensor %.200s is in %s too",
                           t->file->disk.name, t->name, other->file->disk.name);
    }
    return 0;
}

/* Opens a part and reads its header. */
static struct gguf_file *open_part(struct gguf *g, const char *path, struct gguf_header *h,
                                   struct err *e)
{
    struct gguf_file *f = gguf_file_open(path, name_of(path), e);
    if (!f)
        return NULL;
    g->file = xrealloc(g->file, (g->n_file + 1) * sizeof *g->file);
    g->file[g->n_file++] = f;
    map_init(&h->by_key);
    if (gguf_header_read(g, f, h, e) || add_tensors(g, h, e))
        return NULL;
    return f;
}

/* ---- splits -------------------------------------------------------------------------------- */

/* A number of a part's header; -1: none. */
static int64_t split_number(const struct map *by_key, const char *key)
{
    const struct gguf_value *v = map_get_str(by_key, key);
    bool is_whole = v && (v->type == GGUF_U16 || v->type == GGUF_U32 || v->type == GGUF_I32 ||
                          v->type == GGUF_U64 || v->type == GGUF_I64);
    return is_whole ? v->i : -1;
}

/* The path of part `no`, from that of the first; NULL: the first is not called as it must be. */
static char *part_path(const char *path, int no, int n_part)
{
    char end[64];
    size_t len = strlen(path), stem = len - PART_END_BYTES;
    snprintf(end, sizeof end, "-%05d-of-%05d.gguf", 1, n_part);
    if (len <= PART_END_BYTES || strcmp(path + stem, end) != 0)
        return NULL;
    char *p = xstrdup(path);
    snprintf(end, sizeof end, "-%05d-of-%05d.gguf", no + 1, n_part);
    memcpy(p + stem, end, PART_END_BYTES);
    return p;
}

static int open_one_part(struct gguf *g, const char *path, int no, int n_part, struct err *e)
{
    struct gguf_header h = {.n_tensor = 0};
    struct gguf_file *f = open_part(g, path, &h, e);
    int rc = -1;
    if (!f)
        err_wrap(e, "part %d of %d", no + 1, n_part);
    else if (split_number(&h.by_key, "split.no") != no ||
             split_number(&h.by_key, "split.count") != n_part)
        err_set(e, ERR_BAD_INPUT, "%s: its split.no and split.count are not those of part %d of %d",
                f->disk.name, no + 1, n_part);
    else
        rc = 0;
    map_release(&h.by_key);
    return rc;
}

static int open_parts(struct gguf *g, const char *path, struct err *e)
{
    int64_t no = split_number(&g->by_key, "split.no"), n = split_number(&g->by_key, "split.count");
    int64_t n_tensor = split_number(&g->by_key, "split.tensors.count");
    if (n < 0 && no < 0)
        return 0;
    if (n < 1 || n > GGUF_MAX_PARTS || no < 0 || no >= n)
        return err_set(e, ERR_BAD_INPUT, "%s: split.no and split.count are no part of a split",
                       g->name);
    if (no != 0)
        return err_set(e, ERR_BAD_INPUT,
                       "%s: part %lld of %lld; name the first one, whose name ends in "
                       "-00001-of-%05lld.gguf",
                       g->name, (long long)no + 1, (long long)n, (long long)n);
    for (int i = 1; i < n; i++) {
        char *part = part_path(path, i, (int)n);
        int rc = part ? open_one_part(g, part, i, (int)n, e)
                      : err_set(e, ERR_BAD_INPUT,
                                "%s: the first of %lld parts, so its name must end in "
                                "-00001-of-%05lld.gguf",
                                g->name, (long long)n, (long long)n);
        free(part);
        if (rc)
            return -1;
    }
    if (n_tensor >= 0 && (size_t)n_tensor != g->by_name.n_live)
        return err_set(e, ERR_BAD_INPUT, "%s: split.tensors.count is %lld, its parts hold %zu",
                       g->name, (long long)n_tensor, g->by_name.n_live);
    return 0;
}

/* All tensors in one array, which is what they are known by from here on. */
static int gather(struct gguf *g, struct err *e)
{
    g->tensor = arena_try(&g->arena, g->by_name.n_live + 1, sizeof *g->tensor, e);
    if (!g->tensor)
        return err_wrap(e, "%s", g->name);
    for (struct map_entry *it = map_next(&g->by_name, NULL); it; it = map_next(&g->by_name, it)) {
        g->tensor[g->n_tensor] = *(const struct gguf_tensor *)it->value;
        it->value = &g->tensor[g->n_tensor++];
    }
    return 0;
}

static int open_all(struct gguf *g, const char *path, struct err *e)
{
    struct gguf_header h = {.n_tensor = 0};
    struct gguf_file *f = open_part(g, path, &h, e);
    g->by_key = h.by_key;
    return f && open_parts(g, path, e) == 0 ? gather(g, e) : -1;
}

struct gguf *gguf_open(const char *path, struct err *e)
{
    struct gguf *g = xcalloc(1, sizeof *g);
    g->name = xstrdup(name_of(path));
    arena_init(&g->arena, MAX_ARENA_BYTES);
    map_init(&g->by_name);
    map_init(&g->by_key);
    if (open_all(g, path, e) == 0)
        return g;
    gguf_close(g);
    return NULL;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_file; i++)
        gguf_file_close(g->file[i]);
    free(g->file);
    map_release(&g->by_key);
    map_release(&g->by_name);
    arena_release(&g->arena);
    free(g->name);
    free(g);
}

/* ---- values -------------------------------------------------------------------------------- */

const struct gguf_value *gguf_get(const struct gguf *g, const char *key)
{
    return map_get_str(&g->by_key, key);
}

int gguf_err_type(const struct gguf *g, const struct gguf_value *v, const char *want, struct err *e)
{
    static const char *const name[] = {"a u8",   "an i8",  "a u16",  "an i16",   "a u32",
                                       "an i32", "an f32", "a bool", "a string", "an array",
                                       "a u64",  "an i64", "an f64"};
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: expected %s, found %s%s%s", g->name, v->key, want,
                   name[v->type], v->type == GGUF_ARRAY ? " with elements like " : "",
                   v->type == GGUF_ARRAY ? name[v->of] : "");
}

int gguf_opt_int(const struct gguf *g, const char *key, int64_t *out, struct err *e)
{
    const struct gguf_value *v = gguf_get(g, key);
    bool is_other = v && (v->type == GGUF_F32 || v->type == GGUF_F64 || v->type == GGUF_BOOL ||
                          v->type == GGUF_STRING || v->type == GGUF_ARRAY);
    if (!v)
        return 0;
    if (is_other)
        return gguf_err_type(g, v, "a whole number", e);
    if (v->i < 0)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: is negative, or too large", g->name, key);
    *out = v->i;
    return 0;
}

int gguf_opt_num(const struct gguf *g, const char *key, double *out, struct err *e)
{
    const struct gguf_value *v = gguf_get(g, key);
    if (!v)
        return 0;
    if (v->type != GGUF_F32 && v->type != GGUF_F64)
        return gguf_err_type(g, v, "an f32 or f64", e);
    if (!(v->f - v->f == 0))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: is not finite", g->name, key);
    *out = v->f;
    return 0;
}

int gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *e)
{
    const struct gguf_value *v = gguf_get(g, key);
    if (!v)
        return 0;
    if (v->type != GGUF_BOOL)
        return gguf_err_type(g, v, "a bool", e);
    *out = v->u != 0;
    return 0;
}

int gguf_opt_str(const struct gguf *g, const char *key, const char **out, struct err *e)
{
    const struct gguf_value *v = gguf_get(g, key);
    if (!v)
        return 0;
    if (v->type != GGUF_STRING)
        return gguf_err_type(g, v, "a string", e);
    if (strlen(v->s.p) != v->s.n)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: holds a NUL character", g->name, key);
    *out = v->s.p;
    return 0;
}

int gguf_opt_array(const struct gguf *g, const char *key, enum gguf_type of,
                   const struct gguf_value **out, struct err *e)
{
    *out = gguf_get(g, key);
    if (!*out || ((*out)->type == GGUF_ARRAY && (*out)->of == of))
        return 0;
    return gguf_err_type(g, *out,
                         of == GGUF_STRING ? "an array of strings"
                         : of == GGUF_F32  ? "an array of f32"
                                           : "an array of i32",
                         e);
}

int32_t gguf_array_i32(const struct gguf_value *v, size_t i)
{
    int32_t x;
    memcpy(&x, v->bytes + i * sizeof x, sizeof x);
    return x;
}

float gguf_array_f32(const struct gguf_value *v, size_t i)
{
    float x;
    memcpy(&x, v->bytes + i * sizeof x, sizeof x);
    return x;
}

/* ---- tensors ------------------------------------------------------------------------------- */

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    return map_get_str(&g->by_name, name);
}

const char *gguf_tensor_file(const struct gguf_tensor *t)
{
    return t->file->disk.name;
}

int gguf_read(const struct gguf_tensor *t, uint64_t at, void *dst, size_t n, struct err *e)
{
    ASSERT(at <= t->bytes && n <= t->bytes - at);
    if (gguf_file_read(t->file, t->file->data + t->begin + at, dst, n, e))
        return err_wrap(e, "tensor %.200s", t->name);
    return 0;
}

uint64_t gguf_bytes(const struct gguf *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->n_tensor; i++)
        sum += g->tensor[i].bytes;
    return sum;
}

void gguf_prefetch(const struct gguf *g)
{
    for (size_t i = 0; i < g->n_file; i++)
        posix_fadvise(g->file[i]->disk.fd, 0, 0, POSIX_FADV_WILLNEED);
}
