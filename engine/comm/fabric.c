/* SPDX-License-Identifier: Apache-2.0
 *
 * Which way it is to be, and sums over it.
 *
 * The room holds what a sum needs beside the vector: the gathered vectors of a short one; of a long
 * one the parts that came, and, where the vector has no equal parts, the sums before they are
 * copied back.
 */
#include "engine/comm/fabric.h"

#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/comm/driver.h"
#include "engine/comm/fabric_way.h"
#include "engine/device/rail.h"

enum { ROWS = 1024, ROOM_MIN = 1 << 14, ROOM_MAX = 64 << 20 };
enum { SHORT_BYTES = 1 << 18 }; /* of what a rank is sent when all vectors are gathered */

/* ---- joining --------------------------------------------------------------------------------- */

static int tell_all(struct comm *c, const void *own, void *of, size_t bytes, struct err *e)
{
    struct comm_job j = {
        .kind = COMM_ALL_GATHER, .in = own, .out = of, .n = bytes, .is_patient = true};
    return comm_run(c, &j, e);
}

/* *all: whether all ranks say yes. */
static int ask_all(struct comm *c, bool own, bool *all, struct err *e)
{
    bool of[COMM_RANK_MAX];
    if (tell_all(c, &own, of, sizeof own, e))
        return -1;
    *all = true;
    for (int r = 0; r < c->size; r++)
        *all = *all && of[r];
    return 0;
}

struct place {
    char id[DEVICE_ID_BYTES];
    struct device *device;
};

/* Ranks that are threads here, and whose devices reach each other. */
static bool is_near(const struct comm *c, struct device *d, const struct place *of)
{
    struct err why = ERR_INIT;
    bool shares_process = c->size == 1 || strcmp(comm_name(c), "local") == 0;
    for (int r = 0; r < c->size && shares_process; r++)
        if (device_reach(d, of[r].device, &why))
            return false;
    return shares_process;
}

enum way { BY_HOST, BY_MEMORY, BY_RAILS };

static int choose(struct comm *c, struct device *d, enum way *way, struct err *e)
{
    struct place own = {.device = d}, of[COMM_RANK_MAX];
    bool are_gpus = true, are_apart = true, has_rails, is_reached;
    struct err why = ERR_INIT;
    *way = BY_HOST;
    memcpy(own.id, device_id(d), sizeof own.id);
    if (tell_all(c, &own, of, sizeof own, e))
        return -1;
    for (int r = 0; r < c->size; r++) {
        are_gpus = are_gpus && *of[r].id;
        for (int k = 0; k < r; k++)
            are_apart = are_apart && strcmp(of[r].id, of[k].id) != 0;
    }
    if (!are_gpus)
        return 0;
    if (ask_all(c, are_apart && !rail_check(d, NULL, 0, &why), &has_rails, e) ||
        ask_all(c, is_near(c, d, of), &is_reached, e))
        return -1;
    *way = has_rails ? BY_RAILS : is_reached ? BY_MEMORY : BY_HOST;
    return 0;
}

/* Where GPUs exchange through the host somebody will want to know why it is slow. */
static void say(const struct comm *c, enum way way)
{
    static const char *const through[] = {
        [BY_HOST] = "the host", [BY_MEMORY] = "the GPU's memory", [BY_RAILS] = "NCCL"};
    if (c->rank == 0)
        log_event(way == BY_HOST ? LOG_WARN : LOG_DEBUG, "ranks exchange",
                  LOG_TEXT("through", through[way]), LOG_INT("ranks", c->size));
}

static void release(struct fabric *f)
{
    device_mem_free(f->device, f->room);
    f->way->free(f);
}

static int make(struct comm *c, struct device *d, enum way way, size_t room_bytes, struct err *e)
{
    struct fabric *f = way == BY_RAILS ? fabric_rail_new(c, d, e) : fabric_near_new(c, d, e);
    bool all_have = false;
    if (!f)
        return -1;
    f->comm = c;
    f->device = d;
    f->n_room = room_bytes / sizeof(float);
    f->room = device_alloc(d, room_bytes, "what ranks exchange", e);
    if (ask_all(c, f->room, &all_have, e) || !all_have) {
        if (!e->code)
            err_set(e, ERR_NO_MEMORY, "a rank's device has no memory for what ranks exchange");
        release(f);
        return -1;
    }
    c->fabric = f;
    return 0;
}

