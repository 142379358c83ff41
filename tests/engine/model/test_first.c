/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of random numbers, of every family that there is a config of. Faults: a parameter that is
 * left out or misnamed, so that what was written cannot be loaded; inputs and outputs exchanged; a
 * norm that begins at nothing; tensors that begin alike; numbers too wide or too narrow to learn
 * from; numbers that a second run has otherwise.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/model/first.h"
#include "tests/lib/golden.h"

enum { NAME_BYTES = 512, SEED = 7 };

static void shape_of(const char *name, char path[NAME_BYTES])
{
    snprintf(path, NAME_BYTES, "tests/golden/models/%s", name);
}

static float *values_of(const struct weight *w, int64_t *n)
{
    struct err e = ERR_INIT;
    *n = st_tensor_count(w->t);
    float *x = xcalloc((size_t)*n, sizeof *x);
    assert_good(weight_read_f32(w, 0, weight_rows(w), x, &e), &e);
    return x;
}

/* Vectors are one value; matrices are spread evenly around nothing. */
static void check_values(const struct weight *w, const struct config *c)
{
    bool is_norm =
        strstr(w->t->name, "norm") || strstr(w->t->name, "ln_") || strstr(w->t->name, "LayerNorm");
    bool is_bias = strstr(w->t->name, ".bias");
    double sum = 0, squares = 0, most = 0;
    int64_t n;
    float *x = values_of(w, &n);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        most = fmax(most, fabs((double)x[i]));
    }
    double width = sqrt(squares / (double)n);
    if (w->t->rank == 1) {
        bool is_plain = strstr(w->t->name, "linear_attn.norm") || strstr(w->t->name, "dt_bias") ||
                        strstr(w->t->name, "mamba.D") || strstr(w->t->name, "correct_output_scale");
        double one = /* norms where 1 is added begin at 0 */
            is_plain || (is_norm && !is_bias && !c->norm_plus_one);
        assert_true(most == one && fabs(width - most) < 1e-12);
    } else {
        double spread = n < 1000 ? 2.2 : 1.8; /* of few the width is a guess */
        assert_true(width > 0.01 && width < 0.7 && most < spread * width);
        assert_true(fabs(sum / (double)n) < 6 * width / sqrt((double)n));
    }
    free(x);
}

/* What was written is a model of this shape, whose tensors all differ. */
static void check_model(const struct golden *g, const char *path, enum k_type type)
{
    struct model_options mo = {.type = -1, .kv_type = -1};
    struct err e = ERR_INIT;
    struct model_dir d;
    float first = 0, last = 0;
    assert_good(model_dir_init(&d, path, &e), &e);
    struct model *m = model_load(&d, &mo, g->device, &e);
    assert_good(m ? 0 : -1, &e);
    assert_int_equal(m->n_param, g->model->n_param);
    assert_int_equal(weights_count(d.weights), (size_t)m->n_param);
    for (size_t i = 0; i < weights_count(d.weights); i++) {
        const struct weight *w = weights_at(d.weights, i);
        int64_t n;
        assert_int_equal(weight_k_type(w), type);
        check_values(w, &d.config);
        if (w->t->rank == 1)
            continue;
        float *x = values_of(w, &n);
        assert_true(x[0] != first || x[n - 1] != last); /* bf16 has but so many numbers */
        first = x[0], last = x[n - 1];
        free(x);
    }
    model_free(m);
    model_dir_release(&d);
}

static void every_family(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        for (int t = 0; t < 2; t++) {
            enum k_type type = t ? K_BF16 : K_F32;
            char *root = test_dir_new(), shape[NAME_BYTES], to[NAME_BYTES];
            struct err e = ERR_INIT;
            struct golden g;
            golden_init(&g, *name, type, 0);
            shape_of(*name, shape);
            snprintf(to, sizeof to, "%s/first", root);
            int rc = model_first_write(shape, type, SEED, to, &e);
            if (g.model->cfg.is_encoder) {
                assert_err(rc, &e, ERR_UNSUPPORTED, "encoder");
            } else if (g.model->cfg.is_wrapped) {
                assert_err(rc, &e, ERR_UNSUPPORTED, "only the text part");
            } else if (g.model->cfg.has_expert_bias || g.model->cfg.has_stacked_experts) {
                assert_err(rc, &e, ERR_UNSUPPORTED, "all experts of a layer in one tensor");
            } else {
                assert_good(rc, &e);
                check_model(&g, to, type);
            }
            golden_release(&g);
            test_dir_free(root);
        }
    }
}

