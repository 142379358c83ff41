/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of the kernels: arithmetic on raw pointers. No kernel allocates, starts a thread, takes
 * a lock, or fails: what could be wrong with its arguments is the caller's duty to have checked.
 *
 * One calling form for all: a struct of arguments and a slice of output units. `kernel_shape` says
 * how many units a call has; whoever calls may cut [0, n_unit) anywhere and run the pieces in any
 * order on any threads, because a unit owns its outputs and no sum crosses units. That, and sums
 * whose order depends on the weight's shape and the variant alone, is why a row's bits depend
 * neither on the rows beside it nor on the number of threads.
 *
 * kernels/ref is plain C and the specification; x86/ overwrites what it has. kernel_table_init
 * fills the process's table once at start; a GPU fills a second table of the same type.
 *
 * The arguments of the rows are in args_*.h, which this header includes.
 *
 * Packed weights. A weight w[n, k] is stored once, as panels of K_NR outputs, and that copy serves
 * matrix-vector, matrix-matrix and both gradients (kernels/linear.h has the layout).
 *
 * Formats. A weight is kept as one row of kernels/format.def says (kernels/format.h).
 *
 * Rounding rule: a product's input rows are what its weight's format multiplies, k_format.rows:
 * f32, or rounded to bf16 in one place, rows_pack, to nearest even. Sums are f32.
 *
 * K/V cells. Keys and values live in cells of K_CELL tokens of one head, laid out as packed weights
 * are (kernels/attention.h has the layout), so the attention products are the linear micro-kernels.
 * A cache is a run of cells; a table maps a sequence's cells to places in it (paged), or there is
 * no table and they stand in a row (contiguous).
 *
 * Thread: any, once kernel_table_init has returned.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>

#include "kernels/args_attn.h"
#include "kernels/args_cols.h"
#include "kernels/args_conv.h"
#include "kernels/args_delta.h"
#include "kernels/args_dora.h"
#include "kernels/args_draws.h"
#include "kernels/args_experts.h"
#include "kernels/args_heads.h"
#include "kernels/args_linear.h"
#include "kernels/args_rows.h"
#include "kernels/args_sample.h"
#include "kernels/args_tracks.h"
#include "kernels/types.h"

enum kernel_id {
#define KERNEL(name, text) K_##name,
#include "kernels/kernels.def"
#undef KERNEL
    KERNEL_COUNT
};

struct kernel_table {
    kernel_fn *fn[KERNEL_COUNT];
    const char *variant[KERNEL_COUNT]; /* "ref", "avx2", "avx512", "avx512_bf16", "cuda" */
    bool gates; /* its products know k_linear.gated, and do it as its swiglu and rows_pack do */
};

struct k_cpu {
    bool avx2, avx512, avx512_bf16; /* avx512: F, BW, DQ, VL, VBMI; _bf16: VNNI too;
                                     * each includes those before */
    char name[64];
};

/* The CPU as it is; the highest level that `mask` ("ref", "avx2", "avx512", "avx512_bf16", NULL for
 * all) allows. */
struct k_cpu kernel_cpu(void);

/* Fills t: ref, then what the CPU has up to `mask`. -1 when the mask is unknown, or names a level
 * that this CPU lacks. */
int kernel_table_init(struct kernel_table *t, const char *mask);

const char *kernel_name(enum kernel_id id);
struct k_shape kernel_shape(enum kernel_id id, const void *args);

/* Runs a whole call on this thread: for tests and tools. */
void kernel_run(const struct kernel_table *t, enum kernel_id id, const void *args, void *scratch);

#endif
