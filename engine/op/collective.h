/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops `reduce`, `collect` and `spread` launch: a collective with the copies about it. Its
 * pointers are the device's and stay; m follows the batch, like the counts of kernels.
 *
 * Thread: that of the stream.
 */
#ifndef ENGINE_OP_COLLECTIVE_H
#define ENGINE_OP_COLLECTIVE_H

#include "engine/comm/comm.h"
#include "engine/device/device.h"
#include "engine/op/op.h"

struct op_ranks {
    struct comm *comm; /* borrowed; NULL in a graph that is only looked at or run on paper */
    int32_t rank, size;
};

struct op_collective {
    struct op_ranks ranks;
    enum comm_kind kind; /* COMM_ALL_REDUCE: y becomes the sum; COMM_ALL_GATHER: x to y */
    const float *x;      /* [m, this rank's of n columns] */
    float *y;            /* [m, n] */
    float *work;         /* of a gather: op_collective_work */
    int64_t ld_x, ld_y, m, n, pieces;
};

/* Runs it behind what the stream was given. What fails breaks the group: comm_check tells. */
void op_collective_run(const struct op_collective *a, struct stream *s);

/* Whether what it puts on a stream may be kept there and given again. */
bool op_collective_may_be_kept(const struct op_collective *a);

/* Bytes that each rank sends away, at least. */
double op_collective_bytes(const struct op_collective *a);

/* The widest part of n columns in so many pieces. */
int64_t op_collective_widest(const struct op_ranks *r, int64_t n, int64_t pieces);

struct op_reduce_attr {
    struct op_ranks ranks;
};

struct op_spread_attr {
    struct op_ranks ranks;
};

struct op_collect_attr {
    struct op_ranks ranks;
    int64_t cols, pieces; /* of the whole */
};

#endif
