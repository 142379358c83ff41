/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding one request's end to the sums.
 */
#include "clients/load/tally.h"

#include <stdio.h>

static void note_good(struct tally *t, const struct conn *c, int64_t now_us)
{
    const struct answer *a = &c->answer;
    bool is_counted = a->tok_in >= 0 && a->tok_out >= 0;
    t->n_no_usage += !is_counted;
    t->tok_in += is_counted ? a->tok_in : 0;
    t->tok_out += is_counted ? a->tok_out : a->n_event;
    if (c->first_us > 0)
        hist_add(&t->first, c->first_us - c->begin_us);
    hist_add(&t->whole, now_us - c->begin_us);
}

static void note_fault(struct tally *t, const struct conn *c, enum conn_end end)
{
    if (end == CONN_STATUS) {
        snprintf(t->fault, sizeof t->fault, "%d: %s", c->reply.status, c->answer.fault);
        return;
    }
    snprintf(t->fault, sizeof t->fault, "%s: %s", conn_end_name(end), c->answer.fault);
}

void tally_note(struct tally *t, const struct conn *c, enum conn_end end, int64_t now_us)
{
    t->n_end[end]++;
    t->end_us = now_us;
    if (end == CONN_GOOD) {
        note_good(t, c, now_us);
        return;
    }
    if (!t->fault[0])
        note_fault(t, c, end);
    if (end == CONN_STATUS) {
        t->n_status[c->reply.status < TALLY_STATUS_MAX ? c->reply.status : 0]++;
        hist_add(&t->refused, now_us - c->begin_us);
    }
}

int64_t tally_bad(const struct tally *t)
{
    int64_t n = 0;
    for (int i = CONN_GOOD + 1; i < CONN_ENDS; i++)
        n += t->n_end[i];
    return n;
}

double tally_seconds(const struct tally *t)
{
    return t->end_us > t->begin_us ? (double)(t->end_us - t->begin_us) / 1e6 : 1e-6;
}
