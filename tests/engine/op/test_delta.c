/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule beside that of transformers (tests/golden/make_delta.py), and states between
 * steps. Faults: a term of the rule or of a gradient that differs from the published one; steps
 * that don't go on from where the one before ended.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/op/ops.h"
#include "engine/run/inputs.h"
#include "tests/lib/golden.h"

enum { T = 70, FIRST = 67, N_K = 2, N_V = 4, D_K = 16, D_V = 20, KEYS = N_K * D_K };
enum { VALUES = N_V * D_V, COLS = 2 * KEYS + VALUES + 2 * N_V, STATE = N_V * D_K * D_V };

struct rig {
    struct golden g; /* the device and the tensors */
    struct eager *eager;
    struct inputs in;
    struct param x, a_log, dt_bias;
    float *memory, *grad; /* owned: x packed, its gradient */
    float *state;         /* owned: two slots */
    int32_t from[2], to[2], kept[2], kept_len[2];
};

static float *tensor(const struct rig *r, const char *name)
{
    int64_t n;
    float *x = golden_tensor(&r->g, name, &n);
    assert_non_null(x);
    return x;
}

static struct param vector(const struct rig *r, const char *name)
{
    return (struct param){.name = name,
                          .lora = -1,
                          .is_vector = true,
                          .n = N_V,
                          .k = 1,
                          .vec = tensor(r, name),
                          .grad = xcalloc(N_V, sizeof(float))};
}

/* The rows are those of a table, so that their gradient can be read. */
static void table_init(struct rig *r)
{
    struct err e = ERR_INIT;
    float *x = tensor(r, "x");
    r->grad = xcalloc((size_t)T * COLS, sizeof *r->grad);
    r->memory = try_alloc(k_weight_bytes(K_F32, T, COLS), 1, "x", &e);
    r->x = (struct param){.name = "x", .lora = -1, .n = T, .k = COLS, .grad = r->grad};
    k_weight_bind(&r->x.w, K_F32, T, COLS, r->memory);
    struct k_weight_pack a = {.src = x, .src_type = K_F32, .ld_src = COLS, .w = r->x.w, .n_src = T};
    kernel_run(device_kernels(r->g.device), K_weight_pack, &a, NULL);
    mem_free(x);
}

static void rig_init(struct rig *r)
{
    struct err e = ERR_INIT;
    struct inputs_caps caps = {.n = {[DIM_TOK] = T, [DIM_OUT] = 1, [DIM_SEQ] = 2, [DIM_GROUP] = 1},
                               .cell_stride = 1,
                               .n_lora = 1,
                               .trains = true};
    memset(r, 0, sizeof *r);
    r->g.pool = pool_new(2, false, &e);
    r->g.device = device_cpu_new(r->g.pool, getenv("TEST_KERNELS"), &e);
    r->g.stream = stream_new(r->g.device, &e);
    r->g.tensors = weights_open_file("tests/golden/delta/delta.safetensors", &e);
    assert_good(r->g.tensors ? 0 : -1, &e);
    r->eager = eager_new(r->g.stream, &e);
    assert_good(inputs_init(&r->in, &caps, r->g.device, &e), &e);
    table_init(r);
    r->a_log = vector(r, "a_log");
    r->dt_bias = vector(r, "dt_bias");
    r->state = xcalloc(2 * STATE, sizeof *r->state);
}

static void rig_release(struct rig *r)
{
    mem_free(r->a_log.vec);
    mem_free(r->dt_bias.vec);
    free(r->a_log.grad);
    free(r->dt_bias.grad);
    free(r->grad);
    mem_free(r->memory);
    free(r->state);
    eager_free(r->eager);
    inputs_release(&r->in);
    weights_close(r->g.tensors);
    stream_free(r->g.stream);
    device_free(r->g.device);
    pool_free(r->g.pool);
}

/* Rows [lo, hi) of the golden's: of the first sequence, of the second, or of both. */
static void fill(struct rig *r, int32_t lo, int32_t hi)
{
    struct batch *b = &r->in.host;
    int32_t n_seq = 0;
    for (int32_t t = lo; t < hi; t++) {
        int32_t i = t - lo, begin = t < FIRST ? 0 : FIRST;
        if (t == lo || t == FIRST)
            b->q_start[n_seq++] = i;
        b->token[i] = t;
        b->pos[i] = t - begin;
        b->seq_of[i] = n_seq - 1;
        b->kv_len[n_seq - 1] = t - begin + 1;
    }
    b->q_start[n_seq] = hi - lo;
    b->n[DIM_TOK] = hi - lo;
    b->n[DIM_SEQ] = n_seq;
}

