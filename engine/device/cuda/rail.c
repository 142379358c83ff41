/* SPDX-License-Identifier: Apache-2.0
 *
 * Rails over NCCL (engine/device/rail.h). A communicator does not block: whoever calls it asks
 * until it has done. Behind each call, and behind each replay that has some in it, stands a mark in
 * the stream; marks that pass are how it is seen that the ranks still come. Everything in this plug
 * that waits for the GPU looks at the rails of its device meanwhile (cuda_await). A rail that is
 * late, or told to give up, is aborted: then NCCL's kernels end, and so does the wait.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/device/cuda/nccl.h"

/* LOOK_NS: of a look that came late no more counts, for time in which this process stood still. */
enum { SPIN = 500, NAP_NS = 20000, NAP_MOST_NS = 1000000, NAP_LONGER = 128 };
enum { LOOK_NS = 100000000, DAZED_NS = 1000000000 };

#ifdef CUDA_HAS_NCCL

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The n-th of a wait: who waited long can wait longer. A nap is about a thousandth of what was
 * waited; of seconds in naps that are all short a tenth would be spent on falling asleep. */
static void nap(int64_t n)
{
    int64_t ns = NAP_NS + (n - SPIN) / NAP_LONGER * NAP_NS;
    if (n < SPIN)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = ns < NAP_MOST_NS ? ns : NAP_MOST_NS}, NULL);
}

struct mark {
    cudaEvent_t at; /* owned */
    int64_t longer_ns;
};

struct cuda_rail {
    struct rail base; /* first */
    const struct nccl *nccl;
    struct rail_options opt;
    struct cuda_stream *stream; /* borrowed: that of its calls */
    pthread_mutex_t lock;       /* around what follows: whoever waits for the device looks */
    ncclComm_t at;              /* owned; NULL: aborted */
    struct mark mark[RAIL_FLIGHT];
    uint64_t n_given, n_passed;
    int64_t looked_ns, waited_ns; /* waited: since the last mark that passed */
    bool is_broken;
    struct err why;
    struct cuda_rail *next; /* of the device's */
};

static struct cuda_rail *rail_of(struct rail *r)
{
    return (struct cuda_rail *)r;
}

static struct cuda_device *device_of(const struct cuda_rail *r)
{
    return cuda_device_of(r->base.device);
}

/* ---- breaking ------------------------------------------------------------------------------ */

/* Under lock; once. */
static void give_up(struct cuda_rail *r, const char *text)
{
    if (r->is_broken)
        return;
    err_set(&r->why, ERR_DEVICE, "NCCL, rank %d of %d: %s", r->opt.rank, r->opt.size, text);
    r->is_broken = true;
    if (r->at)
        r->nccl->abort(r->at);
    r->at = NULL;
    r->opt.fail(r->opt.ctx, r->why.msg);
}

static void give_up_for(struct cuda_rail *r, ncclResult_t rc)
{
    give_up(r, r->nccl->text(rc));
}

/* ---- looking ------------------------------------------------------------------------------- */

static void pass_marks(struct cuda_rail *r)
{
    while (r->n_passed < r->n_given) {
        cudaError_t rc = cudaEventQuery(r->mark[r->n_passed % RAIL_FLIGHT].at);
        if (rc == cudaErrorNotReady)
            return;
        if (rc) {
            give_up(r, cudaGetErrorString(rc));
            return;
        }
        r->n_passed++;
        r->waited_ns = 0;
    }
}

static void count_time(struct cuda_rail *r)
{
    const struct mark *m = &r->mark[r->n_passed % RAIL_FLIGHT];
    int64_t now = now_ns(), past = now - r->looked_ns, most = r->opt.deadline_ns;
    char text[80];
    r->looked_ns = now;
    if (r->n_passed == r->n_given)
        return;
    r->waited_ns += past < LOOK_NS ? past : LOOK_NS;
    if (__builtin_add_overflow(most, m->longer_ns, &most) || r->waited_ns <= most)
        return;
    snprintf(text, sizeof text, "collective %llu: not all ranks came within %.1f s",
             (unsigned long long)r->n_passed, (double)most / 1e9);
    give_up(r, text);
}

