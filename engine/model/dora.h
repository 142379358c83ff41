/* SPDX-License-Identifier: Apache-2.0
 *
 * The gains of DoRA adapters (weight-decomposed low-rank adaptation, PEFT's use_dora). An adapter
 * has a magnitude for each output of a product besides its halves: the length that the weight's row
 * with what they add to it is brought to. So outputs are multiplied by magnitude / length (op
 * `dora`). A gain follows from the packed weight and the adapter's f32 alone, and it is found here,
 * for an adapter that is served and for one that is trained: both have the same bits.
 *
 * Thread: one at a time for a struct dora_rows, or a struct dora.
 */
#ifndef ENGINE_MODEL_DORA_H
#define ENGINE_MODEL_DORA_H

#include "engine/device/device.h"
#include "engine/model/model.h"

/* Whether adapters of this model can have gains: ERR_UNSUPPORTED says why not. */
int dora_check(const struct model *m, struct err *e);
bool dora_is_possible(const struct model *m);

/* ---- of what lies on the device ------------------------------------------------------------- */

/* Room for some rows of a weight; zeros are a good one. */
struct dora_rows {
    float *at; /* owned: device memory */
    size_t bytes;
};

void dora_rows_release(struct dora_rows *r, struct device *d);

/* Fills how->norm, and how->gain where there are magnitudes, from a product's weight and what `how`
 * has of its adapter, in device memory; its w, n and k are filled in here. Behind what is on the
 * stream, and not waited for. launch: stream_launch, or stream_launch_alone. */
int dora_rows_find(struct dora_rows *r, const struct param *p, struct k_dora_gain how,
                   struct stream *s, stream_launch_fn *launch, struct err *e);

/* ---- of what lies with the host ------------------------------------------------------------- */

struct dora {
    struct device *device; /* borrowed */
    struct stream *stream; /* owned */
    struct dora_rows rows;
    float *x; /* owned: device memory */
    size_t floats;
};

struct dora_halves {
    const float *a, *b, *magnitude; /* [rank, k], [n, rank], [n] */
    int64_t rank;
    float scale;
};

int dora_init(struct dora *d, struct device *device, struct err *e);
void dora_release(struct dora *d); /* after a failure, too */

/* A product's gains, [n] of the device's memory. The caller need not hold the gate. */
int dora_find(struct dora *d, const struct param *p, const struct dora_halves *h, float *gain,
              struct err *e);

#endif
