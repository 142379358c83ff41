/* SPDX-License-Identifier: Apache-2.0
 *
 * Operator cases of the ONNX suite as an oracle from outside: norms, activations, softmax and
 * cross-entropy with the inputs and outputs that others published. They are data, found through
 * TANDEM_TEST_DATA and no part of the project; without them this group says so and is skipped.
 *
 * A case becomes rows: what an operator does along an axis, our kernels do along rows, so a tensor
 * is taken apart as [outer, along, inner] and its vectors along the axis are laid side by side.
 */
#include "tests/kernels/onnx.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onnx_tensor {
    int64_t shape[8], n;
    int rank;
    bool is_half; /* was f16: its outputs have that many digits */
    float *v;     /* owned by the case's buffers */
};

/* ---- reading ---- */

static cJSON *file_parse(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t cap = 1 << 22, n;
    char *text = malloc(cap);
    n = text ? fread(text, 1, cap - 1, f) : 0;
    fclose(f);
    cJSON *json = n > 0 ? cJSON_ParseWithLength(text, n) : NULL;
    free(text);
    return json;
}

static const cJSON *child(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const char *text_of(const cJSON *o, const char *name)
{
    const char *s = cJSON_GetStringValue(child(o, name));
    return s ? s : "";
}

static double number_of(const cJSON *node, const char *attr, double otherwise)
{
    const cJSON *v = child(child(node, "attrs"), attr);
    return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

/* Number i of "inputs" or "outputs"; n = -1 when there is none. */
static struct onnx_tensor tensor_get(struct check *c, const cJSON *json, const char *list, int i)
{
    struct onnx_tensor t = {.n = 1};
    const cJSON *o = cJSON_GetArrayItem(child(json, list), i), *at;
    if (!o)
        return (struct onnx_tensor){.n = -1};
    cJSON_ArrayForEach(at, child(o, "shape"))
    {
        t.shape[t.rank++] = (int64_t)at->valuedouble;
        t.n *= (int64_t)at->valuedouble;
    }
    t.is_half = strcmp(text_of(o, "dtype"), "float16") == 0;
    t.v = check_floats(c, t.n, CHECK_NAN);
    int64_t k = 0;
    cJSON_ArrayForEach(at, child(o, "data"))
    {
        if (k < t.n)
            t.v[k++] = (float)at->valuedouble;
    }
    return t;
}

/* ---- a tensor as rows ---- */

struct split {
    int64_t outer, along, inner;
};

static struct split split_at(const struct onnx_tensor *t, int axis)
{
    struct split s = {1, 1, 1};
    for (int i = 0; i < t->rank; i++)
        *(i < axis ? &s.outer : i == axis ? &s.along : &s.inner) *= t->shape[i];
    return s;
}

/* [outer, along, inner] to [outer, inner, along], or back. */
static float *turn(struct check *c, const float *x, const struct split *s, bool back)
{
    float *y = check_floats(c, s->outer * s->along * s->inner, CHECK_NAN);
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t a = 0; a < s->along; a++) {
            for (int64_t i = 0; i < s->inner; i++) {
                int64_t whole = (o * s->along + a) * s->inner + i;
                int64_t row = (o * s->inner + i) * s->along + a;
                y[back ? whole : row] = x[back ? row : whole];
            }
        }
    }
    return y;
}

static int axis_of(const cJSON *node, const struct onnx_tensor *t, int otherwise)
{
    int axis = (int)number_of(node, "axis", otherwise);
    return axis < 0 ? axis + t->rank : axis;
}

/* ---- operators ---- */

static void norm_case(struct check *c, const cJSON *json, const cJSON *node, bool is_rms)
{
    struct onnx_tensor x = tensor_get(c, json, "inputs", 0), w = tensor_get(c, json, "inputs", 1);
    struct onnx_tensor b = tensor_get(c, json, "inputs", 2), y = tensor_get(c, json, "outputs", 0);
    struct split s = split_at(&x, axis_of(node, &x, -1));
    int64_t d = s.along * s.inner;
    struct k_norm a = {.x = x.v,
                       .weight = w.v,
                       .bias = b.n > 0 ? b.v : NULL,
                       .y = check_floats(c, x.n, CHECK_NAN),
                       .ld_x = d,
                       .ld_y = d,
                       .m = s.outer,
                       .d = d,
                       .eps = (float)number_of(node, "epsilon", 1e-5)};
    check_run_row(c, is_rms ? K_rmsnorm : K_layernorm, &a);
    check_near(c, "y", a.y, y.v, y.n, 1e-5, 1e-5);
}

static void gelu_case(struct check *c, const cJSON *json, const cJSON *node)
{
    struct onnx_tensor x = tensor_get(c, json, "inputs", 0), y = tensor_get(c, json, "outputs", 0);
    struct k_gelu a = {
        .x = x.v, .y = check_floats(c, x.n, CHECK_NAN), .ld_x = x.n, .ld_y = x.n, .m = 1, .d = x.n};
    a.tanh = strcmp(text_of(child(node, "attrs"), "approximate"), "tanh") == 0;
    check_run_row(c, K_gelu, &a);
    check_near(c, "y", a.y, y.v, y.n, 1e-6, 1e-6);
}

static void swiglu_case(struct check *c, const cJSON *json)
{
    struct onnx_tensor g = tensor_get(c, json, "inputs", 0), u = tensor_get(c, json, "inputs", 1);
    struct onnx_tensor y = tensor_get(c, json, "outputs", 0);
    float *got = check_floats(c, g.n, CHECK_NAN);
    struct k_swiglu a = {g.v, u.v, got, g.n, g.n, g.n, 1, g.n};
    check_run_row(c, K_swiglu, &a);
    check_near(c, "y", got, y.v, y.n, y.is_half ? 2e-3 : 1e-6, y.is_half ? 1e-3 : 1e-6);
}

