/* SPDX-License-Identifier: Apache-2.0
 *
 * The description: a path after the other, each method under its path, then the schemas.
 */
#include "api/openapi.h"

#include <stdio.h>
#include <string.h>

#include "api/hyper.h"
#include "api/openapi_request.h"
#include "api/schema.h"

#define OPERATION(route, ...) {#route, __VA_ARGS__},
const struct openapi_operation openapi_operations[] = {
#include "api/openapi.def"
};
const size_t n_openapi_operations = sizeof openapi_operations / sizeof *openapi_operations;

const struct openapi_operation *openapi_operation(const char *name)
{
    for (size_t i = 0; i < n_openapi_operations; i++)
        if (strcmp(openapi_operations[i].name, name) == 0)
            return &openapi_operations[i];
    return NULL;
}

/* ---- one operation ------------------------------------------------------------------------- */

static void media(struct jout *j, const char *type, const char *schema)
{
    jout_key(j, type);
    jout_open(j, '{');
    if (*schema) {
        char ref[96];
        snprintf(ref, sizeof ref, "#%s", schema);
        jout_key(j, "schema");
        jout_open(j, '{');
        schema_type(j, ref, "");
        jout_close(j, '}');
    }
    jout_close(j, '}');
}

static void open_parameter(struct jout *j, const char *name, size_t n, const char *in,
                           const char *type)
{
    jout_open(j, '{');
    jout_key(j, "name");
    jout_bytes(j, name, n);
    jout_put_str(j, "in", in);
    jout_put_bool(j, "required", strcmp(in, "path") == 0);
    jout_key(j, "schema");
    jout_open(j, '{');
    schema_type(j, type, "");
}

static void close_parameter(struct jout *j)
{
    jout_close(j, '}');
    jout_close(j, '}');
}

static void query(struct jout *j, const char *name, const char *type)
{
    open_parameter(j, name, strlen(name), "query", type);
    close_parameter(j);
}

/* Lists that come in pages, and the most that one may have. */
static const struct page {
    const char *route;
    int64_t most;
    bool has_metadata; /* and can be cut down to things that have some */
} pages[] = {
    {"files", 10000, false},     {"batches", 100, false},          {"jobs", 1000, true},
    {"job_events", 1000, false}, {"job_checkpoints", 1000, false}, {"response_items", 100, false},
    {"chats", 100, true},        {"chat_messages", 100, false}};

static void page(struct jout *j, const struct page *p)
{
    open_parameter(j, "limit", 5, "query", "integer");
    jout_put_int(j, "minimum", 1);
    jout_put_int(j, "maximum", p->most);
    close_parameter(j);
    query(j, "after", "string");
    query(j, "order", "'asc'|'desc'");
    if (!p->has_metadata)
        return;
    jout_open(j, '{');
    jout_put_str(j, "name", "metadata");
    jout_put_str(j, "in", "query");
    jout_put_str(j, "style", "deepObject");
    jout_key(j, "schema");
    jout_open(j, '{');
    schema_type(j, "{}string", "");
    close_parameter(j);
}

static void parameters(struct jout *j, const char *path, const char *route)
{
    const char *p = strchr(path, '{');
    jout_key(j, "parameters");
    jout_open(j, '[');
    if (p) {
        open_parameter(j, p + 1, strcspn(p + 1, "}"), "path", "string");
        close_parameter(j);
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i].route, route) == 0)
            page(j, &pages[i]);
    if (strcmp(route, "chats") == 0)
        query(j, "model", "string");
    jout_close(j, ']');
}

static void request(struct jout *j, const struct openapi_route *r, const char *schema)
{
    if (!*schema)
        return;
    jout_key(j, "requestBody");
    jout_open(j, '{');
    jout_put_bool(j, "required", true);
    jout_key(j, "content");
    jout_open(j, '{');
    media(j, r->type ? r->type : "application/json", schema);
    jout_close(j, '}');
    jout_put_int(j, "x-max-bytes", (int64_t)r->max_body);
    jout_close(j, '}');
}

static void refusal(struct jout *j, const char *status, const char *error)
{
    char ref[96];
    snprintf(ref, sizeof ref, "#/components/responses/%s", error);
    jout_key(j, status);
    jout_open(j, '{');
    jout_put_str(j, "$ref", ref);
    jout_close(j, '}');
}

