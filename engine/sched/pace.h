/* SPDX-License-Identifier: Apache-2.0
 *
 * How many rows of prompts a step may hold beside sequences that decode, so that those feel little
 * of it: their step may take at most PACE_STRETCH of the time that it takes without prompts.
 *
 * Two figures are learnt from the steps themselves: what a quiet step takes, and what a row of a
 * prompt adds. Neither needs a word about the model or the machine, and the second follows a long
 * prompt's growing attention as it goes. One step in PACE_PROBE is kept quiet to measure it.
 *
 * Prompts that come many at once press: steps may stretch as many times further as there are
 * prompts for the root of those that decode. So one among sixteen streams stays within their
 * bounds, and for eight a step takes twice as long, most of it theirs. By the number of prompts
 * itself the last of a burst would begin a fifth sooner, and the streams' slowest steps take thrice
 * as long.
 *
 * Until something is known, a decoding sequence bears one row, and PACE_FLOOR are always borne: so
 * many a machine carries for little more than the price of reading the weights.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_PACE_H
#define ENGINE_SCHED_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { PACE_PROBE = 64, PACE_FLOOR = 16, PACE_ROWS_MIN = 4 };

struct pace {
    double quiet_us, row_us; /* 0: not known */
    double row_before;       /* what a row cost in the last mixed step */
    int64_t quiet_seq;       /* sequences in the quiet steps that were measured */
    int64_t rows_last;       /* of prompts, beside others */
    int64_t n_mixed;         /* steps since a quiet one */
    bool is_timed;           /* steps tell their time */
};

/* For n_decode >= 1 sequences beside n_prompt prompts that run or wait; 0: this step is a probe. */
int64_t pace_rows(const struct pace *p, int64_t n_decode, int64_t n_prompt);

void pace_saw(struct pace *p, int64_t us, int64_t n_decode, int64_t n_row);

#endif
