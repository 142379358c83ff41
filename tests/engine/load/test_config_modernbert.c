/* SPDX-License-Identifier: Apache-2.0
 *
 * ModernBERT's fields in both spellings, as its makers' files have them. That a model of them
 * computes what it should the goldens say.
 */
#include "engine/load/config.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

#define SIZES                                                                                      \
    "\"architectures\":[\"ModernBertModel\"],\"vocab_size\":50368,\"hidden_size\":768,"            \
    "\"intermediate_size\":1152,\"num_hidden_layers\":4,\"num_attention_heads\":12,"               \
    "\"max_position_embeddings\":8192"

static int parse(struct config *c, const char *more, struct err *e)
{
    char text[1024];
    snprintf(text, sizeof text, "{" SIZES "%s%s}", *more ? "," : "", more);
    return config_parse(c, text, strlen(text), "config.json", e);
}

/* Faults: thetas that change places; a window of the wrong width, or in the wrong layers. */
static void both_spellings(void **state)
{
    static const struct {
        const char *more;
        double theta, local;
        int32_t window;
        bool slides[4];
    } row[] = {
        {"", 160000, 10000, 65, {false, true, true, false}},
        {"\"global_rope_theta\":500.0,\"local_rope_theta\":20.0,\"local_attention\":10,"
         "\"global_attn_every_n_layers\":2,\"position_embedding_type\":\"absolute\"",
         500,
         20,
         6,
         {false, true, false, true}},
        {"\"global_rope_theta\":500.0,\"local_rope_theta\":null",
         500,
         500,
         65,
         {false, true, true, false}},
        {"\"layer_types\":[\"sliding_attention\",\"full_attention\",\"full_attention\","
         "\"sliding_attention\"],\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
         "\"default\",\"rope_theta\":7.0},\"sliding_attention\":{\"rope_theta\":8.0}}",
         7,
         8,
         65,
         {true, false, false, true}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct config c;
        struct err e = ERR_INIT;
        assert_good(parse(&c, row[i].more, &e), &e);
        assert_int_equal(c.family, FAMILY_MODERNBERT);
        assert_true(c.rope.theta == row[i].theta && c.local_theta == row[i].local);
        assert_int_equal(c.window, row[i].window);
        assert_memory_equal(c.slides, row[i].slides, sizeof row[i].slides);
        assert_true(c.is_encoder && c.sees_ahead && c.norm_by_mean && !c.has_norm_bias);
    }
}

/* Fault: a field that changes the arithmetic and is passed over. */
static void what_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"\"hidden_activation\":\"silu\"", "hidden_activation"},
        {"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0}", "rope_scaling"},
        {"\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\"}}", "rope_type"},
        {"\"global_rope_theta\":0", "global_rope_theta"},
        {"\"local_attention\":0", "local_attention"},
        {"\"layer_types\":[\"full_attention\"]", "layer_types"},
        {"\"classifier_pooling\":\"max\"", "classifier_pooling"},
        {"\"classifier_activation\":\"relu\"", "classifier_activation"},
        {"\"norm_eps\":2", "norm_eps"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct config c;
        struct err e = ERR_INIT;
        assert_int_equal(parse(&c, row[i][0], &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
