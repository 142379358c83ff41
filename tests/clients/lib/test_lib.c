/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of the library, on the bundled model. Faults it can catch: options of an older header
 * that are read past their end, or of a newer one that are dropped in silence; an answer that
 * differs from thread to thread, or from what was told of it piece by piece; text behind a stop; a
 * conversation that is rendered otherwise than a template says; a training that writes over
 * something, writes what was broken off, or runs beside another; a fault without a text; a model
 * that is freed while threads are in it; vectors that are longer than is said, or others than the
 * server's; a log that waits for itself.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/lib/tandem.h"
#include "tests/lib/test.h"

#define MODEL    "examples/tiny/model"
#define QUESTION "What does tandem tune do?"
#define CHAT     "[{\"role\": \"user\", \"content\": \"" QUESTION "\"}]"
#define PROMPT   "<|user|>" QUESTION "<|end|><|assistant|>"

static struct tandem_model *shared;

#define assert_fault(rc, e, want, words)                                                           \
    do {                                                                                           \
        assert_int_not_equal((rc), 0);                                                             \
        assert_int_equal((e).fault, (want));                                                       \
        if (!strstr((e).text, (words)))                                                            \
            fail_msg("\"%s\" does not say \"%s\"", (e).text, (words));                             \
    } while (0)

static int open_shared(void **state)
{
    struct tandem_open_options o = TANDEM_OPEN_OPTIONS;
    struct tandem_error e = {0};
    (void)state;
    o.threads = 2;
    o.ctx = 512;
    shared = tandem_open(MODEL, &o, &e);
    if (!shared)
        print_error("%s\n", e.text);
    return shared ? 0 : -1;
}

static int close_shared(void **state)
{
    (void)state;
    tandem_close(shared);
    return 0;
}

static struct tandem_generate_options greedy(void)
{
    struct tandem_generate_options o = TANDEM_GENERATE_OPTIONS;
    o.temperature = 0;
    o.max_tokens = 48;
    return o;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void refused(const struct tandem_open_options *o, const char *path, const char *words)
{
    struct tandem_error e = {0};
    struct tandem_model *m = tandem_open(path, o, &e);
    assert_fault(m != NULL ? 0 : -1, e, TANDEM_BAD_INPUT, words);
}

static void test_open_faults(void **state)
{
    struct tandem_open_options o = TANDEM_OPEN_OPTIONS;
    (void)state;
    refused(NULL, NULL, "path is needed");
    refused(NULL, "examples/nowhere", "nowhere");
    o.device = "abacus";
    refused(&o, MODEL, "device: auto, cpu or cuda");
    o = (struct tandem_open_options)TANDEM_OPEN_OPTIONS;
    o.quantize = "int3";
    refused(&o, MODEL, "quantize: one of");
    o = (struct tandem_open_options)TANDEM_OPEN_OPTIONS;
    o.threads = -1;
    refused(&o, MODEL, "must not be below 0");
    o = (struct tandem_open_options)TANDEM_OPEN_OPTIONS;
    o.max_adapters = 1 << 20;
    refused(&o, MODEL, "max_adapters");
    assert_null(tandem_open(NULL, NULL, NULL));
    assert_string_equal(tandem_version(), tandem_version());
    tandem_close(NULL);
}

/* Of an older header the last member is not there; a newer one has more than is known. */
static void test_sizes_of_options(void **state)
{
    struct {
        struct tandem_generate_options o;
        char more[8];
    } newer = {.o = greedy()};
    struct tandem_generate_options older = greedy();
    struct tandem_answer a;
    struct tandem_error e = {0};
    (void)state;
    older.size = offsetof(struct tandem_generate_options, adapter);
    older.adapter = (const char *)(uintptr_t)8; /* is not looked at */
    assert_int_equal(tandem_chat(shared, CHAT, &older, &a, &e), 0);
    tandem_answer_release(&a);
    newer.o.size = sizeof newer;
    assert_fault(tandem_chat(shared, CHAT, &newer.o, &a, &e), e, TANDEM_BAD_INPUT, "knows");
    assert_null(a.text);
    newer.o.size = 0;
    assert_fault(tandem_chat(shared, CHAT, &newer.o, &a, &e), e, TANDEM_BAD_INPUT, "initializer");
}

/* The model of tests/golden/encoder with its tokenizer beside it. */
static char *encoder_new(void)
{
    static const char *const file[] = {"config.json",           "model.safetensors",
                                       "modules.json",          "1_Pooling",
                                       "tokenizer_config.json", "sentence_bert_config.json"};
    char *dir = test_dir_new(), *root = getcwd(NULL, 0), from[1024];
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        snprintf(from, sizeof from, "%s/tests/golden/encoder/bge_m3/%s", root, file[i]);
        assert_int_equal(symlink(from, test_path(dir, file[i])), 0);
    }
    snprintf(from, sizeof from, "%s/tests/golden/tokenizer/xlmr.json", root);
    assert_int_equal(symlink(from, test_path(dir, "tokenizer.json")), 0);
    free(root);
    return dir;
}

