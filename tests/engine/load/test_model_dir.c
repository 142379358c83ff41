/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/model_dir, tokenizer_config, pooling: a directory as a whole, with files missing,
 * doubled and wrong; and the real directories among the test data.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/load/model_dir.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

#define LLAMA                                                                                      \
    "\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":10,\"hidden_size\":4,"                \
    "\"intermediate_size\":8,\"num_hidden_layers\":3,\"num_attention_heads\":2,"                   \
    "\"num_key_value_heads\":1,\"max_position_embeddings\":64,\"eos_token_id\":2"
#define CONFIG "{" LLAMA "}"
#define BERT_CONFIG                                                                                \
    "{\"architectures\":[\"BertModel\"],\"vocab_size\":10,\"hidden_size\":4,"                      \
    "\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"                   \
    "\"max_position_embeddings\":64}"
#define WEIGHTS                                                                                    \
    "{\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"  \
    "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}"

static char *dir_new(const char *config)
{
    char *dir = test_dir_new();
    put_text(dir, "config.json", config);
    put_st(dir, "model.safetensors", WEIGHTS, 16);
    return dir;
}

/* Fault: a directory with the needed files alone is refused; its size is counted wrong. */
static void test_least_directory(void **state)
{
    (void)state;
    char *dir = dir_new(CONFIG);
    struct model_dir d;
    struct model_size s;
    struct err e = ERR_INIT;
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_null(d.tokenizer_path);
    assert_int_equal(d.tokenizer.n_template, 0);
    assert_int_equal(d.generation.eos[0], 2);
    model_dir_size(&d, &s);
    assert_true(s.n_param == 6 && s.n_param_embed == 4 && s.file_bytes == 16);
    assert_true(s.kv_bytes == 2 * 2 * 3 * 1 * 2);
    model_dir_release(&d);
    test_dir_free(dir);
}

/* Fault: an error does not say which directory and file it is about. */
static void test_errors_name_the_directory(void **state)
{
    (void)state;
    char *dir = test_dir_new(), words[600];
    struct model_dir d;
    struct err e = ERR_INIT;
    assert_err(model_dir_init(&d, "/no/such", &e), &e, ERR_NOT_FOUND,
               "/no/such: the model directory");
    assert_err(model_dir_init(&d, "Makefile", &e), &e, ERR_BAD_INPUT, "not a directory");
    snprintf(words, sizeof words, "%s: config.json: No such file", dir);
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_NOT_FOUND, words);
    put_text(dir, "config.json", CONFIG);
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_NOT_FOUND, "neither model.safetensors nor");
    put_st(dir, "model.safetensors", WEIGHTS, 15);
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_BAD_INPUT, "the file is cut short");
    put_st(dir, "model.safetensors", WEIGHTS, 16);
    put_text(dir, "tokenizer_config.json", "{\"bos_token\":7}");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_BAD_INPUT,
               "tokenizer_config.json: bos_token: expected a string, found a number");
    put_text(dir, "tokenizer_config.json", "{}");
    put_text(dir, "generation_config.json", "{\"eos_token_id\":\"x\"}");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_BAD_INPUT,
               "generation_config.json: eos_token_id: expected a number, found a string");
    test_dir_free(dir);
}

/* Faults: a head of its own in the files that is not read because the config says that there is
 * none; one that is the embedding and is read as another. */
static void test_tied_head(void **state)
{
    (void)state;
    static const char *const at[] = {"[256,512]", "[272,528]"}; /* bytes repeat after 256 */
    for (int differs = 0; differs < 2; differs++) {
        char *dir = test_dir_new(), header[400];
        struct model_dir d;
        struct err e = ERR_INIT;
        put_text(dir, "config.json", "{\"tie_word_embeddings\":true," LLAMA "}");
        snprintf(header, sizeof header,
                 "{\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[2,64],"
                 "\"data_offsets\":[0,256]},%s\"lm_head.weight\":{\"dtype\":\"BF16\","
                 "\"shape\":[2,64],\"data_offsets\":%s}}",
                 differs ? "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[4],"
                           "\"data_offsets\":[256,272]},"
                         : "",
                 at[differs]);
        put_st(dir, "model.safetensors", header, differs ? 528 : 512);
        assert_good(model_dir_init(&d, dir, &e), &e);
        assert_int_equal(d.config.is_tied, !differs);
        model_dir_release(&d);
        test_dir_free(dir);
    }
}

