/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /, GET /web/{file}: the page for people. It is open, and so are its files, which hold nothing
 * but themselves: what it shows it asks for by the other routes, with the key that it is told.
 *
 * What a page may do is said with it: nothing from elsewhere, no script or style but these files,
 * in nobody's frame, and no text that becomes markup. A browser asks each time whether its copy is
 * the one that the program has; a program that was replaced is never mixed with the old page.
 */
#include <string.h>

#include "api/error.h"
#include "server/http/route.h"
#include "server/routes/web.h"

static const char policy[] =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

static const struct web_file *find(const char *name)
{
    for (size_t i = 0; i < n_web_files; i++)
        if (strcmp(web_files[i].name, name) == 0)
            return &web_files[i];
    return NULL;
}

static void answer(struct call *c, const char *name)
{
    const struct web_file *f = find(name);
    if (!f) {
        struct api_error e;
        api_fail(&e, 404, "not_found", NULL, "The page has no such file.");
        call_error(c, &e);
        return;
    }
    struct buf body;
    const char *seen = call_header(c, "If-None-Match");
    buf_init(&body, f->n_data + 1);
    call_set_header(c, "ETag", f->etag);
    call_set_header(c, "Cache-Control", "no-cache");
    call_set_header(c, "Content-Security-Policy", policy);
    call_set_header(c, "Referrer-Policy", "no-referrer");
    buf_add(&body, f->data, f->n_data);
    /* of a 304 the transport sends the headers alone, which tell the length of what is not sent */
    call_reply(c, seen && strstr(seen, f->etag) ? 304 : 200, f->type, &body);
}

void route_web(struct call *c)
{
    answer(c, "index.html");
}

void route_web_file(struct call *c)
{
    answer(c, call_request(c)->param);
}
