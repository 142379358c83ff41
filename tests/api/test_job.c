/* SPDX-License-Identifier: Apache-2.0
 *
 * Creations of jobs, and what is shown of them. Faults: a bound that is not checked or names
 * another field, a sub-object of another method that is refused, a required field that is missing,
 * a number that the store does not give back as it was.
 */
#include "api/job.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/train/preference.h"
#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static int parse(const char *body, struct job_ask *ask, struct api_error *e)
{
    memset(e, 0, sizeof *e);
    return job_ask_parse(body, strlen(body), &own_arena, ask, e);
}

#define LEAST "\"model\":\"m\",\"training_file\":\"file-1\""

static void good(void **state)
{
    struct job_ask ask;
    struct api_error e;
    (void)state;
    assert_int_equal(parse("{" LEAST "}", &ask, &e), 0);
    assert_false(ask.has_seed);
    assert_int_equal(ask.job.hyper.n_epochs, 0);
    assert_int_equal(
        parse("{" LEAST ",\"seed\":2147483647,\"suffix\":\"mine-1\",\"validation_file\":null,"
              "\"hyperparameters\":{\"n_epochs\":\"auto\",\"batch_size\":4},"
              "\"method\":{\"type\":\"supervised\",\"dpo\":{\"hyperparameters\":{\"beta\":9}},"
              "\"reinforcement\":{\"grader\":{}},\"supervised\":{\"hyperparameters\":"
              "{\"n_epochs\":50,\"learning_rate_multiplier\":0.5}}},"
              "\"integrations\":[],\"metadata\":{\"a\":\"b\"},\"later\":1}",
              &ask, &e),
        0);
    assert_true(ask.has_seed && ask.job.seed == 2147483647);
    assert_int_equal(ask.job.hyper.n_epochs, 50);
    assert_int_equal(ask.job.hyper.batch_size, 4);
    assert_true(ask.job.hyper.lr_multiplier == 0.5);
    assert_string_equal(ask.job.metadata, "{\"a\":\"b\"}");
    assert_non_null(strstr(ask.ignored, "later"));
}

/* Faults: a method of texts that is lost in the store, or takes what is another's. */
static void texts(void **state)
{
    struct job_ask ask;
    struct job_hyper kept;
    struct api_error e;
    struct err why = ERR_INIT;
    struct buf b;
    (void)state;
    assert_int_equal(parse("{" LEAST ",\"method\":{\"type\":\"x_embedding\",\"x_embedding\":"
                           "{\"hyperparameters\":{\"scale\":12.5,\"training_type\":\"full\"}}}}",
                           &ask, &e),
                     0);
    buf_init(&b, HYPER_TEXT_BYTES);
    job_hyper_write(&ask.job.hyper, &b);
    assert_good(job_hyper_read(b.data, &kept, &why), &why);
    assert_true(kept.method == HYPER_EMBEDDING && kept.scale == 12.5);
    buf_release(&b);
    assert_int_equal(parse("{" LEAST ",\"method\":{\"type\":\"x_classification\"}}", &ask, &e), 0);
    assert_int_equal(ask.job.hyper.method, HYPER_CLASSIFICATION);
    assert_int_equal(parse("{" LEAST ",\"method\":{\"type\":\"x_classification\","
                           "\"x_classification\":{\"hyperparameters\":{\"scale\":20}}}}",
                           &ask, &e),
                     -1);
    assert_string_equal(e.param, "method.x_classification.hyperparameters.scale");
    assert_int_equal(parse("{" LEAST ",\"method\":{\"type\":\"x_embedding\",\"x_embedding\":"
                           "{\"hyperparameters\":{\"batch_size\":1}}}}",
                           &ask, &e),
                     -1);
    assert_string_equal(e.param, "method.x_embedding.hyperparameters.batch_size");
}

