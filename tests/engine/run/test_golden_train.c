/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's autograd and AdamW compute with a tiny model of every family, the tape computes:
 * the loss, the gradient of every tensor, the losses and gradient norms of ten steps, the weights
 * after them. f32, within 1e-4 relative.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/train/balance.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = 256, ROW_MAX = 8, SAMPLE_MAX = 64, NAME_MAX_BYTES = 256, LONG_CTX = 96 };

/* Every parameter with its gradient, its f32 original and its moments, row-major. */
struct full {
    struct golden g;
    struct eager *eager;
    struct packed *packed;
    struct balance balance;
    float **grad, **p, **m, **v; /* [n_param] */
};

static int64_t size_of(const struct param *p)
{
    return p->n * p->k;
}

static void full_init(struct full *f, const char *name)
{
    struct err e = ERR_INIT;
    golden_init(&f->g, name, K_F32, strcmp(name, "llama_rope_dynamic") ? 0 : LONG_CTX);
    struct model *m = f->g.model;
    size_t n = (size_t)m->n_param;
    f->eager = eager_new(f->g.stream, &e);
    struct packed_options o = {.cap_tok = TOK_MAX, .cap_row = ROW_MAX};
    f->packed = packed_new(m, &o, f->g.stream, &e);
    assert_non_null(f->packed);
    assert_good(balance_init(&f->balance, m, f->g.stream, &e), &e);
    f->grad = xcalloc(n, sizeof(float *));
    f->p = xcalloc(n, sizeof(float *));
    f->m = xcalloc(n, sizeof(float *));
    f->v = xcalloc(n, sizeof(float *));
    for (size_t i = 0; i < n; i++) {
        struct param *p = &m->param[i];
        size_t count = (size_t)size_of(p);
        f->grad[i] = try_alloc(count, sizeof(float), "gradient", &e);
        f->p[i] = try_alloc(count, sizeof(float), "parameter", &e);
        f->m[i] = try_alloc(count, sizeof(float), "moment", &e);
        f->v[i] = try_alloc(count, sizeof(float), "moment", &e);
        p->grad = f->grad[i];
        if (p->is_vector) {
            memcpy(f->p[i], p->vec, count * sizeof(float));
        } else {
            struct k_weight_unpack a = {.w = p->w, .dst = f->p[i], .ld_dst = p->k};
            kernel_run(device_kernels(f->g.device), K_weight_unpack, &a, NULL);
        }
    }
}

static void full_release(struct full *f)
{
    for (int32_t i = 0; i < f->g.model->n_param; i++) {
        mem_free(f->grad[i]);
        mem_free(f->p[i]);
        mem_free(f->m[i]);
        mem_free(f->v[i]);
    }
    free(f->grad);
    free(f->p);
    free(f->m);
    free(f->v);
    packed_free(f->packed);
    balance_release(&f->balance);
    eager_free(f->eager);
    golden_release(&f->g);
}

/* Forward and backward over two rows; gradients are added to. The mean loss. */
static double step(struct full *f, int64_t row0, int64_t row1, bool checkpoint)
{
    struct err e = ERR_INIT;
    struct eager_options o = {.wants_grad = true, .checkpoint = checkpoint};
    double loss = 0;
    packed_clear(f->packed);
    golden_add_row(&f->g, f->packed, row0);
    golden_add_row(&f->g, f->packed, row1);
    int64_t n_tok = packed_n_tok(f->packed);
    packed_ask_load(f->packed, balance_begin(&f->balance, n_tok, n_tok));
    const struct batch *b = packed_batch(f->packed, packed_weight(f->packed), 0);
    eager_begin(f->eager, b, &o);
    struct val v = model_build(f->g.model, eager_builder(f->eager), MODEL_LOSS);
    assert_good(eager_builder(f->eager)->failed ? -1 : 0, &eager_builder(f->eager)->err);
    const struct k_ce_state *s = (const struct k_ce_state *)(const void *)eager_view(f->eager, v).p;
    for (int64_t i = 0; i < b->n[DIM_OUT]; i++)
        loss -= (double)b->dloss[i] * ((double)s[i].target_logit - (double)k_ce_lse(&s[i]));
    assert_good(eager_backward(f->eager, &e), &e);
    eager_end(f->eager);
    balance_fetch(&f->balance, f->g.stream);
    assert_good(stream_sync(f->g.stream, &e), &e);
    return loss + balance_loss(&f->balance);
}

static void zero_grads(struct full *f)
{
    for (int32_t i = 0; i < f->g.model->n_param; i++)
        memset(f->grad[i], 0, (size_t)size_of(&f->g.model->param[i]) * sizeof(float));
}

static bool is_transposed(const struct model *m, const struct param *p)
{
    return m->cfg.family == FAMILY_GPT2 && !p->is_vector && strstr(p->name, "h.") == p->name;
}