static void read_file(const char *dir, const char *name, struct buf *b)
{
    struct err e = ERR_INIT;
    char *path = path_join(dir, name);
    buf_init(b, 1 << 26);
    assert_good(fs_read(path, b, &e), &e);
    free(path);
}

static bool is_same(const char *a, const char *b, const char *name)
{
    struct buf x, y;
    read_file(a, name, &x);
    read_file(b, name, &y);
    bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    buf_release(&x);
    buf_release(&y);
    return same;
}

/* The same seed is the same file, another is another; the shape's own weights do not matter, and
 * its small files come along. */
static void by_the_seed(void **state)
{
    char *root = test_dir_new(), shape[NAME_BYTES], to[3][NAME_BYTES];
    struct err e = ERR_INIT;
    (void)state;
    shape_of("llama_tied", shape);
    for (int i = 0; i < 3; i++) {
        snprintf(to[i], sizeof to[i], "%s/%d", root, i);
        assert_good(model_first_write(shape, K_BF16, i < 2 ? SEED : SEED + 1, to[i], &e), &e);
    }
    assert_true(is_same(to[0], to[1], "model.safetensors"));
    assert_false(is_same(to[0], to[2], "model.safetensors"));
    assert_true(is_same(to[0], shape, "config.json"));
    assert_true(is_same(to[0], shape, "tokenizer.json"));
    test_dir_free(root);
}

/* The shape of a golden model whose `initializer_range` is another, of as many digits. */
static void write_shape(const char *root, const char *range)
{
    struct buf b;
    char shape[NAME_BYTES], *path = path_join(root, "config.json");
    shape_of("llama_tied", shape);
    read_file(shape, "config.json", &b);
    char *at = strstr(b.data, "\"initializer_range\": 0.02");
    assert_non_null(at);
    memcpy(strchr(at, ':') + 2, range, strlen("0.02"));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    buf_release(&b);
    free(path);
}

/* Fault: embeddings are as wide whatever the shape says. */
static void embeddings_as_it_says(void **state)
{
    static const struct {
        const char *text;
        double width;
    } range[] = {{"0.02", 0.02}, {"0.50", 0.5}};
    (void)state;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        char *root = test_dir_new(), to[NAME_BYTES];
        struct err e = ERR_INIT;
        struct model_dir d;
        double squares = 0;
        int64_t n;
        snprintf(to, sizeof to, "%s/to", root);
        write_shape(root, range[i].text);
        assert_good(model_first_write(root, K_F32, SEED, to, &e), &e);
        assert_good(model_dir_init(&d, to, &e), &e);
        float *x = values_of(weights_get(d.weights, "model.embed_tokens.weight"), &n);
        for (int64_t k = 0; k < n; k++)
            squares += (double)x[k] * (double)x[k];
        assert_true(fabs(sqrt(squares / (double)n) / range[i].width - 1) < 0.05);
        free(x);
        model_dir_release(&d);
        test_dir_free(root);
    }
}

static void faults(void **state)
{
    char *root = test_dir_new(), to[NAME_BYTES];
    struct err e = ERR_INIT;
    (void)state;
    snprintf(to, sizeof to, "%s/to", root);
    assert_err(model_first_write(root, K_F32, SEED, to, &e), &e, ERR_NOT_FOUND, "config.json");
    write_shape(root, "1.02");
    assert_err(model_first_write(root, K_F32, SEED, to, &e), &e, ERR_BAD_INPUT,
               "initializer_range: expected a number above 0, up to 1, found 1.02");
    test_dir_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family), cmocka_unit_test(by_the_seed),
        cmocka_unit_test(embeddings_as_it_says), cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
