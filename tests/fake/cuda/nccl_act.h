/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the twin of NCCL: what a rank does in a collective, and the table over which ranks of
 * several processes meet.
 *
 * A table is a file without a name (memfd) of the process that made the communicator's id; the id
 * says which, and the others open it by /proc. In it each rank has a seat and room: it puts its
 * n-th collective there once all have taken the one before, and takes from the others' rooms when
 * all have put theirs. A rank that is killed puts nothing any more; nobody is told.
 */
#ifndef TESTS_FAKE_CUDA_NCCL_ACT_H
#define TESTS_FAKE_CUDA_NCCL_ACT_H

#include <nccl.h>

#include "tests/fake/cuda/work.h"

enum { RANKS = 16, TRANSFERS = 2 * RANKS };

struct transfer {
    bool sends;
    int peer;
    char *p; /* borrowed */
    size_t n;
};

/* What one rank does in a collective: gathers, or sends and receives. */
struct op {
    struct ncclComm *c; /* counted */
    cudaStream_t s;
    const char *in;
    char *out; /* of a gather; NULL: transfers */
    size_t n;
    struct transfer transfer[TRANSFERS];
    int n_transfer;
};

struct table;

/* Makes one, and the id that leads to it. */
ncclResult_t table_make(ncclUniqueId *id);

/* This rank's end: it has come. NULL: there is no such table. */
struct table *table_open(const ncclUniqueId *id, int n, int rank);
void table_close(struct table *t);

bool table_is_full(const struct table *t);   /* all have come */
bool table_is_shared(const struct table *t); /* by several processes; once it is full */

/* Goes on with o, the rank's next; true: it is done, and *rc says how. */
bool table_step(struct table *t, const struct op *o, ncclResult_t *rc);

/* From here on the stream runs by itself, as a GPU would; until table_leave. */
void table_drive(cudaStream_t *s);
void table_leave(cudaStream_t *s);

#endif