static void look(struct cuda_rail *r)
{
    ncclResult_t state = ncclSuccess;
    struct err why = ERR_INIT;
    pass_marks(r);
    if (!r->is_broken && r->opt.watch(r->opt.ctx, &why))
        give_up(r, why.msg);
    if (!r->is_broken && !r->nccl->async_error(r->at, &state) && state != ncclSuccess &&
        state != ncclInProgress)
        give_up_for(r, state);
    if (!r->is_broken)
        count_time(r);
}

/* Whether any is broken. Nobody waits for a look that another takes. */
static bool look_at_all(struct cuda_device *d)
{
    bool is_broken = false;
    for (struct cuda_rail *r = atomic_load(&d->rails); r; r = r->next) {
        if (pthread_mutex_trylock(&r->lock))
            continue;
        if (!r->is_broken)
            look(r);
        is_broken = is_broken || r->is_broken;
        pthread_mutex_unlock(&r->lock);
    }
    return is_broken;
}

/* Until the mark, or where there is none the stream, is passed. Behind a break the GPU comes back
 * to its senses soon, or never. */
static cudaError_t await(struct cuda_device *d, cudaStream_t s, cudaEvent_t v)
{
    int64_t broken_ns = 0;
    cudaError_t rc;
    for (int64_t n = 0; (rc = v ? cudaEventQuery(v) : cudaStreamQuery(s)) == cudaErrorNotReady;
         n++) {
        if (look_at_all(d) && !broken_ns)
            broken_ns = now_ns();
        if (broken_ns && now_ns() - broken_ns > DAZED_NS)
            return cudaErrorLaunchTimeout;
        nap(n);
    }
    return rc;
}

cudaError_t cuda_await(struct cuda_device *d, cudaStream_t s)
{
    return atomic_load(&d->rails) ? await(d, s, NULL) : cudaStreamSynchronize(s);
}

cudaError_t cuda_await_event(struct cuda_device *d, cudaEvent_t v)
{
    return atomic_load(&d->rails) ? await(d, NULL, v) : cudaEventSynchronize(v);
}

