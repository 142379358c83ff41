/* SPDX-License-Identifier: Apache-2.0
 *
 * Names come from a hub and are told in errors: those that no path may have were left out by who
 * made the list.
 */
#include "clients/hub/pick.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { INDEX_BYTES_MAX = 64 << 20, SAID_MAX = 12, SAID_BYTES_MAX = 700 };

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcasecmp(s + n - m, end);
}

/* ---- a folder of safetensors ---- */

static const char *const small[] = {
    "config.json",           "generation_config.json",    "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",   "chat_template.jinja",
    "modules.json",          "sentence_bert_config.json", "config_sentence_transformers.json",
};

/* "1_Pooling/config.json", "2_Dense/model.safetensors": one folder, that begins with a number. */
static bool is_module(const char *name)
{
    const char *slash = strchr(name, '/');
    return isdigit((unsigned char)*name) && slash &&
           (!strcmp(slash, "/config.json") || !strcmp(slash, "/model.safetensors"));
}

static int add_indexed(const struct hub_names *all, const char *index, const struct buf *text,
                       struct hub_names *out, struct err *e)
{
    json_error_t why;
    json_t *root = json_loadb(text->data ? text->data : "", text->len, 0, &why);
    json_t *map = json_object_get(root, "weight_map"), *file;
    const char *tensor;
    int rc = 0;
    if (json_object_size(map) == 0)
        rc = err_set(e, ERR_BAD_INPUT, "%s names no files of weights", index);
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (rc || !name || !hub_names_has(all, name)) {
            rc = rc ? rc
                    : err_set(e, ERR_BAD_INPUT, "%s: tensor %.80s lies in a file that is not there",
                              index, tensor);
            break;
        }
        hub_names_add(out, name);
    }
    json_decref(root);
    return rc;
}

static int add_weights(const struct hub_names *all, hub_read_fn *read, void *ctx,
                       struct hub_names *out, struct err *e)
{
    const char *index = "model.safetensors.index.json", *whole = "model.safetensors";
    struct buf text;
    if (hub_names_has(all, whole))
        return hub_names_add(out, whole), 0;
    if (!hub_names_has(all, index))
        return err_set(e, ERR_UNSUPPORTED,
                       "it has neither %s nor %s: only safetensors and GGUF files are read", whole,
                       index);
    buf_init(&text, INDEX_BYTES_MAX);
    int rc = read(ctx, index, &text, e) || add_indexed(all, index, &text, out, e) ? -1 : 0;
    hub_names_add(out, index);
    buf_release(&text);
    return rc;
}

static int pick_folder(const struct hub_names *all, hub_read_fn *read, void *ctx,
                       struct hub_names *out, struct err *e)
{
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (hub_names_has(all, small[i]))
            hub_names_add(out, small[i]);
    for (size_t i = 0; i < all->n; i++)
        if (is_module(all->at[i]))
            hub_names_add(out, all->at[i]);
    return add_weights(all, read, ctx, out, e);
}

/* ---- GGUF ---- */

/* "-00001-of-00003.gguf": where that begins, or NULL. */
static const char *find_part(const char *name)
{
    const char *form = "-#####-of-#####.gguf";
    size_t n = strlen(name), m = strlen(form);
    const char *at = name + n - (n < m ? n : m);
    for (size_t i = 0; i < m; i++)
        if (n < m || (form[i] == '#' ? !isdigit((unsigned char)at[i])
                                     : tolower((unsigned char)at[i]) != form[i]))
            return NULL;
    return at;
}

/* Whether it is a model, or the first part of one. */
static bool is_model(const char *name)
{
    const char *part = find_part(name);
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    if (!ends_with(name, ".gguf") || !strncasecmp(base, "mmproj", 6))
        return false;
    return !part || !strncmp(part, "-00001", 6);
}

/* A quant's name stands in a file's as a whole: Q4_K is not in Q4_K_M. */
static bool has_quant(const char *name, const char *what)
{
    size_t n = strlen(what);
    for (const char *s = name; *s; s++) {
        bool begins = s == name || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
        if (begins && !strncasecmp(s, what, n) && !(isalnum((unsigned char)s[n]) || s[n] == '_'))
            return true;
    }
    return false;
}

static int add_parts(const struct hub_names *all, const char *first, struct hub_names *out,
                     struct err *e)
{
    const char *part = find_part(first);
    size_t n = part ? (size_t)(part - first) : 0;
    long want = part ? strtol(part + 10, NULL, 10) : 1, got = 0;
    hub_names_add(out, first);
    for (size_t i = 0; part && i < all->n; i++) {
        const char *other = find_part(all->at[i]);
        if (other && (size_t)(other - all->at[i]) == n && !strncmp(first, all->at[i], n) &&
            !strcmp(other + 6, part + 6)) {
            hub_names_add(out, all->at[i]);
            got++;
        }
    }
    return !part || got == want
               ? 0
               : err_set(e, ERR_NOT_FOUND, "%s: %ld of its %ld parts are there", first, got, want);
}

/* The models among the files, as an error shows them. */
static int err_which(const struct hub_names *all, const char *what, const char *said, struct err *e)
{
    struct buf list;
    int n = 0;
    buf_init(&list, SAID_BYTES_MAX);
    for (size_t i = 0; i < all->n; i++)
        if (is_model(all->at[i]) && (!what || has_quant(all->at[i], what)) && n++ < SAID_MAX)
            buf_printf(&list, "%s%s", n > 1 ? ", " : "", all->at[i]);
    err_set(e, ERR_BAD_INPUT, "%s%s%s%s", said, n ? ": " : "",
            n && !list.failed ? list.data
            : n               ? "..."
                              : "",
            n > SAID_MAX ? ", ..." : "");
    buf_release(&list);
    return -1;
}

/* The one model that `what` (or nothing) leaves; *n: how many it leaves. */
static const char *find_model(const struct hub_names *all, const char *what, int *n)
{
    const char *found = NULL;
    *n = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (is_model(all->at[i]) && (!what || has_quant(all->at[i], what))) {
            found = found ? found : all->at[i];
            ++*n;
        }
    }
    return found;
}

static int pick_gguf(const struct hub_names *all, const char *what, struct hub_names *out,
                     const char **file, struct err *e)
{
    int n;
    *file = find_model(all, what, &n);
    if (n > 1)
        return err_which(all, what, "say which file, or which quant, behind a ':'", e);
    if (n == 0)
        return err_which(all, NULL,
                         what
                             ? "no file has that name, nor is there a GGUF file with it in its name"
                             : "it has no config.json and no GGUF file: it is no model that can "
                               "be read here",
                         e);
    return add_parts(all, *file, out, e);
}

int hub_pick(const struct hub_names *all, const char *what, hub_read_fn *read, void *ctx,
             struct hub_names *out, const char **file, struct err *e)
{
    *file = NULL;
    if (what && hub_names_has(all, what)) {
        for (size_t i = 0; i < all->n; i++)
            if (!strcmp(all->at[i], what))
                *file = all->at[i];
        if (ends_with(what, ".gguf"))
            return add_parts(all, *file, out, e);
        return hub_names_add(out, what), 0;
    }
    if (!what && hub_names_has(all, "config.json"))
        return pick_folder(all, read, ctx, out, e);
    return pick_gguf(all, what, out, file, e);
}
