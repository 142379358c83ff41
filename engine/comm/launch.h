/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launcher left in the environment of processes that it started together, which is how each
 * knows its place. The first that speaks is heard:
 *
 *     mpirun, srun --mpi     OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_SIZE: MPI knows the rest
 *     by hand, torchrun      RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *     LeaderWorkerSet        LWS_WORKER_INDEX, LWS_GROUP_SIZE, LWS_LEADER_ADDRESS
 *     srun                   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST
 *
 * MASTER_ADDR and MASTER_PORT, where they are set, say for all of these where rank 0 is, and
 * MASTER_SECRET_FILE names a file whose bytes ranks over sockets prove to each other. A group of
 * one is none. A batch script of Slurm is no step, so a program that it runs without srun is alone.
 *
 * Thread: any, while nobody changes the environment.
 */
#ifndef ENGINE_COMM_LAUNCH_H
#define ENGINE_COMM_LAUNCH_H

#include "engine/base/err.h"

enum { COMM_HOST_BYTES = 256, COMM_PORT = 29500 };

struct comm_launch {
    const char *plug; /* "mpi", "tcp"; NULL: this process was started alone */
    const char *by;   /* the variable that says how many there are */
    int rank, size;   /* of tcp; MPI finds them out */
    char host[COMM_HOST_BYTES];
    int port;
    const char *secret_file; /* NULL: none */
};

/* -1: a launcher that does not say all that is needed, and what is missing. */
int comm_launch_read(struct comm_launch *l, struct err *e);

#endif
