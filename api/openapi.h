/* SPDX-License-Identifier: Apache-2.0
 *
 * The published description of the API (OpenAPI 3.1), made when it is asked for of the tables that
 * also drive the server: the routes, which the caller hands over, the fields of requests
 * (params.def), the shapes of answers (schema.def), and what each route is for (openapi.def). So it
 * cannot say what the server does not do.
 *
 * Thread: any.
 */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

/* A row of the router's table. */
struct openapi_route {
    const char *name, *method, *path;
    bool is_open;      /* needs no key */
    const char *scope; /* what its key must hold: "inference" */
    size_t max_body;
    const char *type;        /* of the body; NULL: JSON */
    const char *error;       /* a schema: of its errors */
    const char *stream_type; /* of an answer in pieces; NULL: events */
};

/* What openapi.def says of a route. */
struct openapi_operation {
    const char *name, *tag, *summary;
    const char *request;  /* a schema; "": no body */
    const char *response; /* a schema, or "": not JSON */
    const char *stream;   /* the schema of an event, where answers can be streamed; "" */
    const char *media;    /* of the answer */
};

extern const struct openapi_operation openapi_operations[];
extern const size_t n_openapi_operations;
const struct openapi_operation *openapi_operation(const char *name); /* NULL: there is none */

/* Routes that openapi.def does not know are left out. */
void openapi_write(const struct openapi_route *route, size_t n, const char *version,
                   struct buf *out);

#endif