static struct val build(struct rig *r, struct builder *b)
{
    struct op_delta_attr a = {.a_log = &r->a_log,
                              .dt_bias = &r->dt_bias,
                              .heads = {.n_k = N_K, .n_v = N_V, .d_k = D_K, .d_v = D_V}};
    struct val x = op_embed(b, OP_IDS_TOKEN, &r->x);
    struct op_delta_in in = {.q = op_slice(b, x, 0, KEYS),
                             .k = op_slice(b, x, KEYS, KEYS),
                             .v = op_slice(b, x, 2 * KEYS, VALUES),
                             .a = op_slice(b, x, 2 * KEYS + VALUES, N_V),
                             .b = op_slice(b, x, 2 * KEYS + VALUES + N_V, N_V)};
    return op_delta(b, &in, &a);
}

/* Rows [lo, hi) forward, and back where there is a gradient. */
static void run(struct rig *r, int32_t lo, int32_t hi, float *y, const float *dy)
{
    struct err e = ERR_INIT;
    fill(r, lo, hi);
    eager_begin(r->eager, inputs_send(&r->in, r->g.stream),
                &(struct eager_options){.wants_grad = dy != NULL});
    struct val v = build(r, eager_builder(r->eager));
    assert_good(eager_builder(r->eager)->failed ? -1 : 0, &eager_builder(r->eager)->err);
    struct op_view out = eager_view(r->eager, v);
    for (int32_t i = 0; i < hi - lo; i++)
        memcpy(y + i * VALUES, out.p + i * out.ld, VALUES * sizeof *y);
    if (dy) {
        assert_good(eager_seed(r->eager, v, dy, &e), &e);
        assert_good(eager_backward(r->eager, &e), &e);
    }
    eager_end(r->eager);
}

static void is_the_rule_of_transformers(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r);
    float *y = xcalloc((size_t)T * VALUES, sizeof *y), *dy = tensor(&r, "dy"), *want[4];
    static const char *const names[] = {"y", "dx", "da_log", "ddt_bias"};
    for (int i = 0; i < 4; i++)
        want[i] = tensor(&r, names[i]);
    run(&r, 0, T, y, dy);
    golden_near("y", y, want[0], (int64_t)T * VALUES, 1e-5);
    golden_near("dx", r.grad, want[1], (int64_t)T * COLS, 1e-5);
    golden_near("da_log", r.a_log.grad, want[2], N_V, 1e-5);
    golden_near("ddt_bias", r.dt_bias.grad, want[3], N_V, 1e-5);
    for (int i = 0; i < 4; i++)
        mem_free(want[i]);
    mem_free(dy);
    free(y);
    rig_release(&r);
}

/* A sequence in steps whose states go from slot to slot, then its end again from what was kept. */
static void steps_go_on_from_slots(void **state)
{
    struct rig r;
    float *layer, *whole, *y;
    (void)state;
    rig_init(&r);
    layer = r.state;
    whole = xcalloc((size_t)FIRST * VALUES, sizeof *whole);
    y = xcalloc((size_t)FIRST * VALUES, sizeof *y);
    run(&r, 0, FIRST, whole, NULL);
    r.in.dev.state = r.in.host.state = &layer;
    r.in.dev.state_from = r.in.host.state_from = r.from;
    r.in.dev.state_to = r.in.host.state_to = r.to;
    r.in.dev.state_kept = r.in.host.state_kept = r.kept;
    r.in.dev.state_kept_len = r.in.host.state_kept_len = r.kept_len;
    r.kept_len[0] = 32;
    for (int32_t lo = 0; lo < FIRST; lo += 20) {
        r.from[0] = lo ? 0 : -1;
        r.kept[0] = lo == 20 ? 1 : -1;
        run(&r, lo, lo + 20 < FIRST ? lo + 20 : FIRST, y + lo * VALUES, NULL);
    }
    assert_memory_equal(y, whole, (size_t)FIRST * VALUES * sizeof *y);
    memset(y, 0, (size_t)FIRST * VALUES * sizeof *y);
    r.from[0] = 1;
    r.kept[0] = -1;
    run(&r, 32, FIRST, y, NULL);
    assert_memory_equal(y, whole + 32 * VALUES, (size_t)(FIRST - 32) * VALUES * sizeof *y);
    free(whole);
    free(y);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_rule_of_transformers),
        cmocka_unit_test(steps_go_on_from_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
