/* SPDX-License-Identifier: Apache-2.0
 *
 * A row's price goes up sooner than it comes down. Neither figure believes a single step that took
 * far longer than those before, which is the system's doing and not the batch's: of two mixed steps
 * the cheaper counts, and a quiet one counts for half as much again as the last at most.
 */
#include "engine/sched/pace.h"

#include <math.h>

static const double PACE_STRETCH = 1.7;

/* What a step without prompts takes, by the last that was measured and the price of a row. */
static double quiet_us(const struct pace *p, int64_t n_decode)
{
    double us = p->quiet_us + p->row_us * (double)(n_decode - p->quiet_seq);
    return us > 0.5 * p->quiet_us ? us : 0.5 * p->quiet_us;
}

/* How many times further than beside one prompt a step may stretch. */
static double crowd_of(int64_t n_decode, int64_t n_prompt)
{
    double crowd = (double)n_prompt / sqrt((double)n_decode);
    return crowd > 1 ? crowd : 1;
}

int64_t pace_rows(const struct pace *p, int64_t n_decode, int64_t n_prompt)
{
    double crowd = crowd_of(n_decode, n_prompt);
    double rows = (double)(n_decode > PACE_FLOOR ? n_decode : PACE_FLOOR) * crowd;
    if (p->is_timed && p->n_mixed >= PACE_PROBE && crowd <= 1)
        return 0;
    if (p->row_us > 0) {
        double most = 1.25 * (double)(p->rows_last > PACE_FLOOR ? p->rows_last : PACE_FLOOR);
        rows = quiet_us(p, n_decode) * (PACE_STRETCH * crowd - 1) / p->row_us;
        rows = rows < most * crowd ? rows : most * crowd;
    }
    return rows > PACE_ROWS_MIN ? (int64_t)rows : PACE_ROWS_MIN;
}

static void saw_quiet(struct pace *p, double us, int64_t n_decode)
{
    bool is_like = p->quiet_us > 0 && p->quiet_seq == n_decode;
    if (is_like && us > 1.5 * p->quiet_us)
        us = 1.5 * p->quiet_us;
    p->quiet_us = is_like ? 0.75 * p->quiet_us + 0.25 * us : us;
    p->quiet_seq = n_decode;
    p->n_mixed = 0;
}

/* Few rows tell little of what a row costs, and nothing of how many were allowed. */
static void saw_mixed(struct pace *p, double us, int64_t n_decode, int64_t n_row)
{
    double weight = n_row < PACE_ROWS_MIN ? (double)n_row / PACE_ROWS_MIN : 1;
    p->n_mixed++;
    p->rows_last = n_row > p->rows_last ? n_row : (7 * p->rows_last + n_row) / 8;
    if (p->quiet_us <= 0)
        return;
    double now = (us - quiet_us(p, n_decode)) / (double)n_row, least = 0.001 * p->quiet_us;
    double row = now < p->row_before || p->row_before <= 0 ? now : p->row_before;
    p->row_before = now;
    row = row > least ? row : least;
    if (p->row_us > 0)
        p->row_us += (row > p->row_us ? 1 : 0.25) * weight * (row - p->row_us);
    else
        p->row_us = row;
}

void pace_saw(struct pace *p, int64_t us, int64_t n_decode, int64_t n_row)
{
    if (us <= 0 || !n_decode)
        return;
    p->is_timed = true;
    if (n_row)
        saw_mixed(p, (double)us, n_decode, n_row);
    else
        saw_quiet(p, (double)us, n_decode);
}