/* Element i of the parameter as the file has it. */
static float at(const struct model *m, const struct param *p, const float *x, int64_t i)
{
    return is_transposed(m, p) ? x[i % p->n * p->k + i / p->n] : x[i];
}

static void check_grads(struct full *f, const char *name)
{
    const struct model *m = f->g.model;
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        char what[NAME_MAX_BYTES];
        struct err e = ERR_INIT;
        int64_t n;
        if (p->is_fixed)
            continue;
        float *want = golden_of_param(&f->g, "grad", p, &n);
        float *got = try_alloc((size_t)n, sizeof *got, "gradient", &e);
        assert_int_equal(n, size_of(p));
        for (int64_t k = 0; k < n; k++)
            got[k] = at(m, p, f->grad[i], k);
        snprintf(what, sizeof what, "%s: gradient of %s", name, p->name);
        golden_near(what, got, want, n, 1e-4);
        mem_free(want);
        mem_free(got);
    }
}

/* Faults: any op's backward, a gradient summed twice or lost where two meet, a tied head. */
static void loss_and_gradients(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct full f;
        if (golden_is_encoder(*name))
            continue;
        full_init(&f, *name);
        double loss = step(&f, 0, 1, false), want = golden_num(&f.g.root, "loss");
        if (fabs(loss - want) > 1e-4 * fabs(want))
            fail_msg("%s: loss %.9g, the golden has %.9g", *name, loss, want);
        check_grads(&f, *name);
        full_release(&f);
    }
}

/* Fault: a trained row that is longer than the first training's context has the short form of its
 * positions, which a request of its length would not have. */
static void long_rows_have_the_long_form(void **state)
{
    static const char *const names[] = {"llama_rope_dynamic", "llama_rope_longrope"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct full f;
        struct err e = ERR_INIT;
        int32_t id[LONG_CTX];
        int64_t n_want;
        full_init(&f, names[i]);
        struct json l = json_member(&f.g.root, "long");
        int64_t n = golden_ids(&l, "prompt", id, LONG_CTX), n_vocab = f.g.model->cfg.n_vocab;
        float *want = golden_tensor(&f.g, "long.logits", &n_want);
        assert_int_equal(n * n_vocab, n_want);
        assert_good(packed_add(f.packed, id, id, NULL, n, 0, &e), &e);
        eager_begin(f.eager, packed_batch(f.packed, 1, 0), &(struct eager_options){0});
        struct val v = model_build(f.g.model, eager_builder(f.eager), MODEL_LOGITS);
        golden_near(names[i], eager_view(f.eager, v).p, want, n_want, 1e-4);
        eager_end(f.eager);
        mem_free(want);
        full_release(&f);
    }
}

/* Faults: checkpointing that drops what it needs or computes again something else. */
static void checkpointing_changes_no_bit(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct full f;
        if (golden_is_encoder(*name))
            continue;
        full_init(&f, *name);
        double plain = step(&f, 0, 1, false);
        for (int32_t i = 0; i < f.g.model->n_param; i++)
            memcpy(f.m[i], f.grad[i], (size_t)size_of(&f.g.model->param[i]) * sizeof(float));
        zero_grads(&f);
        double again = step(&f, 0, 1, true);
        assert_memory_equal(&plain, &again, sizeof plain);
        for (int32_t i = 0; i < f.g.model->n_param; i++)
            if (memcmp(f.m[i], f.grad[i], (size_t)size_of(&f.g.model->param[i]) * sizeof(float)))
                fail_msg("%s: %s", *name, f.g.model->param[i].name);
        full_release(&f);
    }
}

/* Faults: frozen parameters that cost tape, or whose neighbours' gradients change. */
static void frozen_parameters_cost_nothing(void **state)
{
    struct full f;
    (void)state;
    full_init(&f, "llama_plain");
    struct model *m = f.g.model;
    struct err e = ERR_INIT;
    step(&f, 0, 1, false);
    int32_t last = model_layer(m, m->cfg.n_layer - 1, SLOT_DOWN)->index;
    memcpy(f.m[last], f.grad[last], (size_t)size_of(&m->param[last]) * sizeof(float));
    zero_grads(&f);
    for (int32_t i = 0; i < m->n_param; i++)
        m->param[i].grad = i == last ? f.grad[i] : NULL;
    step(&f, 0, 1, false);
    assert_memory_equal(f.m[last], f.grad[last], (size_t)size_of(&m->param[last]) * sizeof(float));
    const struct batch *b = packed_batch(f.packed, 1, 0);
    eager_begin(f.eager, b, &(struct eager_options){.wants_grad = true});
    model_build(m, eager_builder(f.eager), MODEL_LOSS);
    assert_true(eager_n_tape(f.eager) <= 7); /* down, sum, gather, norm, two roundings, loss */
    assert_good(eager_backward(f.eager, &e), &e);
    eager_end(f.eager);
    full_release(&f);
}

