/* SPDX-License-Identifier: Apache-2.0
 *
 * A step's numbers as an event's data, and from there as a line of the result file: what the file
 * says is what the events said, to the last digit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/grade_text.h"
#include "api/job.h"
#include "api/json.h"

static const char *const rewards[] = {"preferred", "non_preferred"};

static const char *accuracy_of(const struct job_metrics *m)
{
    return m->has_pairs ? "reward_accuracy" : m->has_texts ? "accuracy" : "mean_token_accuracy";
}

/* What there is of some rows. */
static void put(struct buf *out, const struct job_metrics *m, const char *of, double loss,
                double accuracy, const double reward[2])
{
    if (loss < 0)
        return;
    buf_printf(out, ",\"%s_loss\":%.6f", of, loss);
    if (!m->has_pairs) {
        buf_printf(out, ",\"%s_%s\":%.6f", of, accuracy_of(m), accuracy);
        return;
    }
    buf_printf(out, ",\"%s_reward_accuracy\":%.6f,\"%s_reward_margin\":%.6f", of, accuracy, of,
               reward[0] - reward[1]);
    for (int i = 0; i < 2; i++)
        buf_printf(out, ",\"%s_reward_%s\":%.6f", of, rewards[i], reward[i]);
}

/* A loss of rewards may be below 0. */
static void put_rewards(struct buf *out, const struct job_metrics *m)
{
    buf_printf(out,
               ",\"train_loss\":%.6f,\"train_reward_mean\":%.6f,\"train_reward_std\":%.6f,"
               "\"clipped_share\":%.6f,\"completion_tokens_mean\":%.2f,\"train_kl\":%.6f,"
               "\"off_policy_tokens\":%" PRId64 ",\"ungraded_samples\":%" PRId64,
               m->train_loss, m->reward, m->reward_std, m->clipped, m->length, m->kl, m->n_moved,
               m->n_fault);
}

/* The errors of samples that could not be graded, where there are any. */
static void put_faults(struct buf *out, const struct job_metrics *m)
{
    bool is_first = true;
    for (enum grade_fault f = GRADE_GOOD; m->faults && f < GRADE_FAULT_COUNT; f++)
        if (m->faults[f] && grade_fault_name(f)) {
            buf_printf(out, "%s\"%s\":%" PRId64, is_first ? ",\"grader_errors\":{" : ",",
                       grade_fault_name(f), m->faults[f]);
            is_first = false;
        }
    if (is_first)
        return;
    buf_char(out, '}');
    if (!*m->fault_why)
        return;
    buf_str(out, ",\"grader_error\":");
    struct jout j = jout_on(out);
    jout_str(&j, m->fault_why);
}

void job_text_set(struct job_text *t, const char *p, size_t n)
{
    t->is_cut = n > JOB_SAMPLE_BYTES;
    t->n = t->is_cut ? JOB_SAMPLE_BYTES : n;
    while (t->is_cut && t->n > 0 && ((unsigned char)p[t->n] & 0xc0) == 0x80)
        t->n--;
    memcpy(t->p, p, t->n);
}

