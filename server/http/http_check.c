/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a request as HTTP. The library parses strictly, but leaves to its user what
 * two parsers in a row may read differently: where a body ends. Whatever leaves that open is
 * refused, and the connection is closed, so that no byte behind it is taken for a request.
 */
#include <string.h>
#include <strings.h>

#include "api/error.h"
#include "engine/base/num.h"
#include "server/http/http_own.h"

static int bad(struct api_error *e, const char *what)
{
    return api_fail(e, 400, "bad_request", NULL, "%s", what);
}

static int check_length(struct http_headers *h, struct api_error *e)
{
    const char *s = h->length_text;
    if (h->n_length > 1)
        return bad(e, "more than one Content-Length");
    if (!s)
        return 0;
    if (!*s || strspn(s, "0123456789") != strlen(s))
        return bad(e, "Content-Length is not a number");
    if (num_int(s, 0, INT64_MAX, &h->length, NULL))
        return api_fail(e, 413, NULL, NULL, "Content-Length is out of all bounds");
    return 0;
}

/* RFC 9110, 5.6.2. */
static bool is_token(const char *s)
{
    static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                             "!#$%&'*+-.^_`|~";
    return *s && !s[strspn(s, ok)];
}

int http_check_headers(struct http_headers *h, struct api_error *e)
{
    if (!is_token(h->method))
        return bad(e, "the method is not a word");
    if (check_length(h, e))
        return -1;
    if (h->n_coding && h->n_length)
        return bad(e, "Content-Length beside Transfer-Encoding");
    if (h->n_coding > 1 || (h->n_coding && strcasecmp(h->coding, "chunked") != 0))
        return bad(e, "the only Transfer-Encoding taken is chunked, once");
    if (h->n_coding && h->is_old)
        return bad(e, "Transfer-Encoding is not of HTTP/1.0");
    if (h->n_host > 1 || (h->n_host == 0 && !h->is_old))
        return bad(e, "one Host is wanted");
    if (h->n_authorization > 1)
        return bad(e, "more than one Authorization");
    if (h->n_api_key > 1)
        return bad(e, "more than one x-api-key");
    if (h->n_type > 1)
        return bad(e, "more than one Content-Type");
    if (h->expect && strcasecmp(h->expect, "100-continue") != 0)
        return api_fail(e, 417, NULL, NULL, "the only expectation known is 100-continue");
    return 0;
}

/* "application/json", with or without parameters. */
static bool is_of(const char *type, const char *want)
{
    size_t n = strlen(want);
    return strncasecmp(type, want, n) == 0 && (!type[n] || strchr("; \t", type[n]));
}

int http_check_body(const struct http_headers *h, const struct route *r, struct api_error *e)
{
    bool has_body = h->length > 0 || h->n_coding;
    if (!has_body)
        return 0;
    if (h->length > 0 && (uint64_t)h->length > r->max_body) {
        if (r->max_body == 0)
            return api_fail(e, 413, NULL, NULL, "this path takes no body");
        return api_fail(e, 413, NULL, NULL, "the body has more than the %zu bytes that are taken",
                        r->max_body);
    }
    if (h->n_coding && r->max_body == 0)
        return api_fail(e, 413, NULL, NULL, "this path takes no body");
    if (h->content_coding && *h->content_coding && strcasecmp(h->content_coding, "identity") != 0)
        return api_fail(e, 415, "unsupported_encoding", NULL,
                        "the body must be sent as it is, without a Content-Encoding");
    const char *want = r->intake ? r->intake->type : "application/json";
    if (!r->takes_any_type && (!h->type || !is_of(h->type, want)))
        return api_fail(e, 415, NULL, NULL, "the body must be sent as %s", want);
    return 0;
}