static void hear_once(void *ctx, const char *line, size_t n)
{
    tandem_log(NULL, NULL);
    assert_true(n > 0 && line[n - 1] == '\n');
    ++*(int *)ctx;
}

/* Its template does not compile, of which a line tells. */
static void test_log_may_use_the_library(void **state)
{
    struct tandem_error e = {0};
    char *dir = encoder_new();
    int n = 0;
    (void)state;
    test_put(test_path(dir, "chat_template.jinja"), "{% if", 5);
    tandem_log(hear_once, &n);
    struct tandem_model *m = tandem_open(dir, NULL, &e);
    tandem_log(NULL, NULL);
    if (!m)
        fail_msg("%s", e.text);
    tandem_close(m);
    assert_int_equal(n, 1);
    test_dir_free(dir);
}

/* ---- texts --------------------------------------------------------------------------------- */

struct heard {
    char text[4096];
    size_t n, n_call, ends_at;
};

static int hear(void *ctx, const char *text, size_t n)
{
    struct heard *h = ctx;
    assert_true(n > 0 && h->n + n < sizeof h->text);
    memcpy(h->text + h->n, text, n);
    h->n += n;
    return ++h->n_call == h->ends_at;
}

static void test_chat_is_its_template(void **state)
{
    struct tandem_generate_options o = greedy();
    struct tandem_answer a, b;
    struct heard h = {.n = 0};
    struct tandem_error e = {0};
    (void)state;
    o.text = hear;
    o.ctx = &h;
    assert_int_equal(tandem_chat(shared, CHAT, &o, &a, &e), 0);
    o.text = NULL;
    assert_int_equal(tandem_generate(shared, PROMPT, &o, &b, &e), 0);
    assert_string_equal(a.text, "tandem tune fine-tunes a model on a server, on a file of rows.");
    assert_string_equal(a.text, b.text);
    assert_int_equal(a.n, strlen(a.text));
    assert_int_equal(a.prompt_tokens, b.prompt_tokens);
    assert_int_equal(a.end, TANDEM_END_STOP);
    assert_true(h.n_call > 0 && h.n == a.n && memcmp(h.text, a.text, a.n) == 0);
    tandem_answer_release(&a);
    tandem_answer_release(&b);
    tandem_answer_release(&b);
}

