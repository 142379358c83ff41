/* SPDX-License-Identifier: Apache-2.0
 *
 * The families' marks, each as its authors have it.
 */
#include "engine/token/fim.h"

#include <string.h>

static const struct fim_marks all[] = {
    /* Qwen 2.5 Coder and Qwen 3 Coder; CodeGemma, Granite 4, whose ends are their own */
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
     .end = {"<|fim_pad|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>"}},
    /* StarCoder and StarCoder 2, Granite Code */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", .end = {"<fim_pad>", "<file_sep>"}},
    /* SantaCoder */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", .end = {"<fim-pad>"}},
    /* DeepSeek-Coder */
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     .end = {"<|EOT|>"}},
    /* Code Llama */
    {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>", .end = {"\xe2\x96\x81<EOT>"}},
    /* GLM 4 */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", .end = {NULL}},
    /* Codestral */
    {"[PREFIX]", "[SUFFIX]", NULL, .is_behind_first = true, .end = {NULL}},
};

/* A piece of ordinary text that happens to be spelled so is none. */
static bool is_mark(const struct tokenizer *t, const char *token)
{
    struct tok_list list;
    struct err e = ERR_INIT;
    size_t n = strlen(token);
    if (tokenizer_id(t, token, n) < 0)
        return false;
    tok_list_init(&list, n + 8, false);
    bool is = !tokenizer_encode(t, token, n, true, false, &list, &e) && list.n == 1 &&
              list.id[0] == tokenizer_id(t, token, n);
    tok_list_release(&list);
    return is;
}

const struct fim_marks *fim_marks_find(const struct tokenizer *t)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is_mark(t, all[i].before) && is_mark(t, all[i].behind) &&
            (!all[i].gap || is_mark(t, all[i].gap)))
            return &all[i];
    return NULL;
}

int32_t fim_marks_ends(const struct fim_marks *m, const struct tokenizer *t,
                       int32_t id[FIM_ENDS_MAX])
{
    int32_t n = 0;
    for (int i = 0; i < FIM_ENDS_MAX && m->end[i]; i++)
        if (is_mark(t, m->end[i]))
            id[n++] = tokenizer_id(t, m->end[i], strlen(m->end[i]));
    return n;
}

static void add(struct tok_segment *seg, size_t *n, const char *text, size_t len, bool is_trusted)
{
    if (text && len)
        seg[(*n)++] = (struct tok_segment){.text = text, .len = len, .is_trusted = is_trusted};
}

static void add_mark(struct tok_segment *seg, size_t *n, const char *mark)
{
    add(seg, n, mark, mark ? strlen(mark) : 0, true);
}

size_t fim_marks_segments(const struct fim_marks *m, const struct fim_text *text,
                          struct tok_segment seg[FIM_SEGMENTS])
{
    size_t n = 0;
    if (m->is_behind_first) {
        add_mark(seg, &n, m->behind);
        add(seg, &n, text->behind, text->n_behind, false);
    }
    add_mark(seg, &n, m->before);
    add(seg, &n, text->before, text->n_before, false);
    if (!m->is_behind_first) {
        add_mark(seg, &n, m->behind);
        add(seg, &n, text->behind, text->n_behind, false);
    }
    add_mark(seg, &n, m->gap);
    add(seg, &n, text->begun, text->n_begun, false);
    return n;
}