/* Fault: a folder that was cloned without its large files is told that they are no JSON. */
static void test_lfs_pointers(void **state)
{
    (void)state;
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 99\n";
    static const char *const name[] = {"config.json", "model.safetensors", "tokenizer_config.json",
                                       "generation_config.json", "chat_template.jinja"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        char *dir = dir_new(CONFIG), words[200];
        struct model_dir d;
        struct err e = ERR_INIT;
        put_text(dir, name[i], pointer);
        snprintf(words, sizeof words, "%s: a Git LFS pointer stands in place of the file; `git lfs",
                 name[i]);
        assert_err(model_dir_init(&d, dir, &e), &e, ERR_BAD_INPUT, words);
        test_dir_free(dir);
    }
}

/* Fault: a role's token, in either spelling and from either file, is lost or overruled. */
static void test_special_tokens(void **state)
{
    (void)state;
    char *dir = dir_new(CONFIG);
    struct tokenizer_config t;
    struct err e = ERR_INIT;
    put_text(dir, "tokenizer_config.json",
             "{\"bos_token\":{\"content\":\"<s>\",\"lstrip\":false},\"eos_token\":\"</s>\","
             "\"pad_token\":null,\"add_bos_token\":true,\"model_max_length\":1e30}");
    put_text(dir, "special_tokens_map.json",
             "{\"bos_token\":\"other\",\"pad_token\":{\"content\":\"<pad>\"}}");
    assert_good(tokenizer_config_init(&t, dir, &e), &e);
    assert_string_equal(t.bos, "<s>");
    assert_string_equal(t.eos, "</s>");
    assert_string_equal(t.pad, "<pad>");
    assert_null(t.unk);
    assert_true(t.add_bos == TOKEN_YES && t.add_eos == TOKEN_UNSAID && t.max_len == 0);
    tokenizer_config_release(&t);
    test_dir_free(dir);
}

/* Fault: of a string, a list and a file of templates the wrong one is taken. */
static void test_templates(void **state)
{
    (void)state;
    char *dir = dir_new(CONFIG);
    struct tokenizer_config t;
    struct err e = ERR_INIT;
    put_text(dir, "tokenizer_config.json", "{\"chat_template\":\"plain\"}");
    assert_good(tokenizer_config_init(&t, dir, &e), &e);
    assert_string_equal(tokenizer_config_template(&t, NULL), "plain");
    assert_null(tokenizer_config_template(&t, "rag"));
    tokenizer_config_release(&t);
    put_text(dir, "tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
             "{\"name\":\"rag\",\"template\":\"r\"}]}");
    assert_good(tokenizer_config_init(&t, dir, &e), &e);
    assert_string_equal(tokenizer_config_template(&t, NULL), "d");
    assert_string_equal(tokenizer_config_template(&t, "rag"), "r");
    tokenizer_config_release(&t);
    put_text(dir, "chat_template.jinja", "jinja");
    assert_good(tokenizer_config_init(&t, dir, &e), &e);
    assert_string_equal(tokenizer_config_template(&t, NULL), "jinja");
    assert_string_equal(tokenizer_config_template(&t, "rag"), "r");
    tokenizer_config_release(&t);
    put_file(dir, "chat_template.jinja", "a\0b", 3);
    assert_err(tokenizer_config_init(&t, dir, &e), &e, ERR_BAD_INPUT, "chat_template.jinja: holds");
    put_text(dir, "chat_template.jinja", "");
    put_text(dir, "tokenizer_config.json", "{\"chat_template\":[{\"template\":\"d\"}]}");
    assert_err(tokenizer_config_init(&t, dir, &e), &e, ERR_BAD_INPUT,
               "chat_template[0]: name is missing");
    test_dir_free(dir);
}

static void put_pooling(const char *dir, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/1_Pooling", dir);
    mkdir(path, 0700);
    put_text(dir, "1_Pooling/config.json", text);
}

