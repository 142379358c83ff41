/* SPDX-License-Identifier: Apache-2.0
 *
 * Products where vectors have no more room than half a panel for a few rows: a run of inputs at a
 * time, panels are laid out anew in scratch, each half of their outputs by itself; bf16 and codes
 * become f32 there, and so do rows. Numbers and codes become f32 exactly, so an output is one chain
 * of fused multiply-adds over ascending inputs; of codes: over a group, whose sum joins the
 * others times its scale.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_LINEAR_WIDENED_H
#define KERNELS_X86_LINEAR_WIDENED_H

#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"

enum {
    OPENED_INPUTS = 256, /* in a run; of codes a group */
    OPENED_PANELS = 4,   /* that share what is widened of the rows */
    OPENED_BLOCKS = 24,  /* of rows, that share what is widened of the panels */
    OPENED_PANEL_BYTES = OPENED_INPUTS * K_NR * 4,
    OPENED_ROWS_BYTES = OPENED_INPUTS * LINEAR_MR * 4,
    OPENED_SUMS_BYTES = OPENED_PANELS * OPENED_BLOCKS * LINEAR_MR * K_NR * 4,
    OPENED_BYTES = OPENED_PANELS * OPENED_PANEL_BYTES + OPENED_ROWS_BYTES + OPENED_SUMS_BYTES
};

_Static_assert((int)OPENED_INPUTS >= (int)K_INT8_GROUP, "a group is a run");
_Static_assert((int)OPENED_BYTES <= (int)K_SCRATCH_BYTES, "all of it fits scratch");

/* A product, and how it finds its operands. */
struct widened {
    const struct linear_isa *isa;
    enum k_type type;
    const char *rows;   /* packed: [m, inputs] */
    int64_t m, n_panel; /* panels: of outputs */
    int64_t inputs;     /* as they are stored */
    int64_t run_bytes;  /* of a panel's run, as it is stored */
    /* Inputs [lo, lo + n) of a panel. */
    void (*open)(const struct widened *o, int64_t panel, int64_t lo, int64_t n, float *to,
                 float *second);
    /* Of the group there, [32]; NULL: no codes. */
    void (*scale)(const struct widened *o, int64_t panel, int64_t lo, float *to);
    struct tile_out (*out)(const struct widened *o, int64_t panel, int64_t row);
    /* Where what is widened for the run at `lo` of some panels is stored: of part q of as many the
     * byte `at`. */
    const char *(*stored)(const struct widened *o, int64_t panel, int64_t lo, int64_t q,
                          int64_t at);
    const void *call; /* borrowed: for those four */
};

/* Units of the grid. */
void widened_run(const struct widened *o, const struct linear_grid *g, const struct k_slice *s);

/* All of linear_<format>. */
void linear_widened_run(const struct linear_isa *isa, const struct k_linear *a,
                        const struct k_slice *s);

#endif
