/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories written in few bits. Faults: numbers that are codes already and become others; a
 * tensor that should have stayed; a shard or the index that names what is not there; bits that
 * depend on the number of threads or on how many layers are seen at once; a calibration that gains
 * nothing; a model that is quantised twice; a folder that is there in part; memory that is kept.
 */
#include "engine/quant/quantize.h"
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/load/packed_weight.h"
#include "engine/load/st_writer.h"
#include "engine/model/first.h"
#include "engine/quant/compare.h"

#define CODED "tests/golden/gguf/coded" /* layer 0 has numbers of Q4_0 */

enum { NAME_BYTES = 512, TEXT_ROWS = 24, TEXT_TOK = 40 };

struct plant {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model *model;
    struct model_dir dir;
    struct quant_texts texts;
};

static void plant_init(struct plant *p, const char *path, int n_thread)
{
    struct err e = ERR_INIT;
    struct model_options mo = {.type = -1, .kv_type = -1};
    int32_t id[TEXT_TOK];
    *p = (struct plant){.pool = pool_new(n_thread, false, &e)};
    mo.pool = p->pool;
    assert_good(model_dir_init(&p->dir, path, &e), &e);
    p->device = device_cpu_new(p->pool, NULL, &e);
    p->stream = stream_new(p->device, &e);
    p->model = model_load(&p->dir, &mo, p->device, &e);
    assert_good(p->model ? 0 : -1, &e);
    for (int r = 0; r < TEXT_ROWS; r++) {
        for (int i = 0; i < TEXT_TOK; i++)
            id[i] = (int32_t)rng_below(4, (uint64_t)r, (uint64_t)i, 96);
        assert_good(quant_texts_add(&p->texts, id, TEXT_TOK, 32, &e), &e);
    }
}

static void plant_release(struct plant *p)
{
    quant_texts_release(&p->texts);
    model_free(p->model);
    stream_free(p->stream);
    device_free(p->device);
    pool_free(p->pool);
    model_dir_release(&p->dir);
}

static int write_in(struct plant *p, const char *target, int64_t group, const char *to,
                    bool is_calibrated, size_t sum_bytes, struct err *e)
{
    struct quant_plan plan;
    uint64_t bytes = 0;
    struct quant_options o = {.pool = p->pool,
                              .model = p->model,
                              .stream = p->stream,
                              .texts = is_calibrated ? &p->texts : NULL,
                              .sum_bytes = sum_bytes};
    size_t n_block = mem_stat().n_block;
    int rc = quant_plan_init(&plan, &p->dir, quant_target_find(target), group, e) ||
                     quantize(&plan, &p->dir, to, &o, &bytes, e)
                 ? -1
                 : 0;
    quant_plan_release(&plan);
    assert_int_equal(mem_stat().n_block, n_block);
    return rc;
}

static int write_to(struct plant *p, const char *target, const char *to, bool is_calibrated,
                    size_t sum_bytes, struct err *e)
{
    return write_in(p, target, 32, to, is_calibrated, sum_bytes, e);
}

static float *read_f32(const struct weight *w)
{
    struct err e = ERR_INIT;
    float *x = try_alloc((size_t)(weight_rows(w) * weight_row_len(w)), sizeof *x, "x", &e);
    assert_good(weight_read_f32(w, 0, weight_rows(w), x, &e), &e);
    return x;
}

/* The part that the error has of the numbers. */
static double error_of(const struct weight *a, const struct weight *b)
{
    float *x = read_f32(a), *y = read_f32(b);
    double sum = 0, all = 0;
    for (int64_t i = 0; i < weight_rows(a) * weight_row_len(a); i++) {
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    mem_free(x);
    mem_free(y);
    return sqrt(sum / all);
}

static void check_dir(const struct model_dir *from, const char *to, int bits)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    int n_packed = 0;
    assert_good(model_dir_init(&d, to, &e), &e);
    for (size_t i = 0; i < weights_count(from->weights); i++) {
        const struct weight *a = weights_at(from->weights, i);
        const struct weight *b = weights_get(d.weights, a->t->name);
        assert_non_null(b);
        bool is_proj = strstr(a->t->name, "_proj") != NULL;
        assert_int_equal(b->packed != NULL, is_proj);
        if (is_proj)
            assert_int_equal(b->packed->bits, bits);
        double error = error_of(a, b);
        bool is_exact = !is_proj || (bits == 4 && strstr(a->t->name, "layers.0."));
        assert_true(error <= (!is_proj ? 0 : is_exact ? 0.005 : bits == 4 ? 0.12 : 0.01));
        assert_true(is_exact || error > 0);
        n_packed += is_proj;
    }
    assert_int_equal(n_packed, 14);
    model_dir_release(&d);
}

