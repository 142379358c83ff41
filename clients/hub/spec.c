/* SPDX-License-Identifier: Apache-2.0
 *
 * What a name may have is less than file systems allow: letters, digits and . - _.
 */
#include "clients/hub/spec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { NAME_MAX_BYTES = 96, REV_MAX_BYTES = 200, PATH_MAX_BYTES = 1000, PART_MAX_BYTES = 200 };

bool hub_path_is_safe(const char *path)
{
    size_t n = strlen(path);
    if (n == 0 || n > PATH_MAX_BYTES)
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += part > path;
        size_t len = strcspn(part, "/");
        if (len == 0 || len > PART_MAX_BYTES || !strncmp(part, "..", 2) ||
            (len == 1 && *part == '.'))
            return false;
    }
    for (const char *s = path; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127 || *s == '\\')
            return false;
    return true;
}

/* As the hub has names: letters, digits and . - _; two dashes would end a name in the cache. */
static bool is_name(const char *s, size_t n)
{
    if (n == 0 || n > NAME_MAX_BYTES || *s == '.' || *s == '-')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && !strchr(".-_", s[i]))
            return false;
        if (i && s[i] == s[i - 1] && (s[i] == '-' || s[i] == '.'))
            return false;
    }
    return true;
}

static bool is_rev(const char *s)
{
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-/+", *c))
            return false;
    return strlen(s) <= REV_MAX_BYTES && hub_path_is_safe(s);
}

static bool is_repo(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    return slash && is_name(s, (size_t)(slash - s)) &&
           is_name(slash + 1, (size_t)(s + n - slash - 1));
}

bool hub_spec_is_like(const char *text)
{
    return is_repo(text, strcspn(text, "@:"));
}

int hub_spec_parse(struct hub_spec *s, const char *text, struct err *e)
{
    size_t n_repo = strcspn(text, "@:");
    const char *at = text + n_repo;
    *s = (struct hub_spec){0};
    if (!is_repo(text, n_repo))
        return err_set(e, ERR_BAD_INPUT,
                       "\"%.100s\" names no model of the hub: it is ORG/NAME, with letters, "
                       "digits, '.', '-' and '_'",
                       text);
    s->repo = xstrndup(text, n_repo);
    size_t n_rev = *at == '@' ? strcspn(at + 1, ":") : 0;
    s->rev = *at == '@' ? xstrndup(at + 1, n_rev) : xstrdup("main");
    at += *at == '@' ? 1 + n_rev : 0;
    if (!is_rev(s->rev))
        return err_set(e, ERR_BAD_INPUT,
                       "\"%.100s\" names no revision: a branch, a tag or a commit", s->rev);
    if (*at == ':') {
        s->what = xstrdup(at + 1);
        if (!hub_path_is_safe(s->what))
            return err_set(e, ERR_BAD_INPUT, "\"%.100s\" names no file of a model", s->what);
    }
    return 0;
}

void hub_spec_release(struct hub_spec *s)
{
    free(s->repo);
    free(s->rev);
    free(s->what);
    *s = (struct hub_spec){0};
}
