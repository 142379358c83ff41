/* SPDX-License-Identifier: Apache-2.0
 *
 * Members and tensors are sets: each has a digest of its own, and a set's is all of them by
 * exclusive or, so that no order counts. Names are unique in both, so no two cancel.
 */
#include "engine/load/base_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

enum {
    BLOCK_BYTES = 256,
    BLOCKS = 4,          /* of a tensor; */
    TENSORS_MANY = 4096, /* one of each where there are more tensors */
    PATH_BYTES_MAX = 1 << 20,
    ID_BYTES_MAX = 1024
};

struct set {
    uint8_t digest[SHA256_BYTES];
};

static void set_add(struct set *s, struct sha256 *one)
{
    uint8_t digest[SHA256_BYTES];
    sha256_end(one, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        s->digest[i] ^= digest[i];
}

/* ---- the config ---------------------------------------------------------------------------- */

/* Who wrote the file and where, and what the files of the weights say themselves. */
static bool is_counted(const char *key)
{
    static const char *const not [] = {"_name_or_path", "transformers_version", "torch_dtype",
                                       "dtype", "use_cache"};
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
        if (strcmp(key, not [i]) == 0)
            return false;
    return true;
}

/* A value that holds no others, as text that does not depend on how it was written. */
static void put_leaf(struct buf *b, const struct json *v)
{
    struct err unused = ERR_INIT;
    const char *text = "";
    size_t n = 0;
    double number = 0;
    bool is_so = false;
    switch (json_kind(v)) {
    case JSON_NUMBER:
        json_as_num(v, &number, &unused);
        buf_printf(b, "%.17g", number);
        return;
    case JSON_STRING:
        json_as_bytes(v, &text, &n, &unused);
        buf_printf(b, "\"%zu:", n);
        buf_add(b, text, n);
        return;
    case JSON_BOOL:
        json_as_bool(v, &is_so, &unused);
        buf_str(b, is_so ? "true" : "false");
        return;
    default:
        buf_str(b, json_kind_name(json_kind(v))); /* null, or an empty array or object */
        return;
    }
}

/* path: the way to v; it is as it was when this returns. As deep as the parser lets texts be. */
static void add_members(struct set *s, const struct json *v, struct buf *path)
{
    struct json c = json_child(v);
    size_t len = path->len;
    if (!c.node) {
        struct sha256 one;
        sha256_init(&one);
        buf_char(path, '=');
        put_leaf(path, v);
        sha256_add(&one, path->data, path->len);
        set_add(s, &one);
    }
    for (int i = 0; c.node; c = json_next(&c), i++) {
        if (!v->up && !is_counted(json_key(&c)))
            continue;
        if (json_is(v, JSON_ARRAY))
            buf_printf(path, "[%d]", i);
        else
            buf_printf(path, ".%s", json_key(&c));
        add_members(s, &c, path);
        path->len = len;
    }
    path->len = len;
}

/* What a file beside config.json says of packed matrices: its zero points may mean other numbers.
 */
static void add_packing(struct set *s, const struct packing *p)
{
    char text[128];
    struct sha256 one;
    int n = snprintf(text, sizeof text, "packing=%d,%lld,%lld,%lld,%d,%d", (int)p->method,
                     (long long)p->group, (long long)p->block[0], (long long)p->block[1],
                     p->is_ordered, p->is_zero_less);
    sha256_init(&one);
    sha256_add(&one, text, (size_t)n);
    set_add(s, &one);
}

static int add_config(struct set *s, const struct model_dir *d, struct err *e)
{
    struct json_doc *doc = model_dir_config_doc(d, e);
    struct buf way;
    if (!doc)
        return -1;
    struct json root = json_root(doc), said = json_member(&root, "quantization_config");
    buf_init(&way, PATH_BYTES_MAX);
    add_members(s, &root, &way);
    if (d->config.packing.method != PACKING_NONE && json_absent(&said))
        add_packing(s, &d->config.packing);
    int rc = buf_check(&way, "the config's members", e);
    buf_release(&way);
    json_free(doc);
    return rc;
}

/* ---- the weights --------------------------------------------------------------------------- */

/* The first block, the last, and some between; all of a small tensor. */
static int add_blocks(struct sha256 *one, const struct weight *w, int n_block, struct err *e)
{
    uint64_t size = weight_stored_bytes(w);
    char block[BLOCK_BYTES * BLOCKS];
    if (size <= sizeof block) {
        if (weight_read_stored(w, 0, block, (size_t)size, e))
            return -1;
        sha256_add(one, block, (size_t)size);
        return 0;
    }
    for (int i = 0; i < n_block; i++) {
        uint64_t last = size - BLOCK_BYTES;
        uint64_t at = n_block > 1 ? last / (uint64_t)(n_block - 1) * (uint64_t)i : last / 2;
        if (weight_read_stored(w, at, block, BLOCK_BYTES, e))
            return -1;
        sha256_add(one, block, BLOCK_BYTES);
    }
    return 0;
}

static int add_tensors(struct set *s, const struct weights *w, struct err *e)
{
    int n_block = weights_count(w) > TENSORS_MANY ? 1 : BLOCKS;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct weight *x = weights_at(w, i);
        struct sha256 one;
        char text[512];
        sha256_init(&one);
        sha256_add(&one, x->t->name, strlen(x->t->name) + 1);
        st_tensor_text(x->t, text, sizeof text);
        sha256_add(&one, text, strlen(text) + 1);
        if (add_blocks(&one, x, n_block, e))
            return -1;
        set_add(s, &one);
    }
    return 0;
}