static void numbers_become_codes(void **state)
{
    char *root = test_dir_new();
    struct plant p;
    struct err e = ERR_INIT;
    (void)state;
    plant_init(&p, CODED, 2);
    assert_good(write_to(&p, "int4", test_path(root, "four"), false, 0, &e), &e);
    check_dir(&p.dir, test_path(root, "four"), 4);
    assert_good(write_to(&p, "int8", test_path(root, "eight"), false, 0, &e), &e);
    check_dir(&p.dir, test_path(root, "eight"), 8);
    assert_err(write_to(&p, "int8", test_path(root, "eight"), false, 0, &e), &e, ERR_EXISTS,
               "is there already");
    plant_release(&p);
    test_dir_free(root);
}

/* Fault: a scale for each 32 where there is one for 128; a matrix that is no whole groups. */
static void groups_may_be_long(void **state)
{
    char *root = test_dir_new(), to[NAME_BYTES];
    struct plant p, q;
    struct err e = ERR_INIT;
    (void)state;
    snprintf(to, sizeof to, "%s/to", root);
    plant_init(&p, "tests/golden/gguf/quantised", 2);
    assert_good(write_in(&p, "int4", 128, to, true, 0, &e), &e);
    plant_init(&q, to, 1);
    const struct weight *down = weights_get(q.dir.weights, "model.layers.0.mlp.down_proj.weight");
    assert_true(down && down->packed && down->packed->group == 128);
    assert_true(error_of(weights_get(p.dir.weights, down->t->name), down) < 0.25);
    assert_null(weights_get(q.dir.weights, "model.layers.0.mlp.up_proj.weight")->packed);
    plant_release(&q);
    plant_release(&p);
    test_dir_free(root);
}

/* Faults: a scale of another row; a matrix that is served widened where it could be in a byte a
 * weight. */
static void fp8_has_a_scale_a_row(void **state)
{
    char *root = test_dir_new(), to[NAME_BYTES], by[NAME_BYTES];
    struct plant p, q;
    struct err e = ERR_INIT;
    double error[2] = {0};
    (void)state;
    snprintf(to, sizeof to, "%s/to", root);
    snprintf(by, sizeof by, "%s/by", root);
    plant_init(&p, "tests/golden/gguf/quantised", 2);
    assert_good(write_in(&p, "fp8", 32, to, false, 0, &e), &e);
    assert_good(write_in(&p, "fp8", 32, by, true, 0, &e), &e);
    for (int k = 0; k < 2; k++) {
        plant_init(&q, k ? by : to, 1);
        const struct weight *down =
            weights_get(q.dir.weights, "model.layers.0.mlp.down_proj.weight");
        assert_true(down && down->packed && down->packed->coded == K_FP8);
        assert_int_equal(weight_rows(down->packed->scale), weight_rows(down));
        error[k] = error_of(weights_get(p.dir.weights, down->t->name), down);
        assert_null(weights_get(q.dir.weights, "model.layers.0.mlp.up_proj.weight")->packed);
        plant_release(&q);
    }
    assert_true(error[0] > 0.005 && error[0] < 0.03 && error[1] < 0.1);
    plant_release(&p);
    test_dir_free(root);
}

static void a_comparison_with_itself_finds_nothing(void **state)
{
    struct err e = ERR_INIT;
    struct plant p;
    struct quant_compared c;
    (void)state;
    plant_init(&p, CODED, 1);
    assert_good(quant_compare(p.model, p.model, &p.texts, p.stream, &c, &e), &e);
    assert_true(c.kl == 0 && c.agreed == 1 && c.nll[0] == c.nll[1] && c.nll[0] > 0);
    assert_int_equal(c.n_tok, (int64_t)(p.texts.id.n - p.texts.end.n));
    plant_release(&p);
}

static void same_bytes(const char *a, const char *b)
{
    struct err e = ERR_INIT;
    struct buf x, y;
    buf_init(&x, 1 << 22);
    buf_init(&y, 1 << 22);
    assert_good(fs_read(test_path(a, "model.safetensors"), &x, &e), &e);
    assert_good(fs_read(test_path(b, "model.safetensors"), &y, &e), &e);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    buf_release(&x);
    buf_release(&y);
}

