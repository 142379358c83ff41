/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_config.json: what is taken, what it means, and what is refused by name.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/load/peft.h"

#define LIST "\"peft_type\":\"LORA\",\"target_modules\":[\"q_proj\",\"mlp.up_proj\"]"
#define Q0   "model.layers.0.self_attn.q_proj"
#define Q12  "model.layers.12.self_attn.q_proj"
#define UP1  "model.layers.1.mlp.up_proj"
#define K0   "model.layers.0.self_attn.k_proj"

static void good(struct peft *p, const char *text)
{
    struct err e = ERR_INIT;
    assert_good(peft_parse(p, text, strlen(text), &e), &e);
}

/* Faults: a name that matches inside another's, a default that is not PEFT's. */
static void targets_by_name(void **state)
{
    struct peft p;
    (void)state;
    good(&p, "{" LIST "}");
    assert_int_equal(peft_claim(&p, Q0), PEFT_HAS);
    assert_int_equal(peft_claim(&p, "q_proj"), PEFT_HAS);
    assert_int_equal(peft_claim(&p, UP1), PEFT_HAS);
    assert_int_equal(peft_claim(&p, K0), PEFT_HAS_NOT);
    assert_int_equal(peft_claim(&p, "model.layers.0.self_attn.xq_proj"), PEFT_HAS_NOT);
    assert_int_equal(peft_claim(&p, "model.layers.0.xmlp.up_proj"), PEFT_HAS_NOT);
    assert_int_equal(peft_rank(&p, Q0), 8);
    assert_float_equal(peft_scale(&p, Q0), 1, 0);
    peft_release(&p);
    good(&p, "{\"peft_type\":\"LORA\",\"target_modules\":\"all-linear\",\"r\":4}");
    assert_int_equal(peft_claim(&p, K0), PEFT_MAY_HAVE);
    assert_float_equal(peft_scale(&p, K0), 2, 0);
    peft_release(&p);
    good(&p, "{" LIST ",\"exclude_modules\":[\"layers.3.self_attn.q_proj\"]}");
    assert_int_equal(peft_claim(&p, Q0), PEFT_MAY_HAVE);
    assert_int_equal(peft_claim(&p, K0), PEFT_HAS_NOT);
    peft_release(&p);
}

#define DOWN1 "model.layers.1.mlp.experts.down_proj"

/* Faults: a parameter that is taken for a module, or a module for one; modules that must be named
 * beside parameters; a pattern as PEFT writes it for these that is not read. */
static void parameters_by_name(void **state)
{
    struct peft p;
    (void)state;
    good(&p, "{" LIST ",\"target_parameters\":[\"mlp.experts.down_proj\"],\"r\":4,"
             "\"rank_pattern\":{\".*\\\\.down_proj\":6}}");
    assert_true(peft_claims_param(&p, DOWN1));
    assert_false(peft_claims_param(&p, "model.layers.1.xmlp.experts.down_proj"));
    assert_false(peft_claims_param(&p, Q0));
    assert_int_equal(peft_claim(&p, DOWN1), PEFT_HAS_NOT);
    assert_int_equal(peft_claim(&p, Q0), PEFT_HAS);
    assert_int_equal(peft_rank(&p, DOWN1), 6);
    assert_int_equal(peft_rank(&p, Q0), 4);
    peft_release(&p);
    good(&p, "{\"peft_type\":\"LORA\",\"target_modules\":[],\"target_parameters\":[\"w\"]}");
    assert_true(peft_claims_param(&p, "w"));
    assert_int_equal(peft_claim(&p, Q0), PEFT_HAS_NOT);
    peft_release(&p);
    good(&p, "{" LIST ",\"target_parameters\":null}");
    assert_false(peft_claims_param(&p, DOWN1));
    peft_release(&p);
}

/* Faults: a layer read from half its digits; one layer alone that is no list. */
static void layers(void **state)
{
    struct peft p;
    (void)state;
    good(&p, "{" LIST ",\"layers_to_transform\":[1,12]}");
    assert_int_equal(peft_claim(&p, Q0), PEFT_HAS_NOT);
    assert_int_equal(peft_claim(&p, Q12), PEFT_HAS);
    assert_int_equal(peft_claim(&p, UP1), PEFT_HAS);
    assert_int_equal(peft_claim(&p, "q_proj"), PEFT_HAS_NOT);
    peft_release(&p);
    good(&p, "{" LIST ",\"layers_to_transform\":0,\"layers_pattern\":\"layers\"}");
    assert_int_equal(peft_claim(&p, Q0), PEFT_MAY_HAVE);
    assert_int_equal(peft_claim(&p, Q12), PEFT_HAS_NOT);
    peft_release(&p);
}

