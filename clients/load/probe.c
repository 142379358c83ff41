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
static const uint64_t LOAD_PROBE_N = UINT64_C(1) << 40;

static int fail(const struct load_conn *c, enum load_conn_end end, const char *what, struct err *e)
{
    if (end == LOAD_CONN_STATUS)
        return err_set(e, ERR_IO, "%s: status %d: %s", what, c->reply.status, c->answer.fault);
    return err_set(e, ERR_IO, "%s: %s: %s", what, load_conn_end_name(end), c->answer.fault);
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

char *load_probe_model(const struct load_ask *a, int64_t timeout_us, struct err *e)
{
    struct load_conn c;
    char *id = NULL;
    load_conn_init(&c, a->url, NULL);
    load_ask_write_get(a, "/v1/models", &c.out);
    enum load_conn_end end = load_fleet_one(&c, timeout_us);
    if (end != LOAD_CONN_GOOD)
        fail(&c, end, "GET /v1/models", e);
    else if ((id = first_model(&c.answer.text)) == NULL)
        err_set(e, ERR_NOT_FOUND, "GET /v1/models names no model; give one with --model");
    load_conn_release(&c);
    return id;
}

static int try_prompt(const struct load_ask *a, int *status, int64_t timeout_us, struct err *e)
{
    struct load_conn c;
    load_conn_init(&c, a->url, NULL);
    load_ask_write(a, LOAD_PROBE_N, &c.out);
    enum load_conn_end end =
        buf_check(&c.out, "a request", e) ? LOAD_CONN_RUNS : load_fleet_one(&c, timeout_us);
    *status = c.reply.status;
    int rc = end == LOAD_CONN_GOOD   ? 0
             : end == LOAD_CONN_RUNS ? -1
                                     : fail(&c, end, "the first request", e);
    load_conn_release(&c);
    return rc;
}

int load_probe_prompt(struct load_ask *a, bool may_send_words, int64_t timeout_us, struct err *e)
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
