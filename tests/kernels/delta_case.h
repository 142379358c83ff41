/* SPDX-License-Identifier: Apache-2.0
 *
 * A ragged call of the gated delta rule or of a scan for the checks, and the same in f64 from its
 * definition. All arrays are buffers of the case (check_buf), freed by check_begin.
 *
 * Thread: main only.
 */
#ifndef TESTS_KERNELS_DELTA_CASE_H
#define TESTS_KERNELS_DELTA_CASE_H

#include "kernels/delta.h"
#include "tests/kernels/attn_case.h"

struct delta_spec {
    int32_t n_k, n_v, d_k, d_v, n_seq, len[3];
    bool is_scan;
};

struct delta_case {
    struct delta_spec spec;
    struct attn_case t; /* for its sequences */
    struct k_delta_rates rates;
    struct k_scan_rates scan; /* of a scan: over a, a_log and dt_bias of `rates` */
    struct k_delta args;      /* every token as a row; without slots */
    int64_t ld_k, ld_v, ld_h, n_slot;
    size_t slot_bytes; /* of one */
};

/* Rates are made by the level under check. v is of the kind, all else random; slots hold NaN. */
void delta_case_make(struct check *c, struct delta_case *v, const struct delta_spec *s,
                     enum check_kind kind);
void delta_case_name(struct check *c, const struct delta_spec *s, enum check_kind kind);

/* What a difference may change, in f64. */
struct delta_inputs {
    double *q, *k, *v, *a, *b, *a_log, *dt_bias, *skip; /* laid out as the case's */
};

/* Copies of the case's numbers: borrowed from the check's buffers. */
struct delta_inputs delta_inputs_of(struct check *c, const struct delta_case *v);

/* y [n_tok, n_v, d_v] and last states [n_seq, n_v, d_k, d_v] by the definition; from: states that
 * sequences begin from, like `state`, or NULL. `state` may be NULL. */
void delta_define(const struct delta_case *v, const struct delta_inputs *in, const double *from,
                  double *y, double *state);

#endif
