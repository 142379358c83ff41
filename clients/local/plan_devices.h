/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of `tandem plan`: a model on several devices of equal memory, none of which need
 * be here. For every size that divides their number: what a rank holds, how much is left for keys
 * and values, what a token costs between ranks; and which size is taken, and why.
 *
 * The smallest that fits a whole context is. Ranks that share a model wait for each other in every
 * layer, while copies of it serve side by side; so a larger size is taken for its room alone.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOCAL_PLAN_DEVICES_H
#define CLIENTS_LOCAL_PLAN_DEVICES_H

#include "engine/model/model.h"

struct plan_devices {
    const char *name; /* of the model; borrowed */
    const struct model_dir *dir;
    struct model_options model;
    int n_device;
    size_t memory; /* of each */
    int64_t batch_tokens;
    bool json;
};

/* Prints it; ERR_TOO_LARGE: no size fits, and how many devices would do. */
int plan_devices_show(const struct plan_devices *p, struct err *e);

#endif
