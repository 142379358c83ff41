/* SPDX-License-Identifier: Apache-2.0
 *
 * Time on hostile text: four times the text must take about four times the time (a quadratic step
 * takes sixteen times as long), for each way of a text through the tokenizer. Processor time, the
 * best of a few runs, so that a busy machine does not fail it. With TANDEM_TEST_DATA the speed on
 * English is printed as well; it is no condition.
 */
#include <time.h>
#include <unistd.h>

#include "tests/engine/token/fixture.h"

enum { MAX_BYTES = 128 << 10, ROUNDS = 7 };

static const char *const kinds[] = {"llama3",    "gpt2", "qwen2", "llama2", "mistral",      "gemma",
                                    "metaspace", "bert", "added", "xlmr",   "unigram_bytes"};

static const struct {
    const char *name, *unit; /* repeated */
} hostile[] = {
    {"one letter", "a"},
    {"spaces", " "},
    {"newlines", "\n"},
    {"underscores", "_"},
    {"digits", "1"},
    {"emoji joined", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d"},
    {"combining marks", "\xcc\x81\xcc\x96\xcc\xa7\xcd\x85"},
    {"growing under NFC", "\xef\xac\xac\xf0\x9d\x85\xa0"},
    {"growing under NFKC", "\xef\xb7\xba"},
    {"broken bytes", "\xff\xc0\xe2\x82"},
    {"begins of specials", "<|en"},
    {"specials", "<|user|> "},
    {"spaces and letters", " a"},
    {"tabs and spaces", " \t"},
    {"line ends", "\r\n"},
    {"apostrophes", "'"},
    {"marks of spaces", "\xe2\x96\x81"},
    {"byte tokens", "<0xE2>"},
    {"jamo", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"},
    {"random bytes", NULL},
    {"random letters", ""},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(char *text, const char *unit)
{
    uint64_t seed = 42;
    size_t n = unit ? strlen(unit) : 0;
    for (size_t i = 0; i < MAX_BYTES; i++)
        text[i] = !unit ? (char)rnd(&seed, 256) : !n ? (char)('a' + rnd(&seed, 26)) : unit[i % n];
}

static double time_of(const struct tokenizer *t, const char *text, size_t len)
{
    struct tok_list l;
    struct err e = ERR_INIT;
    tok_list_init(&l, 1 << 24, false);
    double start = seconds();
    assert_good(tokenizer_encode(t, text, len, true, false, &l, &e), &e);
    double took = seconds() - start;
    tok_list_release(&l);
    return took;
}

/* The least of many is the text's own time; a machine that does other things meanwhile needs more
 * of them. */
static void check(const struct tokenizer *t, const char *kind, const char *name, const char *text)
{
    double part = 1e9, whole = 1e9, spent = 0;
    for (int i = 1; i <= ROUNDS || spent < 5; i++) {
        double a = time_of(t, text, MAX_BYTES / 4), b = time_of(t, text, MAX_BYTES);
        part = a < part ? a : part;
        whole = b < whole ? b : whole;
        spent += a + b;
        if (i > 1 && whole < (i < ROUNDS ? 2.4 * 2.4 * part + 0.001 : 8 * part + 0.004))
            return;
    }
    fail_msg("%s, %s: %.1f ms for a quarter, %.1f ms for the whole", kind, name, part * 1e3,
             whole * 1e3);
}

static void time_grows_with_the_text(void **state)
{
    (void)state;
    char *text = malloc(MAX_BYTES);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct tokenizer *t = golden_tokenizer(kinds[k]);
        for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
            fill(text, hostile[i].unit);
            check(t, kinds[k], hostile[i].name, text);
        }
        tokenizer_free(t);
    }
    free(text);
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = malloc(4 << 20);
    *len = fread(text, 1, 4 << 20, f);
    fclose(f);
    return text;
}

static void speed_on_english(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3.2", "gpt2", "llama2", "mistral-v0.3",
                                        "bert-base-uncased"};
    const char *dir = getenv("TANDEM_TEST_DATA");
    char path[4096];
    size_t len = 0;
    dir = dir ? dir : "../shared/data";
    snprintf(path, sizeof path, "%s/text/wikitext2-valid.txt", dir);
    char *text = read_file(path, &len);
    if (!text) {
        print_message("%s is absent: no speed is measured\n", path);
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err e = ERR_INIT;
        double best = 1e9;
        snprintf(path, sizeof path, "%s/tokenizers/%s", dir, names[i]);
        struct tokenizer *t = tokenizer_load(path, &e);
        if (!t)
            fail_msg("%s", e.msg);
        for (int k = 0; k < 5; k++) {
            double took = time_of(t, text, len);
            best = took < best ? took : best;
        }
        print_message("%-18s %6.1f MB/s\n", names[i], (double)len / best / 1e6);
        tokenizer_free(t);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_text),
                                       cmocka_unit_test(speed_on_english)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
