/* SPDX-License-Identifier: Apache-2.0
 *
 * The list is asked for only where nothing has the word as its whole name. Of all that is in it
 * those are kept that fit as well as the best does.
 */
#include "clients/remote/pick.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { NOT_FOUND = 404, SHOWN_MAX = 8, LIST_BYTES_MAX = 1 << 16, PATH_BYTES = 128 };

/* How well a thing fits, the best last. */
enum fit { FIT_NONE, FIT_PART_OF_CHECKPOINT, FIT_PART, FIT_BEGIN_OF_CHECKPOINT, FIT_BEGIN };

struct picking {
    const char *word; /* borrowed */
    size_t n_word;    /* without the ~ behind what a narrow terminal showed */
    enum fit best;
    char *id; /* owned: the first that fits as well */
    int n;
    struct buf shown;
};

static bool has(const struct picking *k, const char *text)
{
    return text && k->n_word && memmem(text, strlen(text), k->word, k->n_word);
}

/* Behind "ft:BASE:" of a tuned model, which has its base's name in its own; else all of it. */
static const char *own_part(const char *id)
{
    const char *behind = strncmp(id, "ft:", 3) == 0 ? strchr(id + 3, ':') : NULL;
    return behind ? behind + 1 : id;
}

static enum fit fit_of(const struct picking *k, const json_t *object, const char *id)
{
    static const char *const name[] = {"filename", "user_provided_suffix"};
    bool is_checkpoint = strstr(id, ":ckpt-step-") && !memmem(k->word, k->n_word, ":ckpt", 5);
    bool is_part = has(k, own_part(id));
    if (k->n_word && strncmp(id, k->word, k->n_word) == 0)
        return is_checkpoint ? FIT_BEGIN_OF_CHECKPOINT : FIT_BEGIN;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        is_part |= has(k, json_string_value(json_object_get(object, name[i])));
    return !is_part ? FIT_NONE : is_checkpoint ? FIT_PART_OF_CHECKPOINT : FIT_PART;
}

static int look(void *ctx, const json_t *object, struct err *e)
{
    struct picking *k = ctx;
    const char *id = json_string_value(json_object_get(object, "id"));
    enum fit fit = id ? fit_of(k, object, id) : FIT_NONE;
    (void)e;
    if (fit == FIT_NONE || fit < k->best)
        return 0;
    if (fit > k->best) {
        k->best = fit;
        k->n = 0;
        free(k->id);
        k->id = xstrdup(id);
        buf_clear(&k->shown);
    }
    if (k->n++ < SHOWN_MAX)
        buf_printf(&k->shown, "%s%s", k->n > 1 ? ", " : "", id);
    return 0;
}

/* In the words of these commands: what the server says of a name, it says to programs. */
static void say_none(const char *path, const char *word, const struct err *why, struct err *e)
{
    const char *many = strrchr(path, '/') + 1;
    err_set(e, why->code, "no such %.*s: \"%.80s\" is in the name of none; `tandem %s` lists them",
            (int)strlen(many) - 1, many, word, many);
}

/* The one that fits, where there is one. `why`: what was said of the word as it is. */
static char *choose(struct peer *p, const char *path, const char *word, const struct err *why,
                    struct err *e)
{
    size_t n = strlen(word);
    struct picking k = {.word = word, .n_word = n && word[n - 1] == '~' ? n - 1 : n};
    char *id = NULL;
    buf_init(&k.shown, LIST_BYTES_MAX);
    if (remote_each(p, path, 0, look, &k, e) == 0) {
        if (k.n == 0)
            say_none(path, word, why, e);
        else if (k.n > 1)
            err_set(e, ERR_BAD_INPUT, "\"%.80s\" may be %s%s; more of the name tells which", word,
                    k.shown.data ? k.shown.data : "many", k.n > SHOWN_MAX ? ", and others" : "");
        else {
            id = k.id;
            k.id = NULL;
        }
    }
    free(k.id);
    buf_release(&k.shown);
    return id;
}

char *pick(struct peer *p, const char *path, const char *word, struct err *e)
{
    struct err why = ERR_INIT;
    char one[PATH_BYTES];
    snprintf(one, sizeof one, "%s/%%s", path);
    if (remote_ask(p, "GET", one, word, NULL, &why) == 0)
        return xstrdup(word);
    if (peer_status(p) == NOT_FOUND)
        return choose(p, path, word, &why, e);
    *e = why;
    return NULL;
}

int pick_ask(struct peer *p, const char *method, const char *path, const char *word,
             json_t **answer, struct err *e)
{
    struct err why = ERR_INIT;
    char list[PATH_BYTES];
    snprintf(list, sizeof list, "%.*s", (int)(strstr(path, "/%s") - path), path);
    if (remote_ask(p, method, path, word, answer, &why) == 0)
        return 0;
    if (peer_status(p) != NOT_FOUND) {
        *e = why;
        return -1;
    }
    char *id = choose(p, list, word, &why, e);
    int rc = id ? remote_ask(p, method, path, id, answer, e) : -1;
    free(id);
    return rc;
}
