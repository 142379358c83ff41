/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations whose answers have a teacher's log-probabilities: the row's tokens, what stands at
 * each of them, and what cannot be used; then whole trainings over such rows, paused and not.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/train/token_ids.h"
#include "engine/train/tuning.h"
#include "tests/lib/golden.h"

enum { TOKENS = 64, N_ROW = 12, STEPS = 9 };

static const char model_dir[] = "tests/golden/models/llama_tied";

struct world {
    struct golden g;
    struct tokenizer *tok;
    struct template *template;
    struct arena arena;
    struct dataset d;
    char *dir;
};

static void data_init(struct world *w, int64_t max_tok)
{
    dataset_init(&w->d, &(struct dataset_options){.tokenizer = w->tok,
                                                  .template = w->template,
                                                  .max_tok = max_tok,
                                                  .end_id = w->g.dir.generation.eos,
                                                  .n_end_id = w->g.dir.generation.n_eos});
}

static void world_init(struct world *w)
{
    struct err e = ERR_INIT;
    golden_init(&w->g, "llama_tied", K_BF16, 0);
    w->tok = tokenizer_load(model_dir, &e);
    assert_good(w->tok ? 0 : -1, &e);
    const char *text = tokenizer_config_template(&w->g.dir.tokenizer, NULL);
    assert_good(template_compile(text, strlen(text), &w->template, &e), &e);
    arena_init(&w->arena, 16 << 20);
    w->dir = test_dir_new();
    data_init(w, 60);
}

static void world_release(struct world *w)
{
    test_dir_free(w->dir);
    dataset_release(&w->d);
    arena_release(&w->arena);
    template_unref(w->template);
    tokenizer_free(w->tok);
    golden_release(&w->g);
}

static void add_text(struct world *w, struct jvalue *dict, const char *key, const char *text)
{
    struct err e = ERR_INIT;
    struct jvalue v;
    char *copy = arena_strdup(&w->arena, text);
    assert_good(jv_str(&w->arena, copy, strlen(copy), &v, &e), &e);
    assert_good(jv_dict_put(&w->arena, dict, key, strlen(key), v, &e), &e);
}

/* A question, and its answer. */
static struct jvalue chat(struct world *w, const char *question, const char *answer)
{
    const char *const role[] = {"user", "assistant"}, *const text[] = {question, answer};
    struct err e = ERR_INIT;
    struct jvalue list, dict;
    assert_good(jv_list(&w->arena, &list, &e), &e);
    for (int i = 0; i < 2; i++) {
        assert_good(jv_dict(&w->arena, &dict, &e), &e);
        add_text(w, &dict, "role", role[i]);
        add_text(w, &dict, "content", text[i]);
        assert_good(jv_list_add(&w->arena, &list, dict, &e), &e);
    }
    return list;
}

static struct train_token token(const char *text, double p)
{
    return (struct train_token){.p = text, .n = strlen(text), .logprob = p > 0 ? log(p) : -9999};
}

/* The tokens of the answer, NULL at the end: each is held likely by 0.5, "!" by 0.25, and what the
 * tokenizer has not by 0.125. */
static struct train_teacher say(struct train_taught at[TOKENS], const char *const *text)
{
    static struct train_token top[4];
    struct train_teacher t = {.message = 1, .at = at};
    top[0] = token("!", 0.25);
    top[1] = token("no such token", 0.125);
    top[2] = token("?", 0);
    for (; text[t.n]; t.n++)
        at[t.n] = (struct train_taught){.is = token(text[t.n], 0.5), .top = top, .n_top = 3};
    return t;
}