/* Fault: a product of vectors that is another than its module says, or is passed over. */
static void test_dense(void **state)
{
    static const char *const row[][2] = {
        {"{\"in_features\":7,\"out_features\":4}", "in_features: 7, and vectors have 4"},
        {"{\"out_features\":4}", "in_features is missing"},
        {"{\"in_features\":4,\"out_features\":0}", "out_features"},
        {"{\"in_features\":4,\"out_features\":4,\"activation_function\":\"torch.nn.ReLU\"}",
         "activation_function: 'torch.nn.ReLU' is not"},
        {"{\"in_features\":4,\"out_features\":4,\"use_residual\":true}", "use_residual"},
        {"{\"in_features\":4,\"out_features\":4,\"module_input_name\":\"token_embeddings\"}",
         "module_input_name"},
        {"{\"in_features\":4,\"out_features\":4}", "1_Pooling/model.safetensors"}};
    char *dir = dir_new(BERT_CONFIG);
    (void)state;
    put_text(dir, "modules.json", "[{\"path\":\"1_Pooling\",\"type\":\"x.models.Dense\"}]");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct model_dir d;
        struct err e = ERR_INIT;
        put_pooling(dir, row[i][0]);
        assert_int_equal(model_dir_init(&d, dir, &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
    }
    test_dir_free(dir);
}

/* Fault: an encoder is pooled otherwise than its files say. */
static void test_pooling(void **state)
{
    (void)state;
    char *dir = dir_new(BERT_CONFIG);
    struct model_dir d;
    struct err e = ERR_INIT;
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_true(d.config.pool == POOL_MEAN && !d.config.normalizes);
    model_dir_release(&d);
    put_text(dir, "modules.json",
             "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
             "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
             "{\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]");
    put_text(dir, "sentence_bert_config.json", "{\"max_seq_length\":32}");
    put_pooling(dir, "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}");
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_true(d.config.pool == POOL_CLS && d.config.normalizes);
    assert_true(d.config.max_text == 32);
    model_dir_release(&d);
    put_text(dir, "sentence_bert_config.json", "{\"max_seq_length\":1000000}");
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_true(d.config.max_text == d.config.max_pos);
    model_dir_release(&d);
    put_text(dir, "sentence_bert_config.json", "{\"max_seq_length\":null}");
    put_text(dir, "tokenizer_config.json", "{\"model_max_length\":3}");
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_true(d.config.max_text == 3);
    put_text(dir, "tokenizer_config.json", "{}");
    model_dir_release(&d);
    put_pooling(dir, "{\"pooling_mode\":\"mean\"}");
    assert_good(model_dir_init(&d, dir, &e), &e);
    assert_int_equal(d.config.pool, POOL_MEAN);
    model_dir_release(&d);
    put_pooling(dir, "{\"pooling_mode_max_tokens\":true}");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_UNSUPPORTED,
               "1_Pooling/config.json: pooling_mode_max_tokens is not supported");
    put_pooling(dir, "{\"pooling_mode_mean_tokens\":true,\"include_prompt\":false}");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_UNSUPPORTED, "include_prompt: false");
    put_pooling(dir, "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_UNSUPPORTED, "that is true, found 2");
    put_text(dir, "modules.json", "[{\"path\":\"2_LSTM\",\"type\":\"x.models.LSTM\"}]");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_UNSUPPORTED,
               "modules.json: [0]: type: 'x.models.LSTM' is not supported");
    put_text(dir, "modules.json",
             "[{\"path\":\"2_Normalize\",\"type\":\"x.models.Normalize\"},"
             "{\"path\":\"3_Dense\",\"type\":\"x.models.Dense\"}]");
    assert_err(model_dir_init(&d, dir, &e), &e, ERR_UNSUPPORTED, "Dense behind Normalize");
    static const char *const path[] = {
        "../x",
        "",
        "..",
        ".x",
        "a/b",
        "a/../../b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        char text[160];
        snprintf(text, sizeof text, "[{\"path\":\"%s\",\"type\":\"x.models.Pooling\"}]", path[i]);
        put_text(dir, "modules.json", text);
        assert_err(model_dir_init(&d, dir, &e), &e, ERR_BAD_INPUT,
                   "not the plain name of a folder");
    }
    test_dir_free(dir);
}