static void test_ends(void **state)
{
    static const char *const stop[] = {"on a server", "zebra"};
    struct tandem_generate_options o = greedy();
    struct heard h = {.ends_at = 1};
    struct tandem_answer a;
    struct tandem_error e = {0};
    (void)state;
    o.max_tokens = 3;
    assert_int_equal(tandem_chat(shared, CHAT, &o, &a, &e), 0);
    assert_int_equal(a.end, TANDEM_END_LENGTH);
    assert_int_equal(a.new_tokens, 3);
    tandem_answer_release(&a);
    o = greedy();
    o.text = hear;
    o.ctx = &h;
    assert_int_equal(tandem_chat(shared, CHAT, &o, &a, &e), 0);
    assert_int_equal(a.end, TANDEM_END_ASKED);
    assert_int_equal(h.n_call, 1);
    assert_true(a.n == h.n && memcmp(h.text, a.text, h.n) == 0);
    tandem_answer_release(&a);
    h = (struct heard){.n = 0};
    o.stop = stop;
    o.n_stop = 2;
    assert_int_equal(tandem_chat(shared, CHAT, &o, &a, &e), 0);
    assert_int_equal(a.end, TANDEM_END_STOP);
    assert_string_equal(a.text, "tandem tune fine-tunes a model ");
    assert_true(h.n == a.n && memcmp(h.text, a.text, a.n) == 0);
    tandem_answer_release(&a);
}

/* By when it returns, more tokens have come than have been looked at. */
static int hear_late(void *ctx, const char *text, size_t n)
{
    struct tandem_generate_options o = greedy();
    struct heard *h = ctx;
    struct tandem_answer a;
    struct tandem_error e = {0};
    o.max_tokens = 4;
    if (h->n_call == 0) {
        assert_int_equal(tandem_generate(shared, "a", &o, &a, &e), 0);
        tandem_answer_release(&a);
    }
    return hear(ctx, text, n);
}

static void test_held_back_text_is_not_told(void **state)
{
    static const char *const stop[] = {"tune fine-tunes a model on a server, on a file of"};
    struct tandem_generate_options o = greedy();
    struct heard h = {.n = 0};
    struct tandem_answer a;
    struct tandem_error e = {0};
    (void)state;
    o.stop = stop;
    o.n_stop = 1;
    o.text = hear_late;
    o.ctx = &h;
    assert_int_equal(tandem_chat(shared, CHAT, &o, &a, &e), 0);
    assert_string_equal(a.text, "tandem ");
    assert_true(h.n == a.n && memcmp(h.text, a.text, a.n) == 0);
    tandem_answer_release(&a);
}

static void test_faults_of_texts(void **state)
{
    struct tandem_generate_options o = greedy();
    struct tandem_answer a;
    struct tandem_error e = {0};
    char *much = calloc(1, 100001);
    (void)state;
    memset(much, 'a', 100000);
    assert_fault(tandem_generate(shared, much, &o, &a, &e), e, TANDEM_BAD_INPUT, "context");
    free(much);
    assert_fault(tandem_generate(shared, NULL, &o, &a, &e), e, TANDEM_BAD_INPUT, "needed");
    assert_fault(tandem_chat(shared, "[", &o, &a, &e), e, TANDEM_BAD_INPUT, "JSON");
    assert_fault(tandem_chat(shared, "{}", &o, &a, &e), e, TANDEM_BAD_INPUT, "messages");
    assert_fault(tandem_chat(shared, "[],\"x\":1", &o, &a, &e), e, TANDEM_BAD_INPUT, "messages");
    assert_fault(tandem_chat(shared, "[{\"role\": \"cat\"}]", &o, &a, &e), e, TANDEM_BAD_INPUT, "");
    assert_fault(tandem_chat(shared, NULL, &o, &a, &e), e, TANDEM_BAD_INPUT, "messages");
    o.adapter = "nobody";
    assert_fault(tandem_chat(shared, CHAT, &o, &a, &e), e, TANDEM_BAD_INPUT, "nobody");
    o = greedy();
    o.max_tokens = -1;
    assert_fault(tandem_chat(shared, CHAT, &o, &a, &e), e, TANDEM_BAD_INPUT, "max_tokens");
    o = greedy();
    o.temperature = 1e9;
    assert_fault(tandem_chat(shared, CHAT, &o, &a, &e), e, TANDEM_BAD_INPUT, "temperature");
    assert_int_not_equal(tandem_chat(shared, CHAT, &o, &a, NULL), 0);
}