/* Faults: a method whose numbers are those of another, or are lost in the store. */
static void preferences(void **state)
{
    struct job_ask ask;
    struct job_hyper kept;
    struct api_error e;
    struct err why = ERR_INIT;
    struct buf b;
    (void)state;
    assert_int_equal(
        parse("{" LEAST ",\"method\":{\"type\":\"dpo\",\"supervised\":{\"hyperparameters\":"
              "{\"n_epochs\":9}},\"dpo\":{\"hyperparameters\":{\"beta\":0.25,\"n_epochs\":2,"
              "\"loss\":\"x_simpo\",\"gamma\":0.5}}}}",
              &ask, &e),
        0);
    assert_int_equal(ask.job.hyper.method, HYPER_DPO);
    assert_int_equal(ask.job.hyper.n_epochs, 2);
    assert_int_equal(ask.job.hyper.loss, TRAIN_SIMPO);
    buf_init(&b, HYPER_TEXT_BYTES);
    job_hyper_write(&ask.job.hyper, &b);
    assert_good(job_hyper_read(b.data, &kept, &why), &why);
    assert_true(kept.method == HYPER_DPO && kept.beta == 0.25 && kept.gamma == 0.5);
    assert_int_equal(kept.loss, TRAIN_SIMPO);
    buf_release(&b);
    assert_int_equal(parse("{" LEAST ",\"method\":{\"type\":\"dpo\"}}", &ask, &e), 0);
    assert_true(ask.job.hyper.method == HYPER_DPO && ask.job.hyper.beta == 0);
    assert_good(job_hyper_read("{\"n_epochs\":1}", &kept, &why), &why); /* of older programs */
    assert_int_equal(kept.method, HYPER_SUPERVISED);
}

#define CHECKED                                                                                    \
    "{\"type\":\"string_check\",\"name\":\"c\",\"input\":\"{{sample.output_text}}\","              \
    "\"reference\":\"a\",\"operation\":\"eq\"}"

/* Faults: a grader that is lost, hyperparameters that are another method's. */
static void rewards(void **state)
{
    struct job_ask ask;
    struct job_hyper kept;
    struct api_error e;
    struct err why = ERR_INIT;
    struct buf b;
    (void)state;
    assert_int_equal(
        parse(
            "{" LEAST
            ",\"method\":{\"type\":\"reinforcement\",\"reinforcement\":{\"grader\":" CHECKED
            ",\"response_format\":null,\"hyperparameters\":{\"group_size\":4,\"kl_weight\":0.5,\"clip_range\":0.25,"
            "\"max_completion_tokens\":9,"
            "\"advantage\":\"rloo\",\"reasoning_effort\":\"default\",\"eval_samples\":\"auto\"}}}}",
            &ask, &e),
        0);
    assert_string_equal(ask.job.grader, CHECKED);
    buf_init(&b, HYPER_TEXT_BYTES);
    job_hyper_write(&ask.job.hyper, &b);
    assert_good(job_hyper_read(b.data, &kept, &why), &why);
    assert_true(kept.method == HYPER_REINFORCEMENT && kept.group_size == 4);
    assert_true(kept.advantage == HYPER_RLOO && kept.kl_weight == 0.5);
    assert_true(kept.clip_range == 0.25 && kept.max_completion_tokens == 9);
    buf_release(&b);
}

/* Faults: a form of samples that is lost, or not looked at; a group that is said twice. */
static void forms(void **state)
{
#define REWARDS(more)                                                                              \
    "{" LEAST ",\"method\":{\"type\":\"reinforcement\",\"reinforcement\":{\"grader\":" CHECKED     \
    "," more "}}}"
    static const char form[] = "{\"type\":\"json_object\"}";
    struct job_ask ask;
    struct api_error e;
    (void)state;
    assert_int_equal(parse(REWARDS("\"response_format\":{\"type\":\"json_object\"},"
                                   "\"hyperparameters\":{\"compute_multiplier\":2.5}"),
                           &ask, &e),
                     0);
    assert_string_equal(ask.job.response_format, form);
    assert_true(ask.format.kind == CONSTRAINT_OBJECT && ask.job.hyper.compute_multiplier == 2.5);
    assert_int_equal(parse(REWARDS("\"response_format\":{\"type\":\"text\"}"), &ask, &e), 0);
    assert_true(ask.format.kind == CONSTRAINT_NONE);
    assert_int_equal(parse(REWARDS("\"response_format\":{\"type\":\"xml\"}"), &ask, &e), -1);
    assert_string_equal(e.param, "method.reinforcement.response_format");
    assert_int_equal(
        parse(REWARDS("\"hyperparameters\":{\"compute_multiplier\":2,\"group_size\":4}"), &ask, &e),
        -1);
    assert_string_equal(e.param, "method.reinforcement.hyperparameters.compute_multiplier");
#undef REWARDS
}

