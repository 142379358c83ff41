/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of before this route, or of another maker, has none: then the job says what is wrong.
 */
#include "clients/remote/check.h"

#include "clients/remote/term.h"

enum { NOT_FOUND = 404, NOT_ALLOWED = 405 };

static void say(const char *name, const json_t *fault)
{
    char room[REMOTE_TEXT_BYTES];
    term_put(stderr, name);
    fprintf(stderr, ":%" JSON_INTEGER_FORMAT ": ",
            json_integer_value(json_object_get(fault, "line")));
    term_put(stderr, remote_text(fault, "message", room));
    fputc('\n', stderr);
}

static void say_all(const char *name, const json_t *check)
{
    const json_t *faults = json_object_get(check, "faults"), *v;
    json_int_t n = json_integer_value(json_object_get(check, "faulty_examples"));
    size_t i;
    json_array_foreach(faults, i, v) say(name, v);
    if (n > (json_int_t)json_array_size(faults))
        fprintf(stderr, "and %" JSON_INTEGER_FORMAT " more\n",
                n - (json_int_t)json_array_size(faults));
    json_array_foreach(json_object_get(check, "notes"), i, v)
    {
        term_put(stderr, name);
        fputs(": ", stderr);
        term_put(stderr, json_is_string(v) ? json_string_value(v) : "");
        fputc('\n', stderr);
    }
}

/* What a job of it will have. */
static void say_counts(const char *name, const json_t *check)
{
    term_put(stderr, name);
    fprintf(stderr,
            ": %" JSON_INTEGER_FORMAT " rows, %" JSON_INTEGER_FORMAT
            " tokens, %" JSON_INTEGER_FORMAT " of them to be learned\n",
            json_integer_value(json_object_get(check, "examples")),
            json_integer_value(json_object_get(check, "total_tokens")),
            json_integer_value(json_object_get(check, "trained_tokens")));
}

int check_file(struct peer *p, const char *id, const char *name, const json_t *method,
               bool is_quiet, bool *is_refused, struct err *e)
{
    json_t *ask = json_pack("{s:s,s:O}", "training_file", id, "method", method);
    json_t *check = NULL;
    struct err why = ERR_INIT;
    char room[REMOTE_TEXT_BYTES];
    int rc = peer_ask(p, "POST", "/v1/fine_tuning/check", ask, &check, &why);
    json_decref(ask);
    *is_refused = !rc && json_is_false(json_object_get(check, "usable"));
    if (rc && (peer_status(p) == NOT_FOUND || peer_status(p) == NOT_ALLOWED))
        rc = 0;
    else if (rc)
        *e = why;
    if (check)
        say_all(name, check);
    if (check && !*is_refused && !is_quiet)
        say_counts(name, check);
    if (*is_refused)
        rc = err_set(e, ERR_BAD_INPUT, "%.200s: %s", name, remote_text(check, "reason", room));
    json_decref(check);
    return rc;
}
