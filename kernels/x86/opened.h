/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 and int8 where nothing multiplies pairs: a run of inputs at a time, panels and
 * rows become f32 in scratch, and a block of f32 does the rest. Numbers and codes become f32
 * exactly, so an output is one chain of fused multiply-adds over ascending inputs; int8: over a
 * group, whose sum joins the others times its scale.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_OPENED_H
#define KERNELS_X86_OPENED_H

#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"

enum {
    OPENED_STEPS = 64,  /* pairs in a run: a group of codes */
    OPENED_PANELS = 4,  /* that share what is opened of the rows */
    OPENED_BLOCKS = 24, /* of rows, that share what is opened of the panels */
    OPENED_PANEL_BYTES = OPENED_STEPS * 2 * K_NR * 4,
    OPENED_ROWS_BYTES = OPENED_STEPS * 2 * LINEAR_MR * 4 + 64, /* stores may run over */
    OPENED_SUMS_BYTES = OPENED_PANELS * OPENED_BLOCKS * LINEAR_MR * K_NR * 4,
    /* of scratch; what is behind it is the caller's */
    OPENED_BYTES = OPENED_PANELS * OPENED_PANEL_BYTES + OPENED_ROWS_BYTES + OPENED_SUMS_BYTES
};

_Static_assert((int)OPENED_STEPS == (int)TILE_GROUP_STEPS, "a run is a group");
_Static_assert((int)OPENED_BYTES <= (int)K_SCRATCH_BYTES, "all of it fits scratch");

/* A product, and how it finds its operands. */
struct opened {
    const struct linear_isa *isa;
    const char *rows;   /* packed: [m, 2 * steps] */
    int64_t m, n_panel; /* panels: of outputs */
    int64_t steps;
    /* Steps [lo, lo + n) of a panel as f32. */
    void (*open)(const struct opened *o, int64_t panel, int64_t lo, int64_t n, float *to);
    const float *(*scale)(const struct opened *o, int64_t panel, int64_t lo); /* NULL: no codes */
    struct tile_out (*out)(const struct opened *o, int64_t panel, int64_t row);
    /* Where what is opened for the run at `lo` of some panels is stored: part i of as many. */
    const char *(*stored)(const struct opened *o, int64_t panel, int64_t lo, int64_t i);
    int64_t step_bytes; /* stored */
    const void *call;   /* borrowed: for those four */
};

/* Units of the grid. */
void opened_run(const struct opened *o, const struct linear_grid *g, const struct k_slice *s);

/* All of linear_bf16 and linear_int8. */
void linear_opened_run(const struct linear_isa *isa, const struct k_linear *a,
                       const struct k_slice *s);

#endif
