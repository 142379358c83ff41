/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem tune FILE`: the file goes up, a job is made of it, and with --follow it is watched until
 * it ends. A FILE that is none here, but looks like the id of one that the server has, is that. The
 * server looks the file over first: where a job of it would fail, none is made, and the status
 * is 1. Without a FILE a person at a terminal is asked for it, and whether to begin.
 *
 * stdout gets one line: the job's id, or with --follow the name of the model that came of it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/hyper.h"
#include "clients/remote/check.h"
#include "clients/remote/follow.h"
#include "clients/remote/interrupt.h"
#include "clients/remote/pick.h"
#include "clients/remote/term.h"
#include "clients/remote/tune_ask.h"
#include "clients/remote/upload.h"
#include "engine/base/mem.h"

struct tune_values {
    struct remote_options remote;
    const char *model, *from, *validation, *suffix, *method, *grader;
    int64_t seed;
    struct opt_list hyper, metadata;
    bool follow;
#define TUNE_NONE(...)
#define TUNE_TRAIN(...)
#define TUNE_BOTH                                                TUNE_TUNE
#define TUNE_TUNE(name, kind, min, max, words, flag, field, ...) HYPER_FIELD_##kind field;
#define HYPER(name, member, kind, min, max, words, about, of, whose, ...)                          \
    TUNE_##whose(name, kind, min, max, words, __VA_ARGS__)
#include "api/hyper.def"
#undef TUNE_TUNE
};

#define AT(field) offsetof(struct tune_values, field)
#define ROW(section_, name_, letter_, type_, min_, max_, hint_, help_, field_)                     \
    {                                                                                              \
        .section = (section_), .name = (name_), .letter = (letter_), .type = (type_),              \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_), .offset = AT(field_)       \
    }

static const struct opt_row rows[] = {
    ROW("Job", "model", 'm', OPT_TEXT, 0, 0, "NAME",
        "the base, or a part of its name; default: the one that the server has", model),
    ROW(NULL, "from", 0, OPT_TEXT, 0, 0, "NAME",
        "a tuned model to go on from, or a part of its name, instead of a base", from),
    ROW(NULL, "follow", 'f', OPT_BOOL, 0, 0, NULL,
        "watch the job until it ends; the status is 0 when it succeeded, 1 when it did not",
        follow),
    ROW(NULL, "validation", 0, OPT_TEXT, 0, 0, "FILE", "rows to measure on, not to learn",
        validation),
    ROW(NULL, "suffix", 0, OPT_TEXT, 0, 0, "NAME", "becomes a part of the new model's name",
        suffix),
    ROW(NULL, "seed", 0, OPT_INT, 0, 2147483647, "S",
        "the same seed makes the same model; default: the server draws one", seed),
    ROW(NULL, "method", 0, OPT_TEXT, 0, 0, "NAME",
        "supervised, dpo, reinforcement, x_embedding or x_classification; default: supervised",
        method),
    ROW(NULL, "grader", 0, OPT_TEXT, 0, 0, "FILE",
        "of --method reinforcement: the JSON of what grades its samples", grader),
    ROW(NULL, "metadata", 0, OPT_LIST, 0, 0, "KEY=VALUE", "is kept with the job", metadata),
    ROW("Training", "hyper", 0, OPT_LIST, 0, 0, "NAME=VALUE",
        "any of the API's hyperparameters, by the API's name", hyper),
#define TUNE_TUNE(name, kind, min, max, words, flag, field, hint, help, ...)                       \
    ROW(NULL, flag, 0, HYPER_OPT_##kind, min, max, hint, help, field),
#include "api/hyper.def"
#undef TUNE_TUNE
    REMOTE_ROWS};

const struct cmd_opt cmd_opt_tune = {rows, sizeof rows / sizeof *rows, sizeof(struct tune_values)};

/* ---- files --------------------------------------------------------------------------------- */

static bool is_file_id(const char *path)
{
    return !strncmp(path, "file-", 5) && access(path, F_OK) != 0;
}

struct given {
    char *id;    /* owned; NULL: there is none */
    bool is_new; /* it was sent for this job */
};

static int give_file(struct peer *p, const struct tune_values *v, const char *path, struct given *g,
                     struct err *e)
{
    json_t *file;
    char room[REMOTE_TEXT_BYTES];
    if (!path)
        return 0;
    g->is_new = !is_file_id(path);
    if (!g->is_new) {
        g->id = pick(p, "/v1/files", path, e);
        return g->id ? 0 : -1;
    }
    if (upload_file(p, path, "fine-tune", &file, e))
        return -1;
    const char *id = g->id = xstrdup(remote_text(file, "id", room));
    if (v->remote.json)
        remote_print_json(file);
    else
        fprintf(stderr, "%s: %" JSON_INTEGER_FORMAT " bytes, sent as %s\n", path,
                json_integer_value(json_object_get(file, "bytes")), id);
    json_decref(file);
    return 0;
}

/* There is no job that needs it. */
static void take_back(struct peer *p, struct given *g)
{
    struct err e = ERR_INIT;
    if (!g->id || !g->is_new)
        return;
    if (remote_ask(p, "DELETE", "/v1/files/%s", g->id, NULL, &e))
        fprintf(stderr, "%s stays with the server: %s\n", g->id, e.msg);
    else
        fprintf(stderr, "%s is deleted: there is no job for it\n", g->id);
}

/* ---- the job ------------------------------------------------------------------------------- */

/* What follows the '=' of NAME=VALUE, and NAME, which the caller frees. */
static const char *split(const char *flag, const char *text, char **name, struct err *e)
{
    const char *equals = strchr(text, '=');
    *name = NULL;
    if (!equals || equals == text) {
        err_set(e, ERR_BAD_INPUT, "%s %.80s: it is written NAME=VALUE", flag, text);
        return NULL;
    }
    *name = xstrndup(text, (size_t)(equals - text));
    return equals + 1;
}

/* A number, true, a list: what JSON reads; any other text is a text. */
static json_t *value_of(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    return v ? v : json_string(text);
}

static int put_list(json_t *to, const char *flag, const struct opt_list *list, bool is_text,
                    struct err *e)
{
    for (size_t i = 0; i < list->n; i++) {
        char *name;
        const char *value = split(flag, list->at[i], &name, e);
        if (!value)
            return -1;
        json_object_set_new(to, name, is_text ? json_string(value) : value_of(value));
        free(name);
    }
    return 0;
}

static json_t *hyper_of(const struct tune_values *v, struct err *e)
{
    json_t *h = json_object();
#define JSON_OF_INT_AUTO  json_integer
#define JSON_OF_INT_PLAIN json_integer
#define JSON_OF_NUM_AUTO  json_real
#define JSON_OF_WORD      json_string
#define IS_SAID_INT_AUTO  0 <
#define IS_SAID_INT_PLAIN 0 <
#define IS_SAID_NUM_AUTO  0 <
#define IS_SAID_WORD      NULL !=
#define TUNE_TUNE(name, kind, min, max, words, flag, field, ...)                                   \
    if (IS_SAID_##kind v->field)                                                                   \
        json_object_set_new(h, #name, JSON_OF_##kind(v->field));
#include "api/hyper.def"
    if (put_list(h, "--hyper", &v->hyper, false, e) == 0)
        return h;
    json_decref(h);
    return NULL;
}

/* Who gives a grader means the method that has one. */
static const char *method_of(const struct tune_values *v)
{
    return v->method ? v->method : v->grader ? "reinforcement" : "supervised";
}

/* Into the object of the method; what it says is the server's to judge. */
static int put_grader(json_t *method, const struct tune_values *v, struct err *e)
{
    const char *path = v->grader;
    json_error_t why;
    if (!path)
        return 0;
    if (strcmp(method_of(v), "reinforcement") != 0)
        return err_set(e, ERR_BAD_INPUT, "--grader is for --method reinforcement");
    json_t *grader = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!grader)
        return err_set(e, ERR_BAD_INPUT, "--grader %.200s: %s (line %d)", path, why.text, why.line);
    return json_object_set_new(method, "grader", grader)
               ? err_set(e, ERR_NO_MEMORY, "no memory for a grader")
               : 0;
}

static void put_text(json_t *to, const char *name, const char *text)
{
    if (text)
        json_object_set_new(to, name, json_string(text));
}

/* What is trained further: a base, or what came of a job. */
static char *model_of(struct peer *p, const struct tune_values *v, struct err *e)
{
    if (!v->from || !v->model)
        return remote_base(p, v->from ? v->from : v->model, e);
    err_set(e, ERR_BAD_INPUT, "--model and --from: one of them says what is trained further");
    return NULL;
}

/* The body of the creation; NULL with e set. */
static json_t *job_of(const struct tune_values *v, bool has_seed, const char *model,
                      const char *file, const char *validation, struct err *e)
{
    const char *method = method_of(v);
    json_t *job = json_object(), *metadata = json_object(), *hyper = hyper_of(v, e);
    json_t *how = json_object();
    put_text(job, "model", model);
    put_text(job, "training_file", file);
    put_text(job, "validation_file", validation);
    put_text(job, "suffix", v->suffix);
    if (has_seed)
        json_object_set_new(job, "seed", json_integer(v->seed));
    bool good = hyper && put_grader(how, v, e) == 0 &&
                put_list(metadata, "--metadata", &v->metadata, true, e) == 0;
    if (json_object_size(hyper))
        json_object_set(how, "hyperparameters", hyper);
    if (v->method || json_object_size(how))
        json_object_set_new(job, "method", json_pack("{s:s,s:O}", "type", method, method, how));
    if (good && json_object_size(metadata))
        json_object_set(job, "metadata", metadata);
    json_decref(how);
    json_decref(hyper);
    json_decref(metadata);
    if (good)
        return job;
    json_decref(job);
    return NULL;
}

/* A server passes over what it does not know: a --hyper that was mistyped must not go unsaid. */
static void say_ignored(const struct peer *p)
{
    const char *names = peer_header(p, "x-tandem-ignored");
    if (!names)
        return;
    fputs("the server does not know, and ignores: ", stderr);
    term_put(stderr, names);
    fputc('\n', stderr);
}

/* Ctrl-C waits until the id of what was made is known. */
static int make(struct peer *p, const struct tune_values *v, const json_t *ask, json_t **job,
                struct err *e)
{
    char room[REMOTE_TEXT_BYTES], other[REMOTE_TEXT_BYTES];
    interrupt_watch();
    if (peer_ask(p, "POST", "/v1/fine_tuning/jobs", ask, job, e))
        return -1;
    say_ignored(p);
    const char *id = remote_text(*job, "id", room);
    if (v->remote.json)
        remote_print_json(*job);
    else if (v->follow)
        fprintf(stderr, "%s on %s\n", id, remote_text(*job, "model", other));
    else
        puts(id);
    fflush(stdout);
    return 0;
}

/* What decides how rows are read: the method, and its loss. */
static json_t *reading_of(const struct tune_values *v, struct err *e)
{
    const char *method = method_of(v);
    json_t *hyper = hyper_of(v, e), *loss = json_object_get(hyper, "loss");
    json_t *how = hyper ? json_pack("{s:s}", "type", method) : NULL;
    if (loss)
        json_object_set_new(how, method, json_pack("{s:{s:O}}", "hyperparameters", "loss", loss));
    json_decref(hyper);
    return how;
}

/* Both are sent, or none; what is to be learned was looked over by then. */
static int give_files(struct peer *p, const struct opt *o, struct tune_ask *asks,
                      struct given *file, struct given *validation, bool *is_refused, struct err *e)
{
    const struct tune_values *v = o->values;
    const char *path = asks ? asks->file : o->arg[0];
    json_t *how = reading_of(v, e);
    int rc = !how || give_file(p, v, path, file, e) ||
                     check_file(p, file->id, path, how, v->remote.json, is_refused, e)
                 ? -1
                 : 0;
    json_decref(how);
    if (rc)
        return -1;
    if (asks && !tune_ask_start(asks))
        return err_set(e, ERR_BAD_INPUT, "no job was made");
    return give_file(p, v, v->validation, validation, e);
}

/* *is_refused: no job was made, for the file cannot be used. */
static int tune(struct peer *p, const struct opt *o, struct tune_ask *asks, int *status,
                bool *is_refused, struct err *e)
{
    const struct tune_values *v = o->values;
    struct given file = {0}, validation = {0};
    json_t *ask = NULL, *job = NULL;
    char room[REMOTE_TEXT_BYTES];
    /* what can be wrong without the files is found before they are sent */
    json_t *trial = job_of(v, false, "", "", NULL, e);
    char *model = trial ? model_of(p, v, e) : NULL;
    int rc = -1;
    if (model && !give_files(p, o, asks, &file, &validation, is_refused, e))
        ask = job_of(v, opt_is_given(o, "seed"), model, file.id, validation.id, e);
    if (ask)
        rc = make(p, v, ask, &job, e);
    if (rc) {
        take_back(p, &file);
        take_back(p, &validation);
    }
    *status = CMD_GOOD;
    if (!rc && v->follow)
        rc = follow_job(p, &v->remote, remote_text(job, "id", room), status, e);
    json_decref(trial);
    json_decref(ask);
    json_decref(job);
    free(model);
    free(file.id);
    free(validation.id);
    return rc;
}

/* What a person said takes the place of what the command line did not; the job is watched then. */
static int ask(struct tune_ask *a, struct tune_values *v, struct err *e)
{
    if (tune_ask(a, e))
        return -1;
    v->suffix = v->suffix ? v->suffix : a->suffix;
    v->epochs = v->epochs ? v->epochs : a->epochs;
    v->follow = true;
    return 0;
}

int cmd_tune(const struct opt *o)
{
    struct tune_values *v = o->values;
    struct err e = ERR_INIT;
    int status = CMD_FAILED;
    struct tune_ask asked, *asks = o->n_arg ? NULL : &asked;
    struct peer *p = remote_peer(&v->remote, &e);
    bool is_refused = false;
    int rc = p && !(asks && ask(asks, v, &e)) ? tune(p, o, asks, &status, &is_refused, &e) : -1;
    int failed = rc ? cmd_fail(o, &e) : 0;
    if (asks && p)
        tune_ask_release(asks);
    peer_free(p);
    return is_refused ? CMD_FAILED : rc ? failed : status;
}
