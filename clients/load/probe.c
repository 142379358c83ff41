/* SPDX-License-Identifier: Apache-2.0
 *
 * Single requests, before the load.
 */
#include "clients/load/probe.h"

#include <jansson.h>
#include <string.h>

#include "clients/load/fleet.h"
#include "engine/base/mem.h"

/* A number no request of a stage has. */
static const uint64_t PROBE_N = UINT64_C(1) << 40;

static int fail(const struct conn *c, enum conn_end end, const char *what, struct err *e)
{
    if (end == CONN_STATUS)
        return err_set(e, ERR_IO, "%s: status %d: %s", what, c->reply.status, c->answer.fault);
    return err_set(e, ERR_IO, "%s: %s: %s", what, conn_end_name(end), c->answer.fault);
}

static char *first_model(const struct buf *body)
{
    json_t *root = json_loadb(body->data ? body->data : "", body->len, 0, NULL);
    const json_t *first = json_array_get(json_object_get(root, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    char *copy = id ? xstrdup(id) : NULL;
    json_decref(root);
    return copy;
}

char *probe_model(const struct ask *a, int64_t timeout_us, struct err *e)
{
    struct conn c;
    char *id = NULL;
    conn_init(&c, a->url, NULL);
    ask_write_get(a, "/v1/models", &c.out);
    enum conn_end end = fleet_one(&c, timeout_us);
    if (end != CONN_GOOD)
        fail(&c, end, "GET /v1/models", e);
    else if ((id = first_model(&c.answer.text)) == NULL)
        err_set(e, ERR_NOT_FOUND, "GET /v1/models names no model; give one with --model");
    conn_release(&c);
    return id;
}

static int try_prompt(const struct ask *a, int *status, int64_t timeout_us, struct err *e)
{
    struct conn c;
    conn_init(&c, a->url, NULL);
    ask_write(a, PROBE_N, &c.out);
    enum conn_end end = buf_check(&c.out, "a request", e) ? CONN_RUNS : fleet_one(&c, timeout_us);
    *status = c.reply.status;
    int rc = end == CONN_GOOD ? 0 : end == CONN_RUNS ? -1 : fail(&c, end, "the first request", e);
    conn_release(&c);
    return rc;
}

int probe_prompt(struct ask *a, bool may_send_words, int64_t timeout_us, struct err *e)
{
    int status;
    struct err why = ERR_INIT;
    if (try_prompt(a, &status, timeout_us, e) == 0)
        return 0;
    if (!a->sends_ids || !may_send_words || (status != 400 && status != 422))
        return -1;
    a->sends_ids = false;
    if (try_prompt(a, &status, timeout_us, &why) == 0)
        return 0;
    a->sends_ids = true; /* what was refused with ids says more */
    return -1;
}
