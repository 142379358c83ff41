/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem serve`: the server, in this process; or, where a launcher started several processes that
 * share the model, in rank 0, and the others follow it. Signals are rank 0's affair: what launchers
 * send to all must not take a rank away while others drain.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/hub/pull.h"
#include "clients/local/bundled.h"
#include "clients/local/load.h"
#include "clients/local/parallel.h"
#include "engine/base/log.h"
#include "engine/base/log_ring.h"
#include "engine/comm/comm.h"
#include "engine/train/beside.h"
#include "server/options.h"
#include "server/server.h"

enum { STEP_TOKENS = 512 }; /* of a plan, where nobody says otherwise; as `tandem plan` has it */

const struct cmd_opt cmd_opt_serve = {server_rows, N_SERVER_ROWS, sizeof(struct server_options)};

static int follow_rank_0(const struct server_options *o, const char *model, struct comm *group,
                         struct err *e)
{
    struct local_options lo = {.load = o->load};
    if (server_log(o, e))
        return -1;
    log_event(LOG_INFO, "following", LOG_INT("rank", comm_rank(group)),
              LOG_INT("of", comm_size(group)));
    int rc = local_follow(model, &lo, group, beside_work, e);
    if (!rc)
        log_event(LOG_INFO, "ended");
    return rc;
}

/* Rank 0 says what was taken; the others are part of it already. */
static int choose(struct server_options *o, const char *model, const struct comm *group,
                  struct err *e)
{
    struct model_options mo = resident_model_options(&o->load);
    struct parallel_place place;
    struct parallel taken;
    struct model_dir dir = {0};
    int n = group ? comm_size(group) : 0;
    if (strcmp(o->parallel, "auto") != 0 || (group && comm_rank(group) > 0))
        return 0;
    if (o->tp > 1)
        return err_set(e, ERR_BAD_INPUT,
                       "--parallel auto chooses what --tp says: give one of them");
    int rc = parallel_look(&place, o->load.device, n, n, e) || model_dir_init(&dir, model, e) ||
                     parallel_serve(&taken, &place, &dir, &mo,
                                    o->max_batch_tokens ? o->max_batch_tokens : STEP_TOKENS, e)
                 ? -1
                 : 0;
    model_dir_release(&dir);
    if (rc)
        return -1;
    if (server_log(o, e))
        return -1;
    log_event(LOG_INFO, "parallel", LOG_INT("tp", taken.tp), LOG_TEXT("why", taken.why));
    o->tp = taken.tp;
    return 0;
}

static int serve(const struct opt *from, const char *model, struct comm *group, int signals,
                 struct err *e)
{
    struct server_options o = *(const struct server_options *)from->values;
    o.train_floor = local_train_floor(from, o.train_floor);
    char *bundled = model ? NULL : bundled_model(e);
    int rc = -1;
    if (!model && !o.name)
        o.name = BUNDLED_NAME;
    model = model ? model : bundled;
    char *name = model && !o.name ? hub_name_of(model) : NULL;
    if (name)
        o.name = name;
    if (model)
        rc = choose(&o, model, group, e);
    bool follows = !rc && group && comm_rank(group) > 0;
    if (follows)
        rc = follow_rank_0(&o, model, group, e);
    else if (!rc)
        rc = server_run(&o, model, &group, signals, from, e);
    if (!follows && group) {
        comm_abort(group, *e->msg ? e->msg : "the server did not start");
        comm_free(group);
    }
    free(bundled);
    free(name);
    return rc;
}

int cmd_serve(const struct opt *o)
{
    struct err e = ERR_INIT;
    struct comm *group;
    const struct server_options *v = o->values;
    int signals = server_signals(&e); /* before a launcher's library has threads */
    if (signals < 0)
        return cmd_fail(o, &e);
    int rc = local_group((int64_t)(v->rank_timeout * 1000), &group, &e);
    if (!rc)
        rc = serve(o, o->n_arg ? o->arg[0] : NULL, group, signals, &e);
    log_ring_stop();
    close(signals);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
