/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem merge MODEL ADAPTER OUT`: a model with an adapter in its weights, as a directory that
 * this program and others load. One tensor's rows are in memory at a time.
 */
#include <stdio.h>

#include "clients/local/load.h"
#include "engine/model/export.h"

const struct cmd_opt cmd_opt_merge = {0};

int cmd_merge(const struct opt *o)
{
    struct model_dir dir;
    struct model *m = NULL;
    struct err e = ERR_INIT;
    struct model_options mo = {.type = -1, .kv_type = -1};
    int rc = model_dir_init(&dir, o->arg[0], &e);
    if (!rc) {
        mo.files = dir.weights;
        m = model_new(&dir.config, &mo, NULL, &e);
        rc = !m || base_id_read(&dir, &m->base, &e)
                 ? -1
                 : model_export_merged(&dir, m, o->arg[1], o->arg[2], &e);
    }
    if (!rc)
        fprintf(stderr, "the merged model is in %s\n", o->arg[2]);
    model_free(m);
    model_dir_release(&dir);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