static void put_samples(struct buf *out, const struct job_samples *s)
{
    struct jout j = jout_on(out);
    buf_printf(out, ",\"example\":%" PRId64 ",\"prompt\":", s->example);
    jout_bytes(&j, s->prompt.p, s->prompt.n);
    buf_str(out, ",\"samples\":");
    j = jout_on(out);
    jout_open(&j, '[');
    for (size_t i = 0; i < s->n; i++) {
        jout_open(&j, '{');
        jout_key(&j, "text");
        jout_bytes(&j, s->text[i].p, s->text[i].n);
        jout_put_bool(&j, "is_cut", s->text[i].is_cut);
        jout_put_num(&j, "reward", s->reward[i]);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
}

void job_metrics_write(const struct job_metrics *m, struct buf *out)
{
    buf_printf(out, "{\"step\":%" PRId64 ",\"total_steps\":%" PRId64, m->step, m->n_step);
    if (m->has_rewards) {
        put_rewards(out, m);
        put_faults(out, m);
        if (m->samples && m->samples->n)
            put_samples(out, m->samples);
    }
    put(out, m, "train", m->has_rewards ? -1 : m->train_loss, m->train_accuracy, m->train_reward);
    put(out, m, "valid", m->valid_loss, m->valid_accuracy, m->valid_reward);
    put(out, m, "full_valid", m->full_valid_loss, m->full_valid_accuracy, m->full_valid_reward);
    if (m->has_judged)
        buf_printf(out, ",\"full_valid_reward_mean\":%.6f", m->judged);
    if (m->trained_tokens > 0)
        buf_printf(out,
                   ",\"trained_tokens\":%" PRId64 ",\"tokens_per_second\":%.1f,"
                   "\"estimated_finish\":%" PRId64,
                   m->trained_tokens, m->tok_per_s, m->estimated_finish);
    buf_char(out, '}');
}

void job_metrics_each(const char *data, void (*f)(void *ctx, const char *name, double value),
                      void *ctx)
{
    static const char *const left_out[] = {"step", "total_steps", "estimated_finish", "example"};
    json_t *v = data ? json_loads(data, JSON_ALLOW_NUL, NULL) : NULL, *of;
    const char *name;
    json_object_foreach(v, name, of)
    {
        bool counts = json_is_number(of);
        for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
            counts = counts && strcmp(name, left_out[i]) != 0;
        if (counts)
            f(ctx, name, json_number_value(of));
    }
    json_decref(v);
}

static double number(const json_t *data, const char *name)
{
    const json_t *v = json_object_get(data, name);
    return json_is_number(v) ? json_number_value(v) : -1;
}

static double number_of(const json_t *data, const char *of, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", of, what);
    return number(data, name);
}

static void get(const json_t *v, const struct job_metrics *m, const char *of, double *loss,
                double *accuracy, double reward[2])
{
    *loss = number_of(v, of, "loss");
    *accuracy = number_of(v, of, accuracy_of(m));
    for (int i = 0; i < 2 && m->has_pairs && *loss >= 0; i++)
        reward[i] = number_of(v, of, i ? "reward_non_preferred" : "reward_preferred");
}

static bool has_pairs(const json_t *v)
{
    return json_object_get(v, "train_reward_accuracy") != NULL;
}

static bool has_texts(const json_t *v)
{
    return json_object_get(v, "train_accuracy") || json_object_get(v, "full_valid_accuracy");
}

static bool has_rewards(const json_t *v)
{
    return json_object_get(v, "train_reward_mean") != NULL;
}

void job_metrics_read(const char *data, struct job_metrics *m)
{
    json_t *v = data ? json_loads(data, JSON_ALLOW_NUL, NULL) : NULL;
    *m = (struct job_metrics){.step = json_integer_value(json_object_get(v, "step")),
                              .n_step = json_integer_value(json_object_get(v, "total_steps")),
                              .has_texts = has_texts(v),
                              .has_pairs = has_pairs(v)};
    m->has_rewards = has_rewards(v);
    if (m->has_rewards) {
        m->reward = number(v, "train_reward_mean");
        m->reward_std = number(v, "train_reward_std");
        m->clipped = number(v, "clipped_share");
        m->length = number(v, "completion_tokens_mean");
        m->kl = number(v, "train_kl");
    }
    m->has_judged = json_object_get(v, "full_valid_reward_mean") != NULL;
    m->judged = m->has_judged ? number(v, "full_valid_reward_mean") : 0;
    get(v, m, "train", &m->train_loss, &m->train_accuracy, m->train_reward);
    get(v, m, "valid", &m->valid_loss, &m->valid_accuracy, m->valid_reward);
    get(v, m, "full_valid", &m->full_valid_loss, &m->full_valid_accuracy, m->full_valid_reward);
    json_decref(v);
}

static const char *const plain_columns[] = {"train_loss", "train_mean_token_accuracy", "valid_loss",
                                            "valid_mean_token_accuracy", NULL};
static const char *const text_columns[] = {"train_loss", "train_accuracy", "valid_loss",
                                           "valid_accuracy", NULL};
static const char *const pair_columns[] = {
    "train_loss", "train_reward_accuracy", "train_reward_margin",
    "valid_loss", "valid_reward_accuracy", "valid_reward_margin",
    NULL};

static const char *const reward_columns[] = {"train_loss",
                                             "train_reward_mean",
                                             "train_reward_std",
                                             "clipped_share",
                                             "completion_tokens_mean",
                                             "train_kl",
                                             NULL};

static const char *const *columns_of(const json_t *v)
{
    return has_pairs(v)     ? pair_columns
           : has_rewards(v) ? reward_columns
           : has_texts(v)   ? text_columns
                            : plain_columns;
}

void job_csv_heading(enum hyper_method method, struct buf *out)
{
    if (method == HYPER_SUPERVISED) { /* OpenAI's names */
        buf_str(out, "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n");
        return;
    }
    buf_str(out, "step");
    const char *const *name = method == HYPER_DPO             ? pair_columns
                              : method == HYPER_REINFORCEMENT ? reward_columns
                                                              : text_columns;
    for (; *name; name++)
        buf_printf(out, ",%s", *name);
    buf_char(out, '\n');
}

void job_csv_line(const char *data, struct buf *out)
{
    json_t *v = data ? json_loads(data, JSON_ALLOW_NUL, NULL) : NULL;
    const json_t *step = json_object_get(v, "step");
    if (json_is_integer(step) && json_object_get(v, "train_loss")) {
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(step));
        for (const char *const *name = columns_of(v); *name; name++) {
            const json_t *x = json_object_get(v, *name);
            buf_char(out, ',');
            if (json_is_number(x))
                buf_printf(out, "%.6f", json_number_value(x));
        }
        buf_char(out, '\n');
    }
    json_decref(v);
}