/* Faults: alpha over the default rank where a product has its own; the root of the wrong one; a
 * later pattern that wins; a whole path that matches an end. */
static void ranks_and_scales(void **state)
{
    struct peft p;
    (void)state;
    good(&p, "{" LIST ",\"r\":16,\"lora_alpha\":32,\"rank_pattern\":{\"up_proj\":4,"
             "\"^model.layers.0.self_attn.q_proj\":64,\"q_proj\":9},"
             "\"alpha_pattern\":{\"layers.12.self_attn.q_proj\":-2.5}}");
    assert_int_equal(peft_rank(&p, UP1), 4);
    assert_int_equal(peft_rank(&p, Q0), 64);
    assert_int_equal(peft_rank(&p, Q12), 9);
    assert_int_equal(peft_rank(&p, "x." Q0), 9);
    assert_int_equal(peft_rank(&p, K0), 16);
    assert_float_equal(peft_scale(&p, UP1), 8, 0);
    assert_float_equal(peft_scale(&p, Q0), 0.5, 0);
    assert_float_equal(peft_scale(&p, Q12), -2.5 / 9, 1e-15);
    peft_release(&p);
    good(&p, "{" LIST ",\"r\":16,\"lora_alpha\":32,\"use_rslora\":true,"
             "\"rank_pattern\":{\"up_proj\":9}}");
    assert_float_equal(peft_scale(&p, Q0), 8, 1e-15);
    assert_float_equal(peft_scale(&p, UP1), 32 / 3.0, 1e-15);
    peft_release(&p);
}

/* Fault: a file as PEFT writes it that is refused for a field that says nothing. */
static void what_peft_writes(void **state)
{
    static const char *const extra[] = {"\"lora_dropout\":0.05",
                                        "\"fan_in_fan_out\":true",
                                        "\"init_lora_weights\":true",
                                        "\"init_lora_weights\":\"gaussian\"",
                                        "\"modules_to_save\":null",
                                        "\"modules_to_save\":[]",
                                        "\"base_model_name_or_path\":\"org/base\"",
                                        "\"task_type\":\"CAUSAL_LM\"",
                                        "\"auto_mapping\":{\"base_model_class\":\"X\"}",
                                        "\"revision\":\"main\"",
                                        "\"peft_version\":\"0.18.0\"",
                                        "\"use_dora\":false",
                                        "\"use_dora\":true",
                                        "\"lora_bias\":false",
                                        "\"loftq_config\":{}",
                                        "\"megatron_core\":\"megatron.core\"",
                                        "\"qalora_group_size\":16",
                                        "\"layer_replication\":null",
                                        "\"a_new_field\":false",
                                        "\"layers_pattern\":null",
                                        "\"inference_mode\":false",
                                        "\"bias\":\"none\"",
                                        "\"lora_alpha\":0",
                                        "\"r\":512"};
    static const char *const names[] = {"llama_plain", "qwen2", "gpt2"};
    struct err e = ERR_INIT;
    struct peft p;
    char text[400];
    (void)state;
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        snprintf(text, sizeof text, "{" LIST ",%s}", extra[i]);
        good(&p, text);
        peft_release(&p);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "tests/golden/models/%s/lora", names[i]);
        assert_good(peft_read(&p, text, &e), &e);
        peft_release(&p);
    }
}

/* Faults: a field that changes the arithmetic and is passed over; a number that is not one; an
 * error that does not say where. */
