/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts of which a layer has one tensor (tests/golden/models/gpt_oss, packed_mxfp4,
 * granite_hybrid and qwen3_5_moe, whose values tests/engine/model compares). Faults they can catch:
 * a part of a row that is read from another place than the whole, parts that fit nowhere taken for
 * some, a number that is not finite let through, codes counted as bytes.
 */
#include "engine/load/stacked_weight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/load/model_dir.h"
#include "engine/load/st_writer.h"
#include "kernels/coded.h"
#include "tests/lib/test.h"

enum { PATH_BYTES = 512 };

/* Every run of columns of a weight has the bytes that the whole has. */
static void check_runs(const struct weight *w)
{
    struct err e = ERR_INIT;
    int64_t rows = weight_rows(w), k = weight_row_len(w);
    size_t size = weight_row_bytes(w) / (size_t)k;
    char *all = malloc((size_t)rows * weight_row_bytes(w)), *some = malloc((size_t)k * 3 * size);
    assert_good(weight_read(w, 0, rows, all, &e), &e);
    for (int64_t col = 0; col < k; col += 1 + k / 9)
        for (int64_t n = 1; n < 3 * k && n <= (rows - 1) * k - col; n += 1 + k / 5) {
            assert_good(weight_read_at(w, 1, col, n, some, &e), &e);
            assert_memory_equal(some, all + ((size_t)k + (size_t)col) * size, (size_t)n * size);
        }
    free(all);
    free(some);
}

static void parts_are_the_whole(void **state)
{
    static const char *const dir[] = {"gpt_oss", "packed_mxfp4", "qwen3_5_moe"};
    static const char *const part[] = {"gate_proj", "up_proj", "down_proj"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[PATH_BYTES], name[PATH_BYTES];
        struct err e = ERR_INIT;
        snprintf(path, sizeof path, "tests/golden/models/%s", dir[i]);
        struct weights *w = weights_open(path, &e);
        assert_non_null(w);
        assert_int_equal(weights_are_packed(w), i == 1);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "model.layers.1.mlp.experts.3.%s.weight", part[k]);
            const struct weight *x = weights_get(w, name);
            assert_non_null(x);
            assert_int_equal(x->t->rank, 2);
            check_runs(x);
            if (i == 2)
                continue; /* it has no biases */
            snprintf(name, sizeof name, "model.layers.1.mlp.experts.3.%s.bias", part[k]);
            x = weights_get(w, name);
            assert_non_null(x);
            assert_int_equal(x->t->rank, 1);
        }
        assert_null(weights_get(w, "model.layers.1.mlp.experts.6.up_proj.weight"));
        weights_close(w);
    }
}

/* Fault: gate and up that change places, or a row of the expert beside. */
static void rows_stand_as_they_are(void **state)
{
    static const struct {
        const char *part, *from;
        int64_t first; /* row of expert 1 in the stack's, of 42 or 48 */
    } of[] = {{"gate_proj", "input_linear", 42},
              {"up_proj", "input_linear", 42 + 21},
              {"down_proj", "output_linear", 48}};
    char name[PATH_BYTES];
    struct err e = ERR_INIT;
    float all[4 * 48 * 48], some[48 * 48];
    (void)state;
    struct weights *w = weights_open("tests/golden/models/granite_hybrid", &e);
    assert_non_null(w);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.%s.weight", of[i].from);
        const struct weight *from = weights_get(w, name);
        snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.1.%s.weight",
                 of[i].part);
        const struct weight *x = weights_get(w, name);
        assert_true(from && x);
        check_runs(x);
        assert_good(weight_read_f32(from, 0, weight_rows(from), all, &e), &e);
        assert_good(weight_read_f32(x, 0, weight_rows(x), some, &e), &e);
        int64_t n = weight_rows(x) * weight_row_len(x);
        assert_memory_equal(some, all + of[i].first * weight_row_len(x), (size_t)n * sizeof *some);
    }
    weights_close(w);
}

/* Two numbers to a byte. */
static void codes_are_counted(void **state)
{
    struct model_dir d;
    struct model_size s;
    struct err e = ERR_INIT;
    (void)state;
    assert_good(model_dir_init(&d, "tests/golden/models/packed_mxfp4", &e), &e);
    model_dir_size(&d, &s);
    /* of a layer: attention, sinks, router, experts, norms; and both tables, and the last norm */
    uint64_t attn = 64 * (64 + 32 + 32) + 64 * 64 + 64 + 32 + 32 + 64 + 4;
    uint64_t experts = 4 * (64 * 64 + 64 + 64 * 32 + 64) + 4 * 64 + 4;
    assert_int_equal(s.n_param, 2 * (attn + experts + 2 * 64) + 2 * 320 * 64 + 64);
    model_dir_release(&d);
}

struct part {
    const char *name;
    enum st_dtype dtype;
    int rank;
    int64_t dim[4];
    unsigned char byte; /* of all its bytes */
};

