/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows against what serving is asked, over tokenizers of every kind: the tiny ones of the goldens,
 * the bundled model's, and real ones where test data is there. Borders are drawn.
 */
#include <unistd.h>

#include "engine/base/rng.h"
#include "engine/train/row_text.h"
#include "tests/engine/token/fixture.h"

enum { SEED = 77, BORDERS = 300, TEXT_BYTES = 200 };

static const char *const tiny[] = {"added",     "bert",     "bert_cased", "clip",     "deepseek",
                                   "falcon",    "gemma",    "gpt2",       "llama2",   "llama3",
                                   "metaspace", "mistral",  "o200k",      "prefixes", "qwen2",
                                   "roberta",   "unknowns", "words"};
static const char *const real[] = {"bert-base-uncased", "cl100k_base",  "gpt2",  "llama2",
                                   "llama3.2",          "mistral-v0.3", "phi-3", "starcoder"};

typedef void check_fn(const struct tokenizer *t, const char *name);

static void over_all(check_fn *check)
{
    const char *data = getenv("TANDEM_TEST_DATA");
    struct err e = ERR_INIT;
    char path[512];
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        struct tokenizer *t = golden_tokenizer(tiny[i]);
        check(t, tiny[i]);
        tokenizer_free(t);
    }
    struct tokenizer *own = tokenizer_load("examples/tiny/model", &e);
    assert_good(own ? 0 : -1, &e);
    check(own, "bundled");
    tokenizer_free(own);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        snprintf(path, sizeof path, "%s/tokenizers/%s", data ? data : "../shared/data", real[i]);
        if (access(path, R_OK) != 0) {
            print_message("%s is absent: skipped\n", path);
            continue;
        }
        struct tokenizer *t = tokenizer_load(path, &e);
        assert_good(t ? 0 : -1, &e);
        check(t, real[i]);
        tokenizer_free(t);
    }
}

/* A drawn text of things that tokenizers join: words, digits, spaces, lines, marks, other scripts.
 */
static size_t draw_text(uint64_t n, char *out)
{
    static const char *const bits[] = {"the",  " the", " ",   "  ",  "\n",   "\n\n",  "12",
                                       "3456", "'s",   "ing", "un",  "!",    " .",    "-",
                                       "é",    "日本", " x",  "abc", "word", "can't", " (",
                                       ")",    "😀",    "   ", "\t",  "a",    "Z"};
    size_t len = 0, want = 1 + rng_below(SEED, 1, n, 12);
    for (size_t i = 0; i < want; i++) {
        const char *b = bits[rng_below(SEED, 2, n * 16 + i, sizeof bits / sizeof *bits)];
        size_t k = strlen(b);
        memcpy(out + len, b, k);
        len += k;
    }
    out[len] = 0;
    return len;
}

static struct tok_list list_new(void)
{
    struct tok_list l;
    tok_list_init(&l, 1 << 20, true);
    return l;
}

static void text_of(const struct tokenizer *t, const struct tok_list *l, struct buf *out)
{
    struct err e = ERR_INIT;
    buf_clear(out);
    assert_good(tokenizer_decode(t, l->id, l->n, true, out, &e), &e);
    buf_char(out, 0);
}

static bool has_unknown(const struct tokenizer *t, const struct tok_list *l)
{
    int32_t named = tokenizer_id(t, "[UNK]", 5), angled = tokenizer_id(t, "<unk>", 5);
    for (size_t i = 0; i < l->n; i++)
        if (l->id[i] >= 0 &&
            (l->id[i] == tokenizer_unk(t) || l->id[i] == named || l->id[i] == angled))
            return true;
    return false;
}

