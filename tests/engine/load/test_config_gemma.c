/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of Gemma 4 and 3n, and of models around a text model.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/load/config.h"
#include "engine/load/config_layers.h"

#define GEMMA4                                                                                     \
    "\"architectures\":[\"Gemma4ForCausalLM\"],\"vocab_size\":100,\"hidden_size\":16,"             \
    "\"intermediate_size\":80,\"num_hidden_layers\":8,\"num_attention_heads\":4,"                  \
    "\"num_key_value_heads\":2,\"max_position_embeddings\":99"

static struct config parse(const char *text)
{
    struct config c;
    struct err e = ERR_INIT;
    assert_good(config_parse(&c, text, strlen(text), "config.json", &e), &e);
    return c;
}

/* Faults: a default of Gemma 4's class; heads, widths or angles of one kind of layers in the other;
 * a layer that shares keys of the wrong one, or of none. */
static void test_gemma4(void **state)
{
    (void)state;
    struct config c = parse("{" GEMMA4 "}");
    assert_int_equal(c.family, FAMILY_GEMMA4);
    assert_true(c.is_tied && !c.norm_plus_one && c.norms == NORMS_BOTH && c.attn_scale == 1);
    assert_true(c.window == 512 && c.slides[0] && !c.slides[5] && c.slides[6] && !c.slides[7]);
    assert_true(config_d_head(&c, 0) == 256 && config_d_head(&c, 5) == 512);
    assert_true(config_n_kv_head(&c, 5) == 2 && config_d_ff(&c, 7) == 80);
    assert_true(c.rope.kind == ROPE_PROPORTIONAL && c.rope.partial == 0.25 && c.rope.theta == 1e6);
    assert_true(c.local_theta == 10000 && c.d_ple == 256 && c.ple_scale == 16 && !c.logit_cap);
    assert_true(!c.n_kv_shared && config_kv_layer(&c, 7) == 7 && c.has_layer_scale && c.norms_v);
    c = parse("{" GEMMA4 ",\"global_head_dim\":320,\"num_global_key_value_heads\":1,"
              "\"attention_k_eq_v\":true,\"num_kv_shared_layers\":2,\"use_double_wide_mlp\":true,"
              "\"hidden_size_per_layer_input\":0,\"final_logit_softcapping\":30,"
              "\"use_bidirectional_attention\":\"vision\"}");
    assert_true(config_d_head(&c, 5) == 320 && config_n_kv_head(&c, 5) == 1 && c.k_is_v);
    assert_true(config_n_kv_head(&c, 0) == 2 && !c.d_ple && c.logit_cap == 30);
    assert_true(config_kv_layer(&c, 6) == 4 && config_kv_layer(&c, 7) == 5);
    assert_true(config_d_ff(&c, 5) == 80 && config_d_ff(&c, 6) == 160);
    c = parse("{" GEMMA4
              ",\"per_layer_config\":{\"0\":{},\"5\":{\"head_dim\":64},\"7\":{\"head_dim\":64}},"
              "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
              "\"rope_theta\":9},\"sliding_attention\":{\"rope_theta\":7}}}");
    assert_true(config_d_head(&c, 5) == 64 && config_d_head(&c, 6) == 256);
    assert_true(c.rope.kind == ROPE_DEFAULT && c.rope.theta == 9 && c.local_theta == 7);
    c = parse("{" GEMMA4 ",\"num_experts\":4,\"top_k_experts\":null}");
    assert_true(!c.n_expert && !c.has_experts[3]);
    c = parse("{" GEMMA4 ",\"enable_moe_block\":true,\"num_experts\":4,\"top_k_experts\":3,"
              "\"moe_intermediate_size\":24}");
    assert_true(c.n_expert == 4 && c.n_top == 3 && c.d_expert == 24 && c.normalises_top);
    assert_true(c.has_experts[0] && c.has_experts[7] && c.has_stacked_experts && !c.balance);
}

#define GEMMA3N                                                                                    \
    "\"architectures\":[\"Gemma3nForCausalLM\"],\"vocab_size\":100,\"hidden_size\":16,"            \
    "\"num_hidden_layers\":20,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                \
    "\"max_position_embeddings\":99"