static void calibration_gains_and_has_its_bits(void **state)
{
    char *root = test_dir_new(), plain[NAME_BYTES], all[NAME_BYTES], some[NAME_BYTES];
    struct plant p, one;
    struct err e = ERR_INIT;
    struct quant_compared c[2];
    (void)state;
    snprintf(plain, sizeof plain, "%s/plain", root);
    snprintf(all, sizeof all, "%s/all", root);
    snprintf(some, sizeof some, "%s/some", root);
    plant_init(&p, CODED, 3);
    plant_init(&one, CODED, 1);
    assert_good(write_to(&p, "int4", plain, false, 0, &e), &e);
    assert_good(write_to(&p, "int4", all, true, 0, &e), &e);
    assert_good(write_to(&one, "int4", some, true, 1, &e), &e);
    same_bytes(all, some);
    for (int i = 0; i < 2; i++) {
        struct plant other;
        plant_init(&other, i ? all : plain, 1);
        assert_good(quant_compare(p.model, other.model, &p.texts, p.stream, &c[i], &e), &e);
        plant_release(&other);
    }
    assert_true(c[1].kl > 0 && c[1].kl < c[0].kl);
    assert_true(c[1].kl < c[1].kl_worst && c[1].agreed < 1);
    plant_release(&p);
    plant_release(&one);
    test_dir_free(root);
}

/* ---- families ------------------------------------------------------------------------------ */

/* A number in place of what a member has in a text. */
static void put_number(struct buf *out, const char *text, const char *member, int n)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "\"%s\": ", member);
    const char *at = strstr(text, key);
    buf_clear(out);
    if (!at) {
        buf_str(out, text);
        return;
    }
    at += strlen(key);
    buf_add(out, text, (size_t)(at - text));
    buf_printf(out, "%d%s", n, at + strcspn(at, ",\n"));
}

/* A model of random numbers with a golden's config, of widths that are whole groups. */
static void put_family(const char *name, const char *to)
{
    static const struct {
        const char *member;
        int n;
    } change[] = {{"hidden_size", 64}, {"intermediate_size", 96}, {"head_dim", 16}};
    char golden[NAME_BYTES], shape[NAME_BYTES + 8];
    struct err e = ERR_INIT;
    struct buf text, other;
    buf_init(&text, 1 << 20);
    buf_init(&other, 1 << 20);
    snprintf(golden, sizeof golden, "tests/golden/models/%s/config.json", name);
    snprintf(shape, sizeof shape, "%s.shape", to);
    assert_good(fs_read(golden, &text, &e), &e);
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        put_number(&other, text.data, change[i].member, change[i].n);
        buf_clear(&text);
        buf_str(&text, other.data);
    }
    assert_good(fs_mkdirs(shape, &e), &e);
    test_put(test_path(shape, "config.json"), text.data, text.len);
    assert_good(model_first_write(shape, K_BF16, 5, to, &e), &e);
    buf_release(&text);
    buf_release(&other);
}

static void check_family(const char *root, const char *name, const char *packed)
{
    char from[NAME_BYTES], to[NAME_BYTES];
    struct plant p, q;
    struct err e = ERR_INIT;
    struct quant_compared c;
    snprintf(from, sizeof from, "%s/%s", root, name);
    snprintf(to, sizeof to, "%s/%s.int4", root, name);
    put_family(name, from);
    plant_init(&p, from, 2);
    assert_good(write_to(&p, "int4", to, true, 0, &e), &e);
    plant_init(&q, to, 2);
    const struct weight *w = weights_get(q.dir.weights, packed);
    assert_true(w && w->packed && w->packed->coded == K_INT4);
    assert_good(quant_compare(p.model, q.model, &p.texts, p.stream, &c, &e), &e);
    assert_true(c.kl > 0 && c.kl < 0.1);
    plant_release(&q);
    plant_release(&p);
}

/* Experts, of which nothing is seen; matrices that are joined; norms behind each half. */
static void families_go_through(void **state)
{
    char *root = test_dir_new();
    (void)state;
    check_family(root, "mixtral", "model.layers.1.block_sparse_moe.experts.3.w2.weight");
    check_family(root, "phi3", "model.layers.2.mlp.gate_up_proj.weight");
    check_family(root, "gemma2", "model.layers.0.self_attn.o_proj.weight");
    test_dir_free(root);
}

/* ---- shards -------------------------------------------------------------------------------- */

static const char *const shard_name[] = {"model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors"};

