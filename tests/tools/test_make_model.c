/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/tools/make_model: every family's directory opens, holds the tensors that its config asks
 * for, and its numbers depend on name and seed alone.
 */
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/load/model_dir.h"
#include "kernels/float16.h"
#include "tests/lib/test.h"

extern char **environ;
static char tool[512]; /* make_model lies beside this program */

static int run(const char *dir, const char *const *option)
{
    const char *argv[24] = {tool, dir};
    pid_t pid;
    int n = 2, status;
    while (*option)
        argv[n++] = *option++;
    assert_int_equal(posix_spawn(&pid, tool, NULL, NULL, (char *const *)(uintptr_t)argv, environ),
                     0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void open_made(struct model_dir *d, const char *dir, const char *const *option)
{
    struct err e = ERR_INIT;
    assert_int_equal(run(dir, option), 0);
    assert_good(model_dir_init(d, dir, &e), &e);
    assert_non_null(d->tokenizer_path);
}

/* Fault: a family's tensors are named or shaped otherwise than the engine asks for. */
static void test_every_family(void **state)
{
    (void)state;
    static const struct {
        const char *family, *name;
        int64_t dim[2];
        int64_t n_tensor;
    } row[] = {
        {"llama", "model.layers.1.self_attn.k_proj.weight", {24, 36}, 2 * 9 + 2},
        {"mistral", "model.layers.0.self_attn.o_proj.weight", {36, 48}, 2 * 9 + 2},
        {"qwen2", "model.layers.1.mlp.down_proj.weight", {36, 70}, 2 * 12 + 2},
        {"qwen3", "model.layers.1.self_attn.q_proj.weight", {48, 36}, 2 * 11 + 2},
        {"gpt2", "transformer.h.1.attn.c_attn.weight", {36, 108}, 2 * 12 + 4},
        {"bert", "encoder.layer.1.intermediate.dense.weight", {70, 36}, 2 * 16 + 7},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        bool rotates = i < 4;
        const char *const option[] = {"--family",   row[i].family,
                                      "--hidden",   "36",
                                      "--ff",       "70",
                                      "--heads",    "4",
                                      "--kv-heads", "2",
                                      "--vocab",    "300",
                                      "--head-dim", rotates ? "12" : "9",
                                      NULL};
        struct model_dir d;
        struct err e = ERR_INIT;
        const struct weight *w;
        char *dir = test_dir_new();
        open_made(&d, dir, option);
        assert_string_equal(config_family_name(d.config.family), row[i].family);
        assert_int_equal(weights_count(d.weights), row[i].n_tensor);
        assert_good(weights_want(d.weights, row[i].name, 2, row[i].dim, &w, &e), &e);
        assert_int_equal(weight_k_type(w), K_BF16);
        model_dir_release(&d);
        test_dir_free(dir);
    }
}

/* Fault: the number of files or the type changes a number by more than its rounding. */
static void test_same_numbers_in_any_files(void **state)
{
    (void)state;
    static const char *const whole[] = {"--dtype", "f32", "--seed", "9", NULL};
    static const char *const shards[] = {"--dtype", "bf16", "--seed", "9", "--shards", "3", NULL};
    char *dir[2] = {test_dir_new(), test_dir_new()};
    struct model_dir d[2];
    struct err e = ERR_INIT;
    open_made(&d[0], dir[0], whole);
    open_made(&d[1], dir[1], shards);
    assert_int_equal(weights_count(d[0].weights), weights_count(d[1].weights));
    double sum = 0, squares = 0, n = 0;
    for (size_t i = 0; i < weights_count(d[0].weights); i++) {
        const struct weight *a = weights_at(d[0].weights, i);
        const struct weight *b = weights_get(d[1].weights, a->t->name);
        assert_non_null(b);
        int64_t count = st_tensor_count(a->t);
        float *x = malloc((size_t)count * 4), *y = malloc((size_t)count * 4);
        assert_good(weight_read_f32(a, 0, weight_rows(a), x, &e), &e);
        assert_good(weight_read_f32(b, 0, weight_rows(b), y, &e), &e);
        for (int64_t k = 0; k < count; k++) {
            assert_true(bf16_to_f32(bf16_from_f32(x[k])) == y[k]);
            if (a->t->rank == 2) {
                double u = x[k] * sqrt((double)a->t->dim[1]);
                sum += u, squares += u * u, n++;
            }
        }
        free(x);
        free(y);
    }
    assert_true(fabs(sum / n) < 0.02 && fabs(squares / n - 1) < 0.02);
    for (int i = 0; i < 2; i++) {
        model_dir_release(&d[i]);
        test_dir_free(dir[i]);
    }
}

/* Fault: a wrong option makes half a model instead of one line and exit 2. */
static void test_refuses(void **state)
{
    (void)state;
    static const char *const small[] = {"--vocab", "100", NULL};
    static const char *const odd[] = {"--head-dim", "7", NULL};
    char *dir = test_dir_new();
    assert_int_equal(run(dir, small), 2);
    assert_int_equal(run(dir, odd), 2);
    test_dir_free(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_same_numbers_in_any_files),
        cmocka_unit_test(test_refuses),
    };
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    snprintf(tool, sizeof tool, "%.*s/make_model", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
