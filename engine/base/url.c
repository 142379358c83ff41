/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict, and narrower than what addresses may be: what two readers could take for different things
 * is refused rather than understood.
 */
#include "engine/base/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_PLAIN = 80, PORT_TLS = 443, PORT_MAX = 65535 };

static const char *scheme_of(const char *text, struct url *out)
{
    out->is_tls = !strncmp(text, "https://", 8);
    return out->is_tls ? text + 8 : !strncmp(text, "http://", 7) ? text + 7 : NULL;
}

/* Only what a path and a query may hold as it is, and no "..", said plainly or escaped. */
static bool is_plain(const char *s)
{
    if (strstr(s, "..") || strstr(s, "/./") || strcasestr(s, "%2e") || strcasestr(s, "%2f") ||
        strcasestr(s, "%5c"))
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("-._~/?&=%:@!$'()*+,;", *s))
            return false;
    return true;
}

static bool take_host(const char *p, size_t n, struct url *out)
{
    bool is_six = n > 2 && p[0] == '[' && p[n - 1] == ']';
    if (n == 0 || n >= sizeof out->host)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = (char)tolower((unsigned char)p[i]);
        bool is_end = i == 0 || i + 1 == n;
        bool is_good = is_six ? is_end || isxdigit((unsigned char)c) || strchr(":.", c)
                              : isalnum((unsigned char)c) || strchr("-._", c);
        if (!is_good)
            return false;
        out->host[i] = c;
    }
    out->host[n] = 0;
    return true;
}

static bool take_port(const char *p, size_t n, struct url *out)
{
    char digits[8] = "";
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, p, n);
    if (strspn(digits, "0123456789") != n)
        return false;
    out->port = (int)strtol(digits, NULL, 10);
    return out->port > 0 && out->port <= PORT_MAX;
}

int url_parse(const char *text, struct url *out, struct err *e)
{
    *out = (struct url){.port = 0};
    const char *p = scheme_of(text, out);
    if (!p)
        return err_set(e, ERR_BAD_INPUT, "an address begins with http:// or https://");
    size_t n = strcspn(p, "/?#"), n_host = n;
    const char *colon = *p == '[' ? memchr(p, ']', n) : p;
    colon = colon ? memchr(colon, ':', n - (size_t)(colon - p)) : NULL;
    out->port = out->is_tls ? PORT_TLS : PORT_PLAIN;
    if (colon) {
        n_host = (size_t)(colon - p);
        if (!take_port(colon + 1, n - n_host - 1, out))
            return err_set(e, ERR_BAD_INPUT, "an address has a port of 1 to %d", PORT_MAX);
    }
    if (!take_host(p, n_host, out))
        return err_set(e, ERR_BAD_INPUT, "an address has the name of a host, and no user");
    if (strlen(p + n) >= sizeof out->path || !is_plain(p + n) || strchr(p + n, '#'))
        return err_set(e, ERR_BAD_INPUT,
                       "an address has a path of fewer than %d bytes, without \"..\" and without "
                       "bytes that are to be escaped",
                       URL_PATH_BYTES);
    snprintf(out->path, sizeof out->path, "%s", p + n);
    return 0;
}

bool url_is_below(const struct url *url, const struct url *top)
{
    size_t n = strlen(top->path);
    if (n && top->path[n - 1] == '/')
        n--;
    return url->is_tls == top->is_tls && url->port == top->port &&
           strcmp(url->host, top->host) == 0 && strncmp(url->path, top->path, n) == 0 &&
           (url->path[n] == 0 || url->path[n] == '/' || url->path[n] == '?');
}
