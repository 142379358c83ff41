/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that speak to a running server have in common: where it is, the key, whether
 * the answers are wanted as JSON, and how an object of the API is shown.
 *
 * What is shown goes to stdout: on a terminal as columns for people, elsewhere as lines with tabs
 * for programs, with --json as one object a line, just as the server sent it. What is said beside
 * that (progress, what was done) goes to stderr.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_REMOTE_H
#define CLIENTS_REMOTE_REMOTE_H

#include <jansson.h>

#include "clients/cli/cmd.h"
#include "clients/http/peer.h"

/* The values behind REMOTE_ROWS: the first member of a command's struct. */
struct remote_options {
    const char *url, *api_key;
    bool json;
};

#define REMOTE_ROW(section_, name_, type_, fallback_, hint_, help_, field_)                        \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .hint = (hint_), .help = (help_), .offset = offsetof(struct remote_options, field_)        \
    }

/* Rows that every command of a server ends with. */
#define REMOTE_ROWS                                                                                \
    REMOTE_ROW("Server", "url", OPT_TEXT, "http://127.0.0.1:8080", "URL",                          \
               "where it listens, or unix:PATH; /v1 may stand behind it or not", url),             \
        REMOTE_ROW(NULL, "api-key", OPT_TEXT, NULL, "KEY",                                         \
                   "sent as bearer; better given as TANDEM_API_KEY", api_key),                     \
        REMOTE_ROW(NULL, "json", OPT_BOOL, NULL, NULL,                                             \
                   "print what the server says as JSON, an object a line", json)

/* Of commands that have no options of their own. */
extern const struct opt_row remote_rows[];
enum { N_REMOTE_ROWS = 3 };
#define REMOTE_ONLY                                                                                \
    {                                                                                              \
        remote_rows, N_REMOTE_ROWS, sizeof(struct remote_options)                                  \
    }

struct peer *remote_peer(const struct remote_options *o, struct err *e);

/* PATH with the name, escaped, for its one %s; free() it. */
char *remote_path(const char *path, const char *name, struct err *e);

/* METHOD of such a path. */
int remote_ask(struct peer *p, const char *method, const char *path, const char *name,
               json_t **answer, struct err *e);

/* Every object of a list, page by page, until `limit` of them (0: all): to fn, whose result that is
 * not 0 ends it. */
typedef int remote_each_fn(void *ctx, const json_t *object, struct err *e);
int remote_each(struct peer *p, const char *path, int64_t limit, remote_each_fn *fn, void *ctx,
                struct err *e);

/* The name of a model that the server has: the one that `wanted` means (clients/remote/pick.h), or
 * where that is NULL its only base; free() it. */
char *remote_base(struct peer *p, const char *wanted, struct err *e);

/* One object: as JSON in a line, or a line for each member that is not null. */
void remote_print_json(const json_t *object);
void remote_print(const struct remote_options *o, const json_t *object);

/* A whole command of REMOTE_ONLY: METHOD of the object that its first word names, and what is
 * answered is shown. Returns the status. */
int remote_show(const struct opt *o, const char *method, const char *path);

/* A member as a text: a number as it is, null and what is not there as "-". Times (names that end
 * with _at or are estimated_finish) are dates. Borrowed, or written into `room`. */
enum { REMOTE_TEXT_BYTES = 64 };
const char *remote_text(const json_t *object, const char *name, char room[REMOTE_TEXT_BYTES]);
const char *remote_time(json_int_t seconds, char room[REMOTE_TEXT_BYTES]);

#endif