static void refused_by_name(void **state)
{
    static const struct {
        const char *text, *words;
        enum err_code code;
    } bad[] = {
        {"{\"target_modules\":[\"a\"]}", "peft_type", ERR_BAD_INPUT},
        {"{\"peft_type\":\"IA3\",\"target_modules\":[\"a\"]}", "IA3", ERR_UNSUPPORTED},
        {"{\"peft_type\":\"LORA\"}", "target_modules", ERR_BAD_INPUT},
        {"{\"peft_type\":\"LORA\",\"target_modules\":[]}", "target_modules", ERR_BAD_INPUT},
        {"{\"peft_type\":\"LORA\",\"target_modules\":\"\"}", "target_modules", ERR_BAD_INPUT},
        {"{\"peft_type\":\"LORA\",\"target_modules\":[1]}", "target_modules", ERR_BAD_INPUT},
        {"{\"peft_type\":\"LORA\",\"target_modules\":null}", "target_modules", ERR_BAD_INPUT},
        {"[]", "object", ERR_BAD_INPUT},
        {"{" LIST ",\"use_dora\":1}", "use_dora", ERR_BAD_INPUT},
        {"{" LIST ",\"use_qalora\":true}", "use_qalora", ERR_UNSUPPORTED},
        {"{" LIST ",\"lora_bias\":true}", "lora_bias", ERR_UNSUPPORTED},
        {"{" LIST ",\"bias\":\"all\"}", "bias", ERR_UNSUPPORTED},
        {"{" LIST ",\"bias\":\"lora_only\"}", "lora_only", ERR_UNSUPPORTED},
        {"{" LIST ",\"modules_to_save\":\"x\"}", "modules_to_save", ERR_BAD_INPUT},
        {"{" LIST ",\"layer_replication\":[[0,1]]}", "layer_replication", ERR_UNSUPPORTED},
        {"{" LIST ",\"trainable_token_indices\":[1]}", "trainable_token", ERR_UNSUPPORTED},
        {"{" LIST ",\"target_parameters\":\"x\"}", "target_parameters", ERR_BAD_INPUT},
        {"{" LIST ",\"target_parameters\":[1]}", "target_parameters", ERR_BAD_INPUT},
        {"{\"peft_type\":\"LORA\",\"target_parameters\":[]}", "target_modules", ERR_BAD_INPUT},
        {"{" LIST ",\"megatron_config\":{\"a\":1}}", "megatron_config", ERR_UNSUPPORTED},
        {"{" LIST ",\"a_new_field\":0.5}", "a_new_field", ERR_UNSUPPORTED},
        {"{" LIST ",\"a_new_field\":\"x\"}", "a_new_field", ERR_UNSUPPORTED},
        {"{" LIST ",\"init_lora_weights\":\"pissa_niter_4\"}", "pissa", ERR_UNSUPPORTED},
        {"{" LIST ",\"init_lora_weights\":3}", "init_lora_weights", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":0}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":-1}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":513}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":1.5}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":\"8\"}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":1e308}", "r:", ERR_BAD_INPUT},
        {"{" LIST ",\"lora_alpha\":1e308}", "lora_alpha", ERR_BAD_INPUT},
        {"{" LIST ",\"lora_alpha\":true}", "lora_alpha", ERR_BAD_INPUT},
        {"{" LIST ",\"use_rslora\":1}", "use_rslora", ERR_BAD_INPUT},
        {"{" LIST ",\"lora_dropout\":\"x\"}", "lora_dropout", ERR_BAD_INPUT},
        {"{" LIST ",\"fan_in_fan_out\":\"x\"}", "fan_in_fan_out", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":[1]}", "rank_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":{\"q_proj\":0}}", "rank_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":{\"q_proj\":2.5}}", "rank_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":{\"q_proj\":513}}", "rank_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":{\"\":4}}", "rank_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"rank_pattern\":{\".*q_proj\":4}}", "expression", ERR_UNSUPPORTED},
        {"{" LIST ",\"alpha_pattern\":{\"layers\\\\.1\":4}}", "expression", ERR_UNSUPPORTED},
        {"{" LIST ",\"alpha_pattern\":{\"q_proj\":\"4\"}}", "alpha_pattern", ERR_BAD_INPUT},
        {"{" LIST ",\"layers_to_transform\":[-1]}", "layers_to_transform", ERR_BAD_INPUT},
        {"{" LIST ",\"layers_to_transform\":\"1\"}", "layers_to_transform", ERR_BAD_INPUT},
        {"{" LIST ",\"layers_to_transform\":[1.5]}", "layers_to_transform", ERR_BAD_INPUT},
        {"{" LIST ",\"r\":4,\"r\":4}", "r", ERR_BAD_INPUT},
        {"{" LIST, "adapter_config.json", ERR_BAD_INPUT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = ERR_INIT;
        struct peft p;
        assert_err(peft_parse(&p, bad[i].text, strlen(bad[i].text), &e), &e, bad[i].code,
                   bad[i].words);
        assert_non_null(strstr(e.msg, "adapter_config.json"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_by_name),  cmocka_unit_test(parameters_by_name),
        cmocka_unit_test(layers),           cmocka_unit_test(ranks_and_scales),
        cmocka_unit_test(what_peft_writes), cmocka_unit_test(refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