/* Faults: a default of Gemma 3n's class, or Gemma 4's in its place; a list that is read for other
 * layers; a last layer that is made to see all. */
static void test_gemma3n(void **state)
{
    (void)state;
    struct config c = parse("{" GEMMA3N ",\"intermediate_size\":80}");
    assert_int_equal(c.family, FAMILY_GEMMA3N);
    assert_true(c.is_tied && !c.norm_plus_one && c.norms == NORMS_BOTH && c.attn_scale == 1);
    assert_true(c.window == 512 && c.slides[0] && !c.slides[4] && c.slides[3] && c.norms_v);
    assert_true(c.rope.theta == 1e6 && c.local_theta == 10000 && c.rope.partial == 1);
    assert_true(c.n_kv_shared == 15 && config_kv_layer(&c, 19) == 4 &&
                config_kv_layer(&c, 18) == 3);
    assert_true(c.d_ple == 256 && c.n_track == 4 && c.d_laurel == 64 && c.scales_track);
    assert_true(c.sparsity[9] == 0.95f && c.sparsity[10] == 0 && c.logit_cap == 30);
    assert_true(config_d_head(&c, 4) == 256 && config_d_ff(&c, 19) == 80 && !c.has_layer_scale);
    c = parse("{\"architectures\":[\"Gemma3nForCausalLM\"],\"vocab_size\":100,\"hidden_size\":16,"
              "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
              "\"max_position_embeddings\":99,\"intermediate_size\":[8,24],"
              "\"num_kv_shared_layers\":0,\"layer_types\":[\"full_attention\","
              "\"sliding_attention\"],\"activation_sparsity_pattern\":[0,0.5],"
              "\"altup_correct_scale\":false,\"laurel_rank\":3}");
    assert_true(c.d_ff == 24 && config_d_ff(&c, 0) == 8 && config_d_ff(&c, 1) == 24);
    assert_true(c.slides[1] && c.sparsity[1] == 0.5f && c.sparsity[0] == 0 && c.d_laurel == 3);
    assert_false(c.scales_track);
    c = parse("{\"architectures\":[\"Gemma3nForConditionalGeneration\"],\"text_config\":{"
              "\"intermediate_size\":8192,\"num_hidden_layers\":30,\"num_kv_shared_layers\":10}}");
    assert_true(c.family == FAMILY_GEMMA3N && c.is_wrapped && c.d_model == 2048);
    assert_true(c.n_kv_head == 2 && config_kv_layer(&c, 29) == 19);
}

/* Fault: a tied head that the model around the text model alone tells of, or its class. */
static void test_outer_tie(void **state)
{
    (void)state;
    static const struct {
        const char *class, *text, *more;
        bool is_tied;
    } row[] = {{"Llava", "true", "", true},
               {"Llava", "false", ",\"tie_word_embeddings\":true", true},
               {"Llava", "false", "", false},
               {"Mistral3", "false", ",\"tie_word_embeddings\":false", false},
               {"Mistral3", "false", "", true},
               {"Gemma3", "false", ",\"tie_word_embeddings\":true", true},
               {"Gemma3", "false", "", true},
               {"Gemma3", "false", ",\"tie_word_embeddings\":false", false}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"architectures\":[\"%sForConditionalGeneration\"],\"text_config\":"
                 "{\"tie_word_embeddings\":%s}%s}",
                 row[i].class, row[i].text, row[i].more);
        assert_int_equal(parse(text).is_tied, row[i].is_tied);
    }
}

/* Fault: the theta of a class that is a text model's alone. */
static void test_outer_theta(void **state)
{
    (void)state;
    static const struct {
        const char *class, *text;
        double theta;
    } row[] = {{"Qwen2_5_VL", "", 1e6},
               {"Qwen3VL", "", 5e5},
               {"Qwen3VL", ",\"rope_theta\":7000", 7000},
               {"Qwen3VL", ",\"rope_parameters\":{\"rope_theta\":800}", 800}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"architectures\":[\"%sForConditionalGeneration\"],\"text_config\":{"
                 "\"vocab_size\":100,\"hidden_size\":16,\"intermediate_size\":80,"
                 "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                 "\"max_position_embeddings\":99%s}}",
                 row[i].class, row[i].text);
        assert_true(parse(text).rope.theta == row[i].theta);
    }
}