static void check_pair(const struct tokenizer *t, const char *name, const char *text, size_t len,
                       size_t border)
{
    struct err e = ERR_INIT;
    struct tok_segment p = {text, border, true}, c = {text + border, len - border, true};
    struct tok_list row = list_new(), prompt = list_new(), whole = list_new();
    struct row_part part;
    struct buf got, want;
    buf_init(&got, 1 << 16);
    buf_init(&want, 1 << 16);
    assert_good(tokenizer_encode(t, text, border, true, true, &prompt, &e), &e);
    assert_good(tokenizer_encode(t, text, len, true, true, &whole, &e), &e);
    assert_good(row_text_pair(t, &p, &c, &row, &part, &e), &e);
    assert_true(row.n >= prompt.n && part.lo == prompt.n && part.hi == row.n);
    if (prompt.n) /* what serving is asked is what the row begins with */
        assert_memory_equal(row.id, prompt.id, prompt.n * sizeof *row.id);
    text_of(t, &row, &got);
    text_of(t, &whole, &want);
    /* with a suffix at the end of words the prompt alone ends one: nothing can go on in it */
    bool ends_words = strcmp(name, "clip") == 0;
    if (!ends_words && !has_unknown(t, &row) && !has_unknown(t, &whole) &&
        strcmp(got.data, want.data) != 0)
        fail_msg("%s: \"%.*s\" + \"%s\" reads \"%s\", not \"%s\"", name, (int)border, text,
                 text + border, got.data, want.data);
    buf_release(&got);
    buf_release(&want);
    tok_list_release(&row);
    tok_list_release(&prompt);
    tok_list_release(&whole);
}

static void check_pairs(const struct tokenizer *t, const char *name)
{
    char text[TEXT_BYTES];
    for (uint64_t i = 0; i < BORDERS; i++) {
        size_t len = draw_text(i, text), border = rng_below(SEED, 3, i, len + 1);
        while (border < len && ((uint8_t)text[border] & 0xc0) == 0x80)
            border++;
        check_pair(t, name, text, len, border);
    }
}

/* Faults: a prompt whose last token goes on in the completion, so that it is never asked; a
 * completion that grows or loses a space, or begins a word that goes on. */
static void a_prompt_is_what_is_asked(void **state)
{
    (void)state;
    over_all(check_pairs);
}

/* ---- conversations ------------------------------------------------------------------------- */

/* Templates whose assistant begins behind text that its answer joins, and behind a special token.
 */
static const char *const templates[] = {
    "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }}\n{% else %}"
    "ASSISTANT: {{ m.content }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"};

struct talk {
    struct arena arena;
    struct jvalue messages;
};

/* 2 * n_turn messages of drawn texts. */
static void talk_init(struct talk *k, uint64_t seed, size_t n_turn)
{
    struct err e = ERR_INIT;
    arena_init(&k->arena, 1 << 20);
    assert_good(jv_list(&k->arena, &k->messages, &e), &e);
    for (size_t i = 0; i < 2 * n_turn; i++) {
        char text[TEXT_BYTES];
        struct jvalue dict, v;
        const char *role = i % 2 ? "assistant" : "user";
        size_t n = draw_text(seed * 16 + i, text);
        assert_good(jv_dict(&k->arena, &dict, &e), &e);
        assert_good(jv_str(&k->arena, role, strlen(role), &v, &e), &e);
        assert_good(jv_dict_put(&k->arena, &dict, "role", 4, v, &e), &e);
        assert_good(jv_str(&k->arena, text, n, &v, &e), &e);
        assert_good(jv_dict_put(&k->arena, &dict, "content", 7, v, &e), &e);
        assert_good(jv_list_add(&k->arena, &k->messages, dict, &e), &e);
    }
}

/* The tokens of the first n messages with the generation prompt, as a server makes them. */
static struct tok_list asked(const struct tokenizer *t, const struct template *m,
                             const struct talk *k, size_t n)
{
    struct err e = ERR_INIT;
    struct jlist list = *k->messages.l;
    struct jvalue messages = k->messages;
    struct template_out out;
    struct tok_list l = list_new();
    list.n = n;
    messages.l = &list;
    struct template_in in = {.messages = &messages, .add_generation_prompt = true};
    assert_good(template_render(m, &in, &out, &e), &e);
    struct tok_segment *seg = calloc(out.n_span + 1, sizeof *seg);
    size_t n_seg = template_out_segments(&out, seg);
    assert_good(tokenizer_encode_segments(t, seg, n_seg, false, &l, &e), &e);
    free(seg);
    template_out_release(&out);
    return l;
}