static void responses(struct jout *j, const struct openapi_route *r,
                      const struct openapi_operation *op)
{
    const char *error = r->error ? r->error : "Error";
    jout_key(j, "responses");
    jout_open(j, '{');
    jout_key(j, "200");
    jout_open(j, '{');
    jout_put_str(j, "description", op->summary);
    jout_key(j, "content");
    jout_open(j, '{');
    media(j, op->media, op->response);
    if (*op->stream)
        media(j, r->stream_type ? r->stream_type : "text/event-stream", op->stream);
    jout_close(j, '}');
    jout_close(j, '}');
    if (r->max_body) {
        refusal(j, "400", error);
        refusal(j, "413", error);
    }
    if (!r->is_open) {
        refusal(j, "401", error);
        refusal(j, "403", error);
    }
    if (strchr(r->path, '{'))
        refusal(j, "404", error);
    refusal(j, "default", error);
    jout_close(j, '}');
}

static void operation(struct jout *j, const struct openapi_route *r,
                      const struct openapi_operation *op)
{
    char method[16];
    size_t n = 0;
    for (; r->method[n] && n + 1 < sizeof method; n++)
        method[n] = (char)(r->method[n] | 0x20);
    method[n] = 0;
    jout_key(j, method);
    jout_open(j, '{');
    jout_put_str(j, "operationId", op->name);
    jout_put_str(j, "summary", op->summary);
    jout_key(j, "tags");
    jout_open(j, '[');
    jout_str(j, op->tag);
    jout_close(j, ']');
    parameters(j, r->path, op->name);
    request(j, r, op->request);
    responses(j, r, op);
    jout_key(j, "security");
    jout_open(j, '[');
    if (!r->is_open) {
        jout_open(j, '{');
        jout_key(j, "key");
        jout_raw(j, "[]");
        jout_close(j, '}');
        jout_close(j, ']');
        jout_put_str(j, "x-scope", r->scope);
    } else {
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void about(struct jout *j, const char *version)
{
    jout_put_str(j, "openapi", "3.1.0");
    jout_key(j, "info");
    jout_open(j, '{');
    jout_put_str(j, "title", "Tandem");
    jout_put_str(j, "description", "Serves a language model and its adapters.");
    jout_put_str(j, "version", version);
    jout_close(j, '}');
}

static bool is_first(const struct openapi_route *route, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(route[k].path, route[i].path) == 0)
            return false;
    return true;
}

static void paths(struct jout *j, const struct openapi_route *route, size_t n)
{
    jout_key(j, "paths");
    jout_open(j, '{');
    for (size_t i = 0; i < n; i++) {
        if (!is_first(route, i) || !openapi_operation(route[i].name))
            continue;
        jout_key(j, route[i].path);
        jout_open(j, '{');
        for (size_t k = i; k < n; k++)
            if (strcmp(route[k].path, route[i].path) == 0 && openapi_operation(route[k].name))
                operation(j, &route[k], openapi_operation(route[k].name));
        jout_close(j, '}');
    }
    jout_close(j, '}');
}

static void error_response(struct jout *j, const char *schema)
{
    jout_key(j, schema);
    jout_open(j, '{');
    jout_put_str(j, "description", "The request was refused, or failed");
    jout_key(j, "content");
    jout_open(j, '{');
    media(j, "application/json", schema);
    jout_close(j, '}');
    jout_close(j, '}');
}

static void components(struct jout *j)
{
    jout_key(j, "components");
    jout_open(j, '{');
    jout_key(j, "securitySchemes");
    jout_open(j, '{');
    jout_key(j, "key");
    jout_open(j, '{');
    jout_put_str(j, "type", "http");
    jout_put_str(j, "scheme", "bearer");
    jout_close(j, '}');
    jout_close(j, '}');
    jout_key(j, "responses");
    jout_open(j, '{');
    error_response(j, "Error");
    error_response(j, "MessageError");
    error_response(j, "OllamaError");
    jout_close(j, '}');
    jout_key(j, "schemas");
    jout_open(j, '{');
    openapi_requests(j);
    hyper_describe(j);
    schema_write(j);
    jout_close(j, '}');
    jout_close(j, '}');
}

void openapi_write(const struct openapi_route *route, size_t n, const char *version,
                   struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    about(&j, version);
    paths(&j, route, n);
    components(&j);
    jout_close(&j, '}');
}
