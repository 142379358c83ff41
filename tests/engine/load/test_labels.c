/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of a classifier: its labels, and what their numbers are shown through.
 */
#include "engine/load/labels.h"

#include <stdio.h>
#include <string.h>

#include "engine/load/config.h"
#include "engine/load/json.h"
#include "tests/lib/test.h"

static int read(const char *text, struct labels *l, struct err *e)
{
    struct json_doc *doc = json_parse(text, strlen(text), "config.json", &json_rules_config, e);
    assert_good(doc ? 0 : -1, e);
    struct json root = json_root(doc);
    int rc = labels_init(l, &root, e);
    json_free(doc);
    return rc;
}

static void names(void **state)
{
    struct labels l;
    struct err e = ERR_INIT;
    (void)state;
    assert_good(read("{\"id2label\":{\"1\":\"yes\",\"0\":\"no\"}}", &l, &e), &e);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.name[0], "no");
    assert_string_equal(l.name[1], "yes");
    labels_release(&l);
    assert_good(read("{\"num_labels\":3}", &l, &e), &e);
    assert_string_equal(l.name[2], "LABEL_2");
    labels_release(&l);
    assert_good(read("{}", &l, &e), &e);
    assert_int_equal(l.n, 2);
    labels_release(&l);
}

/* Faults: a label without a number, or two with one; a name that is none. */
static void bad_names(void **state)
{
    static const char *const row[][2] = {{"{\"id2label\":{}}", "0 labels"},
                                         {"{\"id2label\":{\"0\":\"a\",\"2\":\"b\"}}", "numbered"},
                                         {"{\"id2label\":{\"0\":\"a\",\"00\":\"b\"}}", "numbered"},
                                         {"{\"id2label\":{\"-1\":\"a\"}}", "numbered"},
                                         {"{\"id2label\":{\"x\":\"a\"}}", "numbered"},
                                         {"{\"id2label\":{\"0\":1}}", "id2label"},
                                         {"{\"id2label\":[\"a\"]}", "id2label"},
                                         {"{\"num_labels\":0}", "num_labels"},
                                         {"{\"num_labels\":5000}", "num_labels"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct labels l;
        struct err e = ERR_INIT;
        assert_int_equal(read(row[i][0], &l, &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
        labels_release(&l);
    }
}

#define BERT                                                                                       \
    "\"architectures\":[\"BertForSequenceClassification\"],\"vocab_size\":9,\"hidden_size\":8,"    \
    "\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"                   \
    "\"max_position_embeddings\":16"

static int parse(struct config *c, const char *more, struct err *e)
{
    char text[1024];
    snprintf(text, sizeof text, "{" BERT "%s%s}", *more ? "," : "", more);
    return config_parse(c, text, strlen(text), "config.json", e);
}

/* Fault: a score shown through another function than its makers say. */
static void how_scores_are_shown(void **state)
{
#define ST(fn) "\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules." fn "\"}"
#define ONE    "\"num_labels\":1"
    static const struct {
        const char *more;
        enum config_scores scores;
    } row[] = {{"", SCORES_SOFTMAX},
               {ONE, SCORES_SIGMOID},
               {ONE "," ST("linear.Identity"), SCORES_PLAIN},
               {ONE "," ST("activation.Sigmoid"), SCORES_SIGMOID},
               {ONE
                ",\"sbert_ce_default_activation_function\":\"torch.nn.modules.linear.Identity\"",
                SCORES_PLAIN},
               {ONE ",\"problem_type\":\"regression\"", SCORES_PLAIN},
               {ONE ",\"problem_type\":\"single_label_classification\"", SCORES_SIGMOID},
               {ONE ",\"problem_type\":\"regression\"," ST("activation.Sigmoid"), SCORES_SIGMOID},
               {"\"problem_type\":\"multi_label_classification\"", SCORES_SIGMOID},
               {"\"problem_type\":null", SCORES_SOFTMAX}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct config c;
        struct err e = ERR_INIT;
        assert_good(parse(&c, row[i].more, &e), &e);
        assert_int_equal(c.scores, row[i].scores);
        assert_int_equal(c.classifier, CLASSIFIER_POOLER);
        assert_true(c.is_encoder);
    }
}

static void what_is_refused(void **state)
{
    static const char *const row[][2] = {{ST("activation.Tanh"), "activation_fn"},
                                         {"\"problem_type\":\"other\"", "problem_type"},
                                         {"\"sentence_transformers\":1", "sentence_transformers"}};
    struct config c;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(parse(&c, row[i][0], &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
    }
    struct err e = ERR_INIT;
    const char *other = "{\"architectures\":[\"GPT2ForSequenceClassification\"]}";
    assert_err(config_parse(&c, other, strlen(other), "config.json", &e), &e, ERR_UNSUPPORTED,
               "GPT2ForSequenceClassification");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(how_scores_are_shown),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