/* only: the turn that is learned alone; -1: all. */
static void check_chat(const struct tokenizer *t, const char *name, const struct template *m,
                       const struct talk *k, int64_t only)
{
    struct err e = ERR_INIT;
    struct template_out out;
    struct template_turns turns;
    struct template_in in = {.messages = &k->messages};
    struct tok_list row = list_new(), whole = list_new();
    struct row_part part[8];
    struct buf got, want;
    size_t n = 0;
    assert_good(template_render_turns(m, &in, &out, &turns, &e), &e);
    for (size_t i = 0; i < turns.n; i++)
        if (only < 0 || only == (int64_t)i)
            part[n++] = (struct row_part){.lo = turns.at[i].begin, .hi = turns.at[i].end};
    assert_good(row_text_chat(t, &out, 1 << 20, &row, part, n, &e), &e);
    struct tok_list prompt = asked(t, m, k, only < 0 ? 1 : 2 * (size_t)only + 1);
    if (part[0].lo != prompt.n || memcmp(row.id, prompt.id, prompt.n * sizeof *row.id) != 0)
        fail_msg("%s: a row of \"%s\" does not begin with what is asked", name, out.text);
    for (size_t i = 0; i < n; i++)
        assert_true(part[i].lo <= part[i].hi && part[i].hi <= row.n &&
                    (i == 0 || part[i - 1].hi <= part[i].lo));
    buf_init(&got, 1 << 16);
    buf_init(&want, 1 << 16);
    struct tok_segment *seg = calloc(out.n_span + 1, sizeof *seg);
    size_t n_seg = template_out_segments(&out, seg);
    assert_good(tokenizer_encode_segments(t, seg, n_seg, false, &whole, &e), &e);
    text_of(t, &row, &got);
    text_of(t, &whole, &want);
    if (strcmp(name, "clip") != 0 && !has_unknown(t, &row) && !has_unknown(t, &whole) &&
        strcmp(got.data, want.data) != 0)
        fail_msg("%s: a row reads \"%s\", not \"%s\"", name, got.data, want.data);
    int32_t begin = tokenizer_id(t, "<|assistant|>", 13);
    if (begin >= 0 && tokenizer_is_special(t, begin) && prompt.id[prompt.n - 1] == begin) {
        assert_int_equal(row.n, whole.n); /* nothing is joined over it, so nothing is cut */
        assert_memory_equal(row.id, whole.id, row.n * sizeof *row.id);
    }
    free(seg);
    buf_release(&got);
    buf_release(&want);
    tok_list_release(&row);
    tok_list_release(&whole);
    tok_list_release(&prompt);
    template_out_release(&out);
    template_turns_release(&turns);
}

static void check_chats(const struct tokenizer *t, const char *name)
{
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct template *m;
        assert_good(template_compile(templates[i], strlen(templates[i]), &m, &e), &e);
        for (uint64_t seed = 0; seed < BORDERS / 6; seed++) {
            struct talk k;
            talk_init(&k, seed, 3);
            for (int64_t only = -1; only < 3; only++)
                check_chat(t, name, m, &k, only);
            arena_release(&k.arena);
        }
        template_unref(m);
    }
}

/* Faults: a token over the border of generation prompt and answer; a part that is counted in bytes,
 * or that a cut moves; a cut that loses text. */
static void a_turn_begins_where_it_is_asked(void **state)
{
    (void)state;
    over_all(check_chats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_what_is_asked),
        cmocka_unit_test(a_turn_begins_where_it_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