/* Faults: numbers of a step with samples that its line, or a job that goes on, does not have. */
static void reward_metrics(void **state)
{
    const struct job_metrics m = {.step = 2,
                                  .n_step = 9,
                                  .train_loss = -0.25,
                                  .valid_loss = -1,
                                  .full_valid_loss = -1,
                                  .has_rewards = true,
                                  .reward = 0.5,
                                  .reward_std = 0.25,
                                  .clipped = 0.125,
                                  .length = 12.5,
                                  .kl = 0.75};
    struct job_metrics back;
    struct buf data, line;
    (void)state;
    buf_init(&data, 1024);
    buf_init(&line, 1024);
    job_metrics_write(&m, &data);
    job_csv_heading(HYPER_REINFORCEMENT, &line);
    job_csv_line(data.data, &line);
    assert_string_equal(line.data,
                        "step,train_loss,train_reward_mean,train_reward_std,clipped_share,"
                        "completion_tokens_mean,train_kl\n"
                        "2,-0.250000,0.500000,0.250000,0.125000,12.500000,0.750000\n");
    job_metrics_read(data.data, &back);
    assert_true(back.has_rewards && back.reward == 0.5 && back.train_loss == -0.25);
    assert_true(back.valid_loss < 0 && back.kl == 0.75 && back.length == 12.5);
    buf_release(&data);
    buf_release(&line);
}

/* Every word of the losses is one of the engine's, at its place. */
static void losses(void **state)
{
    static const char *const word[] = {
#define HYPER(name, member, kind, min, max, words, ...) #name, words,
#include "api/hyper.def"
#undef HYPER
    };
    const char *at = "";
    (void)state;
    for (size_t i = 0; i < sizeof word / sizeof *word; i += 2)
        if (strcmp(word[i], "loss") == 0)
            at = word[i + 1];
    for (int64_t place = 1; *at; place++) {
        size_t n = strcspn(at, "|");
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        assert_int_equal(preference_find(name), place);
        at += n + (at[n] == '|');
        assert_true(*at || place + 1 == TRAIN_LOSS_COUNT);
    }
}