int cuda_rails_state(struct cuda_device *d, const struct cuda_stream *s, struct err *e)
{
    int rc = 0;
    for (struct cuda_rail *r = atomic_load(&d->rails); r && !rc; r = r->next)
        if (r->stream == s)
            rc = r->base.device->driver->rail->state(&r->base, e);
    return rc;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Under lock: until a call that does not block has been taken. */
static void settle(struct cuda_rail *r, ncclResult_t rc, int64_t most_ns)
{
    int64_t begin = now_ns();
    struct err why = ERR_INIT;
    for (int64_t n = 0; rc == ncclInProgress; n++) {
        if (r->nccl->async_error(r->at, &rc))
            rc = ncclInternalError;
        if (rc == ncclInProgress && r->opt.watch(r->opt.ctx, &why)) {
            give_up(r, why.msg);
            return;
        }
        if (rc == ncclInProgress && now_ns() - begin > most_ns) {
            give_up(r, "not all ranks came to join");
            return;
        }
        nap(n);
    }
    if (rc)
        give_up_for(r, rc);
}

/* Under lock: a mark behind what s was given. */
static void mark(struct cuda_rail *r, int64_t longer_ns)
{
    struct mark *m = &r->mark[r->n_given % RAIL_FLIGHT];
    if (r->is_broken)
        return;
    if (r->n_given == r->n_passed)
        r->looked_ns = now_ns();
    m->longer_ns = longer_ns;
    cuda_note(r->stream, cudaEventRecord(m->at, r->stream->at), "a mark");
    r->n_given++;
}

/* Under lock: waits for the oldest where RAIL_FLIGHT are under way. */
static void make_room(struct cuda_rail *r)
{
    for (int64_t n = 0; !r->is_broken && r->n_given - r->n_passed == RAIL_FLIGHT; n++) {
        look(r);
        nap(n);
    }
}

/* The lock is taken; false: it is broken, or its stream has failed. In a capture nothing runs, so
 * nothing is waited for. */
static bool begin(struct cuda_rail *r, struct stream *s)
{
    cuda_enter(device_of(r));
    pthread_mutex_lock(&r->lock);
    r->stream = (struct cuda_stream *)s;
    if (r->stream->is_kept)
        r->stream->has_rail = true;
    else
        make_room(r);
    return !r->is_broken && !r->stream->first_error;
}

static void end(struct cuda_rail *r, ncclResult_t rc, int64_t longer_ns)
{
    settle(r, rc, r->opt.deadline_ns);
    if (!r->stream->is_kept)
        mark(r, longer_ns);
    pthread_mutex_unlock(&r->lock);
}

static void gather(struct rail *base, struct stream *s, const void *in, void *out, size_t bytes,
                   int64_t longer_ns)
{
    struct cuda_rail *r = rail_of(base);
    ncclResult_t rc = ncclSuccess;
    if (begin(r, s))
        rc = r->nccl->all_gather(in, out, bytes, ncclChar, r->at, r->stream->at);
    end(r, rc, longer_ns);
}

static ncclResult_t exchange_in_group(struct cuda_rail *r, const char *in, char *out, size_t part,
                                      size_t all)
{
    size_t own = (size_t)r->opt.rank * part;
    size_t n_own = own < all ? (all - own < part ? all - own : part) : 0;
    ncclResult_t rc = r->nccl->group_start(), last;
    for (int k = 0; k < r->opt.size && !rc; k++) {
        size_t lo = (size_t)k * part, n = lo < all ? (all - lo < part ? all - lo : part) : 0;
        if (n)
            rc = r->nccl->send(in + lo, n, ncclChar, k, r->at, r->stream->at);
        if (n_own && (!rc || rc == ncclInProgress))
            rc = r->nccl->recv(out + lo, n_own, ncclChar, k, r->at, r->stream->at);
        rc = rc == ncclInProgress ? ncclSuccess : rc;
    }
    last = r->nccl->group_end();
    return rc ? rc : last;
}

static void exchange(struct rail *base, struct stream *s, const void *in, void *out, size_t part,
                     size_t all, int64_t longer_ns)
{
    struct cuda_rail *r = rail_of(base);
    ncclResult_t rc = ncclSuccess;
    if (begin(r, s))
        rc = exchange_in_group(r, in, out, part, all);
    end(r, rc, longer_ns);
}

/* Behind a kept step whose collectives are one as far as marks go. */
void cuda_rails_replayed(struct cuda_stream *s)
{
    for (struct cuda_rail *r = atomic_load(&cuda_device_of(s->base.device)->rails); r;
         r = r->next) {
        if (r->stream != s)
            continue;
        pthread_mutex_lock(&r->lock);
        make_room(r);
        mark(r, 0);
        pthread_mutex_unlock(&r->lock);
    }
}

void cuda_rails_forget(struct cuda_stream *s)
{
    for (struct cuda_rail *r = atomic_load(&cuda_device_of(s->base.device)->rails); r;
         r = r->next) {
        pthread_mutex_lock(&r->lock);
        if (r->stream == s)
            r->stream = NULL;
        pthread_mutex_unlock(&r->lock);
    }
}

static int state(struct rail *base, struct err *e)
{
    struct cuda_rail *r = rail_of(base);
    pthread_mutex_lock(&r->lock);
    int rc = r->is_broken ? err_set(e, r->why.code, "%s", r->why.msg) : 0;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int id_make(struct device *d, struct rail_id *id, struct err *e)
{
    const struct nccl *n = nccl_get(e);
    ncclUniqueId own;
    _Static_assert(sizeof own == sizeof *id, "an id of NCCL's");
    if (!n)
        return -1;
    cuda_enter(cuda_device_of(d));
    ncclResult_t rc = n->get_unique_id(&own);
    if (rc)
        return err_set(e, ERR_DEVICE, "NCCL: %s", n->text(rc));
    __builtin_memcpy(id, &own, sizeof own);
    return 0;
}

static void part_with(struct cuda_rail *r)
{
    if (!r->at)
        return;
    pthread_mutex_lock(&r->lock);
    settle(r, r->nccl->finalize(r->at), r->opt.deadline_ns);
    if (r->at)
        r->nccl->destroy(r->at);
    r->at = NULL;
    pthread_mutex_unlock(&r->lock);
}

static void release(struct cuda_rail *r)
{
    for (int i = 0; i < RAIL_FLIGHT; i++)
        if (r->mark[i].at)
            cudaEventDestroy(r->mark[i].at);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

/* No other thread waits for the device any more: it goes soon as well. */
static void rail_end(struct rail *base)
{
    struct cuda_rail *r = rail_of(base), *at = atomic_load(&device_of(r)->rails);
    struct cuda_device *d = device_of(r);
    cuda_enter(d);
    if (r->stream)
        cuda_await(d, r->stream->at);
    part_with(r);
    if (at == r)
        atomic_store(&d->rails, r->next);
    for (; at; at = at->next)
        if (at->next == r)
            at->next = r->next;
    release(r);
}

static void join(struct cuda_rail *r)
{
    ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    c.blocking = 0;
    __builtin_memcpy(&id, &r->opt.id, sizeof id);
    pthread_mutex_lock(&r->lock);
    settle(r, r->nccl->init(&r->at, r->opt.size, id, r->opt.rank, &c), r->opt.join_ns);
    pthread_mutex_unlock(&r->lock);
}

static int make_marks(struct cuda_rail *r, struct err *e)
{
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < RAIL_FLIGHT && !rc; i++)
        rc = cudaEventCreateWithFlags(&r->mark[i].at, cudaEventDisableTiming);
    return cuda_answer(device_of(r), rc, "a rail", e);
}

static struct rail *rail_make(struct device *base, const struct rail_options *o, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    const struct nccl *n = nccl_get(e);
    struct cuda_rail *r = n ? try_alloc(1, sizeof *r, "a rail", e) : NULL;
    if (!r)
        return NULL;
    cuda_enter(d);
    r->base.device = base;
    r->nccl = n;
    r->opt = *o;
    r->why = (struct err)ERR_INIT;
    pthread_mutex_init(&r->lock, NULL);
    if (!make_marks(r, e)) {
        join(r);
        if (!state(&r->base, e)) {
            r->next = atomic_load(&d->rails);
            atomic_store(&d->rails, r);
            return &r->base;
        }
    }
    release(r);
    return NULL;
}

static const struct rail_driver rails = {.check = nccl_check,
                                         .id_make = id_make,
                                         .make = rail_make,
                                         .free = rail_end,
                                         .gather = gather,
                                         .exchange = exchange,
                                         .state = state};

const struct rail_driver *cuda_rails(void)
{
    return &rails;
}

#else

/* Built without NCCL's header: nothing to look at. */

cudaError_t cuda_await(struct cuda_device *d, cudaStream_t s)
{
    (void)d;
    return cudaStreamSynchronize(s);
}

cudaError_t cuda_await_event(struct cuda_device *d, cudaEvent_t v)
{
    (void)d;
    return cudaEventSynchronize(v);
}

int cuda_rails_state(struct cuda_device *d, const struct cuda_stream *s, struct err *e)
{
    (void)d, (void)s, (void)e;
    return 0;
}

void cuda_rails_replayed(struct cuda_stream *s)
{
    (void)s;
}

void cuda_rails_forget(struct cuda_stream *s)
{
    (void)s;
}

const struct rail_driver *cuda_rails(void)
{
    return NULL;
}

#endif