static int add(struct world *w, const char *answer, const struct train_teacher *t, struct err *e)
{
    struct jvalue messages = chat(w, "Hi?", answer);
    w->d.teacher = t;
    w->d.n_teacher = t ? 1 : 0;
    return dataset_add_chat(&w->d, &messages, NULL, NULL, 0, e);
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* Faults: a row in the tokenizer's own cut, of which the teacher did not speak; a token that is
 * learned as its neighbour was to be; a text behind the answer that is lost. */
static void the_cut_is_the_teachers(void **state)
{
    static const char *const cut[] = {"T", "h", "e", " c", "at", NULL};
    struct train_taught at[TOKENS];
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    struct train_teacher t = say(at, cut);
    assert_good(add(&w, "The cat", NULL, &e), &e);
    assert_good(add(&w, "The cat", &t, &e), &e);
    const struct dataset_row *plain = &w.d.row.at[0], *r = &w.d.row.at[1];
    assert_true(plain->n_learn == 3 && plain->n_top == 0); /* "The", " cat", "<|end|>" */
    assert_true(r->n_learn == 6 && r->n_top == 2 && r->n == plain->n + 3);
    assert_true(w.d.n_top == 2 && w.d.n_taught == 1);
    int32_t label[TOKENS];
    struct train_row row = dataset_get(&w.d, 1, label);
    int32_t other = tokenizer_id(w.tok, "!", 1), end = tokenizer_id(w.tok, "<|end|>", 7);
    for (int64_t i = 0, n = 0; i < row.n; i++) {
        if (label[i] < 0)
            continue;
        const int32_t *id = row.top_id + n * 3; /* two, and -1 */
        const float *mass = row.top + n * 3;
        if (n < 5)
            assert_true(id[0] == label[i] && mass[0] == 0.5f && id[1] == other && mass[1] == 0.25f);
        else
            assert_true(id[0] == -1 && label[i] == end);
        n++;
    }
    size_t n_same = (size_t)plain->n - 4; /* what stands before the answer, and its end */
    const int32_t *a = w.d.id.at + plain->at, *b = w.d.id.at + r->at;
    assert_memory_equal(a, b, n_same * sizeof *a);
    assert_memory_equal(a + plain->n - 2, b + r->n - 2, 2 * sizeof *a);
    world_release(&w);
}

/* Faults: an end of the turn that the teacher spoke of and that is none; an end without a text that
 * is one; a message of weight 0 that is refused or learned. */
static void ends_and_weights(void **state)
{
    static const char *const ended[] = {"The", " cat", "<|end|>", "", NULL};
    static const double weight[] = {1, 0};
    struct train_taught at[TOKENS];
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    struct train_teacher t = say(at, ended);
    assert_good(add(&w, "The cat", &t, &e), &e);
    assert_true(w.d.row.at[0].n_learn == 3);
    assert_int_equal(w.d.top_id.at[2 * 3], tokenizer_id(w.tok, "<|end|>", 7));
    struct jvalue messages = chat(&w, "Hi?", "Nothing of the kind.");
    assert_good(dataset_add_chat(&w.d, &messages, NULL, weight, 2, &e), &e);
    assert_true(w.d.row.at[1].n_learn == 0 && w.d.n_taught == 1);
    uint64_t before = w.d.digest; /* is that of what teachers say, too */
    assert_good(add(&w, "The cat", &t, &e), &e);
    uint64_t with = w.d.digest;
    dataset_release(&w.d);
    data_init(&w, 60);
    w.d.digest = before;
    at[0].is.logprob = log(0.4);
    assert_good(add(&w, "The cat", &t, &e), &e);
    assert_true(with != w.d.digest);
    dataset_release(&w.d);
    data_init(&w, 8); /* which cuts the answer behind its first token */
    assert_good(add(&w, "The cat", &t, &e), &e);
    assert_true(w.d.row.at[0].n_learn < 3 && w.d.row.at[0].is_cut);
    assert_int_equal(w.d.top.n, w.d.row.at[0].n_learn * 3);
    world_release(&w);
}

/* Fault: a row that takes as much room for each token as for the one of which most was said: memory
 * of nineteen times the file. */
static void room_is_for_what_is_said(void **state)
{
    static const char *const cut[] = {"T", "h", "e", " c", "at", NULL};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct train_token many[TRAIN_TOP_MAX - 2];
    struct train_taught at[TOKENS];
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    struct train_teacher t = say(at, cut);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = (struct train_token){&letters[i], 1, log(0.005)};
    for (size_t i = 0; i < t.n; i++)
        at[i].n_top = 0;
    at[2].top = many;
    at[2].n_top = sizeof many / sizeof *many;
    assert_good(add(&w, "The cat", &t, &e), &e);
    size_t n = 0;
    for (size_t i = 0; i < w.d.top_id.n; i++)
        n += w.d.top_id.at[i] >= 0;
    assert_true(n > 50 && w.d.n_top == (int32_t)n - 4); /* of the other tokens one each */
    assert_int_equal(w.d.top_id.n, n + (size_t)w.d.n_learn);
    assert_int_equal(w.d.top.n, w.d.top_id.n);
    world_release(&w);
}

/* Faults: a row that is trained on another text than the teacher's, with tokens that are guessed,
 * or with masses that are none; a row that is refused and there. */
static void what_cannot_be_used(void **state)
{
    static const char *const strange[] = {"The c", "at", NULL}, *const other[] = {"The", NULL},
                             *const longer[] = {"The", " cat", "s", NULL},
                             *const good[] = {"The", " cat", NULL};
    struct train_taught at[TOKENS];
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    struct train_teacher t = say(at, strange);
    assert_err(add(&w, "The cat", &t, &e), &e, ERR_BAD_INPUT,
               "'messages[1]': token 0 of its 'logprobs', \"The c\", is none of the model's");
    t = say(at, longer);
    assert_err(add(&w, "The cat", &t, &e), &e, ERR_BAD_INPUT, "are not the text");
    t = say(at, other); /* a part of it alone */
    assert_err(add(&w, "The cat", &t, &e), &e, ERR_BAD_INPUT, "are not the text");
    assert_err(add(&w, "A cat", &t, &e), &e, ERR_BAD_INPUT, "are not the text");
    t = say(at, good);
    at[1].is.logprob = log(0.9);
    assert_err(add(&w, "The cat", &t, &e), &e, ERR_BAD_INPUT,
               "at token 1 of its 'logprobs' sum to");
    t = say(at, good);
    t.message = 7;
    assert_err(add(&w, "The cat", &t, &e), &e, ERR_BAD_INPUT, "'messages[7]' has 'logprobs'");
    assert_true(w.d.row.n == 0 && w.d.id.n == 0 && w.d.top.n == 0 && w.d.n_top == 0);
    world_release(&w);
}

/* Faults: an id that a special token, or another id of the same bytes, takes from a text's own. */
static void ids_by_bytes(void **state)
{
    struct world w;
    struct err e = ERR_INIT;
    struct token_ids ids;
    (void)state;
    world_init(&w);
    assert_good(token_ids_init(&ids, w.tok, &e), &e);
    assert_int_equal(token_ids_get(&ids, " the", 4), tokenizer_id(w.tok, "\xc4\xa0the", 5));
    assert_int_equal(token_ids_get(&ids, "T", 1), tokenizer_id(w.tok, "T", 1));
    assert_int_equal(token_ids_get(&ids, "<|end|>", 7), tokenizer_id(w.tok, "<|end|>", 7));
    assert_int_equal(token_ids_get(&ids, "\xe2", 1), tokenizer_id(w.tok, "\xc3\xa2", 2));
    assert_int_equal(token_ids_get(&ids, "T h", 3), -1);
    assert_int_equal(token_ids_get(&ids, "", 0), -1);
    token_ids_release(&ids);
    world_release(&w);
    static const char twice[] =
        "{\"added_tokens\":[{\"id\":5,\"content\":\" a\",\"special\":false},"
        "{\"id\":6,\"content\":\" b\",\"special\":true}],\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"\\u0120a\":3,"
        "\"\\u0120b\":4},\"merges\":[\"\\u0120 a\",\"\\u0120 b\"]}}";
    struct tokenizer *t = tokenizer_parse(twice, sizeof twice - 1, &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(token_ids_init(&ids, t, &e), &e);
    assert_int_equal(token_ids_get(&ids, " a", 2), 3);
    assert_int_equal(token_ids_get(&ids, " b", 2), 4);
    token_ids_release(&ids);
    tokenizer_free(t);
}

/* ---- trainings ----------------------------------------------------------------------------- */

struct story {
    double loss[STEPS], norm[STEPS], valid[3];
    int64_t n, end_at;
};

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct story *s = ctx;
    (void)e;
    if (v->what == TUNING_STEP) {
        s->loss[v->step - 1] = v->train.loss;
        s->norm[v->step - 1] = v->train.grad_norm;
        s->n = v->step;
    }
    if (v->what == TUNING_EPOCH)
        s->valid[v->epoch - 1] = v->valid.loss;
    return 0;
}

static bool is_enough(void *ctx)
{
    const struct story *s = ctx;
    return s->end_at > 0 && s->n >= s->end_at;
}

/* Answers in letters, of which the next of the alphabet is held half as likely; every third row has
 * no teacher. */
static void fill(struct world *w)
{
    struct err e = ERR_INIT;
    for (int i = 0; i < N_ROW; i++) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
        struct train_taught at[TOKENS];
        struct train_token top[TOKENS];
        char answer[8] = "";
        size_t n = 2 + (size_t)i % 5;
        struct train_teacher t = {.message = 1, .at = at, .n = n};
        for (size_t k = 0; k < n; k++) {
            const char *letter = &letters[(size_t)i * 3 % 11 + k];
            answer[k] = *letter;
            top[k] = (struct train_token){letter + 1, 1, log(0.3)};
            at[k] = (struct train_taught){{letter, 1, log(0.6)}, &top[k], 1};
        }
        assert_good(add(w, answer, i % 3 ? &t : NULL, &e), &e);
    }
}