int base_id_read(const struct model_dir *d, struct base_id *id, struct err *e)
{
    struct set config = {{0}}, tensors = {{0}};
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    struct sha256 all;
    if (add_config(&config, d, e) || add_tensors(&tensors, d->weights, e))
        return -1;
    sha256_init(&all);
    sha256_add(&all, config.digest, sizeof config.digest);
    sha256_add(&all, tensors.digest, sizeof tensors.digest);
    sha256_end(&all, digest);
    snprintf(id->files, sizeof id->files, "%.32s", sha256_text(digest, text));
    return 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

const char *base_id_text(const struct base_id *id, char text[BASE_ID_TEXT_BYTES])
{
    snprintf(text, BASE_ID_TEXT_BYTES, "%s:%s", id->files, id->types);
    return text;
}

void base_id_parse(const char *text, struct base_id *id)
{
    size_t n = BASE_FILES_BYTES - 1;
    *id = (struct base_id){.files = ""};
    if (!text || strspn(text, "0123456789abcdef") != n || text[n] != ':' ||
        strlen(text + n + 1) >= BASE_TYPES_BYTES)
        return;
    memcpy(id->files, text, n);
    snprintf(id->types, sizeof id->types, "%s", text + n + 1);
}

enum base_match base_id_match(const struct base_id *a, const struct base_id *b)
{
    if (!*a->files || !*b->files)
        return BASE_UNKNOWN;
    if (strcmp(a->files, b->files) != 0)
        return BASE_OTHER;
    return strcmp(a->types, b->types) == 0 ? BASE_SAME : BASE_OTHER_TYPES;
}

/* As much of a name as there is room for, without what JSON would have to escape. */
static void plain_name(const char *name, char out[BASE_NAME_BYTES])
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p && n + 1 < BASE_NAME_BYTES; p++)
        out[n++] = *p < 0x20 || *p >= 0x7f || *p == '"' || *p == '\\' ? '?' : (char)*p;
    out[n] = 0;
}

int base_id_put(const struct base_id *id, const char *name, const char *path, struct err *e)
{
    char text[BASE_ID_TEXT_BYTES], plain[BASE_NAME_BYTES], file[ID_BYTES_MAX];
    plain_name(name ? name : "", plain);
    int n = snprintf(file, sizeof file,
                     "{\n  \"format\": 1,\n  \"base\": \"%s\",\n  \"name\": \"%s\"\n}\n",
                     base_id_text(id, text), plain);
    return aside_put(path, file, (size_t)n, e);
}

int base_id_get(const char *dir, struct base_id *id, char name[BASE_NAME_BYTES], struct err *e)
{
    const char *text = NULL, *called = "";
    int64_t format;
    *id = (struct base_id){.files = ""};
    *name = 0;
    if (!path_exists(dir, BASE_ID_NAME))
        return 0;
    char *path = path_join(dir, BASE_ID_NAME);
    struct json_doc *doc = json_read(path, BASE_ID_NAME, &json_rules_config, e);
    free(path);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = json_get_int(&root, "format", 1, 1, &format, e) ||
                     json_get_str(&root, "base", &text, e) ||
                     json_opt_str(&root, "name", &called, e)
                 ? -1
                 : 0;
    plain_name(called, name);
    base_id_parse(text, id);
    if (!rc && !*id->files)
        rc = json_err(&root, e, ERR_BAD_INPUT, "'base' is no fingerprint of a model");
    json_free(doc);
    return rc;
}
