/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory written anew with its layers' matrices in few bits, in the layouts that
 * compressed-tensors calls pack-quantized and, of fp8, float-quantized
 * (engine/load/packed_weight.h), which this program, transformers and vLLM load. What is no such
 * matrix is copied byte for byte.
 *
 * The memory that it takes beside a loaded model is that of some rows for each thread; with texts
 * to calibrate on, that of the sums of some layers' inputs (QUANT_SUM_BYTES, or one layer's), for
 * each of which the texts are run once more.
 *
 * The folder is written aside and takes its name whole and synced.
 *
 * Thread: one at a time; it runs the pool.
 */
#ifndef ENGINE_QUANT_QUANTIZE_H
#define ENGINE_QUANT_QUANTIZE_H

#include "engine/quant/plan.h"
#include "engine/quant/texts.h"

#define QUANT_SUM_BYTES ((size_t)2 << 30)

struct quant_options {
    struct pool *pool; /* borrowed */
    /* Borrowed: the model as it was, in the host's memory, and rows to run it on; NULL: each number
     * goes to the nearest code. */
    const struct model *model;
    struct stream *stream;
    const struct quant_texts *texts;
    size_t sum_bytes;                                     /* 0: QUANT_SUM_BYTES */
    void (*progress)(void *ctx, size_t done, size_t all); /* matrices; NULL: nobody asks */
    void *ctx;
};

/* to: must not be there. The plan's entries are told their errors; bytes: of the files of weights.
 */
int quantize(struct quant_plan *p, const struct model_dir *from, const char *to,
             const struct quant_options *o, uint64_t *bytes, struct err *e);

#endif
