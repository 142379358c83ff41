/* SPDX-License-Identifier: Apache-2.0
 *
 * Hearing events, drawing them, and going on when the stream ends early.
 */
#include "clients/remote/follow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/remote/bar.h"
#include "clients/remote/interrupt.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"

enum {
    PART_BYTES = 64,
    N_PART = 4,
    RETRY_MS = 500,
    RETRIES = 240, /* two minutes without an answer */
    PATH_BYTES_MAX = 64 << 10,
    MINUTE = 60,
    HOUR = 3600,
    DAY = 86400
};

struct follow {
    struct peer *peer;
    const struct remote_options *o;
    const char *id;
    struct bar bar;
    char *last;       /* owned: the id of the newest event; NULL: none came */
    json_t *step;     /* owned: the data of the newest step */
    int64_t left_s;   /* when it came; below 0: not known */
    int64_t heard_us; /* when it came */
    int64_t said_us;  /* when a step last had a line; 0: none had */
    bool is_over;     /* [DONE] came */
    bool is_reported; /* that the connection is lost */
};

/* ---- the bar ------------------------------------------------------------------------------- */

static void left_text(int64_t s, char text[PART_BYTES])
{
    if (s < 0)
        snprintf(text, PART_BYTES, "-- left");
    else if (s < HOUR)
        snprintf(text, PART_BYTES, "%d:%02d left", (int)(s / MINUTE), (int)(s % MINUTE));
    else if (s < DAY)
        snprintf(text, PART_BYTES, "%dh %02dm left", (int)(s / HOUR), (int)(s % HOUR / MINUTE));
    else
        snprintf(text, PART_BYTES, "%dd %dh left", (int)(s / DAY), (int)(s % DAY / HOUR));
}

