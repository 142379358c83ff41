/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's own things, and the threads of those that have none of their own process.
 */
#include "engine/run/crew.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/gate.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/comm/fabric.h"
#include "engine/device/open.h"
#include "engine/run/lead.h"
#include "engine/run/ranks.h"

struct member {
    const struct crew_options *opt; /* borrowed from the crew, or from crew_follow's caller */
    struct comm *comm;              /* owned */
    struct comm *beside;            /* owned; NULL: not loaded yet */
    struct model_share share;
    pthread_t thread;
    bool is_started;
};

struct crew {
    struct crew_options opt;
    struct crew_memory memory;
    int n;                           /* members in this process, rank 0 included */
    struct member at[COMM_RANK_MAX]; /* at[0]: rank 0, whose things are its caller's */
};

enum { HOST_BYTES = 64 };

int crew_count_here(struct comm *c, int *n, struct err *e)
{
    char own[HOST_BYTES] = "", of[COMM_RANK_MAX][HOST_BYTES];
    struct comm_job j = {
        .kind = COMM_ALL_GATHER, .in = own, .out = of, .n = sizeof own, .is_patient = true};
    gethostname(own, sizeof own - 1);
    if (comm_run(c, &j, e))
        return -1;
    *n = 0;
    for (int r = 0; r < comm_size(c); r++)
        *n += memcmp(of[r], own, sizeof own) == 0;
    return 0;
}

int crew_threads(struct comm *c, int n_rank, int64_t wanted, int *n_thread, struct err *e)
{
    int64_t all = wanted ? wanted : machine_cores();
    int n = n_rank;
    if (c && crew_count_here(c, &n, e))
        return -1;
    if (c && wanted)
        n = 1;
    *n_thread = all / n > 0 ? (int)(all / n) : 1;
    return 0;
}

/* What a rank has loaded, as the others see it. */
struct loaded {
    size_t free_bytes, kv_token_bytes, state_bytes;
    uint64_t kind; /* what must be the same for all */
    int n_here;    /* ranks on its host */
    char gpu[DEVICE_ID_BYTES];
};

/* Of another shape, or loaded in another way, it is another model. */
static uint64_t kind_of(const struct model *m)
{
    const struct config *c = &m->cfg;
    const int64_t whole[] = {c->family,
                             c->n_vocab,
                             c->n_layer,
                             c->d_model,
                             c->d_ff,
                             c->max_pos,
                             c->n_head,
                             c->n_kv_head,
                             c->d_head,
                             c->window,
                             (int64_t)m->kv_type,
                             c->rope.kind,
                             m->ctx,
                             m->n_param,
                             c->n_top,
                             c->normalises_top,
                             c->n_tap,
                             c->n_state_k,
                             c->n_state_v,
                             c->d_state_k,
                             c->d_state_v,
                             c->d_latent,
                             c->d_turned,
                             c->turns_beside,
                             c->n_group,
                             c->n_top_group,
                             c->full_d_head,
                             c->full_n_kv_head,
                             c->n_kv_shared,
                             c->d_ple,
                             c->n_ple_vocab,
                             c->n_track,
                             c->d_laurel};
    const double real[] = {c->norm_eps,    c->rope.theta,   c->rope.factor, c->attn_scale,
                           c->route_scale, c->query_growth, c->scan_lo,     c->scan_hi};
    uint64_t of[] = {siphash((struct siphash_key){0}, whole, sizeof whole),
                     siphash((struct siphash_key){0}, real, sizeof real),
                     siphash((struct siphash_key){0}, c->slides, sizeof c->slides),
                     siphash((struct siphash_key){0}, c->mixer, sizeof c->mixer),
                     siphash((struct siphash_key){0}, c->sparsity, sizeof c->sparsity),
                     siphash((struct siphash_key){0}, c->own_d_ff, sizeof c->own_d_ff),
                     0};
    enum { LAST = sizeof of / sizeof *of - 1 };
    for (int32_t i = 0; i < m->n_param; i++) {
        const uint64_t next[] = {of[LAST], (uint64_t)m->param[i].w.type, m->param[i].reads_q8};
        of[LAST] = siphash((struct siphash_key){0}, next, sizeof next);
    }
    return siphash((struct siphash_key){0}, of, sizeof of);
}

static int check_same(struct comm *c, const struct loaded *of, struct err *e)
{
    for (int r = 1; r < comm_size(c); r++)
        if (of[r].kind != of[0].kind)
            return err_set(
                e, ERR_BAD_INPUT,
                "rank %d has another model than rank 0, or loads it in another way: "
                "MODEL, --quantize, --kv-type, --compute and --ctx must be the same for all",
                r);
    return 0;
}

