/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a training as they live: threads of this process, or this process as one of several
 * that were started together. Each has compute threads and a model of its own, of which it loads
 * its part of the files only, and does the same work.
 *
 * A rank that fails breaks every group that it is in, so that all end, with its words.
 *
 * Thread: rank 0 of a process's ranks is the caller's thread.
 */
#ifndef ENGINE_TRAIN_TEAM_H
#define ENGINE_TRAIN_TEAM_H

#include "engine/model/model.h"
#include "engine/train/ranks.h"

struct team_rank {
    struct train_ranks ranks;
    struct device *device;
    struct stream *stream;
    struct model *model; /* this rank's; nobody else's */
};

struct team_options {
    const struct model_dir *dir;  /* borrowed */
    struct model_options model;   /* share and pool are the team's */
    const char *device, *kernels; /* as in device_open; rank r takes the r-th GPU */
    int n_tensor, n_data;         /* ranks that share a model; such groups */
    int n_thread;                 /* compute threads of each rank */
    struct comm *comm;            /* borrowed: this process's end, of n_tensor * n_data; NULL: all
                                   * ranks are threads of this one */
    int (*work)(void *ctx, struct team_rank *r, struct err *e);
    void *ctx; /* borrowed; of all ranks here */
};

/* 0: all ranks here have done their work. */
int team_run(const struct team_options *o, struct err *e);

#endif