static void bad(void **state)
{
    static const struct {
        const char *field, *param;
    } row[] = {
        {"\"hyperparameters\":{\"n_epochs\":0}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"n_epochs\":51}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"n_epochs\":\"abc\"}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"batch_size\":0}", "hyperparameters.batch_size"},
        {"\"hyperparameters\":{\"batch_size\":257}", "hyperparameters.batch_size"},
        {"\"hyperparameters\":{\"learning_rate_multiplier\":0}",
         "hyperparameters.learning_rate_multiplier"},
        {"\"hyperparameters\":{\"training_type\":\"dora\"}", "hyperparameters.training_type"},
        {"\"hyperparameters\":{\"lora_rank\":257}", "hyperparameters.lora_rank"},
        {"\"hyperparameters\":{\"lora_alpha\":0}", "hyperparameters.lora_alpha"},
        {"\"hyperparameters\":{\"lora_dropout\":1}", "hyperparameters.lora_dropout"},
        {"\"hyperparameters\":{\"use_rslora\":1}", "hyperparameters.use_rslora"},
        {"\"hyperparameters\":{\"use_dora\":\"yes\"}", "hyperparameters.use_dora"},
        {"\"hyperparameters\":{\"target_modules\":[]}", "hyperparameters.target_modules"},
        {"\"hyperparameters\":{\"target_modules\":[\"a,b\"]}", "hyperparameters.target_modules"},
        {"\"hyperparameters\":{\"target_modules\":7}", "hyperparameters.target_modules"},
        {"\"hyperparameters\":{\"modules_to_save\":\"all-linear,\"}",
         "hyperparameters.modules_to_save"},
        {"\"hyperparameters\":{\"modules_to_save\":[3]}", "hyperparameters.modules_to_save"},
        {"\"hyperparameters\":{\"schedule\":\"step\"}", "hyperparameters.schedule"},
        {"\"hyperparameters\":{\"schedule\":2}", "hyperparameters.schedule"},
        {"\"hyperparameters\":{\"warmup_steps\":-1}", "hyperparameters.warmup_steps"},
        {"\"hyperparameters\":{\"weight_decay\":11}", "hyperparameters.weight_decay"},
        {"\"hyperparameters\":{\"loraplus_lr_ratio\":1001}", "hyperparameters.loraplus_lr_ratio"},
        {"\"hyperparameters\":{\"neftune_noise_alpha\":-1}", "hyperparameters.neftune_noise_alpha"},
        {"\"hyperparameters\":{\"distill_weight\":1.5}", "hyperparameters.distill_weight"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"distill_weight\":1}}}",
         "method.dpo.hyperparameters.distill_weight"},
        {"\"hyperparameters\":{\"max_grad_norm\":0}", "hyperparameters.max_grad_norm"},
        {"\"hyperparameters\":{\"max_length\":7}", "hyperparameters.max_length"},
        {"\"hyperparameters\":{\"long_rows\":\"keep\"}", "hyperparameters.long_rows"},
        {"\"hyperparameters\":{\"checkpoint_steps\":-1}", "hyperparameters.checkpoint_steps"},
        {"\"hyperparameters\":{\"checkpoint_minutes\":-1}", "hyperparameters.checkpoint_minutes"},
        {"\"hyperparameters\":{\"activation_checkpointing\":true}",
         "hyperparameters.activation_checkpointing"},
        {"\"hyperparameters\":{\"row_logprobs\":\"yes\"}", "hyperparameters.row_logprobs"},
        {"\"hyperparameters\":[]", "hyperparameters"},
        {"\"hyperparameters\":{\"rank\":4}", "hyperparameters.rank"},
        {"\"hyperparameters\":{\"lora_rnak\":null}", "hyperparameters.lora_rnak"},
        {"\"method\":{\"type\":\"supervised\",\"supervised\":{\"hyperparameters\":"
         "{\"beta\":1}}}",
         "method.supervised.hyperparameters.beta"},
        {"\"method\":{\"type\":\"supervised\",\"supervised\":{\"hyperparameters\":"
         "{\"n_epochs\":1.5}}}",
         "method.supervised.hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"beta\":1}", "hyperparameters.beta"},
        {"\"hyperparameters\":{\"eval_interval\":2}", "hyperparameters.eval_interval"},
        {"\"hyperparameters\":{\"eval_samples\":2}", "hyperparameters.eval_samples"},
        {"\"hyperparameters\":{\"learning_rate\":0}", "hyperparameters.learning_rate"},
        {"\"hyperparameters\":{\"warmup_steps\":3,\"warmup_ratio\":0.1}",
         "method.supervised.hyperparameters.warmup_ratio"},
        {"\"hyperparameters\":{\"learning_rate\":1e-4,\"learning_rate_multiplier\":1}",
         "method.supervised.hyperparameters.learning_rate"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"beta\":0}}}",
         "method.dpo.hyperparameters.beta"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"beta\":\"high\"}}}",
         "method.dpo.hyperparameters.beta"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"loss\":\"hinge\"}}}",
         "method.dpo.hyperparameters.loss"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"gamma\":1}}}",
         "method.dpo.hyperparameters.gamma"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"desirable_weight\":2}}}",
         "method.dpo.hyperparameters.desirable_weight"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"undesirable_weight\":2}}}",
         "method.dpo.hyperparameters.undesirable_weight"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"loss\":\"x_kto\","
         "\"batch_size\":1}}}",
         "method.dpo.hyperparameters.batch_size"},
        {"\"method\":{\"type\":\"dpo\"},\"hyperparameters\":{\"training_type\":\"full\"}",
         "method.dpo.hyperparameters.training_type"},
        {"\"method\":{\"type\":\"dpo\",\"dpo\":{\"hyperparameters\":{\"bata\":1}}}",
         "method.dpo.hyperparameters.bata"},
        {"\"method\":{\"type\":\"reinforcement\"}", "method.reinforcement.grader"},
        {"\"method\":{\"type\":\"ppo\"}", "method.type"},
        {"\"method\":{\"type\":7}", "method.type"},
        {"\"method\":{}", "method.type"},
        {"\"suffix\":\"\"", "suffix"},
        {"\"suffix\":\"a:b\"", "suffix"},
        {"\"suffix\":\"0123456789012345678901234567890123456789012345678901234567890123x\"",
         "suffix"},
        {"\"seed\":-1", "seed"},
        {"\"seed\":2147483648", "seed"},
        {"\"metadata\":{\"a\":1}", "metadata"},
        {"\"integrations\":[{\"type\":\"wandb\"}]", "integrations"},
        {"\"validation_file\":\"\"", "validation_file"},
    };
    struct job_ask ask;
    struct api_error e;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char body[512];
        snprintf(body, sizeof body, "{" LEAST ",%s}", row[i].field);
        if (parse(body, &ask, &e) == 0 || e.status != 400 || strcmp(e.param, row[i].param) != 0)
            fail_msg("%s: status %d, param '%s'", row[i].field, e.status, e.param);
    }
}

