/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding one request's end to the sums.
 */
#include "clients/load/tally.h"

#include <stdio.h>

static void note_good(struct load_tally *t, const struct load_conn *c, int64_t now_us)
{
    const struct load_answer *a = &c->answer;
    bool is_counted = a->tok_in >= 0 && a->tok_out >= 0;
    t->n_no_usage += !is_counted;
    t->tok_in += is_counted ? a->tok_in : 0;
    t->tok_out += is_counted ? a->tok_out : a->n_event;
    if (c->first_us > 0)
        load_hist_add(&t->first, c->first_us - c->begin_us);
    load_hist_add(&t->whole, now_us - c->begin_us);
}

static void note_fault(struct load_tally *t, const struct load_conn *c, enum load_conn_end end)
{
    if (end == LOAD_CONN_STATUS) {
        snprintf(t->fault, sizeof t->fault, "%d: %s", c->reply.status, c->answer.fault);
        return;
    }
    snprintf(t->fault, sizeof t->fault, "%s: %s", load_conn_end_name(end), c->answer.fault);
}

void load_tally_note(struct load_tally *t, const struct load_conn *c, enum load_conn_end end,
                     int64_t now_us)
{
    t->n_end[end]++;
    t->end_us = now_us;
    if (end == LOAD_CONN_GOOD) {
        note_good(t, c, now_us);
        return;
    }
    if (!t->fault[0])
        note_fault(t, c, end);
    if (end == LOAD_CONN_STATUS) {
        t->n_status[c->reply.status < LOAD_TALLY_STATUS_MAX ? c->reply.status : 0]++;
        load_hist_add(&t->refused, now_us - c->begin_us);
    }
}

int64_t load_tally_bad(const struct load_tally *t)
{
    int64_t n = 0;
    for (int i = LOAD_CONN_GOOD + 1; i < LOAD_CONN_ENDS; i++)
        n += t->n_end[i];
    return n;
}

double load_tally_seconds(const struct load_tally *t)
{
    return t->end_us > t->begin_us ? (double)(t->end_us - t->begin_us) / 1e6 : 1e-6;
}
