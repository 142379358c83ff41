/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of both directions. Only what is asked for of an answer is looked at.
 */
#include "api/wandb.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/jout.h"

enum { LINE_BYTES = 16 << 10, SAID_BYTES = 200 };
/* More than any run has; what is counted on from it stays a number that JSON has exactly. */
static const json_int_t lines_most = INT64_C(1) << 52;

static const char mutation[] =
    "mutation UpsertBucket($name: String, $project: String, $entity: String, $displayName: String, "
    "$config: JSONString, $jobType: String) { upsertBucket(input: {name: $name, modelName: "
    "$project, entityName: $entity, displayName: $displayName, config: $config, jobType: "
    "$jobType}) { bucket { name historyLineCount project { name entity { name } } } inserted } }";

void wandb_write_run(const struct wandb_run_names *n, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "operationName", "UpsertBucket");
    jout_put_str(&j, "query", mutation);
    jout_key(&j, "variables");
    jout_open(&j, '{');
    jout_put_str(&j, "name", n->run);
    jout_put_str(&j, "project", n->project);
    jout_put_str(&j, "entity", n->entity);
    jout_put_str(&j, "displayName", n->shown);
    jout_put_str(&j, "config", n->config);
    jout_put_str(&j, "jobType", "fine-tuning");
    jout_close(&j, '}');
    jout_close(&j, '}');
}

/* What GraphQL says instead of doing it comes with a status of 200. */
static int say_refused(const json_t *answer, struct err *e)
{
    const json_t *first = json_array_get(json_object_get(answer, "errors"), 0);
    const char *said = json_string_value(json_object_get(first, "message"));
    return err_set(e, ERR_BAD_INPUT, "%.*s", SAID_BYTES,
                   said && *said ? said : "no run in its answer");
}

static bool take_name(const json_t *of, char out[WANDB_NAME_BYTES])
{
    const char *name = json_string_value(json_object_get(of, "name"));
    return name && *name && snprintf(out, WANDB_NAME_BYTES, "%s", name) < WANDB_NAME_BYTES;
}

int wandb_read_run(const char *text, size_t n, struct wandb_place *out, struct err *e)
{
    json_t *answer = json_loadb(text ? text : "", n, 0, NULL);
    const json_t *upsert = json_object_get(json_object_get(answer, "data"), "upsertBucket");
    const json_t *bucket = json_object_get(upsert, "bucket");
    const json_t *project = json_object_get(bucket, "project");
    int rc = 0;
    *out = (struct wandb_place){0};
    if (!take_name(project, out->project) ||
        !take_name(json_object_get(project, "entity"), out->entity))
        rc = say_refused(answer, e);
    json_int_t lines = json_integer_value(json_object_get(bucket, "historyLineCount"));
    out->n_line = lines > 0 ? lines : 0;
    if (!rc && lines > lines_most)
        rc = err_set(e, ERR_BAD_INPUT, "a run of %" JSON_INTEGER_FORMAT " lines", lines);
    json_decref(answer);
    return rc;
}

static void put_segment(struct buf *out, const char *name)
{
    static const char plain[] = "-._~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    buf_char(out, '/');
    for (; *name; name++)
        if (strchr(plain, *name))
            buf_char(out, *name);
        else
            buf_printf(out, "%%%02X", (unsigned char)*name);
}

void wandb_write_path(const struct wandb_place *p, const char *run, struct buf *out)
{
    buf_str(out, "/files");
    put_segment(out, p->entity);
    put_segment(out, p->project);
    put_segment(out, run);
    buf_str(out, "/file_stream");
}

void wandb_set(struct wandb_numbers *n, const char *name, double value)
{
    size_t i = 0;
    while (i < n->n && strcmp(n->at[i].name, name) != 0)
        i++;
    if (i == WANDB_NUMBERS || strlen(name) >= WANDB_NUMBER_NAME_BYTES)
        return;
    snprintf(n->at[i].name, WANDB_NUMBER_NAME_BYTES, "%s", name);
    n->at[i].value = value;
    n->n += i == n->n;
}

void wandb_write_line(const struct wandb_numbers *n, const struct wandb_when *when, struct buf *out)
{
    struct buf line;
    buf_init(&line, LINE_BYTES);
    struct jout j = jout_on(&line), quoted = jout_on(out);
    jout_open(&j, '{');
    jout_put_int(&j, "_step", when->step);
    jout_put_num(&j, "_timestamp", when->s);
    jout_put_num(&j, "_runtime", when->since_begin_s);
    for (size_t i = 0; i < n->n; i++)
        jout_put_num(&j, n->at[i].name, n->at[i].value);
    jout_close(&j, '}');
    jout_str(&quoted, line.data);
    buf_release(&line);
}

static void put_file(struct jout *j, const char *name, int64_t first, const char *lines)
{
    if (!lines)
        return;
    jout_key(j, name);
    jout_open(j, '{');
    jout_put_int(j, "offset", first);
    jout_key(j, "content");
    jout_open(j, '[');
    jout_raw(j, lines);
    jout_close(j, ']');
    jout_close(j, '}');
}

void wandb_write_part(const struct wandb_part *p, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_key(&j, "files");
    jout_open(&j, '{');
    put_file(&j, "wandb-history.jsonl", p->first, p->lines);
    put_file(&j, "wandb-summary.json", 0, p->summary);
    jout_close(&j, '}');
    jout_put_int(&j, "dropped", 0);
    if (p->is_end) {
        jout_put_bool(&j, "complete", true);
        jout_put_int(&j, "exitcode", p->has_failed);
    }
    jout_close(&j, '}');
}
