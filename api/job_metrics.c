/* SPDX-License-Identifier: Apache-2.0
 *
 * A step's numbers as an event's data, and from there as a line of the result file: what the file
 * says is what the events said, to the last digit.
 */
#include <inttypes.h>
#include <string.h>

#include "api/job.h"
#include "api/json.h"

static void put(struct buf *out, const char *name, double x)
{
    if (x >= 0)
        buf_printf(out, ",\"%s\":%.6f", name, x);
}

void job_metrics_write(const struct job_metrics *m, struct buf *out)
{
    buf_printf(out, "{\"step\":%" PRId64 ",\"total_steps\":%" PRId64, m->step, m->n_step);
    put(out, "train_loss", m->train_loss);
    put(out, "train_mean_token_accuracy", m->train_accuracy);
    put(out, "valid_loss", m->valid_loss);
    put(out, "valid_mean_token_accuracy", m->valid_accuracy);
    put(out, "full_valid_loss", m->full_valid_loss);
    put(out, "full_valid_mean_token_accuracy", m->full_valid_accuracy);
    if (m->trained_tokens > 0)
        buf_printf(out,
                   ",\"trained_tokens\":%" PRId64 ",\"tokens_per_second\":%.1f,"
                   "\"estimated_finish\":%" PRId64,
                   m->trained_tokens, m->tok_per_s, m->estimated_finish);
    buf_char(out, '}');
}

static double number(const json_t *data, const char *name)
{
    const json_t *v = json_object_get(data, name);
    return json_is_number(v) ? json_number_value(v) : -1;
}

void job_metrics_read(const char *data, struct job_metrics *m)
{
    json_t *v = data ? json_loads(data, 0, NULL) : NULL;
    *m = (struct job_metrics){.step = json_integer_value(json_object_get(v, "step")),
                              .n_step = json_integer_value(json_object_get(v, "total_steps")),
                              .train_loss = number(v, "train_loss"),
                              .train_accuracy = number(v, "train_mean_token_accuracy"),
                              .valid_loss = number(v, "valid_loss"),
                              .valid_accuracy = number(v, "valid_mean_token_accuracy"),
                              .full_valid_loss = number(v, "full_valid_loss"),
                              .full_valid_accuracy = number(v, "full_valid_mean_token_accuracy")};
    json_decref(v);
}

void job_csv_heading(struct buf *out)
{
    buf_str(out, "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n");
}

static void cell(const json_t *data, const char *name, struct buf *out)
{
    double x = number(data, name);
    buf_char(out, ',');
    if (x >= 0)
        buf_printf(out, "%.6f", x);
}

void job_csv_line(const char *data, struct buf *out)
{
    json_t *v = data ? json_loads(data, 0, NULL) : NULL;
    const json_t *step = json_object_get(v, "step");
    if (json_is_integer(step) && json_object_get(v, "train_loss")) {
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(step));
        cell(v, "train_loss", out);
        cell(v, "train_mean_token_accuracy", out);
        cell(v, "valid_loss", out);
        cell(v, "valid_mean_token_accuracy", out);
        buf_char(out, '\n');
    }
    json_decref(v);
}
