/* SPDX-License-Identifier: Apache-2.0
 *
 * What a check of a kernel is written with. For each row of kernels.def there is one function
 * check_<name>, in a file of its family (tests/kernels/check_<family>.c); without it the tool does
 * not link. main.c calls it once per level that has something of its own for the row, the
 * reference included, with c->id and c->table set: check_run runs that variant, check_run_ref the
 * reference.
 *
 * A check asks for buffers (exact size, fenced: see check_buf), fills them by kind, runs, compares,
 * and says nothing when all is well. Every comparison of one array counts one. After the first
 * failure of a row the rest is counted but not printed.
 *
 *     for (each size) for (each kind) {
 *         check_begin(c);                              frees the buffers of the case before
 *         float *x = check_floats(c, n, kind);
 *         float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
 *         ... args
 *         check_run(c, &args);
 *         check_near(c, "y", y, want, n, 1e-6, 1e-30);
 *         check_slices(c, &args, (struct check_out[]){{y, n * sizeof *y}}, 1);
 *     }
 *
 * Thread: main only, but for the threads that check_slices makes and joins.
 */
#ifndef TESTS_KERNELS_CHECK_H
#define TESTS_KERNELS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum check_kind {
    CHECK_RANDOM,   /* normal-like, of size 1 */
    CHECK_ZERO,     /* zeros of both signs */
    CHECK_DENORMAL, /* denormals of f32 among zeros and the smallest normals */
    CHECK_HUGE,     /* up to 1e17: sums of thousands of squares fit in f32 */
    CHECK_KINDS,    /* the four above are what a loop over kinds visits */
    CHECK_SMALL,    /* random of size 0.05: gradients, weights */
    CHECK_NAN,      /* a NaN of a marked pattern: what an output holds before it is written */
};

struct check_buf;
struct check_kept;

enum { CHECK_SPARE = 256 };

struct check {
    enum kernel_id id;
    const char *name;                 /* of the row or the group, for messages */
    const char *variant;              /* "ref", "avx2", ..., "cuda" */
    bool is_gpu;                      /* layouts are those of kernels/cuda/layout.h */
    bool is_short;                    /* see tool_args: what costs much is done less often */
    const struct kernel_table *table; /* that level */
    const struct kernel_table *ref;
    uint64_t rng;
    uint64_t seed; /* of the command line: printed with a failure */
    int64_t n_comparison, n_comparison_all;
    int n_fail, n_row_fail; /* n_fail: of the present row and variant */
    double worst;           /* the largest share of its tolerance that a comparison used */
    char what[160];         /* the case, for messages: check_case */
    struct check_buf *bufs; /* owned; of the present case */
    struct check_buf *spare[CHECK_SPARE]; /* owned; mappings of so many pages, for the next case */
    void *scratch;                        /* owned; K_SCRATCH_BYTES, fenced */
    struct check_kept *kept;              /* owned; see check_kept_take */
};

typedef void check_fn(struct check *c);

/* One per row of kernels.def. */
#define KERNEL(name, text) check_fn check_##name;
#include "kernels/kernels.def"
#undef KERNEL

/* ---- cases and buffers ---- */

/* Verifies the fences of all buffers and takes them back. */
void check_begin(struct check *c);
void check_spare_free(struct check *c);
/* Names the case in messages. */
void check_case(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Exactly `bytes`, at an address that is a multiple of `align` (a power of two, at most 4096) but
 * of no larger one when `bytes` allows; an unreadable page follows as closely as that lets it, and
 * poison, verified later, fills the rest of the page and 64 bytes before. Filled with 0xa5. */
void *check_buf(struct check *c, size_t bytes, size_t align);
float *check_floats(struct check *c, int64_t n, enum check_kind kind); /* align 4 */
void check_fill(struct check *c, float *x, int64_t n, enum check_kind kind);
/* A copy in a buffer of its own. */
void *check_dup(struct check *c, const void *p, size_t bytes, size_t align);

/* ---- what is worked out once, for all levels and rows that try the same numbers ---- */

/* A sum of bytes, on top of another: by that of all that it follows from a truth is known again. */
uint64_t check_sum(uint64_t sum, const void *p, size_t bytes);
/* n numbers that are kept under a sum until the end: zeros, and *is_new, where they are not worked
 * out yet. Borrowed. */
double *check_kept_take(struct check *c, uint64_t sum, int64_t n, bool *is_new);
void check_kept_free(struct check *c);

/* ---- numbers ---- */

uint64_t check_u64(struct check *c);
int64_t check_below(struct check *c, int64_t n); /* [0, n) */
double check_unit(struct check *c);              /* [0, 1) */
const char *check_kind_name(enum check_kind kind);

/* Row lengths that break things: 0, 1, tile - 1, tile, tile + 1, 2 tile + 3, ... ; n of them. */
const int64_t *check_sizes(int *n);

/* ---- running ---- */

/* The reference: loops that know no other rows, where it is slow to try what only a blocked kernel
 * could get wrong. */
bool check_is_plain(const struct check *c);

void check_run(struct check *c, const void *args);     /* the variant, whole */
void check_run_ref(struct check *c, const void *args); /* the reference, whole */
/* Another row of the same level: to prepare inputs, as packed weights. */
void check_run_row(struct check *c, enum kernel_id id, const void *args);
/* Another row, of the level when it has layouts of its own, else of the reference. */
void check_run_layout(struct check *c, enum kernel_id id, const void *args);

struct check_out {
    void *p; /* borrowed: a buffer that the call writes */
    size_t bytes;
};

/* The call's bits must not depend on how its units are cut. The outputs are as they were before
 * the call (they may be added to); runs whole, then in random pieces, then (all but the reference)
 * unit by unit backwards and on three threads; compares each with the first, bitwise, and leaves
 * that result. Every `out` that is also an input is restored before each run. Scratch is poisoned
 * between runs. */
void check_slices(struct check *c, const void *args, const struct check_out *out, int n_out);

/* ---- comparing ---- */

/* |got - want| <= rel * |want| + abs, NaN equal to NaN, infinities equal to themselves. */
void check_near(struct check *c, const char *name, const float *got, const float *want, int64_t n,
                double rel, double abs);
void check_near_f64(struct check *c, const char *name, const float *got, const double *want,
                    int64_t n, double rel, double abs);
/* |got - want| <= rel * scale[i] + abs: scale is what the sum's terms are, in absolute value. */
void check_near_scaled(struct check *c, const char *name, const float *got, const double *want,
                       const double *scale, int64_t n, double rel, double abs);
/* The gradient of a scalar, got[n], against central differences of its f64 definition; rel is
 * relative to the largest element, or to 0.2 where all are smaller. */
typedef double check_loss_fn(const void *ctx, const double *x);
void check_gradient(struct check *c, const char *name, const float *got, const float *x, int64_t n,
                    check_loss_fn *loss, const void *ctx, double rel);
void check_bits(struct check *c, const char *name, const void *got, const void *want, size_t bytes);
void check_true(struct check *c, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
