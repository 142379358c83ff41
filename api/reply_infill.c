/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of /infill: what fills a gap, as llama.cpp tells it to editors.
 */
#include <string.h>

#include "api/face.h"

static const char *reason(const struct api_choice *c)
{
    return strcmp(c->finish, "length") == 0 ? "limit" : c->stop ? "word" : "eos";
}

static void open_answer(struct jout *j, const struct api_choice *c, bool is_over)
{
    jout_open(j, '{');
    jout_put_int(j, "index", 0);
    jout_put_bytes(j, "content", c && c->n_text ? c->text : "", c ? c->n_text : 0);
    jout_put_bool(j, "stop", is_over);
}

static void put_pace(struct jout *j, const char *const key[3], int64_t n, int64_t us)
{
    jout_put_int(j, key[0], n);
    jout_put_num(j, key[1], (double)us / 1e3);
    jout_put_num(j, key[2], us > 0 ? (double)n * 1e6 / (double)us : 0);
}

static void put_timings(struct jout *j, const struct api_usage *u, const struct api_times *t)
{
    static const char *const prompt[] = {"prompt_n", "prompt_ms", "prompt_per_second"};
    static const char *const answer[] = {"predicted_n", "predicted_ms", "predicted_per_second"};
    jout_key(j, "timings");
    jout_open(j, '{');
    put_pace(j, prompt, u->prompt - u->cached, t->prompt_us);
    put_pace(j, answer, u->completion, t->decode_us);
    jout_close(j, '}');
}

static void put_end(struct jout *j, const struct api_reply *r, const char *word,
                    const struct gen_text *stop, const struct api_usage *u,
                    const struct api_times *times)
{
    jout_put_str(j, "model", r->model);
    jout_put_str(j, "stop_type", word);
    jout_put_bytes(j, "stopping_word", stop ? stop->p : "", stop ? stop->n : 0);
    jout_put_bool(j, "truncated", false);
    jout_put_int(j, "tokens_predicted", u->completion);
    jout_put_int(j, "tokens_evaluated", u->prompt);
    jout_put_int(j, "tokens_cached", u->cached);
    if (times)
        put_timings(j, u, times);
    jout_close(j, '}');
}

static void write_whole(struct api_reply *r, const struct api_choice *c, size_t n,
                        const struct api_usage *usage, const struct api_times *times,
                        struct buf *out)
{
    struct jout j = jout_on(out);
    (void)n; /* one choice */
    open_answer(&j, c, true);
    put_end(&j, r, reason(c), c->stop, usage, times);
}

static void event(struct api_reply *r, const struct api_choice *c, const struct api_usage *usage,
                  struct buf *out)
{
    (void)usage;
    if (c->n_text) {
        buf_str(out, "data: ");
        struct jout j = jout_on(out);
        open_answer(&j, c, false);
        jout_close(&j, '}');
        buf_str(out, "\n\n");
    }
    if (c->finish) {
        r->finish = reason(c);
        r->stop = c->stop;
    }
}

static void end(struct api_reply *r, const struct api_usage *usage, const struct api_times *times,
                struct buf *out)
{
    buf_str(out, "data: ");
    struct jout j = jout_on(out);
    open_answer(&j, NULL, true);
    put_end(&j, r, r->finish, r->stop, usage, times);
    buf_str(out, "\n\n");
}

static void error(struct api_reply *r, const struct api_error *e, struct buf *out)
{
    (void)r;
    api_event_error(e, out);
}

const struct api_face api_face_infill = {.prefix = "infill",
                                         .media = API_MEDIA_EVENTS,
                                         .write = write_whole,
                                         .event = event,
                                         .end = end,
                                         .error = error};
