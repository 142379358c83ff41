/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem pull`, whose line on stdout is where the model lies, for scripts; and the models of the
 * hub that other commands are given.
 */
#include <stdlib.h>
#include <unistd.h>

#include "clients/cli/cmd.h"
#include "clients/hub/pull.h"

const struct cmd_opt cmd_opt_pull = {0};

int cmd_pull(const struct opt *o)
{
    struct hub_place place = {0};
    struct hub_spec spec;
    struct err e = ERR_INIT;
    char *path = NULL;
    int rc = hub_spec_parse(&spec, o->arg[0], &e) || hub_place_init(&place, &e) ? -1 : 0;
    if (!rc)
        rc = place.is_offline && hub_find(&place, &spec, &path, NULL) == 0
                 ? 0
                 : hub_pull(&place, &spec, stderr, &path, &e);
    if (!rc)
        printf("%s\n", path);
    free(path);
    hub_place_release(&place);
    hub_spec_release(&spec);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

/* A path that is there is meant first. What was pulled is taken as it is, and nobody is asked. */
int cmd_model(const char *word, char **path, struct err *e)
{
    struct hub_place place;
    struct hub_spec spec;
    *path = NULL;
    if (!hub_spec_is_like(word) || access(word, F_OK) == 0)
        return 0;
    int rc = hub_spec_parse(&spec, word, e);
    if (!rc)
        rc = hub_place_init(&place, e);
    else
        place = (struct hub_place){0};
    if (!rc && hub_find(&place, &spec, path, NULL)) {
        rc = hub_pull(&place, &spec, stderr, path, e);
        if (rc)
            err_wrap(e, "no file or folder %s is here, and of the hub's", word);
    }
    hub_place_release(&place);
    hub_spec_release(&spec);
    return rc;
}