static void put_shard(const struct weights *w, const char *dir, int shard, bool is_bad,
                      struct buf *index)
{
    struct err e = ERR_INIT;
    struct st_writer *out = st_writer_new();
    const struct st_tensor *t;
    for (size_t i = (size_t)shard; i < weights_count(w); i += 2) {
        t = weights_at(w, i)->t;
        assert_good(st_writer_add(out, t->name, t->dtype, t->rank, t->dim, &e), &e);
        buf_printf(index, "%s\"%s\":\"%s\"", i > 1 || shard ? "," : "", t->name, shard_name[shard]);
    }
    assert_good(st_writer_open(out, test_path(dir, shard_name[shard]), &e), &e);
    while ((t = st_writer_next(out))) {
        float *x = read_f32(weights_get(w, t->name));
        if (is_bad && strstr(t->name, "layers.1.mlp"))
            x[70] = INFINITY;
        assert_good(st_writer_write(out, x, t->end - t->begin, &e), &e);
        mem_free(x);
    }
    assert_good(st_writer_commit(out, &e), &e);
    st_writer_free(out);
}

static void put_sharded(const struct model_dir *from, const char *dir, bool is_bad)
{
    struct err e = ERR_INIT;
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_good(fs_mkdirs(dir, &e), &e);
    assert_good(fs_read(test_path(from->path, "config.json"), &text, &e), &e);
    test_put(test_path(dir, "config.json"), text.data, text.len);
    buf_clear(&text);
    buf_str(&text, "{\"metadata\":{},\"weight_map\":{");
    for (int shard = 0; shard < 2; shard++)
        put_shard(from->weights, dir, shard, is_bad, &text);
    buf_str(&text, "}}");
    test_put(test_path(dir, "model.safetensors.index.json"), text.data, text.len);
    buf_release(&text);
}

static void shards_stay(void **state)
{
    char *root = test_dir_new(), from[NAME_BYTES], to[NAME_BYTES];
    struct plant p, q;
    struct err e = ERR_INIT;
    (void)state;
    snprintf(from, sizeof from, "%s/from", root);
    snprintf(to, sizeof to, "%s/to", root);
    plant_init(&p, CODED, 2);
    put_sharded(&p.dir, from, false);
    plant_init(&q, from, 2);
    assert_good(write_to(&q, "int4", to, false, 0, &e), &e);
    check_dir(&p.dir, to, 4);
    assert_int_equal(access(test_path(to, shard_name[1]), F_OK), 0);
    plant_release(&q);
    plant_release(&p);
    test_dir_free(root);
}

static void a_fault_leaves_nothing(void **state)
{
    char *root = test_dir_new(), from[NAME_BYTES], out[NAME_BYTES];
    struct plant p, q;
    struct err e = ERR_INIT;
    (void)state;
    snprintf(from, sizeof from, "%s/from", root);
    snprintf(out, sizeof out, "%s/out", root);
    plant_init(&p, CODED, 2);
    put_sharded(&p.dir, from, true);
    plant_init(&q, from, 2);
    assert_good(fs_mkdirs(out, &e), &e);
    assert_err(write_to(&q, "int4", test_path(out, "to"), false, 0, &e), &e, ERR_BAD_INPUT,
               "not finite");
    assert_int_equal(rmdir(out), 0); /* it is empty */
    plant_release(&q);
    plant_release(&p);
    test_dir_free(root);
}

static void refused(const char *path, const char *words)
{
    struct err e = ERR_INIT;
    struct model_dir d;
    struct quant_plan plan;
    assert_good(model_dir_init(&d, path, &e), &e);
    assert_err(quant_plan_init(&plan, &d, quant_target_find("int4"), 128, &e), &e, ERR_UNSUPPORTED,
               words);
    quant_plan_release(&plan);
    model_dir_release(&d);
}

static void what_cannot_be_is_named(void **state)
{
    char *root = test_dir_new();
    struct plant p;
    struct err e = ERR_INIT;
    (void)state;
    plant_init(&p, CODED, 1);
    assert_good(write_to(&p, "int4", test_path(root, "four"), false, 0, &e), &e);
    refused(test_path(root, "four"), "quantised already");
    refused("tests/golden/gguf/coded.gguf", "quantised already");
    refused("tests/golden/models/gpt2", "by inputs");
    refused("tests/golden/models/bert_cls", "an encoder");
    refused(CODED, "whole groups of 128");
    plant_release(&p);
    test_dir_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_become_codes),
        cmocka_unit_test(calibration_gains_and_has_its_bits),
        cmocka_unit_test(groups_may_be_long),
        cmocka_unit_test(fp8_has_a_scale_a_row),
        cmocka_unit_test(a_comparison_with_itself_finds_nothing),
        cmocka_unit_test(families_go_through),
        cmocka_unit_test(shards_stay),
        cmocka_unit_test(a_fault_leaves_nothing),
        cmocka_unit_test(what_cannot_be_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