/* Faults: a creation without its file or model, or more members of metadata than are kept. */
static void too_little_and_too_much(void **state)
{
    struct job_ask ask;
    struct api_error e;
    (void)state;
    assert_true(parse("{\"model\":\"m\"}", &ask, &e) && strcmp(e.param, "training_file") == 0);
    assert_true(parse("{\"training_file\":\"f\"}", &ask, &e) && strcmp(e.param, "model") == 0);
    char many[2048] = "{" LEAST ",\"metadata\":{";
    for (int i = 0; i < 17; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s\"k%d\":\"v\"", i ? "," : "",
                 i);
    snprintf(many + strlen(many), sizeof many - strlen(many), "}}");
    assert_true(parse(many, &ask, &e) && strcmp(e.param, "metadata") == 0);
}

/* Faults: a word, a name or a list that is read as another, or shown as another. */
static void kinds_of_training(void **state)
{
    static const char all[] =
        "{" LEAST ",\"validation_file\":\"file-v\",\"hyperparameters\":{\"training_type\":\"full\","
        "\"result\":\"best\",\"early_stopping\":3,\"lora_rank\":8,"
        "\"lora_dropout\":0.5,\"use_rslora\":true,\"use_dora\":true,\"target_modules\":[\"q_proj\",\"up_proj\"],"
        "\"modules_to_save\":[\"lm_head\"],"
        "\"optimizer\":\"adamw_8bit\",\"schedule\":\"cosine\",\"warmup_steps\":3,\"weight_decay\":0.1,\"max_grad_norm\":2,"
        "\"max_length\":64,\"long_rows\":\"refuse\",\"checkpoint_steps\":5,"
        "\"checkpoint_minutes\":0.5,\"activation_checkpointing\":\"off\",\"row_logprobs\":true}}";
    struct job_ask ask;
    struct api_error e;
    struct buf b;
    (void)state;
    assert_int_equal(parse(all, &ask, &e), 0);
    const struct job_hyper *h = &ask.job.hyper;
    assert_true(h->training_type == HYPER_FULL && h->schedule == HYPER_COSINE);
    assert_true(h->result == HYPER_BEST && h->early_stopping == 3);
    assert_int_equal(h->optimizer, HYPER_ADAMW_8BIT);
    assert_true(h->long_rows == HYPER_REFUSE && h->activation_checkpointing == HYPER_OFF);
    assert_string_equal(h->target_modules, "q_proj,up_proj");
    assert_string_equal(h->modules_to_save, "lm_head");
    buf_init(&b, HYPER_TEXT_BYTES);
    struct jout j = jout_on(&b);
    jout_open(&j, '{');
    hyper_write(&j, h);
    jout_close(&j, '}');
    json_t *said = json_loads(all, 0, NULL), *shown = json_loads(b.data, 0, NULL), *v;
    const char *key;
    json_object_foreach(json_object_get(said, "hyperparameters"), key, v)
    {
        json_t *got = json_object_get(shown, key);
        if (json_is_number(v) ? json_number_value(v) != json_number_value(got)
                              : !json_equal(v, got))
            fail_msg("%s is shown as something else", key);
    }
    assert_string_equal(json_string_value(json_object_get(shown, "n_epochs")), "auto");
    json_decref(said);
    json_decref(shown);
    buf_release(&b);
    assert_int_equal(parse("{" LEAST ",\"hyperparameters\":{\"target_modules\":\"all-linear\","
                           "\"schedule\":\"auto\"}}",
                           &ask, &e),
                     0);
    assert_true(!*h->target_modules && h->schedule == 0);
}

