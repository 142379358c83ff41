/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters of random numbers on all products that take one, so that what they cost can be measured
 * without files.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOCAL_BENCH_ADAPTERS_H
#define CLIENTS_LOCAL_BENCH_ADAPTERS_H

#include "engine/model/model.h"
#include "engine/op/batch.h"

struct bench_adapters {
    const struct model *model; /* borrowed */
    char *block;               /* owned: device memory of all */
    size_t each;               /* bytes of one */
    int64_t n, rank;
    bool is_bf16; /* f32 else */
};

/* Of a whose model, n, rank and is_bf16 are set. */
int bench_adapters_init(struct bench_adapters *a, struct stream *s, struct err *e);
void bench_adapters_release(struct bench_adapters *a); /* after a failure, too */

/* The batch's sequences share the adapters out, neighbours having the same. */
void bench_adapters_groups(const struct bench_adapters *a, struct batch *b);

#endif
