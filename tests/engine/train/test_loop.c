/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/train/loop: which products a client's `train_attn` and `train_mlp` stand for. What a loop
 * computes is held by tests/server/test_tinker.py.
 *
 * Faults they can catch: a mixer that is called otherwise than attention is left out, or trained
 * with the feed-forward; a name that both halves of a layer have adapts the other half too; experts
 * that are trained with attention, or not at all.
 */
#include "engine/train/loop.h"

#include <stdio.h>

#include "engine/engine.h"
#include "tests/lib/test.h"

static void names_follow_the_layer(void **state)
{
    static const struct {
        const char *model, *mixer, *others, *both;
    } row[] = {
        {"llama_tied", "q_proj,k_proj,v_proj,o_proj", "gate_proj,up_proj,down_proj", ""},
        {"lfm2", "in_proj,out_proj,q_proj,k_proj,v_proj", "w1,w3,w2", ""},
        {"granite_hybrid_dense", "q_proj,k_proj,v_proj,o_proj,in_proj,out_proj",
         "input_linear,output_linear", ""},
        {"gpt2", "c_attn,attn.c_proj", "c_fc,mlp.c_proj", ""},
        {"mixtral", "q_proj,k_proj,v_proj,o_proj", "experts",
         "q_proj,k_proj,v_proj,o_proj,experts"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char path[128];
        struct err e = ERR_INIT;
        struct arena a;
        snprintf(path, sizeof path, "tests/golden/models/%s", row[i].model);
        struct engine_options o = {.model = path, .load.threads = 1, .load.quantize = "f32"};
        struct engine *g = engine_new(&o, &e);
        assert_good(g ? 0 : -1, &e);
        arena_init(&a, 1 << 16);
        assert_string_equal(tune_loop_targets(g, true, false, &a), row[i].mixer);
        assert_string_equal(tune_loop_targets(g, false, true, &a), row[i].others);
        assert_string_equal(tune_loop_targets(g, true, true, &a), row[i].both);
        arena_release(&a);
        engine_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
