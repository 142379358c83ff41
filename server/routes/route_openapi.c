/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /openapi.json: the router's own table, described.
 */
#include "api/openapi.h"
#include "engine/base/arena.h"
#include "engine/base/version.h"
#include "server/answer/ops.h"
#include "server/http/route.h"

enum { BODY_BYTES_MAX = 4 << 20 };

static const char *scope_name(unsigned scope)
{
    switch (scope) {
    case SCOPE_INFERENCE:
        return "inference";
    case SCOPE_TRAINING:
        return "training";
    case SCOPE_ADMIN:
        return "admin";
    default:
        return "";
    }
}

static const char *error_name(enum api_error_form form)
{
    return form == API_ERROR_PLAIN      ? "Error"
           : form == API_ERROR_MESSAGES ? "MessageError"
                                        : "OllamaError";
}

static const char *stream_type(enum api_error_form form)
{
    return form == API_ERROR_OLLAMA ? "application/x-ndjson" : NULL;
}

void route_openapi(struct call *c)
{
    struct openapi_route *at = ARENA_ARRAY(call_arena(c), struct openapi_route, n_routes);
    for (size_t i = 0; i < n_routes; i++) {
        enum api_error_form form = route_error_form(routes[i].path);
        at[i] = (struct openapi_route){.name = routes[i].name,
                                       .method = routes[i].method,
                                       .path = routes[i].path,
                                       .is_open = routes[i].scope == SCOPE_OPEN,
                                       .scope = scope_name(routes[i].scope),
                                       .max_body = routes[i].max_body,
                                       .type = routes[i].intake ? routes[i].intake->type : NULL,
                                       .error = error_name(form),
                                       .stream_type = stream_type(form)};
    }
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    openapi_write(at, n_routes, version_number(), &body);
    ops_reply(c, &body);
}