static bool run(struct world *w, struct story *s, const char *dir, int64_t cap_tok)
{
    struct err e = ERR_INIT;
    bool is_done = false;
    const struct tuning_options o = {.train = {.lora = {.rank = 4, .alpha = 8, .dropout = 0.1},
                                               .distill = 0.75,
                                               .lr = 5e-3,
                                               .beta1 = 0.9,
                                               .beta2 = 0.999,
                                               .eps = 1e-8,
                                               .max_norm = 1,
                                               .seed = 3,
                                               .cap_tok = cap_tok},
                                     .n_epoch = 3,
                                     .batch = 5,
                                     .data = &w->d,
                                     .valid = &w->d,
                                     .checkpoints = dir,
                                     .checkpoint_steps = 2,
                                     .keep = 3,
                                     .event = hear,
                                     .is_wanted_end = is_enough,
                                     .ctx = s};
    struct tuning *t = tuning_new(w->g.model, &o, w->g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(tuning_run(t, &is_done, &e), &e);
    tuning_free(t);
    return is_done;
}

/* Faults: a row's teacher that another row is given, in a batch of another order or behind a pause;
 * a validation loss that is not the training's. */
static void paused_equals_straight(void **state)
{
    struct world w;
    struct story straight = {.n = 0}, paused = {.n = 0}, cut = {.n = 0};
    (void)state;
    world_init(&w);
    fill(&w);
    assert_true(run(&w, &straight, NULL, 128));
    assert_int_equal(straight.n, STEPS);
    assert_true(straight.loss[8] < straight.loss[0] && straight.valid[2] < straight.valid[0]);
    for (int64_t end = 1; end <= STEPS; end++) { /* a new process after every step */
        paused.end_at = end;
        bool is_done = run(&w, &paused, w.dir, 128);
        assert_int_equal(is_done, end == STEPS);
    }
    assert_memory_equal(straight.loss, paused.loss, sizeof straight.loss);
    assert_memory_equal(straight.norm, paused.norm, sizeof straight.norm);
    assert_memory_equal(straight.valid, paused.valid, sizeof straight.valid);
    assert_true(run(&w, &cut, NULL, 60));
    assert_memory_equal(straight.loss, cut.loss, sizeof straight.loss[0]);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_is_the_teachers),
        cmocka_unit_test(ends_and_weights),
        cmocka_unit_test(room_is_for_what_is_said),
        cmocka_unit_test(what_cannot_be_used),
        cmocka_unit_test(ids_by_bytes),
        cmocka_unit_test(paused_equals_straight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
