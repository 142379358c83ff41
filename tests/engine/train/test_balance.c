/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/train/balance; the loss and its gradients beside those of transformers are in
 * test_golden_train and test_trainer (qwen2_moe_balanced). Faults they can catch: a loss that
 * depends on how many layers or rows there are, a micro-batch that counts as a step, a model that
 * is balanced and did not ask for it, or asks for it where it is not computed.
 */
#include "engine/train/balance.h"

#include <math.h>

#include "engine/engine.h"
#include "engine/train/loop.h"
#include "engine/train/plan.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

enum { N_LAYER = 3, N_EXPERT = 4, N_TOK = 8, TOP = 2 };

static double loss_of(const int32_t *start, const float *sum, int64_t n_all)
{
    int32_t all_start[N_LAYER * (N_EXPERT + 1)];
    float all_sum[N_LAYER * N_EXPERT];
    struct balance b = {.asked = {.n_layer = N_LAYER},
                        .start = all_start,
                        .sum = all_sum,
                        .n_expert = N_EXPERT,
                        .coef = 0.5};
    for (int i = 0; i < N_LAYER * (N_EXPERT + 1); i++)
        all_start[i] = start[i % (N_EXPERT + 1)];
    for (int i = 0; i < N_LAYER * N_EXPERT; i++)
        all_sum[i] = sum[i % N_EXPERT];
    balance_begin(&b, N_TOK, n_all);
    return balance_loss(&b);
}

static void even_is_least(void **state)
{
    static const int32_t even[] = {0, 4, 8, 12, 16}, odd[] = {0, 8, 16, 16, 16};
    static const float flat[] = {2, 2, 2, 2}, steep[] = {4, 4, 0, 0};
    (void)state;
    assert_true(fabs(loss_of(even, flat, N_TOK) - 0.5 * TOP) < 1e-12);
    assert_true(fabs(loss_of(odd, steep, N_TOK) - 0.5 * TOP * 2) < 1e-12);
    assert_true(fabs(loss_of(odd, steep, 4 * N_TOK) - 0.5 * TOP * 2 / 4) < 1e-12);
}

static void who_asks_is_asked(void **state)
{
    static const char *const name[] = {"qwen3_moe", "qwen2_moe_balanced"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct golden g;
        struct balance b;
        struct err e = ERR_INIT;
        golden_init(&g, name[i], K_F32, 0);
        assert_good(balance_init(&b, g.model, g.stream, &e), &e);
        assert_int_equal(b.asked.n_layer, i ? g.model->cfg.n_layer : 0);
        assert_true((balance_begin(&b, 1, 2)->by > 0) == (i == 1));
        assert_true(i == 1 || balance_loss(&b) == 0);
        balance_release(&b);
        golden_release(&g);
    }
}

static void rewards_have_no_such_loss(void **state)
{
    struct golden g;
    struct train_plan plan;
    struct err e = ERR_INIT;
    struct tuning_options o = {.train = {.policy.is_on = true, .lora.rank = 4}};
    (void)state;
    golden_init(&g, "qwen2_moe_balanced", K_F32, 0);
    assert_err(train_plan(g.model, g.device, &o, RECOMPUTE_AUTO, false, 0, &plan, &e), &e,
               ERR_UNSUPPORTED, "output_router_logits");
    golden_release(&g);
}

static void losses_of_a_caller_come_without(void **state)
{
    struct err e = ERR_INIT;
    struct engine_options o = {.model = "tests/golden/models/qwen2_moe_balanced",
                               .load.threads = 1,
                               .load.quantize = "f32"};
    (void)state;
    struct engine *g = engine_new(&o, &e);
    assert_good(g ? 0 : -1, &e);
    assert_err(tune_loop_check(g, &e), &e, ERR_UNSUPPORTED, "output_router_logits");
    engine_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_is_least),
        cmocka_unit_test(who_asks_is_asked),
        cmocka_unit_test(rewards_have_no_such_loss),
        cmocka_unit_test(losses_of_a_caller_come_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
