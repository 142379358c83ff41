/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a line that others say: the first byte of the input tells which. An address, a model of
 * the hub, the path of a file there, a trace's parents, those through whom a request came, a
 * number.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "clients/hub/spec.h"
#include "engine/base/num.h"
#include "engine/base/url.h"
#include "server/http/proxy.h"
#include "server/traces/traces.h"
#include "tests/fuzz/fuzz.h"

enum { WORD_BYTES = 4096 };

static void try_url(const char *text)
{
    struct url u;
    struct err e = ERR_INIT;
    if (url_parse(text, &u, &e)) {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
        return;
    }
    ASSERT(u.host[0] && strlen(u.host) < URL_HOST_BYTES && u.port > 0 && u.port < 1 << 16);
    ASSERT((!u.path[0] || u.path[0] == '/' || u.path[0] == '?') && !strpbrk(u.path, "#\\ "));
    ASSERT(!strchr(u.host + 1, '[') && (u.host[0] == '[') == !!strchr(u.host, ']'));
    ASSERT(url_is_below(&u, &u));
}

static void try_spec(const char *text)
{
    struct hub_spec s;
    struct err e = ERR_INIT;
    if (hub_spec_parse(&s, text, &e) == 0)
        ASSERT(s.repo && strchr(s.repo, '/') && !strstr(s.repo, "..") && s.rev && *s.rev);
    hub_spec_release(&s);
    (void)hub_spec_is_like(text);
}

static void try_path(const char *text)
{
    if (hub_path_is_safe(text))
        ASSERT(*text && *text != '/' && strncmp(text, "..", 2) && !strstr(text, "/..") &&
               !strstr(text, "//") && text[strlen(text) - 1] != '/');
}

static void try_trace(const char *text)
{
    struct trace_ids t;
    if (!trace_begin(&t, text, 1))
        return;
    ASSERT(strlen(t.trace) == 32 && (!*t.parent || strlen(t.parent) == 16));
    for (const char *p = t.trace; *p; p++)
        ASSERT(isxdigit((unsigned char)*p) && !isupper((unsigned char)*p));
}

static void try_forwarded(const char *text)
{
    static const char *const known[] = {"10.0.0.0/8", "::1", "2001:db8::/32", "unix"};
    const struct opt_list words = {.at = (const char **)(uintptr_t)known, .n = 4};
    struct proxies p = {.n = 0};
    struct err e = ERR_INIT;
    char room[INET6_ADDRSTRLEN];
    unsigned char at[16];
    ASSERT(proxies_read(&p, &words, &e) == 0);
    for (int i = 0; i < 3; i++) {
        const char *from = i == 0 ? NULL : i == 1 ? "10.1.2.3" : "9.9.9.9";
        const char *is = proxies_client(&p, from, text, room);
        ASSERT(!is || i < 2);
        ASSERT(!is || inet_pton(AF_INET, is, at) == 1 || inet_pton(AF_INET6, is, at) == 1);
    }
}

static void try_number(const char *text)
{
    struct err e = ERR_INIT;
    int64_t i = 0;
    double x = 0;
    if (num_int(text, -5, 1 << 20, &i, &e) == 0)
        ASSERT(i >= -5 && i <= 1 << 20);
    if (num_size(text, 0, INT64_MAX, &i, &e) == 0)
        ASSERT(i >= 0);
    if (num_double(text, -1, 1, &x, &e) == 0)
        ASSERT(isfinite(x) && x >= -1 && x <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const each[])(const char *text) = {try_url,   try_spec,      try_path,
                                                     try_trace, try_forwarded, try_number};
    char text[WORD_BYTES];
    if (!size || size > sizeof text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    each[data[0] % (sizeof each / sizeof *each)](text);
    return 0;
}
