/* SPDX-License-Identifier: Apache-2.0
 *
 * The adapter's folder is there from its writing to its loading.
 */
#include "engine/train/tune_samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/engine.h"
#include "engine/token/tokenizer.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/grading.h"
#include "engine/train/policy.h"
#include "engine/train/rollout.h"

enum { PATH_BYTES = 4096, TEXT_BYTES = 64 << 20 };

/* Places of samples that are not trained on, beyond those of a step's. */
static const int64_t judged_place = 1 << 30;

static int folder_of(const char *checkpoints, char path[PATH_BYTES], struct err *e)
{
    int n = snprintf(path, PATH_BYTES, "%s/policy", checkpoints);
    return n < PATH_BYTES ? 0 : err_set(e, ERR_BAD_INPUT, "the path of checkpoints is too long");
}

int tune_samples_forget(const char *checkpoints, struct err *e)
{
    char path[PATH_BYTES];
    return folder_of(checkpoints, path, e) || made_remove(path, e) ? -1 : 0;
}

/* What is trained now is what the name means. */
static int publish(struct tune_samples *s, struct err *e)
{
    char path[PATH_BYTES];
    const struct tune_policy *p = &s->policy;
    if (folder_of(p->folder, path, e) || made_remove(path, e) ||
        adapter_dir_write(path, s->subject, NULL, e))
        return -1;
    int rc = engine_adapter_load(s->engine, p->name, path, e);
    s->lacks_place = rc && e->code == ERR_TOO_LARGE;
    struct err left = ERR_INIT; /* removed before the next */
    made_remove(path, &left);
    return rc;
}

void tune_samples_end(struct tune_samples *s)
{
    struct err unknown = ERR_INIT;
    engine_adapter_drop(s->engine, s->policy.name, &unknown);
    tune_samples_forget(s->policy.folder, &unknown);
}

/* ---- rewards ------------------------------------------------------------------------------- */

/* Beyond this, sums and squares of rewards would not be numbers. */
static const double reward_most = 1e30;

static bool is_end(const struct engine *g, int32_t id)
{
    const struct engine_info *on = engine_info(g);
    for (int32_t i = 0; i < on->n_eos; i++)
        if (on->eos[i] == id)
            return true;
    return false;
}

static int64_t answer_length(const struct row_set *rows, int64_t i)
{
    return rows->row[i].n - row_set_prompt(rows, i);
}

/* A step's samples while they are graded. */
struct graded {
    struct tune_samples *s;
    const struct row_set *rows;
    int64_t step, place; /* of row 0 */
    double *reward;      /* [n_row] */
    bool *is_graded;     /* [n_row] */
};

/* Of row i, as a client would see it. */
static int grade(void *ctx, int64_t i, const atomic_bool *ends, struct err *e)
{
    const struct graded *g = ctx;
    struct tune_samples *s = g->s;
    int64_t n = answer_length(g->rows, i);
    const int32_t *id = g->rows->row[i].id + row_set_prompt(g->rows, i);
    struct buf text;
    buf_init(&text, TEXT_BYTES);
    if (n > 0 && is_end(s->engine, id[n - 1]))
        n--;
    struct tune_sample sample = {
        .example = g->rows->example[i], .step = g->step, .place = g->place + i, .ends = ends};
    sample.line = row_set_line(g->rows, i, &sample.n_line);
    int rc = tokenizer_decode(engine_tokenizer(s->engine), id, (size_t)n, true, &text, e) ||
                     buf_check(&text, "a sample", e)
                 ? -1
                 : 0;
    sample.text = text.len ? text.data : "";
    sample.n_text = text.len;
    g->is_graded[i] = true;
    if (!rc)
        rc = s->policy.grade(s->ctx, &sample, &g->reward[i], &g->is_graded[i], e);
    if (!rc && !(fabs(g->reward[i]) <= reward_most)) {
        g->is_graded[i] = false;
        g->reward[i] = 0;
    }
    buf_release(&text);
    return rc;
}