/* Two of a step of ROWS; as much as keeps a fast network busy is enough. */
size_t fabric_room_bytes(int64_t cols)
{
    size_t bytes = 2 * ROWS * sizeof(float) * (size_t)cols;
    return bytes < ROOM_MIN ? ROOM_MIN : bytes < ROOM_MAX ? bytes : ROOM_MAX;
}

int fabric_join(struct comm *c, struct device *d, size_t room_bytes, struct err *e)
{
    enum way way;
    ASSERT(!c->fabric && room_bytes / sizeof(float) >= (size_t)(4 * c->size));
    if (device_reads_host(d) && c->size == 1)
        return 0;
    if (choose(c, d, &way, e))
        return -1;
    if (!device_reads_host(d))
        say(c, way);
    return way == BY_HOST ? 0 : make(c, d, way, room_bytes, e);
}

void fabric_leave(struct comm *c)
{
    if (!c || !c->fabric)
        return;
    release(c->fabric);
    c->fabric = NULL;
}

const char *fabric_name(const struct comm *c)
{
    return c->fabric ? c->fabric->way->name : NULL;
}

bool fabric_may_be_kept(const struct comm *c)
{
    return c->fabric && c->fabric->way->may_be_kept;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* A rank whose own work has failed has nothing to give: it says so instead of coming. */
static int gather(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                  void *out, size_t bytes, struct err *e)
{
    return stream_state(s, e) ? -1 : f->way->gather(f, s, j, in, out, bytes, e);
}

static int exchange(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                    size_t part, size_t all, struct err *e)
{
    return stream_state(s, e) ? -1 : f->way->exchange(f, s, j, in, f->room, part, all, e);
}

struct sum {
    struct fabric *f;
    struct stream *s;
    const struct comm_job *job;
};

static void fold(const struct sum *a, float *y, size_t part, size_t n)
{
    struct k_fold k = {
        .x = a->f->room, .y = y, .ld_x = (int64_t)part, .n_x = a->f->comm->size, .n = (int64_t)n};
    if (n)
        stream_launch(a->s, K_fold, &k, sizeof k);
}

/* All vectors to all. */
static int sum_short(const struct sum *a, float *y, size_t n, struct err *e)
{
    struct fabric *f = a->f;
    if (gather(f, a->s, a->job, y, f->room, n * sizeof *y, e))
        return -1;
    fold(a, y, n, n);
    return 0;
}

/* Part r of all vectors to rank r, and the sums to all. */
static int sum_long(const struct sum *a, float *y, size_t n, struct err *e)
{
    struct fabric *f = a->f;
    size_t size = (size_t)f->comm->size, rank = (size_t)f->comm->rank;
    size_t part = (n + size - 1) / size, lo = rank * part, hi = lo + part < n ? lo + part : n;
    float *sums = n % size ? f->room + size * part : y;
    if (exchange(f, a->s, a->job, y, part * sizeof *y, n * sizeof *y, e))
        return -1;
    fold(a, sums + lo, part, lo < hi ? hi - lo : 0);
    if (gather(f, a->s, a->job, sums + lo, sums, part * sizeof *y, e))
        return -1;
    if (sums != y)
        stream_copy(a->s, y, sums, n * sizeof *y, COPY_ON_DEVICE);
    return 0;
}

static int all_reduce(const struct sum *a, float *y, size_t n, struct err *e)
{
    size_t size = (size_t)a->f->comm->size;
    size_t most_short = SHORT_BYTES / sizeof *y / size, most = (a->f->n_room / 2 / size - 1) * size;
    if (most_short > a->f->n_room / size)
        most_short = a->f->n_room / size;
    for (size_t lo = 0; lo < n;) {
        size_t m = n - lo;
        bool is_short = m <= most_short;
        if (!is_short && m > most)
            m = most;
        if (is_short ? sum_short(a, y + lo, m, e) : sum_long(a, y + lo, m, e))
            return -1;
        lo += m;
    }
    return 0;
}

int fabric_run(struct comm *c, struct stream *s, const struct comm_job *j, struct err *e)
{
    struct fabric *f = c->fabric;
    struct sum a = {.f = f, .s = s, .job = j};
    ASSERT(f && (j->kind == COMM_ALL_REDUCE || j->kind == COMM_ALL_GATHER));
    if (comm_check(c, e))
        return -1;
    c->stat.n_job[j->kind]++;
    c->stat.bytes += (uint64_t)comm_job_bytes(j, c->size);
    if (j->n == 0)
        return 0;
    if (j->kind == COMM_ALL_GATHER)
        return gather(f, s, j, j->in, j->out, j->n, e);
    ASSERT(j->in == j->out);
    return all_reduce(&a, j->out, j->n, e);
}
