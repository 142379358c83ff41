/* SPDX-License-Identifier: Apache-2.0
 *
 * A gather moves blocks of rows of equal width: parts are copied into such blocks, and out of them
 * into their columns. Ranks exchange the host's memory, or a device's over a fabric; without one,
 * what lies elsewhere goes through the stream's room.
 */
#include "engine/op/collective.h"

#include "engine/comm/fabric.h"

int64_t op_collective_widest(const struct op_ranks *r, int64_t n, int64_t pieces)
{
    int64_t most = 0;
    for (int k = 0; k < r->size; k++) {
        int64_t w = param_bound(n, pieces, k + 1, r->size) - param_bound(n, pieces, k, r->size);
        most = w > most ? w : most;
    }
    return most;
}

static struct comm_job job_of(const struct op_collective *a)
{
    int64_t widest = op_collective_widest(&a->ranks, a->n, a->pieces);
    if (a->kind == COMM_ALL_REDUCE)
        return (struct comm_job){
            .kind = a->kind, .in = a->y, .out = a->y, .n = (size_t)(a->m * a->n)};
    return (struct comm_job){.kind = a->kind,
                             .in = a->work + a->ranks.rank * a->m * widest,
                             .out = a->work,
                             .n = (size_t)(a->m * widest) * sizeof(float)};
}

double op_collective_bytes(const struct op_collective *a)
{
    struct comm_job j = job_of(a);
    return comm_job_bytes(&j, a->ranks.size);
}

bool op_collective_may_be_kept(const struct op_collective *a)
{
    return a->ranks.comm && fabric_may_be_kept(a->ranks.comm);
}

static void copy(struct stream *s, const float *x, int64_t ld_x, float *y, int64_t ld_y, int64_t m,
                 int64_t d)
{
    struct k_copy a = {.x = x, .y = y, .ld_x = ld_x, .ld_y = ld_y, .m = m, .d = d};
    stream_launch(s, K_copy, &a, sizeof a);
}

static void take_apart(const struct op_collective *a, struct stream *s)
{
    int64_t widest = op_collective_widest(&a->ranks, a->n, a->pieces);
    for (int r = 0; r < a->ranks.size; r++) {
        int64_t lo = param_bound(a->n, a->pieces, r, a->ranks.size);
        int64_t hi = param_bound(a->n, a->pieces, r + 1, a->ranks.size);
        copy(s, a->work + r * a->m * widest, widest, a->y + lo, a->ld_y, a->m, hi - lo);
    }
}

/* Runs the job on the device's memory: where the host cannot read it, on a copy that comes back. Of
 * a stream that has failed already nothing is synced: it would take what comes behind. */
static int exchange(const struct op_collective *a, struct comm_job *j, struct stream *s,
                    struct err *e)
{
    bool gathers = a->kind == COMM_ALL_GATHER;
    size_t in_bytes = gathers ? j->n : j->n * sizeof(float);
    size_t all_bytes = gathers ? in_bytes * (size_t)a->ranks.size : in_bytes;
    size_t own = (size_t)((const char *)j->in - (char *)j->out);
    char *room, *out = j->out;
    if (fabric_name(a->ranks.comm))
        return fabric_run(a->ranks.comm, s, j, e);
    if (device_reads_host(stream_device(s)))
        return stream_sync(s, e) || comm_run(a->ranks.comm, j, e) ? -1 : 0;
    room = stream_state(s, e) ? NULL : stream_room(s, all_bytes, e);
    if (!room)
        return -1;
    stream_copy(s, room + own, j->in, in_bytes, COPY_FROM_DEVICE);
    j->in = room + own;
    j->out = room;
    if (stream_state(s, e) || stream_sync(s, e) || comm_run(a->ranks.comm, j, e))
        return -1;
    stream_copy(s, out, room, all_bytes, COPY_TO_DEVICE);
    return 0;
}

void op_collective_run(const struct op_collective *a, struct stream *s)
{
    struct comm_job j = job_of(a);
    struct err e = ERR_INIT; /* the group remembers it */
    int rank = a->ranks.rank;
    bool gathers = a->kind == COMM_ALL_GATHER;
    ASSERT(gathers || a->ld_y == a->n);
    if (gathers) {
        int64_t lo = param_bound(a->n, a->pieces, rank, a->ranks.size);
        int64_t hi = param_bound(a->n, a->pieces, rank + 1, a->ranks.size);
        int64_t widest = op_collective_widest(&a->ranks, a->n, a->pieces);
        copy(s, a->x, a->ld_x, a->work + rank * a->m * widest, widest, a->m, hi - lo);
    }
    if (!a->ranks.comm)
        return; /* on paper */
    if (exchange(a, &j, s, &e))
        comm_abort(a->ranks.comm, e.msg);
    else if (gathers)
        take_apart(a, s);
}