struct asker {
    pthread_t thread;
    struct tandem_answer answer;
    int rc;
};

static void *ask(void *ctx)
{
    struct asker *t = ctx;
    struct tandem_generate_options o = greedy();
    o.temperature = 1;
    o.seed = 7;
    t->rc = tandem_generate(shared, "Once upon a time", &o, &t->answer, NULL);
    return NULL;
}

static void test_threads_have_their_own(void **state)
{
    struct asker t[9];
    (void)state;
    ask(&t[0]);
    for (int i = 1; i < 9; i++)
        assert_int_equal(pthread_create(&t[i].thread, NULL, ask, &t[i]), 0);
    for (int i = 1; i < 9; i++)
        pthread_join(t[i].thread, NULL);
    for (int i = 8; i >= 0; i--) {
        assert_int_equal(t[i].rc, 0);
        assert_string_equal(t[i].answer.text, t[0].answer.text);
        if (i)
            tandem_answer_release(&t[i].answer);
    }
    tandem_answer_release(&t[0].answer);
}

static void test_embed(void **state)
{
    struct tandem_error e = {0};
    struct tandem_answer a;
    float one[4096], two[4096];
    double length = 0, dot = 0;
    (void)state;
    assert_int_equal(tandem_width(shared), 128);
    assert_int_equal(tandem_context(shared), 512);
    assert_fault(tandem_embed(shared, "a", one, &e), e, TANDEM_BAD_INPUT, "embeddings");
    char *dir = encoder_new();
    struct tandem_model *m = tandem_open(dir, NULL, &e);
    if (!m)
        fail_msg("%s", e.text);
    assert_int_equal(tandem_embed(m, "A cat.", one, &e), 0);
    assert_int_equal(tandem_embed(m, "A dog and a bone.", two, &e), 0);
    for (int64_t i = 0; i < tandem_width(m); i++) {
        length += (double)one[i] * (double)one[i];
        dot += (double)one[i] * (double)two[i];
    }
    assert_true(length > 0.999 && length < 1.001 && dot < 0.999);
    assert_fault(tandem_generate(m, "a", NULL, &a, &e), e, TANDEM_BAD_INPUT, "encoder");
    tandem_close(m);
    test_dir_free(dir);
}

static void test_width_is_of_the_last_layer(void **state)
{
    struct tandem_error e = {0};
    struct tandem_model *m = tandem_open("tests/golden/models/gemma3_mean", NULL, &e);
    (void)state;
    if (!m)
        fail_msg("%s", e.text);
    assert_int_equal(tandem_width(m), 40); /* of 48 that the model computes in */
    tandem_close(m);
}

static void embed(struct tandem_model *m, const char *text, float vector[32])
{
    struct tandem_error e = {0};
    assert_int_equal(tandem_width(m), 32);
    if (tandem_embed(m, text, vector, &e))
        fail_msg("%s", e.text);
}

static void test_embed_as_the_server(void **state)
{
    static const char usual[] =
        "{\"prompts\": {\"query\": \"the old \"}, \"default_prompt_name\": \"query\"}";
    struct tandem_error e = {0};
    float plain[32], whole[32], behind[32], cut[32];
    char *dir = encoder_new(), much[1001] = "";
    (void)state;
    memset(much, 'a', 1000);
    struct tandem_model *m = tandem_open(dir, NULL, &e);
    assert_non_null(m);
    embed(m, "light", plain);
    embed(m, "the old light", whole);
    embed(m, much, cut);
    much[800] = 0;
    embed(m, much, behind);
    assert_memory_equal(cut, behind, sizeof cut);
    tandem_close(m);
    test_put(test_path(dir, "config_sentence_transformers.json"), usual, sizeof usual - 1);
    m = tandem_open(dir, NULL, &e);
    assert_non_null(m);
    embed(m, "light", behind);
    assert_memory_not_equal(behind, plain, sizeof plain);
    assert_memory_equal(behind, whole, sizeof whole);
    tandem_close(m);
    test_dir_free(dir);
}

