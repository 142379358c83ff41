/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem models`: what the server answers with, and the end of a tuned one.
 */
#include "clients/remote/list.h"

const struct cmd_opt cmd_opt_models = REMOTE_ONLY;
const struct cmd_opt cmd_opt_models_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_models_delete = REMOTE_ONLY;

int cmd_models(const struct opt *o)
{
    static const char *const member[] = {"id", "parent", "max_model_len", "created"};
    static const char *const name[] = {"MODEL", "BASE", "CONTEXT", "CREATED"};
    const struct remote_options *r = o->values;
    const struct list_options list = {.path = "/v1/models",
                                      .query = "",
                                      .member = member,
                                      .name = name,
                                      .n = sizeof name / sizeof *name,
                                      .empty = "no models"};
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? list_print(p, r, &list, &e) : -1;
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

static int ask_one(const struct opt *o, const char *method)
{
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    json_t *model = NULL;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? remote_ask(p, method, "/v1/models/%s", o->arg[0], &model, &e) : -1;
    if (!rc)
        remote_print(r, model);
    json_decref(model);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

int cmd_models_get(const struct opt *o)
{
    return ask_one(o, "GET");
}

int cmd_models_delete(const struct opt *o)
{
    return ask_one(o, "DELETE");
}
