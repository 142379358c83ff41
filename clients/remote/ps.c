/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem ps`, and `tandem top`, which people try first: what a server does now. On a terminal it
 * is drawn anew every second until Ctrl-C; elsewhere, and with --json or --once, it is told once.
 * Rates are those between two looks.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/remote/interrupt.h"
#include "clients/remote/remote.h"
#include "clients/remote/scrape.h"
#include "clients/remote/term.h"
#include "engine/base/clock.h"
#include "engine/base/num.h"

enum {
    TEXT_BYTES_MAX = 16 << 20,
    SCREEN_BYTES_MAX = 1 << 20,
    LINE_BYTES = 512,
    JOBS_LOOKED = 20,
    EVENTS_LOOKED = 4,
    NAME_WIDTH = 9,
    PERCENT = 100,
    MINUTE = 60,
    HOUR = 3600,
    DAY = 86400
};

struct ps_values {
    struct remote_options remote;
    double interval;
    bool once;
};

#define AT(field) offsetof(struct ps_values, field)

static const struct opt_row rows[] = {{.section = "Looks",
                                       .name = "interval",
                                       .type = OPT_DOUBLE,
                                       .fallback = "1",
                                       .min = 0.1,
                                       .max = HOUR,
                                       .hint = "S",
                                       .help = "seconds from one look to the next",
                                       .offset = AT(interval)},
                                      {.name = "once",
                                       .type = OPT_BOOL,
                                       .help = "tell it once on a terminal too",
                                       .offset = AT(once)},
                                      REMOTE_ROWS};

const struct cmd_opt cmd_opt_ps = {rows, sizeof rows / sizeof *rows, sizeof(struct ps_values)},
                     cmd_opt_top = {rows, sizeof rows / sizeof *rows, sizeof(struct ps_values)};

/* One look; counters are since the server began. */
struct look {
    int64_t at_us;
    double ready, running, waiting, kv_used, kv_kept, rss, connections, begin_s;
    double tok_out, tok_in, served_s, trained_s;
    char version[32], model[128];
    json_t *job; /* owned: those that wait or run, each with "newest": its newest step */
};

static int look_at_metrics(struct peer *p, struct look *l, struct err *e)
{
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_str(&text, "");
    int rc = peer_text(p, "/metrics", &text, e);
    const char *m = rc ? "" : text.data;
    l->at_us = clock_us();
    l->ready = scrape_sum(m, "tandem_ready", NULL);
    l->running = scrape_sum(m, "tandem_requests_running", NULL);
    l->waiting = scrape_sum(m, "tandem_requests_waiting", NULL);
    l->kv_used = scrape_sum(m, "tandem_kv_cache_usage_ratio", NULL);
    l->kv_kept = scrape_sum(m, "tandem_kv_cache_kept_ratio", NULL);
    l->tok_out = scrape_sum(m, "tandem_generation_tokens_total", NULL);
    l->tok_in = scrape_sum(m, "tandem_prompt_tokens_total", NULL);
    l->served_s = scrape_sum(m, "tandem_gate_held_seconds_total", "class=\"serve\"");
    l->trained_s = scrape_sum(m, "tandem_gate_held_seconds_total", "class=\"train\"");
    l->rss = scrape_sum(m, "process_resident_memory_bytes", NULL);
    l->connections = scrape_sum(m, "tandem_http_connections", NULL);
    l->begin_s = scrape_sum(m, "process_start_time_seconds", NULL);
    scrape_label(m, "tandem_build_info", "version", l->version, sizeof l->version);
    scrape_label(m, "tandem_requests_running", "model_name", l->model, sizeof l->model);
    if (!rc && !l->version[0])
        rc = err_set(e, ERR_IO, "%s has metrics, but not a tandem server's", peer_url(p));
    buf_release(&text);
    return rc;
}

static bool is_alive(const json_t *job)
{
    const char *status = json_string_value(json_object_get(job, "status"));
    return status && (!strcmp(status, "running") || !strcmp(status, "queued") ||
                      !strcmp(status, "validating_files") || !strcmp(status, "paused"));
}

static int add_newest(struct peer *p, json_t *job)
{
    struct err e = ERR_INIT;
    json_t *page, *event;
    size_t i;
    const char *id = json_string_value(json_object_get(job, "id"));
    char path[64];
    snprintf(path, sizeof path, "/v1/fine_tuning/jobs/%%s/events?limit=%d", EVENTS_LOOKED);
    if (remote_ask(p, "GET", path, id ? id : "", &page, &e))
        return -1;
    json_array_foreach(json_object_get(page, "data"), i, event)
    {
        json_t *data = json_object_get(event, "data");
        if (!json_object_get(data, "train_loss"))
            continue;
        json_object_set(job, "newest", data);
        break;
    }
    json_decref(page);
    return 0;
}

/* A server that has no jobs, or does not show them to this key, has none to tell of. */
static void look_at_jobs(struct peer *p, struct look *l)
{
    struct err e = ERR_INIT;
    json_t *page, *job;
    size_t i;
    char path[64];
    l->job = json_array();
    snprintf(path, sizeof path, "/v1/fine_tuning/jobs?limit=%d", JOBS_LOOKED);
    if (peer_ask(p, "GET", path, NULL, &page, &e))
        return;
    json_array_foreach(json_object_get(page, "data"), i, job)
    {
        if (is_alive(job) && add_newest(p, job) == 0)
            json_array_append(l->job, job);
    }
    json_decref(page);
}

static int look(struct peer *p, struct look *l, struct err *e)
{
    *l = (struct look){.at_us = 0};
    if (look_at_metrics(p, l, e))
        return -1;
    look_at_jobs(p, l);
    return 0;
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static double rate(double before, double now, const struct look *a, const struct look *b)
{
    double s = (double)(b->at_us - a->at_us) / 1e6;
    return s > 0 && now > before ? (now - before) / s : 0; /* a counter that fell began anew */
}

static void print_json(const struct look *a, const struct look *b)
{
    json_t *o = json_pack(
        "{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:O}", "version",
        b->version, "model", b->model, "ready", b->ready > 0, "started_at", b->begin_s, "streams",
        b->running, "waiting", b->waiting, "generated_tokens_per_second",
        rate(a->tok_out, b->tok_out, a, b), "prompt_tokens_per_second",
        rate(a->tok_in, b->tok_in, a, b), "kv_used", b->kv_used, "kv_kept", b->kv_kept,
        "share_serving", rate(a->served_s, b->served_s, a, b), "share_training",
        rate(a->trained_s, b->trained_s, a, b), "resident_bytes", b->rss, "connections",
        b->connections, "jobs", b->job);
    remote_print_json(o);
    json_decref(o);
}

/* ---- as lines ------------------------------------------------------------------------------ */

struct screen {
    const struct term *term;
    struct buf text;
    int n_line;
};

/* A line: its name, and what it says, cut where the terminal ends. */
static void put(struct screen *s, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct screen *s, const char *name, const char *fmt, ...)
{
    char said[LINE_BYTES], line[2 * LINE_BYTES];
    struct buf clean;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    buf_init(&clean, SCREEN_BYTES_MAX);
    if (s->term->is_tty)
        snprintf(line, sizeof line, "%-*s %s", NAME_WIDTH, name, said);
    else
        snprintf(line, sizeof line, "%s\t%s", name, said);
    term_clean(&clean, line, strlen(line), true);
    const char *text = clean.data ? clean.data : "";
    size_t n = s->term->is_tty ? term_cut(text, term_width(s->term) - 1) : strlen(text);
    buf_printf(&s->text, "%.*s\n", (int)n, text);
    buf_release(&clean);
    s->n_line++;
}

static void put_time(char text[LINE_BYTES], int64_t s)
{
    if (s >= DAY)
        snprintf(text, LINE_BYTES, "%" PRId64 "d %" PRId64 "h", s / DAY, s % DAY / HOUR);
    else
        snprintf(text, LINE_BYTES, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / HOUR,
                 s % HOUR / MINUTE, s % MINUTE);
}

static double number(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : 0;
}

static void put_job(struct screen *s, const json_t *job)
{
    char room[REMOTE_TEXT_BYTES], other[REMOTE_TEXT_BYTES], left[LINE_BYTES];
    const json_t *step = json_object_get(job, "newest"),
                 *end = json_object_get(job, "estimated_finish");
    const char *id = remote_text(job, "id", room), *status = remote_text(job, "status", other);
    if (!step) {
        put(s, "job", "%s  %s", status, id);
        return;
    }
    int64_t left_s = json_is_integer(end) ? json_integer_value(end) - (int64_t)time(NULL) : 0;
    put_time(left, left_s > 0 ? left_s : 0);
    put(s, "job", "%s  step %.0f/%.0f  loss %.4f  %.0f tokens/s  %s left  %s", status,
        number(step, "step"), number(step, "total_steps"), number(step, "train_loss"),
        number(step, "tokens_per_second"), left, id);
}

static void put_all(struct screen *s, const char *url, const struct look *a, const struct look *b)
{
    char up[LINE_BYTES], rss[NUM_TEXT_BYTES];
    const json_t *job;
    size_t i;
    int64_t unit = 1 << 20;
    put_time(up, (int64_t)((double)clock_wall_us() / 1e6 - b->begin_s));
    put(s, "server", "%s, tandem %s, %s, up %s", url, b->version,
        b->ready > 0 ? "ready" : "not ready", up);
    if (b->model[0])
        put(s, "model", "%s", b->model);
    put(s, "streams", "%.0f, waiting %.0f", b->running, b->waiting);
    put(s, "tokens/s", "%.0f generated, %.0f of prompts", rate(a->tok_out, b->tok_out, a, b),
        rate(a->tok_in, b->tok_in, a, b));
    put(s, "K/V", "%.0f%% used, %.0f%% kept", PERCENT * b->kv_used, PERCENT * b->kv_kept);
    put(s, "compute", "%.0f%% serving, %.0f%% training",
        PERCENT * rate(a->served_s, b->served_s, a, b),
        PERCENT * rate(a->trained_s, b->trained_s, a, b));
    put(s, "memory", "%s, connections %.0f", num_size_text((int64_t)b->rss / unit * unit, rss),
        b->connections);
    json_array_foreach(b->job, i, job) put_job(s, job);
}

/* Over what was drawn before. */
static int draw(const struct term *t, const char *url, const struct look *a, const struct look *b,
                int n_before)
{
    struct screen s = {.term = t};
    buf_init(&s.text, SCREEN_BYTES_MAX);
    put_all(&s, url, a, b);
    if (n_before)
        printf("\033[%dA\r\033[J", n_before);
    fwrite(s.text.data, 1, s.text.len, stdout);
    fflush(stdout);
    buf_release(&s.text);
    return s.n_line;
}

static int watch(struct peer *p, const struct ps_values *v, struct err *e)
{
    struct term term;
    struct look a, b = {.at_us = 0};
    int n_line = 0, rc = look(p, &a, e);
    term_init(&term, stdout);
    bool once = v->once || v->remote.json || !term.has_cursor;
    interrupt_watch();
    for (; !rc; json_decref(a.job), a = b, b.job = NULL) {
        bool is_over = interrupt_sleep((int)(v->interval * 1000));
        if (is_over && n_line)
            putchar('\n'); /* behind the ^C that the terminal shows */
        if (is_over || (rc = look(p, &b, e)))
            break;
        if (v->remote.json)
            print_json(&a, &b);
        else
            n_line = draw(&term, peer_url(p), &a, &b, n_line);
        if (once)
            break;
    }
    json_decref(a.job);
    json_decref(b.job);
    return rc;
}

int cmd_ps(const struct opt *o)
{
    const struct ps_values *v = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    int rc = p ? watch(p, v, &e) : -1;
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

int cmd_top(const struct opt *o)
{
    return cmd_ps(o);
}
