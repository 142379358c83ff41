/* SPDX-License-Identifier: Apache-2.0
 *
 * NomicBERT's fields as its makers' files have them, and as transformers writes them. That a model
 * of them computes what it should the goldens say.
 */
#include "engine/load/config.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

#define MAKERS                                                                                     \
    "\"architectures\":[\"NomicBertModel\"],\"vocab_size\":30528,\"n_embd\":768,\"n_inner\":3072," \
    "\"n_layer\":12,\"n_head\":12,\"n_positions\":8192,\"activation_function\":\"swiglu\","        \
    "\"layer_norm_epsilon\":1e-12,\"rotary_emb_base\":1000,\"rotary_emb_fraction\":1.0,"           \
    "\"rotary_emb_interleaved\":false,\"rotary_scaling_factor\":null,\"prenorm\":false,"           \
    "\"qkv_proj_bias\":false,\"mlp_fc1_bias\":false,\"type_vocab_size\":2"
#define LATER                                                                                      \
    "\"architectures\":[\"NomicBertModel\"],\"vocab_size\":30528,\"hidden_size\":768,"             \
    "\"intermediate_size\":3072,\"num_hidden_layers\":12,\"num_attention_heads\":12,"              \
    "\"max_position_embeddings\":2048,\"hidden_act\":\"silu\",\"layer_norm_eps\":1e-12,"           \
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1000.0},\"type_vocab_size\":2"

static int parse(struct config *c, const char *fields, const char *more, struct err *e)
{
    char text[2048];
    snprintf(text, sizeof text, "{%s%s%s}", fields, *more ? "," : "", more);
    return config_parse(c, text, strlen(text), "config.json", e);
}

static void both_spellings(void **state)
{
    static const struct {
        const char *fields;
        int64_t max_pos;
    } row[] = {{MAKERS, 8192}, {LATER, 2048}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct config c;
        struct err e = ERR_INIT;
        assert_good(parse(&c, row[i].fields, "", &e), &e);
        assert_int_equal(c.family, FAMILY_NOMIC_BERT);
        assert_true(c.d_model == 768 && c.d_ff == 3072 && c.n_layer == 12 && c.n_head == 12);
        assert_true(c.max_pos == row[i].max_pos && c.rope.theta == 1000 && c.n_segment == 2);
        assert_true(c.norm_eps == 1e-12 && c.norms == NORMS_SUM && c.is_gated && c.sees_ahead);
    }
}

/* Fault: a field that changes the arithmetic and is passed over. */
static void what_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"\"use_rms_norm\":true", "use_rms_norm"},
        {"\"causal\":true", "causal"},
        {"\"parallel_block\":true", "parallel_block"},
        {"\"mlp_fc2_bias\":true", "mlp_fc2_bias"},
        {"\"num_experts\":8", "num_experts"},
        {"\"head_dim\":5", "head_dim: 5 is not supported"},
        {"\"rope_scaling\":{}", "rope_scaling"},
        {"\"rotary_emb_scale_base\":512", "rotary_emb_scale_base"}};
    struct config c;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(parse(&c, MAKERS, row[i][0], &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
    }
}

/* Fault: a size that is missing, and taken for another number than there is. */
static void sizes_must_be_there(void **state)
{
    static const char *const row[][2] = {{MAKERS, "vocab_size"},
                                         {MAKERS, "n_inner"},
                                         {MAKERS, "n_layer"},
                                         {MAKERS, "n_head"},
                                         {MAKERS, "n_positions"},
                                         {LATER, "vocab_size"},
                                         {LATER, "hidden_size"},
                                         {LATER, "intermediate_size"},
                                         {LATER, "num_hidden_layers"},
                                         {LATER, "num_attention_heads"},
                                         {LATER, "max_position_embeddings"}};
    struct config c;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[1024], quoted[64], words[64];
        struct err e = ERR_INIT;
        snprintf(text, sizeof text, "%s", row[i][0]);
        snprintf(quoted, sizeof quoted, "\"%s\"", row[i][1]);
        snprintf(words, sizeof words, "%s is missing", row[i][1]);
        strstr(text, quoted)[1] = 'X'; /* another name */
        assert_int_equal(parse(&c, text, "", &e), -1);
        if (!strstr(e.msg, words))
            fail_msg("%s: %s", words, e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(sizes_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
