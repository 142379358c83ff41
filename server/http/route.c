/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching a path against the table: a comparison of the text before the parameter and of the text
 * behind it, row by row. Tables have some dozens of rows; a tree would save nothing.
 */
#include "server/http/route.h"

#include <string.h>
#include <strings.h>

const struct route routes[] = {
#define ROUTE(name_, method_, path_, scope_, max_body_, ...)                                       \
    {.name = #name_,                                                                               \
     .method = (method_),                                                                          \
     .path = (path_),                                                                              \
     .scope = (scope_),                                                                            \
     .max_body = (max_body_),                                                                      \
     .fn = route_##name_,                                                                          \
     __VA_ARGS__},
#include "server/http/routes.def"
#undef ROUTE
};

const size_t n_routes = sizeof routes / sizeof *routes;

static bool fits(const char *pattern, const char *path, size_t n_path, const char **param,
                 size_t *n_param)
{
    size_t before = strcspn(pattern, "{");
    *param = NULL;
    *n_param = 0;
    if (!pattern[before])
        return n_path == before && memcmp(pattern, path, before) == 0;
    const char *behind = strchr(pattern, '}') + 1;
    size_t n_behind = strlen(behind);
    if (n_path <= before + n_behind || memcmp(pattern, path, before) != 0 ||
        memcmp(behind, path + n_path - n_behind, n_behind) != 0)
        return false;
    *param = path + before;
    *n_param = n_path - before - n_behind;
    return true;
}

static bool answers(const struct route *r, const char *method)
{
    return strcmp(r->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

/* A method that stands in the list already is not added again. */
static void allow(struct route_match *m, const char *method)
{
    size_t n = strlen(m->allow), more = strlen(method);
    if (strstr(m->allow, method) || n + more + 3 > sizeof m->allow)
        return;
    if (n) {
        memcpy(m->allow + n, ", ", 2);
        n += 2;
    }
    memcpy(m->allow + n, method, more + 1);
}

struct route_match route_find(const struct route *table, size_t n, const char *method,
                              const char *path)
{
    struct route_match m = {0};
    size_t n_path = strlen(path);
    for (size_t i = 0; i < n; i++) {
        const char *param;
        size_t n_param;
        if (!fits(table[i].path, path, n_path, &param, &n_param))
            continue;
        allow(&m, table[i].method);
        if (!answers(&table[i], method))
            continue;
        m.route = &table[i];
        m.param = param;
        m.n_param = n_param;
        return m;
    }
    return m;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

enum api_error_form route_error_form(const char *path)
{
    return !path                            ? API_ERROR_PLAIN
           : is_below(path, "/v1/messages") ? API_ERROR_MESSAGES
           : is_below(path, "/api/v1")      ? API_ERROR_PLAIN
           : is_below(path, "/api")         ? API_ERROR_OLLAMA
                                            : API_ERROR_PLAIN;
}

const struct route_absent *route_absent(const char *path)
{
    static const char pull[] = "`tandem pull` fetches a model, before the server starts";
    static const char make[] = "jobs and /v1/adapters make models beside the one that is served";
    static const struct route_absent absent[] = {
        {"/v1/messages/batches", "Batches of messages", NULL},
        {"/v1/fine_tuning/checkpoints", "Permissions of checkpoints", NULL},
        {"/v1/conversations", "Conversations", NULL},
        {"/v1/assistants", "Assistants", NULL},
        {"/v1/threads", "Threads", NULL},
        {"/v1/vector_stores", "Vector stores", NULL},
        {"/v1/evals", "Evaluations", NULL},
        {"/v1/moderations", "Moderations", NULL},
        {"/v1/images", "Images", NULL},
        {"/v1/audio", "Sounds", NULL},
        {"/v1/videos", "Videos", NULL},
        {"/v1/realtime", "Realtime sessions", NULL},
        {"/api/pull", "Downloads", pull},
        {"/api/push", "Uploads of models", NULL},
        {"/api/create", "New models", make},
        {"/api/copy", "Copies of models", make},
        {"/api/blobs", "Files of models", make},
        {"/api/delete", "Deletions", "DELETE /v1/models/NAME deletes what a job made"},
    };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (is_below(path, absent[i].path))
            return &absent[i];
    return NULL;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int route_decode(char *path)
{
    char *to = path;
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '%') {
            int hi = hex(p[1]), lo = hi < 0 ? -1 : hex(p[2]);
            if (lo < 0)
                return -1;
            c = (unsigned char)(hi << 4 | lo);
            p += 2;
        }
        if (c < 0x20 || c == 0x7f)
            return -1;
        *to++ = (char)c;
    }
    *to = 0;
    return 0;
}