static void softmax_case(struct check *c, const cJSON *json, const cJSON *node, bool is_log)
{
    struct onnx_tensor x = tensor_get(c, json, "inputs", 0), y = tensor_get(c, json, "outputs", 0);
    struct split s = split_at(&x, axis_of(node, &x, -1));
    float *rows = turn(c, x.v, &s, false);
    struct k_softmax a = {rows, rows, s.along, s.along, s.outer * s.inner, s.along};
    check_run_row(c, is_log ? K_log_softmax : K_softmax, &a);
    check_near(c, "y", turn(c, rows, &s, true), y.v, y.n, 1e-6, 1e-6);
}

/* -log p of the target of each row, folded in chunks of two entries of the vocabulary; of a GPU,
 * which takes a block for each row of each, of four. */
static float *losses(struct check *c, float *rows, const int32_t *target, int64_t m, int64_t n)
{
    const int64_t chunk = c->is_gpu ? 4 : 2;
    struct k_ce_state *st = check_buf(c, (size_t)m * sizeof *st, 4);
    float *loss = check_floats(c, m, CHECK_NAN);
    for (int64_t i = 0; i < m; i++)
        st[i] = (struct k_ce_state){-INFINITY, 0, 0, -INFINITY, -1};
    for (int64_t lo = 0; lo < n; lo += chunk) {
        struct k_ce a = {.logits = rows + lo,
                         .ld = n,
                         .m = m,
                         .lo = lo,
                         .n = n - lo < chunk ? n - lo : chunk,
                         .target = target,
                         .state = st};
        check_run_row(c, K_ce_fwd, &a);
    }
    for (int64_t i = 0; i < m; i++)
        loss[i] = target[i] < 0 ? 0 : k_ce_lse(&st[i]) - st[i].target_logit;
    return loss;
}

static void loss_judge(struct check *c, const cJSON *json, const cJSON *node, const float *loss,
                       const int32_t *target, int64_t m)
{
    struct onnx_tensor w = tensor_get(c, json, "inputs", 2), z = tensor_get(c, json, "outputs", 0);
    const char *reduction = text_of(child(node, "attrs"), "reduction");
    double sum = 0, weights = 0;
    float *each = check_floats(c, m, CHECK_NAN);
    for (int64_t i = 0; i < m; i++) {
        double weight = target[i] < 0 ? 0 : w.n > 0 ? w.v[target[i]] : 1;
        each[i] = (float)(loss[i] * weight);
        sum += loss[i] * weight;
        weights += weight;
    }
    float one = (float)(strcmp(reduction, "sum") == 0 ? sum : sum / weights);
    bool is_each = strcmp(reduction, "none") == 0;
    check_near(c, "loss", is_each ? each : &one, z.v, z.n, 1e-5, 1e-6);
}

static void loss_case(struct check *c, const cJSON *json, const cJSON *node)
{
    struct onnx_tensor x = tensor_get(c, json, "inputs", 0), y = tensor_get(c, json, "inputs", 1);
    struct onnx_tensor log_prob = tensor_get(c, json, "outputs", 1);
    struct split s = split_at(&x, 1);
    int64_t m = s.outer * s.inner;
    double ignored = number_of(node, "ignore_index", NAN);
    int32_t *target = check_buf(c, (size_t)m * sizeof *target, 4);
    for (int64_t i = 0; i < m; i++)
        target[i] = y.v[i] == ignored ? -1 : (int32_t)y.v[i];
    float *rows = turn(c, x.v, &s, false);
    loss_judge(c, json, node, losses(c, rows, target, m, s.along), target, m);
    if (log_prob.n > 0) {
        struct k_softmax a = {rows, rows, s.along, s.along, m, s.along};
        check_run_row(c, K_log_softmax, &a);
        check_near(c, "log_prob", turn(c, rows, &s, true), log_prob.v, log_prob.n, 1e-6, 1e-6);
    }
}

/* False: an operator that is none of ours. */
static bool case_run(struct check *c, const cJSON *json)
{
    const cJSON *node = cJSON_GetArrayItem(child(json, "nodes"), 0);
    const char *op = text_of(node, "op");
    if (strcmp(op, "LayerNormalization") == 0 || strcmp(op, "RMSNormalization") == 0)
        norm_case(c, json, node, *op == 'R');
    else if (strcmp(op, "Gelu") == 0)
        gelu_case(c, json, node);
    else if (strcmp(op, "SwiGLU") == 0)
        swiglu_case(c, json);
    else if (strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0)
        softmax_case(c, json, node, *op == 'L');
    else if (strcmp(op, "SoftmaxCrossEntropyLoss") == 0)
        loss_case(c, json, node);
    else
        return false;
    return true;
}

int onnx_check(struct check *c)
{
    const char *data = getenv("TANDEM_TEST_DATA");
    char dir[1024], path[2048];
    snprintf(dir, sizeof dir, "%s/onnx", data ? data : "../shared/data");
    DIR *d = opendir(dir);
    int n_case = 0;
    if (!d)
        return -1;
    for (const struct dirent *entry; (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (!strstr(entry->d_name, ".json"))
            continue;
        check_begin(c);
        check_case(c, "%s", entry->d_name);
        cJSON *json = file_parse(path);
        check_true(c, json != NULL, "not readable as JSON");
        n_case += json && case_run(c, json);
        cJSON_Delete(json);
    }
    closedir(d);
    check_begin(c);
    return n_case;
}