/* Ranks that share the memory of rank r: those on its GPU, else those on its host. */
static int count_sharers(const struct loaded *of, int n_rank, int r)
{
    if (!*of[r].gpu)
        return of[r].n_here;
    int n = 0;
    for (int i = 0; i < n_rank; i++)
        n += strcmp(of[i].gpu, of[r].gpu) == 0;
    return n;
}

/* All wait until all have loaded, look what is left to each, and tell each other. */
static int all_have_loaded(struct member *member, const struct model *m, struct crew_memory *out,
                           struct err *e)
{
    struct comm *c = member->comm;
    struct loaded own = {.kv_token_bytes = model_kv_token_bytes(m),
                         .state_bytes = model_state_bytes(m),
                         .kind = kind_of(m)};
    struct loaded of[COMM_RANK_MAX];
    size_t total;
    snprintf(own.gpu, sizeof own.gpu, "%s", device_id(m->device));
    if (crew_count_here(c, &own.n_here, e) ||
        fabric_join(c, m->device, fabric_room_bytes(m->cfg.d_model), e))
        return -1;
    device_memory(m->device, &total, &own.free_bytes);
    if (comm_all_gather(c, &own, of, sizeof own, e) || check_same(c, of, e))
        return -1;
    *out = (struct crew_memory){.free_bytes = SIZE_MAX,
                                .n_sharer = count_sharers(of, comm_size(c), 0)};
    for (int r = 0; r < comm_size(c); r++) {
        size_t part = of[r].free_bytes / (size_t)count_sharers(of, comm_size(c), r);
        if (part < out->free_bytes)
            out->free_bytes = part;
        if (of[r].kv_token_bytes > out->kv_token_bytes)
            out->kv_token_bytes = of[r].kv_token_bytes;
        if (of[r].state_bytes > out->state_bytes)
            out->state_bytes = of[r].state_bytes;
    }
    if (comm_split(c, 0, &member->beside, e))
        return -1;
    comm_be_patient(member->beside);
    return 0;
}

/* ---- beside serving -------------------------------------------------------------------------- */

enum call { CALL_WORK, CALL_END };

static int pass_call(struct comm *c, enum call *call, struct err *e)
{
    return comm_broadcast(c, call, sizeof *call, 0, e);
}

struct sitter {
    struct crew_rank own;
    crew_work_fn *work;
    struct comm *serving; /* borrowed: the rank's, which ends when this thread fails */
    pthread_t thread;
    bool is_started;
};

static void *sit(void *arg)
{
    struct sitter *s = arg;
    struct err e = ERR_INIT;
    enum call call;
    int rc;
    while (!(rc = pass_call(s->own.comm, &call, &e)) && call == CALL_WORK)
        if (!s->work)
            rc = err_set(&e, ERR_UNSUPPORTED, "this rank was not given any work beside serving");
        else if ((rc = s->work(&s->own, &e)) != 0)
            break;
    if (rc) {
        comm_abort(s->own.comm, e.msg);
        comm_abort(s->serving, e.msg);
    }
    return NULL;
}

static int sitter_start(struct sitter *s, struct member *m, struct model *model, struct err *e)
{
    /* serving goes first: what is done beside it comes at rank 0's pace */
    *s = (struct sitter){.own = {.model = model,
                                 .dir = m->opt->dir,
                                 .device = model->device,
                                 .gate = gate_new((struct gate_policy){.share = 0}),
                                 .comm = m->beside},
                         .work = m->opt->work,
                         .serving = m->comm};
    errno = pthread_create(&s->thread, NULL, sit, s);
    s->is_started = errno == 0;
    return errno ? err_sys(e, "starting a thread beside serving") : 0;
}

/* why: of a rank that does not follow any more; NULL: it was dismissed, and this thread is. */
static void sitter_end(struct sitter *s, const char *why)
{
    if (s->is_started && why)
        comm_abort(s->own.comm, why);
    if (s->is_started)
        pthread_join(s->thread, NULL);
    gate_free(s->own.gate);
}

struct comm *crew_beside(const struct crew *c)
{
    return c->at[0].beside;
}

int crew_call(struct crew *c, struct err *e)
{
    enum call call = CALL_WORK;
    return pass_call(c->at[0].beside, &call, e);
}

static int choose(struct member *m, struct err *e)
{
    struct op_ranks at = {.comm = m->comm, .rank = comm_rank(m->comm), .size = comm_size(m->comm)};
    return ranks_share(&m->share, &m->opt->dir->config, &m->opt->model, &at, e);
}

