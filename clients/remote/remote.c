/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking, paging, and showing an object member by member.
 */
#include "clients/remote/remote.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/remote/pick.h"
#include "clients/remote/term.h"
#include "engine/base/mem.h"

enum { PAGE = 100, PATH_BYTES_MAX = 16 << 10, SHOWN_BYTES_MAX = 1 << 20, NAME_WIDTH = 18 };

const struct opt_row remote_rows[] = {REMOTE_ROWS};
_Static_assert(sizeof remote_rows / sizeof *remote_rows == N_REMOTE_ROWS, "as many as it says");

struct peer *remote_peer(const struct remote_options *o, struct err *e)
{
    return peer_new(o->url, o->api_key, e);
}

char *remote_path(const char *path, const char *name, struct err *e)
{
    const char *gap = strstr(path, "%s");
    char *escaped = peer_escape(name);
    struct buf b;
    buf_init(&b, PATH_BYTES_MAX);
    buf_add(&b, path, (size_t)(gap - path));
    buf_str(&b, escaped);
    buf_str(&b, gap + 2);
    int rc = *name == 0 ? err_set(e, ERR_BAD_INPUT, "an empty name") : buf_check(&b, "the name", e);
    char *whole = rc ? NULL : buf_take(&b);
    buf_release(&b);
    free(escaped);
    return whole;
}

int remote_ask(struct peer *p, const char *method, const char *path, const char *name,
               json_t **answer, struct err *e)
{
    char *whole = remote_path(path, name, e);
    int rc = whole ? peer_ask(p, method, whole, NULL, answer, e) : -1;
    free(whole);
    return rc;
}

/* ---- lists --------------------------------------------------------------------------------- */

static int page_of(struct peer *p, const char *path, int64_t n, const char *after, json_t **page,
                   struct err *e)
{
    char *escaped = after ? peer_escape(after) : NULL;
    struct buf b;
    buf_init(&b, PATH_BYTES_MAX);
    buf_printf(&b, "%s?limit=%" PRId64, path, n);
    if (escaped)
        buf_printf(&b, "&after=%s", escaped);
    int rc = buf_check(&b, "the query", e);
    if (!rc)
        rc = peer_ask(p, "GET", b.data, NULL, page, e);
    buf_release(&b);
    free(escaped);
    return rc;
}

int remote_each(struct peer *p, const char *path, int64_t limit, remote_each_fn *fn, void *ctx,
                struct err *e)
{
    json_t *page = NULL;
    const char *last = NULL;
    int rc = 0;
    for (int64_t left = limit ? limit : INT64_MAX; !rc && left > 0;) {
        json_t *next = NULL;
        rc = page_of(p, path, left < PAGE ? left : PAGE, last, &next, e);
        json_decref(page);
        page = next;
        const json_t *data = json_object_get(page, "data"), *object;
        size_t i, n = json_array_size(data);
        json_array_foreach(data, i, object) if (!rc) rc = fn(ctx, object, e);
        left -= (int64_t)n;
        last = n ? json_string_value(json_object_get(json_array_get(data, n - 1), "id")) : NULL;
        if (!last || !json_is_true(json_object_get(page, "has_more")))
            break;
    }
    json_decref(page);
    return rc;
}

struct bases {
    struct buf names;
    int n;
};

static int add_base(void *ctx, const json_t *model, struct err *e)
{
    struct bases *b = ctx;
    (void)e;
    if (json_is_string(json_object_get(model, "parent")))
        return 0;
    const char *id = json_string_value(json_object_get(model, "id"));
    buf_printf(&b->names, "%s%s", b->n++ ? ", " : "", id ? id : "");
    return 0;
}

char *remote_base(struct peer *p, const char *wanted, struct err *e)
{
    struct bases b = {.n = 0};
    char *name = NULL;
    if (wanted)
        return pick(p, "/v1/models", wanted, e);
    buf_init(&b.names, PATH_BYTES_MAX);
    if (remote_each(p, "/v1/models", 0, add_base, &b, e) == 0) {
        if (b.n == 1)
            name = buf_take(&b.names);
        else
            err_set(e, ERR_BAD_INPUT, "--model is needed: the server has %s",
                    b.n ? b.names.data : "none");
    }
    buf_release(&b.names);
    return name;
}

/* ---- showing ------------------------------------------------------------------------------- */

void remote_print_json(const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text)
        puts(text);
    free(text);
    fflush(stdout);
}

const char *remote_time(json_int_t seconds, char room[REMOTE_TEXT_BYTES])
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(room, REMOTE_TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(room, REMOTE_TEXT_BYTES, "%" JSON_INTEGER_FORMAT, seconds);
    return room;
}

static bool is_time(const char *name)
{
    size_t n = strlen(name);
    return (n > 3 && !strcmp(name + n - 3, "_at")) || !strcmp(name, "created") ||
           !strcmp(name, "estimated_finish");
}

const char *remote_text(const json_t *object, const char *name, char room[REMOTE_TEXT_BYTES])
{
    const json_t *v = json_object_get(object, name);
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v) && is_time(name))
        return remote_time(json_integer_value(v), room);
    if (json_is_integer(v))
        snprintf(room, REMOTE_TEXT_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        snprintf(room, REMOTE_TEXT_BYTES, "%g", json_real_value(v));
    else if (json_is_boolean(v))
        return json_is_true(v) ? "yes" : "no";
    else
        return "-";
    return room;
}

static bool says_nothing(const json_t *v)
{
    return json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

/* A value that has members is shown as JSON, a list of texts as its items. */
static void put_value(struct buf *b, const json_t *object, const char *name, const json_t *v)
{
    char room[REMOTE_TEXT_BYTES];
    if (!json_is_object(v) && !json_is_array(v)) {
        buf_str(b, remote_text(object, name, room));
        return;
    }
    char *text = json_dumps(v, JSON_COMPACT);
    buf_str(b, text ? text : "");
    free(text);
}

void remote_print(const struct remote_options *o, const json_t *object)
{
    const char *name;
    json_t *v;
    if (o->json) {
        remote_print_json(object);
        return;
    }
    struct term term;
    term_init(&term, stdout);
    json_object_foreach((json_t *)(uintptr_t)object, name, v)
    {
        struct buf b;
        if (says_nothing(v) || !strcmp(name, "object"))
            continue;
        buf_init(&b, SHOWN_BYTES_MAX);
        put_value(&b, object, name, v);
        if (term.is_tty)
            printf("%s%-*s%s  ", term_style(&term, TERM_DIM), NAME_WIDTH, name,
                   term_style(&term, TERM_PLAIN));
        else
            printf("%s\t", name);
        term_put(stdout, b.data ? b.data : "");
        putchar('\n');
        buf_release(&b);
    }
}

int remote_show(const struct opt *o, const char *method, const char *path)
{
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    json_t *object = NULL;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? pick_ask(p, method, path, o->arg[0], &object, &e) : -1;
    if (!rc)
        remote_print(r, object);
    json_decref(object);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