static void settle(const struct tune_samples *s, struct row_set *rows, const double *reward,
                   double *advantage, struct train_rewards *out)
{
    const struct train_samples *how = &s->policy.samples;
    int64_t n_each = rows->n_each;
    double sum = 0, squares = 0;
    bool is_even = s->policy.loss.kl == 0;
    for (int64_t i = 0; i < rows->n_row; i += n_each) {
        policy_advantages(how->advantage, reward + i, n_each, advantage);
        for (int64_t k = i; k < i + n_each; k++) {
            int64_t n = answer_length(rows, k);
            rows->row[k].advantage = advantage[k - i];
            rows->row[k].share = policy_share(how->advantage, n, how->max_new, rows->n_row);
            is_even = is_even && advantage[k - i] == 0;
            sum += reward[k];
            squares += reward[k] * reward[k];
            out->length += (double)n;
        }
    }
    out->n = rows->n_row;
    out->reward = sum / (double)out->n;
    out->deviation = sqrt(fmax(0, squares / (double)out->n - out->reward * out->reward));
    out->length /= (double)out->n;
    out->is_even = is_even;
}

static bool is_to_end(void *ctx)
{
    const struct graded *g = ctx;
    return g->s->is_wanted_end && g->s->is_wanted_end(g->s->ctx);
}

static int run_grading(struct graded *g, struct train_rewards *out, bool *is_ended, struct err *e)
{
    const struct grading all = {.n = g->rows->n_row,
                                .at_once = g->s->policy.grades_at_once,
                                .grade = grade,
                                .is_to_end = is_to_end,
                                .ctx = g};
    if (grading_run(&all, is_ended, e) || *is_ended)
        return *is_ended ? 0 : -1;
    for (int64_t i = 0; i < all.n; i++)
        out->n_fault += !g->is_graded[i];
    return g->s->policy.graded ? g->s->policy.graded(g->s->ctx, e) : 0;
}

static int grade_all(struct tune_samples *s, struct row_set *rows, int64_t step, int64_t place,
                     struct train_rewards *out, bool *is_ended, struct err *e)
{
    double *reward = try_alloc((size_t)rows->n_row * 2, sizeof *reward, "rewards", e);
    struct graded g = {.s = s, .rows = rows, .step = step, .place = place, .reward = reward};
    g.is_graded = reward ? try_alloc((size_t)rows->n_row, sizeof *g.is_graded, "rewards", e) : NULL;
    int rc = g.is_graded ? run_grading(&g, out, is_ended, e) : -1;
    if (!rc && !*is_ended)
        settle(s, rows, reward, reward + rows->n_row, out);
    mem_free(g.is_graded);
    mem_free(reward);
    return rc;
}

/* What is only looked at is drawn with the same seeds each time: its reward moves with the values.
 */
int tune_samples_draw(void *ctx, struct row_set *rows, int64_t step, int64_t judged_at,
                      struct train_rewards *out, bool *is_ended, struct err *e)
{
    struct tune_samples *s = ctx;
    bool trains = judged_at < 0;
    int64_t of = trains ? step : 0, place = trains ? 0 : judged_place + judged_at;
    const struct siphash_key key = {s->seed, trains ? 1 : 2};
    *out = (struct train_rewards){0};
    if (publish(s, e))
        return -1;
    struct adapter *now = engine_adapter_get(s->engine, s->policy.name);
    if (!now)
        return err_set(e, ERR_BUSY, "the adapter '%s' was dropped", s->policy.name);
    const struct rollout o = {.engine = s->engine,
                              .adapter = now,
                              .max_new = s->policy.samples.max_new,
                              .seed = siphash(key, &of, sizeof of),
                              .tenant = s->policy.tenant,
                              .is_wanted_end = s->is_wanted_end,
                              .ctx = s->ctx};
    int rc = rollout_run(&o, rows, is_ended, e);
    adapter_unref(now);
    return rc ? -1 : *is_ended ? 0 : grade_all(s, rows, step, place, out, is_ended, e);
}
