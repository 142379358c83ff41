/* SPDX-License-Identifier: Apache-2.0
 *
 * The names under which files hold a parameter: with and without the body's, an embedding that
 * stands there as the head alone, and what is told of one that is missing.
 */
#include "tests/lib/test.h"

#include "engine/model/stored.h"
#include "tests/engine/load/st_make.h"

#define ROWS(name, shape, bytes)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" bytes "}"
#define TENSOR(name) "{" ROWS(name, "[3,2]", "[0,24]") "}"

/* Looks for an embedding in a file of one tensor. */
static int want(const char *dir, const char *header, bool is_tied, struct err *e)
{
    const struct config c = {.family = FAMILY_QWEN2, .is_tied = is_tied};
    const struct weight *found = NULL;
    put_st(dir, "model.safetensors", header, 24);
    struct weights *w = weights_open(dir, e);
    assert_non_null(w);
    int rc = stored_want(w, &c, "embed_tokens.weight", 2, (int64_t[]){3, 2}, &found, e);
    assert_true(rc != 0 || found == weights_at(w, 0));
    weights_close(w);
    return rc;
}

/* Faults: one of the names is not tried; a head of its own is taken for the embedding. */
static void any_of_its_names(void **state)
{
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    (void)state;
    assert_good(want(dir, TENSOR("model.embed_tokens.weight"), true, &e), &e);
    assert_good(want(dir, TENSOR("embed_tokens.weight"), false, &e), &e);
    assert_good(want(dir, TENSOR("lm_head.weight"), true, &e), &e);
    assert_err(want(dir, TENSOR("lm_head.weight"), false, &e), &e, ERR_NOT_FOUND,
               "the tensor model.embed_tokens.weight is missing; nor is there embed_tokens.weight");
    test_dir_free(dir);
}

/* Fault: of two that a file has, the head is taken for the embedding. */
static void the_first_of_its_names(void **state)
{
    static const char header[] =
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
        "\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[24,48]}}";
    const struct config c = {.family = FAMILY_QWEN2, .is_tied = true};
    const struct weight *found = NULL;
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    (void)state;
    put_st(dir, "model.safetensors", header, 48);
    struct weights *w = weights_open(dir, &e);
    assert_good(w ? 0 : -1, &e);
    assert_good(stored_want(w, &c, "embed_tokens.weight", 2, (int64_t[]){3, 2}, &found, &e), &e);
    assert_ptr_equal(found, weights_get(w, "model.embed_tokens.weight"));
    weights_close(w);
    test_dir_free(dir);
}

/* Fault: who has a file of other names is told of one alone. */
static void all_names_are_told(void **state)
{
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    (void)state;
    assert_err(want(dir, TENSOR("x.embed_tokens.weight"), true, &e), &e, ERR_NOT_FOUND,
               "model.safetensors: the tensor model.embed_tokens.weight is missing; nor is there "
               "embed_tokens.weight, model.lm_head.weight, lm_head.weight");
    test_dir_free(dir);
}

/* Fault: of a tensor that has another shape it is said that it is missing, or another name's is
 * taken. */
static void the_first_is_the_one(void **state)
{
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    (void)state;
    assert_err(want(dir,
                    "{" ROWS("model.embed_tokens.weight", "[2,2]",
                             "[0,16]") "," ROWS("lm_head.weight", "[1,2]", "[16,24]") "}",
                    true, &e),
               &e, ERR_BAD_INPUT, "model.embed_tokens.weight: expected [3, 2]");
    assert_null(strstr(e.msg, "nor is there"));
    assert_err(want(dir, "{" ROWS("model.embed_tokens.weight", "[6]", "[0,24]") "}", false, &e), &e,
               ERR_BAD_INPUT, "model.embed_tokens.weight: expected [3, 2]");
    assert_null(strstr(e.msg, "nor is there"));
    test_dir_free(dir);
}

/* Fault: a tensor of a GGUF file that its architecture has and the family here has not, as biases
 * of queries alone, is passed over. */
static void all_of_a_gguf_file(void **state)
{
    enum { MOST = 64 };
    const struct weight *from[MOST];
    struct err e = ERR_INIT;
    (void)state;
    struct weights *w = weights_open_gguf("tests/golden/gguf/llama_mha_bias.gguf", &e);
    assert_good(w ? 0 : -1, &e);
    int32_t n = (int32_t)weights_count(w), n_left = 0;
    assert_true(n > 1 && n <= MOST);
    for (int32_t i = 0; i < n; i++)
        from[i] = weights_at(w, (size_t)i);
    assert_good(stored_check_all(w, from, n, &e), &e);
    for (int32_t i = 0; i < n; i++)
        if (strcmp(from[i]->t->name, "model.layers.1.self_attn.q_proj.bias") != 0)
            from[n_left++] = from[i];
    assert_int_equal(n_left, n - 1);
    assert_err(stored_check_all(w, from, n_left, &e), &e, ERR_UNSUPPORTED,
               "llama_mha_bias.gguf: blk.1.attn_q.bias: is no parameter of this model");
    weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_of_its_names),       cmocka_unit_test(all_of_a_gguf_file),
        cmocka_unit_test(the_first_of_its_names), cmocka_unit_test(all_names_are_told),
        cmocka_unit_test(the_first_is_the_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