static void expect_bad(const struct part *part, const char *what)
{
    char *dir = test_dir_new(), path[PATH_BYTES], bytes[4096];
    struct err e = ERR_INIT;
    struct st_writer *out = st_writer_new();
    const struct st_tensor *t;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    for (const struct part *p = part; p->name; p++)
        assert_good(st_writer_add(out, p->name, p->dtype, p->rank, p->dim, &e), &e);
    assert_good(st_writer_open(out, path, &e), &e);
    while ((t = st_writer_next(out))) {
        const struct part *p = part;
        while (strcmp(p->name, t->name) != 0)
            p++;
        memset(bytes, p->byte, sizeof bytes);
        assert_true(t->end - t->begin <= sizeof bytes);
        assert_good(st_writer_write(out, bytes, t->end - t->begin, &e), &e);
    }
    assert_good(st_writer_commit(out, &e), &e);
    st_writer_free(out);
    struct weights *w = weights_open(dir, &e);
    const struct weight *x = w ? weights_get(w, "m.experts.0.down_proj.weight") : NULL;
    uint16_t some[64];
    if (x)
        assert_int_equal(weight_read_at(x, 0, 0, 32, some, &e), -1);
    if (!strstr(e.msg, what))
        fail_msg("%s: not %s", e.msg, what);
    if (w)
        weights_close(w);
    test_dir_free(dir);
}

/* Scales that f16 has no half of: numbers have them, codes of int8g don't; of zeros any does. */
static void strange_scales(void **state)
{
    char *dir = test_dir_new(), path[PATH_BYTES], bytes[256];
    struct err e = ERR_INIT;
    struct st_writer *out = st_writer_new();
    const struct st_tensor *t;
    const int64_t bias[] = {1, 2}, codes[] = {1, 2, 1, 16};
    (void)state;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_good(st_writer_add(out, "m.experts.gate_up_proj_bias", ST_F32, 2, bias, &e), &e);
    assert_good(st_writer_add(out, "m.experts.down_proj_blocks", ST_U8, 4, codes, &e), &e);
    assert_good(st_writer_add(out, "m.experts.down_proj_scales", ST_U8, 3, codes, &e), &e);
    assert_good(st_writer_open(out, path, &e), &e);
    while ((t = st_writer_next(out))) {
        memset(bytes, 0, sizeof bytes); /* the scales: 2^-127 */
        if (strstr(t->name, "blocks"))
            memset(bytes, 0x7e, 16); /* of the first output: -4 and 6, of the second zeros */
        assert_good(st_writer_write(out, bytes, t->end - t->begin, &e), &e);
    }
    assert_good(st_writer_commit(out, &e), &e);
    st_writer_free(out);
    struct weights *w = weights_open(dir, &e);
    assert_non_null(w);
    const struct weight *x = weights_get(w, "m.experts.0.down_proj.weight");
    float f[2 * 32];
    uint8_t block[64];
    assert_int_equal(weight_coded(x), K_MXFP4);
    assert_good(weight_read_f32(x, 0, 2, f, &e), &e);
    assert_true(f[0] == -0x1p-125f && f[1] == 0x1.8p-125f && f[32] == 0);
    assert_int_equal(weight_read_coded(x, 0, 0, 32, block, &e), -1);
    assert_non_null(
        strstr(e.msg, "a scale of output 0 of expert 0, 2^-127, is half of none of f16's"));
    e = (struct err)ERR_INIT;
    assert_good(weight_read_coded(x, 1, 0, 32, block, &e), &e);
    for (int i = 0; i < CODED_INT4_BYTES; i++)
        assert_int_equal(block[i], 0);
    weights_close(w);
    test_dir_free(dir);
}

#define BIAS                                                                                       \
    {                                                                                              \
        "m.experts.gate_up_proj_bias", ST_F32, 2, {2, 4}, 0                                        \
    }
#define DOWN "m.experts.down_proj_blocks"
#define SCALES(n)                                                                                  \
    {                                                                                              \
        "m.experts.down_proj_scales", ST_U8, 3, {2, 4, n}, 255                                     \
    }

static void bad_parts_are_told(void **state)
{
    (void)state;
    expect_bad((struct part[]){BIAS, {DOWN, ST_U8, 4, {2, 4, 1, 16}, 0x11}, {NULL}},
               "m.experts.down_proj_blocks: expected scales beside it");
    expect_bad((struct part[]){BIAS, {DOWN, ST_U8, 4, {2, 4, 1, 16}, 0x11}, SCALES(2), {NULL}},
               "m.experts.down_proj_scales: expected a scale of type U8 for each 16 codes");
    expect_bad((struct part[]){BIAS, {DOWN, ST_U8, 4, {2, 4, 1, 8}, 0x11}, SCALES(1), {NULL}},
               "expected codes of type U8, 16 for a scale");
    expect_bad((struct part[]){BIAS, {DOWN, ST_U8, 4, {2, 4, 1, 16}, 0x11}, SCALES(1), {NULL}},
               "a number of output 0 of expert 0 is not finite");
    expect_bad((struct part[]){{"m.experts.gate_up_proj_bias", ST_F32, 2, {2, 3}, 0}, {NULL}},
               "expected some outputs, of gate and up as many");
    expect_bad((struct part[]){BIAS, {"m.experts.gate_up_proj", ST_I8, 3, {2, 3, 4}, 0}, {NULL}},
               "expected F32, F16 or BF16");
    expect_bad((struct part[]){BIAS,
                               {"m.experts.down_proj", ST_F32, 3, {2, 3, 4}, 0},
                               {"m.experts.1.down_proj.weight", ST_F32, 2, {4, 3}, 0},
                               {NULL}},
               "m.experts.1.down_proj.weight is there stacked and as it is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole), cmocka_unit_test(rows_stand_as_they_are),
        cmocka_unit_test(codes_are_counted),   cmocka_unit_test(strange_scales),
        cmocka_unit_test(bad_parts_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