static void shown(void **state)
{
    static const char *const required[] = {
        "id",     "created_at",     "error",           "finished_at",     "fine_tuned_model",
        "model",  "object",         "hyperparameters", "organization_id", "result_files",
        "status", "trained_tokens", "training_file",   "validation_file", "seed"};
    struct job job = {.id = "ftjob-1",
                      .model = "m\"",
                      .training_file = "file-1",
                      .result_files = "[\"file-2\"]",
                      .hyper = {.n_epochs = 3, .lr_multiplier = 0.1},
                      .trained_tokens = -1,
                      .created = 7};
    struct job_event v = {
        .id = "ftevent-1", .level = "info", .type = "metrics", .message = "s", .data = "{\"a\":1}"};
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 16);
    struct jout j = jout_on(&b);
    job_write(&j, &job);
    json_t *got = json_loads(b.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(got);
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!json_object_get(got, required[i]))
            fail_msg("%s is missing", required[i]);
    assert_string_equal(json_string_value(json_object_get(got, "model")), "m\"");
    json_decref(got);
    buf_clear(&b);
    j = jout_on(&b);
    job.ancestor = "ft:m";
    job_write(&j, &job);
    got = json_loads(b.data, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(got, "model")), "ft:m");
    json_decref(got);
    buf_clear(&b);
    j = jout_on(&b);
    job_event_write(&j, &v);
    got = json_loads(b.data, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(got, "data"), "a")), 1);
    json_decref(got);
    buf_release(&b);
}

static void numbers_come_back(void **state)
{
    struct job_hyper got, h = {.n_epochs = 3,
                               .batch_size = 7,
                               .lr_multiplier = 1.0 / 3,
                               .lora_rank = 16,
                               .lora_alpha = 0.1,
                               .schedule = HYPER_COSINE,
                               .use_rslora = true,
                               .use_dora = true,
                               .target_modules = "q_proj,v_proj",
                               .modules_to_save = "lm_head,embed_tokens"};
    struct err e = ERR_INIT;
    struct buf b;
    (void)state;
    buf_init(&b, HYPER_TEXT_BYTES);
    job_hyper_write(&h, &b);
    assert_good(job_hyper_read(b.data, &got, &e), &e);
    assert_true(got.lr_multiplier == h.lr_multiplier && got.lora_alpha == h.lora_alpha);
    assert_true(got.n_epochs == 3 && got.batch_size == 7 && got.lora_rank == 16);
    assert_true(got.schedule == HYPER_COSINE && got.use_rslora && got.use_dora);
    assert_false(got.row_logprobs);
    assert_string_equal(got.target_modules, h.target_modules);
    assert_string_equal(got.modules_to_save, h.modules_to_save);
    assert_err(job_hyper_read("[", &got, &e), &e, ERR_CORRUPT, "no object");
    buf_release(&b);
}

/* Samples that end within a character, or whose texts break the JSON around them, so that their
 * step is missing in the result file. */
