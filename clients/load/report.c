/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables are 100 columns wide; times in them are milliseconds.
 */
#include "clients/load/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"

static const double shares[] = {0.5, 0.9, 0.99};
enum { N_SHARE = sizeof shares / sizeof *shares };

void load_report_heading(const struct load_ask *a, const struct load_fleet_stage *s)
{
    printf("http://%s:%s%s, model %s, %s%s: %" PRId64 " %s in", a->url->host, a->url->port,
           a->url->base, a->model, a->is_chat ? "chat" : "completions",
           a->is_stream ? " as streams" : "", a->input_tokens, a->sends_ids ? "tokens" : "words");
    if (a->shared_prefix > 0)
        printf(" (%" PRId64 " of them shared)", a->shared_prefix);
    printf(", %" PRId64 " tokens out\n", a->output_tokens);
    printf("%32s tokens/s      first token, ms     between, ms          whole, ms\n", "");
    printf("%7s %6s %5s %8s %7s %7s   %6s %6s %6s  %5s %5s %5s  %6s %6s %6s\n",
           s->rate > 0 ? "rate" : "clients", "good", "bad", "req/s", "in", "out", "p50", "p90",
           "p99", "p50", "p90", "p99", "p50", "p90", "p99");
}

/* Three digits that say something. */
static void print_ms(int width, const struct load_hist *h, double share)
{
    double ms = (double)load_hist_at(h, share) / 1e3;
    if (h->n == 0)
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

static void print_hist(int width, const struct load_hist *h)
{
    printf(" ");
    for (int i = 0; i < N_SHARE; i++)
        print_ms(width, h, shares[i]);
}

void load_report_row(const struct load_fleet_stage *s, const struct load_tally *t)
{
    double seconds = load_tally_seconds(t);
    if (s->rate > 0)
        printf("%7.6g", s->rate);
    else
        printf("%7" PRId64, s->clients);
    printf(" %6" PRId64 " %5" PRId64 " %8.1f %7.0f %7.0f ", t->n_end[LOAD_CONN_GOOD],
           load_tally_bad(t), (double)t->n_end[LOAD_CONN_GOOD] / seconds,
           (double)t->tok_in / seconds, (double)t->tok_out / seconds);
    print_hist(6, &t->first);
    print_hist(5, &t->between);
    print_hist(6, &t->whole);
    printf("\n");
    fflush(stdout);
}

void load_report_faults(const struct load_tally *t)
{
    if (load_tally_bad(t) == 0)
        return;
    const char *comma = "        bad: ";
    for (int i = 0; i < LOAD_TALLY_STATUS_MAX; i++)
        if (t->n_status[i] > 0) {
            printf("%s%" PRId64 " x status %d", comma, t->n_status[i], i);
            comma = ", ";
        }
    for (int i = LOAD_CONN_STATUS + 1; i < LOAD_CONN_ENDS; i++)
        if (t->n_end[i] > 0) {
            printf("%s%" PRId64 " x %s", comma, t->n_end[i],
                   load_conn_end_name((enum load_conn_end)i));
            comma = ", ";
        }
    printf("\n        the first: %s\n", t->fault);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *load_hist_json(const struct load_hist *h)
{
    if (h->n == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)h->n, "mean",
                     load_hist_mean(h) / 1e3, "p50", (double)load_hist_at(h, 0.5) / 1e3, "p90",
                     (double)load_hist_at(h, 0.9) / 1e3, "p99", (double)load_hist_at(h, 0.99) / 1e3,
                     "min", (double)h->min / 1e3, "max", (double)h->max / 1e3);
}

static json_t *faults_json(const struct load_tally *t)
{
    json_t *o = json_object();
    char name[16];
    for (int i = 0; i < LOAD_TALLY_STATUS_MAX; i++)
        if (t->n_status[i] > 0) {
            snprintf(name, sizeof name, "%d", i);
            json_object_set_new(o, name, json_integer(t->n_status[i]));
        }
    for (int i = LOAD_CONN_STATUS + 1; i < LOAD_CONN_ENDS; i++)
        if (t->n_end[i] > 0)
            json_object_set_new(o, load_conn_end_name((enum load_conn_end)i),
                                json_integer(t->n_end[i]));
    return o;
}

static json_t *stage_json(const struct load_fleet_stage *s)
{
    const struct load_ask *a = s->ask;
    return json_pack("{s:s, s:s, s:b, s:I, s:f, s:I, s:I, s:I}", "model", a->model, "endpoint",
                     a->is_chat ? "chat" : "completions", "stream", a->is_stream, "clients",
                     (json_int_t)s->clients, "rate", s->rate, "input_tokens",
                     (json_int_t)a->input_tokens, "output_tokens", (json_int_t)a->output_tokens,
                     "shared_prefix", (json_int_t)a->shared_prefix);
}

int load_report_json(const struct load_fleet_stage *s, const struct load_tally *t, struct err *e)
{
    double seconds = load_tally_seconds(t);
    json_t *o = stage_json(s);
    json_t *got = json_pack(
        "{s:I, s:I, s:o, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f}",
        "good", (json_int_t)t->n_end[LOAD_CONN_GOOD], "bad", (json_int_t)load_tally_bad(t),
        "faults", faults_json(t), "first_fault", t->fault, "sent_again", (json_int_t)t->n_again,
        "seconds", seconds, "requests_per_s", (double)t->n_end[LOAD_CONN_GOOD] / seconds,
        "tokens_in_per_s", (double)t->tok_in / seconds, "tokens_out_per_s",
        (double)t->tok_out / seconds, "tokens_in", (json_int_t)t->tok_in, "tokens_out",
        (json_int_t)t->tok_out, "first_token_ms", load_hist_json(&t->first), "between_tokens_ms",
        load_hist_json(&t->between), "whole_ms", load_hist_json(&t->whole), "refused_ms",
        load_hist_json(&t->refused), "own_late_ms", load_hist_json(&t->late), "own_cpu_share",
        (double)t->cpu_us / 1e6 / seconds);
    char *text = NULL;
    if (got && json_object_update(o, got) == 0)
        text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(7));
    if (text)
        printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(got);
    json_decref(o);
    return text ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a line of JSON");
}

/* ---- progress ------------------------------------------------------------------------------ */

void load_report_progress(void *ctx, const struct load_tally *t)
{
    const struct load_fleet_stage *s = ctx;
    double seconds = (double)(clock_us() - t->begin_us) / 1e6;
    int64_t n_over = t->n_end[LOAD_CONN_GOOD] + load_tally_bad(t);
    fprintf(stderr, "\r\033[K%.0f s: %" PRId64, seconds, n_over);
    if (s->requests > 0)
        fprintf(stderr, " of %" PRId64, s->requests);
    fprintf(stderr, " requests, %.0f tokens/s out, %" PRId64 " bad, %" PRId64 " on their way",
            (double)t->tok_out / seconds, load_tally_bad(t), t->n_begun - n_over);
}

void load_report_progress_end(void)
{
    fprintf(stderr, "\r\033[K");
}