/* ---- training ------------------------------------------------------------------------------ */

struct taught {
    int64_t n_step, ends_at;
    double first, last, valid;
    const char *rows, *other; /* files, for a training within the training */
};

static int step(void *ctx, const struct tandem_train_step *s)
{
    struct taught *t = ctx;
    struct tandem_error e = {0};
    if (t->other && s->step == 1)
        assert_fault(tandem_train(shared, t->rows, t->other, NULL, &e), e, TANDEM_BUSY, "training");
    t->first = s->step == 1 ? s->loss : t->first;
    t->last = s->loss;
    t->n_step = s->n_step;
    t->valid = s->valid_loss >= 0 ? s->valid_loss : t->valid;
    return s->step == t->ends_at;
}

static void test_train(void **state)
{
    static const char rows[] = "{\"prompt\": \"The word is\", \"completion\": \" zebra.\"}\n";
    struct tandem_train_options o = TANDEM_TRAIN_OPTIONS;
    struct tandem_generate_options g = greedy();
    struct tandem_error e = {0};
    struct tandem_answer a;
    struct stat there;
    char *dir = test_dir_new(), file[512], out[512], bad[512];
    snprintf(file, sizeof file, "%s/rows.jsonl", dir);
    snprintf(bad, sizeof bad, "%s/bad.jsonl", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    test_put(file, rows, sizeof rows - 1);
    test_put(bad, "{\"prompt\": 1}\n", 14);
    struct taught t = {.rows = file, .other = out, .ends_at = 2};
    (void)state;
    o.epochs = 50;
    o.batch = 1;
    o.learning_rate = 1e-2;
    o.step = step;
    o.ctx = &t;
    o.validation = file;
    assert_fault(tandem_train(shared, bad, out, &o, &e), e, TANDEM_BAD_INPUT, "Example 1");
    assert_fault(tandem_train(shared, "nowhere", out, &o, &e), e, TANDEM_BAD_INPUT, "nowhere");
    assert_fault(tandem_train(shared, file, dir, &o, &e), e, TANDEM_BAD_INPUT, "there already");
    assert_fault(tandem_train(shared, NULL, dir, &o, &e), e, TANDEM_BAD_INPUT, "needed");
    assert_int_equal(tandem_train(shared, file, out, &o, &e), 0); /* ended by its second step */
    assert_int_equal(t.n_step, 50);
    assert_int_not_equal(stat(out, &there), 0);
    o.epochs = t.ends_at = 1;
    t.other = NULL;
    assert_int_equal(tandem_train(shared, file, out, &o, &e), 0); /* ended by its last */
    assert_int_equal(t.n_step, 1);
    assert_int_not_equal(stat(out, &there), 0);
    o.epochs = 50;
    t.ends_at = 0;
    assert_int_equal(tandem_train(shared, file, out, &o, &e), 0);
    assert_true(t.last < t.first / 4 && t.valid < t.first / 4);
    assert_int_equal(tandem_adapter_load(shared, "taught", out, &e), 0);
    g.adapter = "taught";
    assert_int_equal(tandem_generate(shared, "The word is", &g, &a, &e), 0);
    assert_string_equal(a.text, " zebra.");
    tandem_answer_release(&a);
    assert_int_equal(tandem_adapter_drop(shared, "taught", &e), 0);
    assert_fault(tandem_adapter_drop(shared, "taught", &e), e, TANDEM_BAD_INPUT, "taught");
    assert_fault(tandem_adapter_load(shared, "x", dir, &e), e, TANDEM_BAD_INPUT, "adapter");
    assert_fault(tandem_adapter_load(shared, NULL, dir, &e), e, TANDEM_BAD_INPUT, "needed");
    assert_fault(tandem_adapter_load(shared, "x", NULL, &e), e, TANDEM_BAD_INPUT, "needed");
    assert_fault(tandem_adapter_drop(shared, NULL, &e), e, TANDEM_BAD_INPUT, "needed");
    test_dir_free(dir);
}

/* ---- closing ------------------------------------------------------------------------------- */

/* Two threads that are in a model while it is closed. */
struct visit {
    struct tandem_model *m;
    const char *file, *out;
    sem_t is_in;
    atomic_int n_end; /* of functions that went on until the close came, and returned */
    struct tandem_error asked, trained;
    int rc;
};

/* Does not return before the model is being closed. */
static int ask_until_closed(void *ctx, const char *text, size_t n)
{
    struct tandem_generate_options o = greedy();
    struct visit *v = ctx;
    struct tandem_answer a;
    (void)text;
    (void)n;
    sem_post(&v->is_in);
    for (o.max_tokens = 1; !tandem_generate(v->m, "a", &o, &a, &v->asked);)
        tandem_answer_release(&a);
    atomic_fetch_add(&v->n_end, 1);
    return 1;
}

static void *ask_visitor(void *ctx)
{
    struct tandem_generate_options o = greedy();
    struct visit *v = ctx;
    struct tandem_answer a;
    o.text = ask_until_closed;
    o.ctx = v;
    tandem_generate(v->m, PROMPT, &o, &a, NULL);
    tandem_answer_release(&a);
    return NULL;
}

static int tell_step(void *ctx, const struct tandem_train_step *s)
{
    struct visit *v = ctx;
    if (s->step == 1)
        sem_post(&v->is_in);
    return 0;
}

static void *train_visitor(void *ctx)
{
    struct tandem_train_options o = TANDEM_TRAIN_OPTIONS;
    struct visit *v = ctx;
    o.epochs = 1000000; /* it does not come to its end */
    o.batch = 1;
    o.step = tell_step;
    o.ctx = v;
    v->rc = tandem_train(v->m, v->file, v->out, &o, &v->trained);
    return NULL;
}

static void test_close_waits_for_callers(void **state)
{
    static const char rows[] = "{\"prompt\": \"The word is\", \"completion\": \" zebra.\"}\n";
    struct tandem_open_options o = TANDEM_OPEN_OPTIONS;
    struct tandem_error e = {0};
    char *dir = test_dir_new(), file[512], out[512];
    struct visit v = {.file = file, .out = out};
    pthread_t asks, trains;
    struct stat there;
    (void)state;
    snprintf(file, sizeof file, "%s/rows.jsonl", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    test_put(file, rows, sizeof rows - 1);
    sem_init(&v.is_in, 0, 0);
    o.threads = 1;
    v.m = tandem_open(MODEL, &o, &e);
    assert_non_null(v.m);
    assert_int_equal(pthread_create(&asks, NULL, ask_visitor, &v), 0);
    assert_int_equal(pthread_create(&trains, NULL, train_visitor, &v), 0);
    for (int i = 0; i < 2; i++)
        while (sem_wait(&v.is_in))
            ;
    tandem_close(v.m);
    assert_int_equal(atomic_load(&v.n_end), 1);
    pthread_join(asks, NULL);
    pthread_join(trains, NULL);
    assert_int_equal(v.asked.fault, TANDEM_BUSY);
    assert_fault(v.rc, v.trained, TANDEM_BUSY, "closed");
    assert_int_not_equal(stat(out, &there), 0);
    sem_destroy(&v.is_in);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_faults),
        cmocka_unit_test(test_sizes_of_options),
        cmocka_unit_test(test_log_may_use_the_library),
        cmocka_unit_test(test_chat_is_its_template),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_held_back_text_is_not_told),
        cmocka_unit_test(test_faults_of_texts),
        cmocka_unit_test(test_threads_have_their_own),
        cmocka_unit_test(test_width_is_of_the_last_layer),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_embed_as_the_server),
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_close_waits_for_callers),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}