static int stay(struct member *m, struct model *model, struct stream *s, struct err *e)
{
    struct crew_memory memory;
    struct sitter sitter = {.is_started = false};
    int rc = all_have_loaded(m, model, &memory, e) || sitter_start(&sitter, m, model, e) ||
                     follow(model, s, sitter.own.gate, e)
                 ? -1
                 : 0;
    sitter_end(&sitter, rc ? e->msg : NULL);
    return rc;
}

static int load_and_follow(struct member *m, struct err *e)
{
    struct model_options mo = m->opt->model;
    struct pool *pool = pool_new(m->opt->n_thread, false, e);
    struct device_options want = {.want = m->opt->device,
                                  .index = comm_rank(m->comm),
                                  .pool = pool,
                                  .kernels = m->opt->kernels};
    struct device *d = pool ? device_open(&want, e) : NULL;
    struct stream *s = d ? stream_new(d, e) : NULL;
    struct model *model = NULL;
    mo.share = &m->share;
    mo.pool = pool;
    mo.progress = NULL;
    if (s)
        model = model_load(m->opt->dir, &mo, d, e);
    int rc = model ? stay(m, model, s, e) : -1;
    if (rc)
        comm_abort(m->comm, e->msg);
    fabric_leave(m->comm);
    model_free(model);
    if (s)
        stream_free(s);
    if (d)
        device_free(d);
    pool_free(pool);
    return rc;
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    struct err e = ERR_INIT;
    load_and_follow(m, &e); /* what failed is told through the group */
    return NULL;
}

static int start_members(struct crew *c, struct err *e)
{
    struct comm *end[COMM_RANK_MAX];
    int n = c->opt.comm ? 1 : c->opt.n_rank;
    if (c->opt.comm)
        end[0] = c->opt.comm;
    else if (comm_local_new(n, NULL, end, e))
        return -1;
    for (c->n = 0; c->n < n; c->n++)
        c->at[c->n] = (struct member){.opt = &c->opt, .comm = end[c->n]};
    for (int r = 0; r < n; r++)
        if (choose(&c->at[r], e))
            return -1;
    for (int r = 1; r < n; r++) {
        errno = pthread_create(&c->at[r].thread, NULL, run_member, &c->at[r]);
        if (errno)
            return err_sys(e, "starting a thread for rank %d", r);
        c->at[r].is_started = true;
    }
    return 0;
}

struct crew *crew_new(const struct crew_options *o, struct err *e)
{
    struct crew *c = xcalloc(1, sizeof *c);
    c->opt = *o;
    c->opt.model.files = o->dir->weights;
    if (!start_members(c, e))
        return c;
    crew_free(c, NULL);
    return NULL;
}

const struct model_share *crew_share(const struct crew *c)
{
    return &c->at[0].share;
}

int crew_ready(struct crew *c, const struct model *m, struct err *e)
{
    return all_have_loaded(&c->at[0], m, &c->memory, e);
}

struct crew_memory crew_memory(const struct crew *c)
{
    return c->memory;
}

/* First those beside serving, who then are ready to end with the others. Where they cannot be told,
 * nobody can. */
static void dismiss(struct crew *c, const struct model *m)
{
    enum call call = CALL_END;
    struct err e = ERR_INIT;
    if (c->at[0].beside && pass_call(c->at[0].beside, &call, &e))
        comm_abort(c->at[0].comm, e.msg);
    else
        lead_dismiss(m);
}

void crew_free(struct crew *c, const struct model *m)
{
    if (!c)
        return;
    if (m)
        dismiss(c, m);
    else if (c->n)
        comm_abort(c->at[0].comm, "the model was not loaded");
    if (!c->n && c->opt.comm) {
        comm_abort(c->opt.comm, "the model was not loaded");
        comm_free(c->opt.comm);
    }
    if (c->n)
        fabric_leave(c->at[0].comm);
    for (int r = 0; r < c->n; r++) {
        if (c->at[r].is_started)
            pthread_join(c->at[r].thread, NULL);
        comm_free(c->at[r].beside);
        comm_free(c->at[r].comm);
        ranks_share_release(&c->at[r].share);
    }
    free(c);
}

int crew_follow(const struct crew_options *o, struct err *e)
{
    struct crew_options opt = *o;
    struct member m = {.opt = &opt, .comm = o->comm};
    opt.model.files = o->dir->weights;
    int rc = choose(&m, e) || load_and_follow(&m, e) ? -1 : 0;
    comm_free(m.beside);
    comm_free(m.comm);
    ranks_share_release(&m.share);
    return rc;
}
