/* SPDX-License-Identifier: Apache-2.0
 *
 * `--parallel auto`: how many ranks share a model, and when it is trained how many groups of them
 * have rows of their own; from the model's headers, the devices that are here, and their memory.
 * One line says what was taken, and why.
 *
 * The costs it goes by: ranks that share a model wait for each other several times in every layer;
 * ranks with rows of their own once in a step, and each must hold the whole model. On a CPU all
 * cores work on every product already, and ranks on one host share its memory: sharing moves bytes
 * and frees none. So the fewest ranks share that hold it, which is one on a CPU.
 *
 * Processes that a launcher started are as many ranks as they are.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOCAL_PARALLEL_H
#define CLIENTS_LOCAL_PARALLEL_H

#include "engine/train/tuning.h"

enum { PARALLEL_WHY_BYTES = 512 };

struct parallel {
    int tp, dp;
    char why[PARALLEL_WHY_BYTES];
};

/* The devices that ranks would have, one each. */
struct parallel_place {
    bool is_cpu;
    int n_device;    /* on a CPU: processes, or 1 */
    size_t memory;   /* free, of each */
    bool is_started; /* n_device processes were: they are all used */
};

/* Of this machine: device as in device_open; n_process 0: nobody started any, else of which n_here
 * run on this host. */
int parallel_look(struct parallel_place *p, const char *device, int n_process, int n_here,
                  struct err *e);

/* For serving, in steps of n_tok tokens. ERR_TOO_LARGE: however many share it here, it does not
 * fit. */
int parallel_serve(struct parallel *out, const struct parallel_place *p,
                   const struct model_dir *dir, const struct model_options *mo, int64_t n_tok,
                   struct err *e);

/* For a training as o says; `most`: what it may take beside the weights; 0: what is free. d: what
 * kind of device it is. */
int parallel_train(struct parallel *out, const struct parallel_place *p,
                   const struct model_dir *dir, const struct model_options *mo,
                   const struct device *d, const struct tuning_options *o, size_t most,
                   struct err *e);

#endif
