/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of hyperparameters, walked against all who take them: what it says is what the API, the
 * options of `tandem tune` and those of `tandem train` allow, to the last number. Faults: a bound
 * that one of them has for itself; an option without a row, or a row whose option is not there; a
 * local option that refuses what a job may say.
 */
#include "api/hyper.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "api/json.h"
#include "clients/cli/cmd.h"
#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

enum kind { INT_AUTO, INT_PLAIN, NUM_AUTO, NUM_PLAIN, WORD, BOOL, NAMES };
enum of { ANY, EXAMPLES, DPO, REWARDS, ANCHORS };
enum whose { NONE, TUNE, TRAIN, BOTH };

static const struct row {
    const char *name;
    enum kind kind;
    double min, max;
    const char *words;
    enum of of;
    enum whose whose;
    const char *flag, *hint, *fallback;
    double local_min, local_max;
} rows[] = {
#define OF_NONE(...)                                             NONE, NULL, NULL, NULL, 0, 0
#define OF_ALL(who, flag, field, hint, help, fallback, min, max) who, flag, hint, fallback, min, max
#define OF_TUNE(...)                                             OF_ALL(TUNE, __VA_ARGS__)
#define OF_TRAIN(...)                                            OF_ALL(TRAIN, __VA_ARGS__)
#define OF_BOTH(...)                                             OF_ALL(BOTH, __VA_ARGS__)
#define HYPER(name, member, kind, min, max, words, about, of, whose, ...)                          \
    {#name, kind, min, max, words, of, OF_##whose(__VA_ARGS__)},
#include "api/hyper.def"
#undef HYPER
};

enum { N_ROW = sizeof rows / sizeof *rows, TEXT_BYTES = 512 };

static bool is_number(const struct row *r)
{
    return r->kind <= NUM_PLAIN;
}

/* The next number below or above that the kind can say. */
static double beside(const struct row *r, double x, int way)
{
    return r->kind <= INT_PLAIN ? x + way : nextafter(x, way * HUGE_VAL);
}

static const char grader[] =
    "\"grader\":{\"type\":\"string_check\",\"name\":\"c\",\"input\":\"a\",\"reference\":\"b\","
    "\"operation\":\"eq\"},";

static bool method_takes(const char *method, const char *more, const struct row *r,
                         const char *value)
{
    char body[TEXT_BYTES];
    struct job_ask ask;
    struct api_error e;
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"training_file\":\"file-a\",%s\"method\":{\"type\":\"%s\","
             "\"%s\":{%s\"hyperparameters\":{%s\"%s\":%s}}}}",
             "\"validation_file\":\"file-b\",", method, method,
             strcmp(method, "reinforcement") == 0 ? grader : "", more, r->name, value);
    return !job_ask_parse(body, strlen(body), &own_arena, &ask, &e);
}

/* A loss that has a number. */
static const char *loss_of(const struct row *r)
{
    return r->of != DPO                          ? ""
           : strstr(r->name, "desirable_weight") ? "\"loss\":\"x_kto\","
                                                 : "\"loss\":\"x_simpo\",";
}

static bool api_takes(const struct row *r, const char *value)
{
    return r->of == DPO       ? method_takes("dpo", loss_of(r), r, value)
           : r->of == REWARDS ? method_takes("reinforcement", "", r, value)
           : r->of == ANCHORS ? method_takes("x_embedding", "", r, value)
                              : method_takes("supervised", "", r, value);
}

static bool option_takes(const struct cmd_opt *of, const struct row *r, const char *value)
{
    struct opt_cmd cmd = {
        .name = "x", .args = "", .about = "", .max_arg = 9, .row = of->row, .n_row = of->n_row};
    char flag[TEXT_BYTES];
    struct err e = ERR_INIT;
    struct opt o;
    void *values = calloc(1, of->bytes);
    snprintf(flag, sizeof flag, "--%s=%s", r->flag, value);
    bool takes = !opt_init(&o, &cmd, values, 1, (const char *[]){flag}, &e);
    opt_release(&o);
    free(values);
    return takes;
}

static bool takes(const struct row *r, const struct cmd_opt *of, const char *value)
{
    return of ? option_takes(of, r, value) : api_takes(r, value);
}

/* of: NULL: the API. */
static void bounds(const struct row *r, const struct cmd_opt *of, double min, double max)
{
    const struct {
        double x;
        bool is_good;
    } at[] = {{min, true}, {max, true}, {beside(r, min, -1), false}, {beside(r, max, 1), false}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        char value[64];
        snprintf(value, sizeof value, r->kind <= INT_PLAIN ? "%.0f" : "%.17g", at[i].x);
        if (takes(r, of, value) != at[i].is_good)
            fail_msg("%s: %s %s", r->name, value, at[i].is_good ? "refused" : "taken");
    }
}

static void api(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROW; i++)
        if (is_number(&rows[i]))
            bounds(&rows[i], NULL, rows[i].min, rows[i].max);
}

/* Faults: a number of one method that another one takes, and forgets. */
static void methods(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROW; i++) {
        const struct row *r = &rows[i];
        if (!is_number(r))
            continue;
        char value[64];
        snprintf(value, sizeof value, r->kind <= INT_PLAIN ? "%.0f" : "%.17g", r->max);
        assert_true(method_takes("dpo", loss_of(r), r, value) == (r->of == ANY || r->of == DPO));
        assert_true(method_takes("reinforcement", "", r, value) ==
                    (r->of == ANY || r->of == REWARDS));
        assert_true(method_takes("x_embedding", "", r, value) ==
                    (r->of == ANY || r->of == ANCHORS));
        assert_true(method_takes("supervised", "", r, value) ==
                    (r->of == ANY || r->of == EXAMPLES));
    }
}

static void one_of_words(const struct row *r, const struct cmd_opt *of)
{
    assert_string_equal(r->hint, r->words);
    assert_true(option_takes(of, r, r->fallback));
    assert_false(option_takes(of, r, "no-such-word"));
}

static void tune(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROW; i++) {
        const struct row *r = &rows[i];
        if (r->whose != TUNE && r->whose != BOTH)
            continue;
        if (r->kind == WORD)
            one_of_words(r, &cmd_opt_tune);
        else
            bounds(r, &cmd_opt_tune, r->min, r->max);
    }
}

static void train(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROW; i++) {
        const struct row *r = &rows[i];
        if ((r->whose != TRAIN && r->whose != BOTH) || r->kind == BOOL || r->kind == NAMES)
            continue;
        if (r->kind == WORD) {
            one_of_words(r, &cmd_opt_train);
            continue;
        }
        bounds(r, &cmd_opt_train, r->local_min, r->local_max);
        assert_true(option_takes(&cmd_opt_train, r, r->fallback));
        if (r->local_min > r->min || r->local_max < r->max)
            fail_msg("%s: a job may say what the option refuses", r->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(api, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(methods, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(tune, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(train, own_arena_new, own_arena_free),
    };
    api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
