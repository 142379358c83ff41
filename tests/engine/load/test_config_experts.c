/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layers have experts, of as many layers as there can be. What config.json says of experts
 * besides, family by family, tests/engine/load/test_config.c asks.
 */
#include <string.h>

#include "engine/load/config.h"
#include "tests/lib/test.h"

/* Fault: what is said of layers goes past the last that there can be, into what stands behind. */
static void the_most_layers(void **state)
{
    static const char text[] =
        "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_key_value_heads\":2,\"vocab_size\":9,"
        "\"hidden_size\":16,\"intermediate_size\":8,\"num_hidden_layers\":1024,"
        "\"num_attention_heads\":4,\"max_position_embeddings\":99}";
    struct config c;
    struct err e = ERR_INIT;
    (void)state;
    assert_good(config_parse(&c, text, strlen(text), "config.json", &e), &e);
    assert_int_equal(c.n_layer, CONFIG_LAYER_MAX);
    assert_true(c.has_experts[0] && c.has_experts[CONFIG_LAYER_MAX - 1]);
    assert_false(c.has_stacked_experts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_most_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
