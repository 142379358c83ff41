/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank makes its groups, loads, and works.
 */
#include "engine/train/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/comm/fabric.h"
#include "engine/device/open.h"
#include "engine/run/ranks.h"

struct member {
    const struct team_options *opt; /* borrowed */
    struct comm *all;               /* borrowed or the team's */
    struct comm *tensor, *data;     /* owned; NULL: one rank */
    struct model_share share;
    struct pool *pool;
    struct team_rank rank;
    pthread_t thread;
    bool is_started;
    int rc;
    struct err err;
};

/* NULL where the group would be of one. */
static int split(struct comm *all, int n, int colour, struct comm **out, struct err *e)
{
    struct comm *c = NULL;
    if (comm_split(all, colour, &c, e))
        return -1;
    *out = c;
    if (n > 1)
        return 0;
    comm_free(c);
    *out = NULL;
    return 0;
}

static int make_groups(struct member *m, struct err *e)
{
    const struct team_options *o = m->opt;
    int rank = comm_rank(m->all);
    m->rank.ranks =
        (struct train_ranks){.all = m->all, .data_rank = rank / o->n_tensor, .n_data = o->n_data};
    if (split(m->all, o->n_tensor, rank / o->n_tensor, &m->tensor, e) ||
        split(m->all, o->n_data, rank % o->n_tensor, &m->data, e))
        return -1;
    m->rank.ranks.data = m->data;
    return 0;
}

static int load(struct member *m, struct err *e)
{
    const struct team_options *o = m->opt;
    struct model_options mo = o->model;
    struct team_rank *r = &m->rank;
    m->pool = pool_new(o->n_thread, false, e);
    struct device_options want = {
        .want = o->device, .index = comm_rank(m->all), .pool = m->pool, .kernels = o->kernels};
    r->device = m->pool ? device_open(&want, e) : NULL;
    r->stream = r->device ? stream_new(r->device, e) : NULL;
    if (!r->stream)
        return -1;
    if (m->tensor) {
        struct op_ranks at = {
            .comm = m->tensor, .rank = comm_rank(m->tensor), .size = comm_size(m->tensor)};
        if (ranks_share_for(&m->share, &o->dir->config, &mo, &at, MODEL_LOSS, e))
            return -1;
        mo.share = &m->share;
    }
    mo.pool = m->pool;
    if (comm_rank(m->all) > 0)
        mo.progress = NULL;
    r->model = model_load(o->dir, &mo, r->device, e);
    struct comm_job all_are_here = {.kind = COMM_BARRIER, .is_patient = true};
    size_t room = r->model ? fabric_room_bytes(r->model->cfg.d_model) : 0;
    if (!r->model || (m->tensor && fabric_join(m->tensor, r->device, room, e)) ||
        (m->data && fabric_join(m->data, r->device, room, e)))
        return -1;
    return comm_run(m->all, &all_are_here, e);
}

static void leave(struct member *m)
{
    struct comm *const group[] = {m->all, m->tensor, m->data};
    for (int i = 0; m->rc && i < 3; i++)
        if (group[i])
            comm_abort(group[i], m->err.msg);
    fabric_leave(m->tensor);
    fabric_leave(m->data);
    model_free(m->rank.model);
    if (m->rank.stream)
        stream_free(m->rank.stream);
    if (m->rank.device)
        device_free(m->rank.device);
    pool_free(m->pool);
    ranks_share_release(&m->share);
    comm_free(m->tensor);
    comm_free(m->data);
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    m->rc =
        make_groups(m, &m->err) || load(m, &m->err) || m->opt->work(m->opt->ctx, &m->rank, &m->err)
            ? -1
            : 0;
    leave(m);
    return NULL;
}

/* The first that failed by itself has the words; the others heard them. */
static int tell(const struct member *m, int n, struct err *e)
{
    const struct member *first = NULL;
    for (int r = 0; r < n; r++)
        if (m[r].rc && (!first || (first->err.code == ERR_DEVICE && m[r].err.code != ERR_DEVICE)))
            first = &m[r];
    return first ? err_set(e, first->err.code, "%s", first->err.msg) : 0;
}

static int run_threads(struct member *m, int n, struct err *e)
{
    for (int r = 1; r < n; r++) {
        errno = pthread_create(&m[r].thread, NULL, run_member, &m[r]);
        m[r].is_started = errno == 0;
        if (errno) {
            comm_abort(m[0].all, "a rank was not started");
            m[0].rc = err_sys(&m[0].err, "starting a thread for rank %d", r);
            break;
        }
    }
    if (!m[0].rc)
        run_member(&m[0]);
    for (int r = 1; r < n; r++)
        if (m[r].is_started)
            pthread_join(m[r].thread, NULL);
    return tell(m, n, e);
}

int team_run(const struct team_options *options, struct err *e)
{
    struct team_options o = *options;
    struct comm *end[COMM_RANK_MAX];
    int n = o.comm ? 1 : o.n_tensor * o.n_data;
    if (n > COMM_RANK_MAX)
        return err_set(e, ERR_TOO_LARGE, "%d ranks: at most %d there may be", n, COMM_RANK_MAX);
    if (o.comm && comm_size(o.comm) != o.n_tensor * o.n_data)
        return err_set(e, ERR_BAD_INPUT, "%d times %d ranks, and %d were started", o.n_tensor,
                       o.n_data, comm_size(o.comm));
    o.model.files = o.dir->weights;
    if (!o.comm && comm_local_new(n, NULL, end, e))
        return -1;
    struct member *m = xcalloc((size_t)n, sizeof *m);
    for (int r = 0; r < n; r++)
        m[r] = (struct member){.opt = &o, .all = o.comm ? o.comm : end[r], .err = ERR_INIT};
    int rc = run_threads(m, n, e);
    for (int r = 0; r < n && !o.comm; r++)
        comm_free(end[r]);
    free(m);
    return rc;
}