static double number(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Drawn again on each tick, for the time that is left. */
static void draw(struct follow *f)
{
    if (!f->step || !f->bar.term.has_cursor)
        return;
    char text[N_PART][PART_BYTES];
    const char *part[N_PART];
    double step = number(f->step, "step"), all = number(f->step, "total_steps");
    int64_t gone = (clock_us() - f->heard_us) / 1000000;
    int n = 0;
    snprintf(text[n++], PART_BYTES, "step %.0f/%.0f", step, all);
    snprintf(text[n++], PART_BYTES, "loss %.4f", number(f->step, "train_loss"));
    if (!isnan(number(f->step, "tokens_per_second")))
        snprintf(text[n++], PART_BYTES, "%.0f tokens/s", number(f->step, "tokens_per_second"));
    left_text(f->left_s < 0 ? -1 : f->left_s > gone ? f->left_s - gone : 0, text[n++]);
    for (int i = 0; i < n; i++)
        part[i] = text[i];
    bar_show(&f->bar, all > 0 ? step / all : -1, part, n);
}

/* ---- events -------------------------------------------------------------------------------- */

static enum term_style style_of(const char *level)
{
    return !strcmp(level, "error") ? TERM_BAD : !strcmp(level, "warn") ? TERM_BOLD : TERM_PLAIN;
}

static void say(struct follow *f, const char *text, enum term_style style)
{
    const struct term *t = &f->bar.term;
    if (f->o->json)
        return;
    bar_clear(&f->bar);
    fputs(style == TERM_PLAIN ? "" : term_style(t, style), stderr);
    term_put(stderr, text);
    fprintf(stderr, "%s\n", style == TERM_PLAIN ? "" : term_style(t, TERM_PLAIN));
    draw(f);
}

static void keep_step(struct follow *f, const json_t *event, json_t *data)
{
    const json_t *end = json_object_get(data, "estimated_finish");
    const json_t *at = json_object_get(event, "created_at");
    json_decref(f->step);
    f->step = json_incref(data);
    f->heard_us = clock_us();
    f->left_s = json_is_integer(end) && json_is_integer(at)
                    ? json_integer_value(end) - json_integer_value(at)
                    : -1;
}

/* Where no line can be drawn anew: another hundredth of the steps is done, or a minute went by. */
static bool is_worth_a_line(const struct follow *f)
{
    double step = number(f->step, "step"), all = number(f->step, "total_steps");
    return f->said_us == 0 || !(floor(100 * step / all) <= floor(100 * (step - 1) / all)) ||
           f->heard_us - f->said_us >= MINUTE * 1000000;
}

/* "Step 3/300: training loss=0.22, 5230 tokens/s, 1:10 left" */
static void say_step(struct follow *f, const char *message)
{
    double rate = number(f->step, "tokens_per_second");
    char more[PART_BYTES], left[PART_BYTES];
    struct buf b;
    left_text(f->left_s, left);
    snprintf(more, sizeof more, ", %.0f tokens/s, ", rate);
    buf_init(&b, PATH_BYTES_MAX);
    buf_printf(&b, "%s%s%s", message, isnan(rate) ? ", " : more, left);
    say(f, b.failed ? message : b.data, TERM_PLAIN);
    f->said_us = f->heard_us;
    buf_release(&b);
}

static void show(struct follow *f, const json_t *event)
{
    char room[REMOTE_TEXT_BYTES];
    const char *message = remote_text(event, "message", room);
    json_t *data = json_object_get(event, "data");
    bool is_step = json_is_number(json_object_get(data, "train_loss")) &&
                   !strcmp(remote_text(event, "type", room), "metrics");
    if (is_step)
        keep_step(f, event, data);
    if (f->o->json)
        remote_print_json(event);
    else if (!is_step)
        say(f, message, style_of(remote_text(event, "level", room)));
    else if (f->bar.term.has_cursor)
        draw(f);
    else if (is_worth_a_line(f))
        say_step(f, message);
}

static int hear(void *ctx, const char *data, size_t n, struct err *e)
{
    struct follow *f = ctx;
    if (!strcmp(data, "[DONE]")) {
        f->is_over = true;
        return 0;
    }
    json_t *event = json_loadb(data, n, JSON_ALLOW_NUL, NULL);
    const char *id = json_string_value(json_object_get(event, "id"));
    if (!id) {
        json_decref(event);
        return err_set(e, ERR_IO, "an event that is none: \"%.80s\"", data);
    }
    free(f->last);
    f->last = xstrdup(id);
    f->is_reported = false;
    show(f, event);
    json_decref(event);
    return 0;
}

/* ---- the stream, again and again ----------------------------------------------------------- */

static int listen_once(struct follow *f, struct err *e)
{
    struct buf path;
    char *id = peer_escape(f->id), *last = f->last ? peer_escape(f->last) : NULL;
    buf_init(&path, PATH_BYTES_MAX);
    buf_printf(&path, "/v1/fine_tuning/jobs/%s/events?stream=true%s%s", id, last ? "&after=" : "",
               last ? last : "");
    f->is_over = false;
    int rc = buf_check(&path, "the id", e);
    if (!rc)
        rc = peer_stream(f->peer, path.data, NULL, hear, f, e);
    buf_release(&path);
    free(id);
    free(last);
    return rc;
}

static bool has_ended(const json_t *job)
{
    const char *status = json_string_value(json_object_get(job, "status"));
    return status && (!strcmp(status, "succeeded") || !strcmp(status, "failed") ||
                      !strcmp(status, "cancelled"));
}

/* Whether it is worth another try: the server may be on its way back. */
static bool may_come_back(const struct follow *f, const struct err *e)
{
    int status = peer_status(f->peer);
    return f->last && (e->code == ERR_BUSY || e->code == ERR_IO) &&
           (!status || status >= 500 || status == 200);
}

/* Until the job is over: *job is as it ended, or NULL when Ctrl-C came first. */
static int listen_on(struct follow *f, json_t **job, struct err *e)
{
    int n_tried = 0;
    *job = NULL;
    while (!interrupt_seen()) {
        char *before = f->last ? xstrdup(f->last) : NULL;
        int rc = listen_once(f, e);
        if (!rc)
            rc = remote_ask(f->peer, "GET", "/v1/fine_tuning/jobs/%s", f->id, job, e);
        bool has_moved = f->last && (!before || strcmp(before, f->last) != 0);
        free(before);
        if (peer_gave_up(f->peer))
            break;
        if (!rc && has_ended(*job))
            return 0;
        json_decref(*job);
        *job = NULL;
        n_tried = has_moved ? 0 : n_tried + 1;
        if (rc && (!may_come_back(f, e) || n_tried > RETRIES))
            return -1;
        if (rc && !f->is_reported)
            say(f, "the server is away; the job goes on when it is back, and so does this",
                TERM_BOLD);
        f->is_reported = f->is_reported || rc;
        if (interrupt_sleep(RETRY_MS))
            break;
    }
    *e = (struct err)ERR_INIT;
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

static int report(struct follow *f, const json_t *job)
{
    char room[REMOTE_TEXT_BYTES];
    const json_t *error = json_object_get(job, "error");
    const char *status = remote_text(job, "status", room);
    bool is_good = !strcmp(status, "succeeded");
    if (f->o->json) {
        remote_print_json(job);
    } else if (is_good) {
        const char *model = remote_text(job, "fine_tuned_model", room);
        term_put(stdout, model);
        putchar('\n');
    } else if (json_is_object(error)) {
        fprintf(stderr, "tandem: %s failed: ", f->id);
        term_put(stderr, remote_text(error, "message", room));
        fputc('\n', stderr);
    } else {
        fprintf(stderr, "tandem: %s is %s\n", f->id, status);
    }
    return is_good ? CMD_GOOD : CMD_FAILED;
}

static void say_left(const struct follow *f)
{
    fprintf(stderr,
            "%s%s goes on. To watch it: tandem jobs events %s --follow\n"
            "To end it: tandem jobs cancel %s\n",
            f->bar.term.is_tty ? "\n" : "", f->id, f->id, f->id);
}

static bool tick(void *ctx)
{
    draw(ctx);
    return interrupt_seen();
}

int follow_job(struct peer *p, const struct remote_options *o, const char *id, int *status,
               struct err *e)
{
    struct follow f = {.peer = p, .o = o, .id = id, .left_s = -1};
    json_t *job;
    interrupt_watch();
    bar_init(&f.bar, stderr);
    peer_set_tick(p, tick, &f);
    int rc = listen_on(&f, &job, e);
    peer_set_tick(p, NULL, NULL);
    bar_clear(&f.bar);
    *status = INTERRUPT_STATUS;
    if (!rc && job)
        *status = report(&f, job);
    else if (!rc)
        say_left(&f);
    json_decref(job);
    json_decref(f.step);
    free(f.last);
    return rc;
}
