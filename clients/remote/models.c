/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem models`: what the server answers with, and the end of a tuned one.
 */
#include "clients/remote/list.h"

#define MODELS "/v1/models"

const struct cmd_opt cmd_opt_models = REMOTE_ONLY;
const struct cmd_opt cmd_opt_models_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_models_delete = REMOTE_ONLY;

int cmd_models(const struct opt *o)
{
    static const char *const member[] = {"id", "parent", "max_model_len", "created"};
    static const char *const name[] = {"MODEL", "BASE", "CONTEXT", "CREATED"};
    const struct list_shape list = {.path = MODELS,
                                    .member = member,
                                    .name = name,
                                    .n = sizeof name / sizeof *name,
                                    .gives = "0213",
                                    .empty = "no models"};
    return list_show(o, &list, 0);
}

int cmd_models_get(const struct opt *o)
{
    return remote_show(o, "GET", MODELS "/%s");
}

int cmd_models_delete(const struct opt *o)
{
    return remote_show(o, "DELETE", MODELS "/%s");
}
