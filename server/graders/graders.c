/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be asked is looked at when a grader is read and again whenever it asks: a job may go on
 * in a server that allows less.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/curl_lib.h"
#include "engine/base/mem.h"
#include "server/graders/graders_own.h"

enum { ARENA_BYTES = 4 << 20, LINE_BYTES = 4096, LOOK_MS = 50 };

bool grader_is_ended(const struct grader_question *q)
{
    return q->ends && atomic_load(q->ends);
}

bool grader_rest(const struct grader_question *q, int64_t ms, int64_t until_us)
{
    int64_t end = clock_us() + ms * 1000;
    if (end >= until_us)
        return false;
    for (int64_t now = clock_us(); now < end && !grader_is_ended(q); now = clock_us()) {
        int64_t left = (end - now) / 1000 + 1;
        poll(NULL, 0, (int)(left < LOOK_MS ? left : LOOK_MS));
    }
    return !grader_is_ended(q);
}

const struct grader_allowed *graders_find(const struct graders *g, const char *url)
{
    struct err unused = ERR_INIT;
    struct url u;
    if (url_parse(url, &u, &unused))
        return NULL;
    const struct grader_allowed *found = NULL;
    for (size_t i = 0; i < g->n_allowed; i++) {
        const struct grader_allowed *a = &g->allowed[i];
        if (url_is_below(&u, &a->url) && (!found || strlen(a->url.path) > strlen(found->url.path)))
            found = a;
    }
    return found;
}

static int allows(void *ctx, enum grader_place to, const char *url, struct err *e)
{
    const struct graders *g = ctx;
    struct url u;
    if (to == GRADER_MODEL_HERE)
        return 0;
    if (to == GRADER_PYTHON)
        return g->opt.python ? 0
                             : err_set(e, ERR_UNSUPPORTED,
                                       "This server runs no graders of the type \"python\": who "
                                       "runs it allows them with --python-graders.");
    if (url_parse(url, &u, e))
        return -1;
    return graders_find(g, url) ? 0
                                : err_set(e, ERR_UNSUPPORTED,
                                          "This server's graders may not ask there: who runs it "
                                          "allows addresses with --grader-url.");
}

static int ask(void *ctx, const struct grader_question *q, struct buf *out, struct err *e)
{
    struct graders *g = ctx;
    int64_t until = clock_us() + g->opt.timeout_us;
    until = q->until_us && q->until_us < until ? q->until_us : until;
    if (allows(g, q->to, q->url, e))
        return -1;
    return q->to == GRADER_URL      ? grader_post(g, q, until, out, e)
           : q->to == GRADER_PYTHON ? grader_python_ask(g->opt.python, q, until, out, e)
                                    : grader_ask_here(g, q, until, out, e);
}

struct grader_outside graders_outside(struct graders *g)
{
    return (struct grader_outside){
        .ask = ask, .allows = allows, .ctx = g, .timeout_us = g->opt.timeout_us};
}

/* ---- beginning ----------------------------------------------------------------------------- */

static int read_allowed(struct graders *g, struct err *e)
{
    g->allowed = ARENA_ARRAY(&g->arena, struct grader_allowed, g->opt.n_url);
    for (size_t i = 0; i < g->opt.n_url; i++) {
        if (url_parse(g->opt.url[i], &g->allowed[i].url, e))
            return err_wrap(e, "--grader-url %.200s", g->opt.url[i]);
        g->n_allowed++;
    }
    return 0;
}

/* Of the addresses that are the key's or below it, and have none that is nearer. */
static int add_key(struct graders *g, const char *url, const char *key, struct err *e)
{
    struct url of;
    bool is_used = false;
    if (url_parse(url, &of, e))
        return -1;
    for (size_t i = 0; i < g->n_allowed; i++) {
        struct grader_allowed *a = &g->allowed[i];
        if (!url_is_below(&a->url, &of))
            continue;
        is_used = true;
        if (strlen(of.path) < a->n_key_path)
            continue;
        a->n_key_path = strlen(of.path);
        a->key = arena_strdup(&g->arena, key);
    }
    return is_used ? 0 : err_set(e, ERR_BAD_INPUT, "no --grader-url is below its address");
}

/* The next word of a line, ended; "": there is none. */
static char *take_word(char **at)
{
    static const char space[] = " \t\r\n";
    char *word = *at + strspn(*at, space), *end = word + strcspn(word, space);
    *at = end + (*end != 0);
    *end = 0;
    return word;
}

static int read_line(struct graders *g, char *line, struct err *e)
{
    const char *url = take_word(&line);
    if (!*url || *url == '#')
        return 0;
    const char *key = take_word(&line);
    if (!*key || *take_word(&line))
        return err_set(e, ERR_BAD_INPUT, "a line is written URL KEY");
    return add_key(g, url, key, e);
}

static int read_keys(struct graders *g, struct err *e)
{
    char line[LINE_BYTES];
    int rc = 0, n = 0;
    if (!g->opt.key_file || !*g->opt.key_file)
        return 0;
    FILE *f = fopen(g->opt.key_file, "re");
    if (!f)
        return err_sys(e, "--grader-key-file %s", g->opt.key_file);
    while (!rc && fgets(line, sizeof line, f)) {
        n++;
        rc = read_line(g, line, e);
    }
    fclose(f);
    return rc ? err_wrap(e, "--grader-key-file %s, line %d", g->opt.key_file, n) : 0;
}

static int begin_curl(struct graders *g, struct err *e)
{
    const struct curl_lib *curl = g->n_allowed ? curl_lib_get(e) : NULL;
    if (!g->n_allowed)
        return 0;
    if (!curl)
        return -1;
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != 0)
        return err_set(e, ERR_IO, "libcurl could not be made ready");
    g->has_curl = true;
    return 0;
}

struct graders *graders_new(const struct graders_options *o, struct err *e)
{
    struct graders *g = xcalloc(1, sizeof *g);
    g->opt = *o;
    arena_init(&g->arena, ARENA_BYTES);
    if (!read_allowed(g, e) && !read_keys(g, e) && !begin_curl(g, e))
        return g;
    graders_free(g);
    return NULL;
}

void graders_free(struct graders *g)
{
    struct err unused = ERR_INIT;
    if (!g)
        return;
    if (g->has_curl)
        curl_lib_get(&unused)->global_cleanup();
    arena_release(&g->arena);
    free(g);
}
