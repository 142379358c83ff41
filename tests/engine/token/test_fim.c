/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/token/fim.h. Faults it can catch: a family whose marks are not told, or are set in another
 * order; a mark that a client's text makes; a model that has none of them and is taken for one that
 * has.
 */
#include "engine/token/fim.h"

#include "tests/engine/token/fixture.h"

/* The text of a golden tokenizer whose three special tokens are called otherwise. */
static struct tokenizer *tokenizer_of(const char *const name[3])
{
    static const char *const old[] = {"<|end|>", "<|user|>", "<s>"};
    FILE *f = fopen(GOLDEN "qwen2.json", "rb");
    struct err e = ERR_INIT;
    struct buf in, out;
    char part[4096];
    assert_non_null(f);
    buf_init(&in, 1 << 24);
    buf_init(&out, 1 << 24);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(&in, part, n);
    fclose(f);
    for (size_t i = 0; i < in.len;) {
        size_t k = 0;
        while (k < 3 && (!name[k] || strncmp(in.data + i, old[k], strlen(old[k])) != 0))
            k++;
        buf_add(&out, k < 3 ? name[k] : in.data + i, k < 3 ? strlen(name[k]) : 1);
        i += k < 3 ? strlen(old[k]) : 1;
    }
    struct tokenizer *t = tokenizer_parse(out.data, out.len, &e);
    assert_good(t ? 0 : -1, &e);
    buf_release(&in);
    buf_release(&out);
    return t;
}

static size_t count(const struct tok_list *l, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->id[i] == id;
    return n;
}

#define BEFORE "def f(a):\n    return "
#define BEHIND "print(f(1))" /* a token of that file takes spaces behind it */

static const struct fim_text text = {.before = BEFORE,
                                     .n_before = sizeof BEFORE - 1,
                                     .behind = BEHIND,
                                     .n_behind = sizeof BEHIND - 1,
                                     .begun = "a",
                                     .n_begun = 1};

static const struct {
    const char *name[3]; /* before, behind, the gap */
    bool is_behind_first;
} family[] = {{{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, false},
              {{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, false},
              {{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"}, false},
              {{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, false},
              {{"▁<PRE>", "▁<SUF>", "▁<MID>"}, false},
              {{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, false},
              {{"[PREFIX]", "[SUFFIX]", NULL}, true}};

static void families_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof family / sizeof *family; i++) {
        const char *const *name = family[i].name;
        struct tokenizer *t = tokenizer_of(name);
        const struct fim_marks *m = fim_marks_find(t);
        struct tok_segment seg[FIM_SEGMENTS];
        struct tok_list got;
        struct buf back;
        char want[256];
        struct err e = ERR_INIT;
        assert_non_null(m);
        size_t n = fim_marks_segments(m, &text, seg);
        tok_list_init(&got, 1 << 16, false);
        assert_good(tokenizer_encode_segments(t, seg, n, false, &got, &e), &e);
        for (size_t k = 0; k < 3 && name[k]; k++)
            assert_int_equal(count(&got, tokenizer_id(t, name[k], strlen(name[k]))), 1);
        buf_init(&back, 1 << 16);
        assert_good(tokenizer_decode(t, got.id, got.n, false, &back, &e), &e);
        if (family[i].is_behind_first)
            snprintf(want, sizeof want, "%s" BEHIND "%s" BEFORE "a", name[1], name[0]);
        else
            snprintf(want, sizeof want, "%s" BEFORE "%s" BEHIND "%sa", name[0], name[1], name[2]);
        assert_int_equal(back.len, strlen(want));
        assert_memory_equal(back.data, want, back.len);
        buf_release(&back);
        tok_list_release(&got);
        tokenizer_free(t);
    }
}

/* A program that has a mark in one of its strings. */
static void texts_make_no_marks(void **state)
{
    static const char quoted[] = "m = '<|fim_suffix|>'";
    (void)state;
    struct tokenizer *t = tokenizer_of(family[0].name);
    const struct fim_text around = {.before = quoted, .n_before = sizeof quoted - 1};
    struct tok_segment seg[FIM_SEGMENTS];
    struct tok_list got;
    struct err e = ERR_INIT;
    size_t n = fim_marks_segments(fim_marks_find(t), &around, seg);
    assert_int_equal(n, 4); /* nothing stands behind the gap, and that is marked all the same */
    tok_list_init(&got, 1 << 16, false);
    assert_good(tokenizer_encode_segments(t, seg, n, false, &got, &e), &e);
    assert_int_equal(count(&got, tokenizer_id(t, "<|fim_suffix|>", 14)), 1);
    tok_list_release(&got);
    tokenizer_free(t);
}

static void others_have_none(void **state)
{
    static const char *const some[] = {"<|fim_prefix|>", "<|fim_suffix|>", NULL};
    int32_t id[FIM_ENDS_MAX];
    (void)state;
    struct tokenizer *t = tokenizer_of(some); /* the third is lacking */
    assert_null(fim_marks_find(t));
    tokenizer_free(t);
    t = tokenizer_of(family[1].name);
    assert_int_equal(fim_marks_ends(fim_marks_find(t), t, id), 0);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_told),
        cmocka_unit_test(texts_make_no_marks),
        cmocka_unit_test(others_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