static const struct refused {
    const char *text, *why;
} refused[] = {
    {"{\"architectures\":[\"Gemma4TextModel\"]}", "'Gemma4TextModel' is not supported"},
    {"{" GEMMA4 ",\"attention_bias\":true}", "attention_bias: true is not supported; false is"},
    {"{" GEMMA4 ",\"enable_moe_block\":true,\"num_experts\":4,\"moe_intermediate_size\":8}",
     "top_k_experts is missing"},
    {"{" GEMMA4 ",\"enable_moe_block\":1}", "enable_moe_block: expected"},
    {"{" GEMMA4 ",\"enable_moe_block\":true,\"num_experts\":4,\"moe_intermediate_size\":8,"
     "\"top_k_experts\":5}",
     "top_k_experts: 5 experts for a token, of 4"},
    {"{" GEMMA4 ",\"use_bidirectional_attention\":\"all\"}",
     "use_bidirectional_attention: 'all' is not supported; vision is"},
    {"{" GEMMA4 ",\"num_kv_shared_layers\":3}",
     "num_kv_shared_layers: layer 5 is of full_attention, of which no layer before the last 3 is"},
    {"{" GEMMA4 ",\"global_head_dim\":513}", "global_head_dim: expected a number from 1 to 512"},
    {"{" GEMMA4 ",\"per_layer_config\":{\"0\":{\"head_dim\":8}}}",
     "per_layer_config.0: heads of their own are supported in layers of full_attention alone"},
    {"{" GEMMA4 ",\"per_layer_config\":{\"5\":{\"head_dim\":8}}}",
     "per_layer_config: layers of full_attention with different heads are not supported"},
    {"{" GEMMA4 ",\"per_layer_config\":{\"5\":{\"sliding_window\":8}}}",
     "per_layer_config.5.sliding_window: is not supported here; head_dim and"},
    {"{" GEMMA4 ",\"per_layer_config\":{\"9\":{}}}",
     "per_layer_config.9: expected the number of one of 8 layers"},
    {"{" GEMMA4 ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\"}}}",
     "rope_type: 'yarn' is not supported; default and proportional are"},
    {"{" GEMMA4 ",\"rope_parameters\":{\"rope_type\":\"default\"}}", "full_attention is missing"},
    {"{" GEMMA4 ",\"altup_num_inputs\":4}", "altup_num_inputs: 4 is not supported; 0 is"},
    {"{" GEMMA3N ",\"intermediate_size\":[1,2]}", "expected one for each of 20 layers, found 2"},
    {"{" GEMMA3N ",\"intermediate_size\":8,\"altup_num_inputs\":2}",
     "altup_num_inputs: 2 is not supported; 4 is"},
    {"{" GEMMA3N ",\"intermediate_size\":8,\"altup_active_idx\":1}", "altup_active_idx: 1 is not"},
    {"{" GEMMA3N ",\"intermediate_size\":8,\"activation_sparsity_pattern\":[1]}",
     "expected one for each of 20 layers, found 1"},
    {"{" GEMMA3N ",\"intermediate_size\":8,\"hidden_size_per_layer_input\":0}",
     "hidden_size_per_layer_input: 0 is not supported here"},
};

/* Faults: a field that is passed over and changes the arithmetic. */
static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct config c;
        struct err e = ERR_INIT;
        const char *text = refused[i].text;
        int rc = config_parse(&c, text, strlen(text), "config.json", &e);
        if (!rc || !strstr(e.msg, refused[i].why))
            fail_msg("%s: %s", text, rc ? e.msg : "taken");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemma4),      cmocka_unit_test(test_outer_tie),
        cmocka_unit_test(test_outer_theta), cmocka_unit_test(test_gemma3n),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