static double grad_norm(const struct full *f)
{
    double sum = 0;
    for (int32_t i = 0; i < f->g.model->n_param; i++)
        for (int64_t k = 0; k < size_of(&f->g.model->param[i]); k++)
            sum += (double)f->grad[i][k] * f->grad[i][k];
    return sqrt(sum);
}

static void update(struct full *f, int t, double norm)
{
    struct json o;
    struct err e = ERR_INIT;
    assert_good(json_get(&f->g.root, "adamw", JSON_OBJECT, &o, &e), &e);
    double most = golden_num(&o, "max_grad_norm");
    for (int32_t i = 0; i < f->g.model->n_param; i++) {
        struct param *p = &f->g.model->param[i];
        struct k_adamw a = {
            .p = f->p[i],
            .m = f->m[i],
            .v = f->v[i],
            .g = f->grad[i],
            .n = size_of(p),
            .lr = (float)golden_num(&o, "lr"),
            .beta1 = 0.9f,
            .beta2 = 0.999f,
            .eps = (float)golden_num(&o, "eps"),
            .decay = p->is_vector && !p->n_tap ? 0 : (float)golden_num(&o, "weight_decay"),
            .g_scale = norm > most ? (float)(most / (norm + 1e-6)) : 1,
            .corr1 = (float)(1 - pow(0.9, t)),
            .corr2 = (float)(1 - pow(0.999, t))};
        kernel_run(device_kernels(f->g.device), K_adamw, &a, NULL);
        if (p->is_vector) {
            memcpy(p->vec, f->p[i], (size_t)p->n * sizeof(float));
        } else {
            struct k_weight_pack w = {
                .src = f->p[i], .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
            kernel_run(device_kernels(f->g.device), K_weight_pack, &w, NULL);
        }
    }
    zero_grads(f);
}

/* The bias of keys without rotary positions adds the same to every score of a query: its gradient
 * is zero but for rounding, which AdamW scales up to steps of lr. Nothing can be compared there. */
static bool has_no_gradient(const struct model *m, const struct param *p, int64_t i)
{
    bool is_qkv = m->cfg.family == FAMILY_GPT2 && strstr(p->name, "c_attn.bias");
    return is_qkv && i >= p->n / 3 && i < p->n / 3 * 2;
}

static void check_final(struct full *f, const char *name)
{
    const struct model *m = f->g.model;
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        float got[SAMPLE_MAX];
        char what[NAME_MAX_BYTES];
        int64_t n;
        if (p->is_fixed)
            continue;
        float *want = golden_of_param(&f->g, "final", p, &n);
        assert_true(n <= SAMPLE_MAX);
        for (int64_t k = 0; k < n; k++) {
            int64_t from = k * size_of(p) / n;
            got[k] = has_no_gradient(m, p, from) ? want[k] : at(m, p, f->p[i], from);
        }
        snprintf(what, sizeof what, "%s: %s after training", name, p->name);
        golden_near(what, got, want, n, 1e-3);
        mem_free(want);
    }
}

/* Faults: the optimizer's order of operations, clipping, bias correction, weights that serve on as
 * they were before a step. */
static void ten_steps_of_adamw(void **state)
{
    (void)state;
    for (const char *const *name = golden_names; *name; name++) {
        struct full f;
        struct json o, steps, s;
        struct err e = ERR_INIT;
        int t = 0;
        if (golden_is_encoder(*name))
            continue;
        full_init(&f, *name);
        assert_good(json_get(&f.g.root, "adamw", JSON_OBJECT, &o, &e), &e);
        assert_good(json_get(&o, "steps", JSON_ARRAY, &steps, &e), &e);
        json_each(s, steps)
        {
            int32_t row[2];
            assert_int_equal(golden_ids(&s, "rows", row, 3), 2);
            double loss = step(&f, row[0], row[1], t % 2), want = golden_num(&s, "loss");
            double norm = grad_norm(&f), want_norm = golden_num(&s, "grad_norm");
            if (fabs(loss - want) > 1e-4 * want || fabs(norm - want_norm) > 1e-3 * want_norm)
                fail_msg("%s: step %d: loss %.9g and norm %.9g, the golden has %.9g and %.9g",
                         *name, t, loss, norm, want, want_norm);
            update(&f, ++t, norm);
        }
        assert_int_equal(t, 10);
        check_final(&f, *name);
        full_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients),
        cmocka_unit_test(long_rows_have_the_long_form),
        cmocka_unit_test(checkpointing_changes_no_bit),
        cmocka_unit_test(frozen_parameters_cost_nothing),
        cmocka_unit_test(ten_steps_of_adamw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
