/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that are set to nothing count as not set, as with the tools whose they are.
 */
#include "clients/hub/place.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

enum { TOKEN_MAX_BYTES = 4096, PATH_MAX_BYTES = 4000 };

/* A variable that is set, and not to nothing. */
static const char *get(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static char *joined(const char *a, const char *b)
{
    struct buf text;
    buf_init(&text, 2 * PATH_MAX_BYTES);
    buf_printf(&text, "%s%s", a, b);
    return buf_take(&text);
}

/* The folder of Hugging Face's tools; NULL: there is no home. */
static char *find_home(void)
{
    const char *home = get("HF_HOME"), *base = get("XDG_CACHE_HOME"), *user = get("HOME");
    return home   ? xstrdup(home)
           : base ? joined(base, "/huggingface")
           : user ? joined(user, "/.cache/huggingface")
                  : NULL;
}

static bool is_true(const char *v)
{
    return v && (!strcmp(v, "1") || !strcasecmp(v, "true") || !strcasecmp(v, "yes") ||
                 !strcasecmp(v, "on"));
}

static int set_endpoint(struct hub_place *p, struct err *e)
{
    const char *url = get("HF_ENDPOINT");
    p->endpoint = xstrdup(url ? url : "https://huggingface.co");
    for (size_t n = strlen(p->endpoint); n && p->endpoint[n - 1] == '/'; n--)
        p->endpoint[n - 1] = 0;
    bool is_http = !strncmp(p->endpoint, "http://", 7) || !strncmp(p->endpoint, "https://", 8);
    for (const char *s = p->endpoint; *s; s++)
        is_http &= (unsigned char)*s > ' ' && *s != 127 && *s != '@';
    return is_http
               ? 0
               : err_set(e, ERR_BAD_INPUT,
                         "HF_ENDPOINT: \"%.100s\" is no address; write https://HOST", p->endpoint);
}

/* Without white space around it; what a header cannot have is refused. */
static int set_token(struct hub_place *p, const char *text, const char *from, struct err *e)
{
    size_t n = strcspn(text += strspn(text, " \t\r\n"), " \t\r\n");
    if (text[n + strspn(text + n, " \t\r\n")])
        return err_set(e, ERR_BAD_INPUT, "%s: the token has white space in it", from);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
            return err_set(e, ERR_BAD_INPUT, "%s: the token has other characters than ASCII's",
                           from);
    p->token = n ? xstrndup(text, n) : NULL;
    return 0;
}

static int find_token(struct hub_place *p, const char *home, struct err *e)
{
    const char *said = get("HF_TOKEN");
    const char *file = get("HF_TOKEN_PATH");
    struct buf text;
    struct err why = ERR_INIT;
    if (said)
        return set_token(p, said, "HF_TOKEN", e);
    char *path = file ? xstrdup(file) : home ? joined(home, "/token") : NULL;
    int rc = 0;
    buf_init(&text, TOKEN_MAX_BYTES);
    if (path && fs_read(path, &text, &why) == 0)
        rc = set_token(p, text.data ? text.data : "", path, e);
    buf_release(&text);
    free(path);
    return rc;
}

int hub_place_init(struct hub_place *p, struct err *e)
{
    const char *cache = get("HF_HUB_CACHE");
    char *home = find_home();
    *p = (struct hub_place){.is_offline = is_true(get("HF_HUB_OFFLINE"))};
    p->cache = cache ? xstrdup(cache) : home ? joined(home, "/hub") : NULL;
    int rc = set_endpoint(p, e) || find_token(p, home, e) ? -1 : 0;
    if (!rc && (!p->cache || strlen(p->cache) > PATH_MAX_BYTES))
        rc = err_set(e, ERR_BAD_INPUT,
                     "no folder to keep models in: set HF_HOME, or HOME (at most %d bytes)",
                     PATH_MAX_BYTES);
    free(home);
    return rc;
}

void hub_place_release(struct hub_place *p)
{
    free(p->endpoint);
    free(p->token);
    free(p->cache);
    *p = (struct hub_place){0};
}