static void samples_are_told(void **state)
{
    struct buf b, csv;
    (void)state;
    buf_init(&csv, 4000);
    buf_init(&b, 4000);
    struct job_samples said = {.n = 1, .example = 3, .reward = {0.5}};
    char wide[JOB_SAMPLE_BYTES + 2]; /* a character across the border is left out whole */
    memset(wide, 'a', sizeof wide);
    memcpy(wide + JOB_SAMPLE_BYTES - 1, "\xc3\xa4", 2);
    job_text_set(&said.text[0], wide, sizeof wide);
    job_text_set(&said.prompt, "\"", 1);
    assert_true(said.text[0].n == JOB_SAMPLE_BYTES - 1 && said.text[0].is_cut);
    const struct job_metrics rewards = {
        .step = 7, .valid_loss = -1, .full_valid_loss = -1, .has_rewards = true, .samples = &said};
    job_metrics_write(&rewards, &b);
    assert_non_null(
        strstr(b.data, "\"example\":3,\"prompt\":\"\\\"\",\"samples\":[{\"text\":\"aaa"));
    assert_non_null(strstr(b.data, "aaa\",\"is_cut\":true,\"reward\":0.5}]"));
    struct job_metrics got;
    job_text_set(&said.text[0], "a\0b", 3); /* the model may say any byte */
    buf_clear(&b);
    job_metrics_write(&rewards, &b);
    job_metrics_read(b.data, &got);
    assert_true(got.step == 7 && got.has_rewards);
    buf_clear(&csv);
    job_csv_line(b.data, &csv);
    assert_true(csv.len > 2 && csv.data[0] == '7');
    buf_release(&csv);
    buf_release(&b);
}

/* Fault: losses of a job that was killed behind its last step change, or those that there were not
 * become zeros. */
static void metrics_come_back(void **state)
{
    const struct job_metrics m = {.step = 7,
                                  .n_step = 9,
                                  .train_loss = 1.234567,
                                  .train_accuracy = 0.5,
                                  .valid_loss = -1,
                                  .valid_accuracy = -1,
                                  .full_valid_loss = 2.5,
                                  .full_valid_accuracy = 0.25,
                                  .trained_tokens = 100,
                                  .tok_per_s = 3.5,
                                  .estimated_finish = 1700000000};
    static const char *const none[] = {"[", "{}", "[1]", NULL};
    struct job_metrics got;
    struct buf b;
    (void)state;
    buf_init(&b, 1000);
    job_metrics_write(&m, &b);
    job_metrics_read(b.data, &got);
    assert_true(got.step == 7 && got.n_step == 9 && got.train_loss == 1.234567);
    assert_true(got.train_accuracy == 0.5 && got.valid_loss == -1 && got.valid_accuracy == -1);
    assert_true(got.full_valid_loss == 2.5 && got.full_valid_accuracy == 0.25);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        job_metrics_read(none[i], &got);
        assert_true(got.step == 0 && got.train_loss == -1);
    }
    const struct job_metrics pairs = {.step = 7,
                                      .train_loss = 0.625,
                                      .train_accuracy = 0.75,
                                      .valid_loss = -1,
                                      .full_valid_loss = 0.5,
                                      .full_valid_accuracy = 1,
                                      .has_pairs = true,
                                      .train_reward = {-0.5, 0.25},
                                      .full_valid_reward = {1, -1}};
    buf_clear(&b);
    job_metrics_write(&pairs, &b);
    assert_non_null(strstr(b.data, "\"train_reward_margin\":-0.750000"));
    job_metrics_read(b.data, &got);
    assert_true(got.has_pairs && got.train_accuracy == 0.75 && got.full_valid_accuracy == 1);
    assert_true(got.train_reward[0] == -0.5 && got.train_reward[1] == 0.25);
    assert_true(got.valid_loss == -1 && got.full_valid_reward[1] == -1);
    struct buf csv;
    buf_init(&csv, 1000);
    job_csv_heading(HYPER_DPO, &csv);
    job_csv_line(b.data, &csv);
    assert_non_null(strstr(csv.data, "valid_reward_margin\n7,0.625000,0.750000,-0.750000,,,\n"));
    buf_release(&csv);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(texts, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(preferences, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(rewards, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(forms, own_arena_new, own_arena_free),
        cmocka_unit_test(reward_metrics),
        cmocka_unit_test(losses),
        cmocka_unit_test_setup_teardown(bad, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(too_little_and_too_much, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(kinds_of_training, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(shown, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(numbers_come_back, own_arena_new, own_arena_free),
        cmocka_unit_test(metrics_come_back),
        cmocka_unit_test(samples_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