/* A gradient for each tensor, but for those that were saved by other names, or have none. */
static void has_gradients(const struct model_dir *d, struct weights *golden)
{
    struct err e = ERR_INIT;
    for (size_t k = 0; k < weights_count(d->weights); k++) {
        const struct st_tensor *t = weights_at(d->weights, k)->t;
        const struct weight *grad;
        char name[600];
        snprintf(name, sizeof name, "grad.%.500s", t->name);
        if (!strstr(t->name, "pooler.") && !strstr(t->name, "layer_scalar") &&
            !strstr(t->name, "e_score_correction") && !strstr(t->name, "block_sparse_moe.input") &&
            !strstr(t->name, "block_sparse_moe.output") && !d->config.is_wrapped &&
            (d->config.scales_track || !strstr(t->name, "correct_output_scale")))
            assert_good(weights_want(golden, name, t->rank, t->dim, &grad, &e), &e);
    }
}

/* Fault: a directory as transformers writes it is refused, or its golden tensors do not fit its
 * shapes: the logits [prompt, vocabulary], a gradient for each weight that is no code. */
static void test_golden_directories(void **state)
{
    (void)state;
    struct dirent **entry;
    int n = scandir("tests/golden/models", &entry, NULL, alphasort), n_seen = 0;
    for (int i = 0; i < n; i++) {
        char path[512], name[600];
        struct model_dir d;
        struct err e = ERR_INIT;
        snprintf(path, sizeof path, "tests/golden/models/%.200s", entry[i]->d_name);
        bool is_hidden = entry[i]->d_name[0] == '.';
        bool is_packed = strncmp(entry[i]->d_name, "packed_", 7) == 0;
        free(entry[i]);
        if (is_hidden)
            continue;
        assert_good(model_dir_init(&d, path, &e), &e);
        snprintf(name, sizeof name, "%s/golden.safetensors", path);
        struct weights *golden = weights_open_file(name, &e);
        assert_non_null(golden);
        if (!is_packed)
            has_gradients(&d, golden);
        const struct weight *logits = weights_get(golden, "logits");
        if (!d.config.is_encoder)
            assert_true(logits && weight_row_len(logits) == d.config.n_vocab);
        weights_close(golden);
        model_dir_release(&d);
        n_seen += !is_packed; /* tests/engine/model/test_packed.c has those */
    }
    free(entry);
    int n_named = 0;
    while (golden_names[n_named])
        n_named++;
    assert_int_equal(n_seen, n_named);
}

/* Fault: real directories are refused, or their shapes are read otherwise than their tensors say.
 */
static void test_real_directories(void **state)
{
    (void)state;
    static const struct {
        const char *name, *embedding;
        enum config_family family;
    } row[] = {
        {"stories260K", "model.embed_tokens.weight", FAMILY_LLAMA},
        {"capp-gpt2-200K", "transformer.wte.weight", FAMILY_GPT2},
        {"gpt-nano-sort", "transformer.wte.weight", FAMILY_GPT2},
    };
    const char *data = getenv("TANDEM_TEST_DATA");
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char path[512];
        struct model_dir d;
        struct err e = ERR_INIT;
        const struct weight *w;
        snprintf(path, sizeof path, "%s/models/%s", data ? data : "../shared/data", row[i].name);
        if (model_dir_init(&d, path, &e)) {
            if (e.code != ERR_NOT_FOUND)
                fail_msg("%s", e.msg);
            print_message("no models under TANDEM_TEST_DATA: skipped\n");
            skip();
        }
        const int64_t dim[2] = {d.config.n_vocab, d.config.d_model};
        assert_int_equal(d.config.family, row[i].family);
        assert_good(weights_want(d.weights, row[i].embedding, 2, dim, &w, &e), &e);
        assert_non_null(d.tokenizer_path);
        model_dir_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_directory),
        cmocka_unit_test(test_errors_name_the_directory),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_lfs_pointers),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_golden_directories),
        cmocka_unit_test(test_real_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
