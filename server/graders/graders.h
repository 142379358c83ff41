/* SPDX-License-Identifier: Apache-2.0
 *
 * What graders ask of others (api/grader_outside.h), within what the operator allows.
 *
 *     struct graders *g = graders_new(&o, e);
 *     struct grader_outside out = graders_outside(g);
 *     out.owner = "who asks";
 *
 * Thread: any; new and free by one, when nobody asks.
 */
#ifndef SERVER_GRADERS_GRADERS_H
#define SERVER_GRADERS_GRADERS_H

#include "api/grader_outside.h"
#include "server/http/call.h"

struct grader_python;
struct graders;
struct http;

struct graders_options {
    struct http *http;      /* borrowed */
    const char *const *url; /* borrowed: what is below these may be asked */
    size_t n_url;
    struct grader_python *python; /* borrowed; NULL: programs are not run */
    const char *key_file;         /* a line each: URL KEY; NULL: none */
    int64_t timeout_us;           /* of one question with all its tries */
    /* Who a key's name is, without its limits. */
    bool (*who)(void *ctx, const char *owner, struct who *out, int64_t *files_quota);
    void *ctx;
};

struct graders *graders_new(const struct graders_options *o, struct err *e);
void graders_free(struct graders *g); /* NULL is fine */

/* Its owner and `ends` are for the caller to set. */
struct grader_outside graders_outside(struct graders *g);

#endif
