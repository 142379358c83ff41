/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of protocol buffers: passes, and what they and samples come to. Arrays are bytes in
 * them, little-endian, as this machine has its numbers.
 */
#include "api/tinker.h"

#include <math.h>
#include <string.h>

#include "api/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are copied as they are");

enum { DTYPE_FLOAT32 = 1, DTYPE_INT64 = 2, KEY_BYTES = 64, STOP_LENGTH = 1 };

int tinker_pass_address(const char *body, size_t n, struct arena *a, struct tinker_address *out,
                        struct api_error *e)
{
    struct wire w = {.p = (const uint8_t *)body, .n = n};
    struct wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_BYTES && f.in.n < TINKER_ID_BYTES)
            out->line = arena_strndup(a, (const char *)f.in.p, f.in.n);
        else if (f.number == 2 && f.type == WIRE_VARINT)
            out->seq = (int32_t)f.value;
    }
    if (w.is_broken)
        return api_fail(e, 400, "invalid_message", NULL,
                        "The body is no message of protocol buffers (a ForwardBackwardRequest).");
    return out->line && out->seq >= 1
               ? 0
               : api_fail(e, 400, "missing_field", out->line ? "seq_id" : "model_id",
                          "'model_id' and 'seq_id', which counts from 1, are wanted.");
}

static int broken(struct api_error *e, int64_t row)
{
    return api_fail(e, 400, "invalid_message", "data", "Row %lld of 'data' cannot be read.",
                    (long long)row);
}

static bool is_text(const struct wire *w, const char *text)
{
    return w->n == strlen(text) && memcmp(w->p, text, w->n) == 0;
}

/* ---- what a row has -------------------------------------------------------------------------- */

/* Token ids of a chunk, behind those that are there; *n counts, out NULL: counts alone. */
static int read_chunk(struct wire w, int32_t *out, int64_t *n, int64_t row, struct api_error *e)
{
    struct wire_field f, inner;
    while (wire_next(&w, &f)) {
        if (f.number != 1 || f.type != WIRE_BYTES)
            return api_fail(e, 400, "unsupported_chunk", "data",
                            "Row %lld of 'data': chunks of text alone are understood, as tokens.",
                            (long long)row);
        while (wire_next(&f.in, &inner)) {
            if (inner.number != 1 || inner.type != WIRE_BYTES || inner.in.n % sizeof *out)
                return broken(e, row);
            if (out && inner.in.n)
                memcpy(out + *n, inner.in.p, inner.in.n);
            *n += (int64_t)(inner.in.n / sizeof *out);
        }
        if (f.in.is_broken)
            return broken(e, row);
    }
    return w.is_broken ? broken(e, row) : 0;
}

struct tensor {
    struct wire dense;
    uint64_t type;
    int64_t n_dim, n;
    bool is_sparse;
};

static int read_tensor(struct wire w, struct tensor *t, int64_t row, struct api_error *e)
{
    struct wire_field f;
    *t = (struct tensor){.n = 0};
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            t->dense = f.in;
        else if (f.number == 2)
            t->is_sparse = true;
        else if (f.number == 3)
            t->type = f.value;
        else if (f.number == 4 && f.type == WIRE_VARINT)
            t->n_dim++;
        else if (f.number == 4)
            for (size_t i = 0; i < f.in.n; i++)
                t->n_dim += !(f.in.p[i] & 0x80);
    }
    size_t each = t->type == DTYPE_INT64 ? sizeof(int64_t) : sizeof(float);
    if (w.is_broken || (t->type != DTYPE_FLOAT32 && t->type != DTYPE_INT64) || t->dense.n % each)
        return broken(e, row);
    t->n = (int64_t)(t->dense.n / each);
    return 0;
}

static float float_at(const struct tensor *t, int64_t i)
{
    float x;
    int64_t k;
    if (t->type == DTYPE_FLOAT32) {
        memcpy(&x, t->dense.p + (size_t)i * sizeof x, sizeof x);
        return x;
    }
    memcpy(&k, t->dense.p + (size_t)i * sizeof k, sizeof k);
    return (float)k;
}

static int take_floats(const struct tensor *t, const char *key, struct arena *a, float **out,
                       int64_t row, struct api_error *e)
{
    *out = ARENA_ARRAY(a, float, (size_t)t->n + 1);
    for (int64_t i = 0; i < t->n; i++) {
        (*out)[i] = float_at(t, i);
        if (!isfinite((*out)[i]))
            return api_fail(e, 400, "invalid_value", key,
                            "Row %lld of 'data': number %lld of '%s' is not finite.",
                            (long long)row, (long long)i, key);
    }
    return 0;
}

static int take_labels(const struct tensor *t, struct arena *a, int32_t **out, int64_t row,
                       struct api_error *e)
{
    *out = ARENA_ARRAY(a, int32_t, (size_t)t->n + 1);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t id = -1;
        if (t->type == DTYPE_INT64)
            memcpy(&id, t->dense.p + (size_t)i * sizeof id, sizeof id);
        if (id < 0 || id > INT32_MAX)
            return api_fail(e, 400, "invalid_value", "target_tokens",
                            "Row %lld of 'data': 'target_tokens' must be token ids of type int64.",
                            (long long)row);
        (*out)[i] = (int32_t)id;
    }
    return 0;
}

struct inputs {
    int64_t n_label, n_counts, n_sampled; /* -1: not there */
    const char *counts;
};

/* One of loss_fn_inputs. */
static int read_input(struct wire w, struct arena *a, struct tinker_row *r, struct inputs *in,
                      int64_t row, struct api_error *e)
{
    struct wire_field f;
    struct wire key = {.n = 0}, value = {.n = 0};
    struct tensor t;
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            key = f.in;
        if (f.number == 2 && f.type == WIRE_BYTES)
            value = f.in;
    }
    if (w.is_broken || read_tensor(value, &t, row, e))
        return w.is_broken ? broken(e, row) : -1;
    if (t.is_sparse || t.n_dim > 1)
        return api_fail(e, 400, "unsupported_shape", "data",
                        "Row %lld of 'data': '%.*s' must have one dimension, and be dense.",
                        (long long)row, key.n < KEY_BYTES ? (int)key.n : KEY_BYTES,
                        (const char *)key.p);
    bool is_weights = is_text(&key, "weights");
    if (is_text(&key, "target_tokens")) {
        in->n_label = t.n;
        return take_labels(&t, a, &r->label, row, e);
    }
    if (is_text(&key, "logprobs")) {
        in->n_sampled = t.n;
        return take_floats(&t, "logprobs", a, &r->sampled, row, e);
    }
    if (is_weights || is_text(&key, "advantages")) {
        if (r->counts)
            return api_fail(e, 400, "invalid_value", "data",
                            "Row %lld of 'data' has 'weights' and 'advantages': one of them says "
                            "what tokens count.",
                            (long long)row);
        in->n_counts = t.n;
        in->counts = is_weights ? "weights" : "advantages";
        return take_floats(&t, in->counts, a, &r->counts, row, e);
    }
    return api_fail(e, 400, "unknown_field", "data",
                    "Row %lld of 'data': no loss here reads '%.*s'.", (long long)row,
                    key.n < KEY_BYTES ? (int)key.n : KEY_BYTES, (const char *)key.p);
}

static int check_length(int64_t n, const char *what, const struct tinker_row *r, int64_t row,
                        struct api_error *e)
{
    return n < 0 || n == r->n
               ? 0
               : api_fail(e, 400, "invalid_value", what,
                          "Row %lld of 'data' has %lld tokens and %lld '%s': one for each is "
                          "wanted.",
                          (long long)row, (long long)r->n, (long long)n, what);
}

/* Fields 3 and 4 say where tokens came from, and change nothing. */
static int read_row(struct wire w, struct arena *a, struct tinker_row *r, int64_t row,
                    struct api_error *e)
{
    struct inputs in = {-1, -1, -1, "weights"};
    struct wire again = w;
    struct wire_field f;
    int64_t n = 0;
    *r = (struct tinker_row){.n = 0};
    while (wire_next(&w, &f))
        if (f.number == 1 && f.type == WIRE_BYTES && read_chunk(f.in, NULL, &r->n, row, e))
            return -1;
    r->id = ARENA_ARRAY(a, int32_t, (size_t)r->n + 1);
    while (wire_next(&again, &f)) {
        if (f.type == WIRE_BYTES && f.number == 1 && read_chunk(f.in, r->id, &n, row, e))
            return -1;
        if (f.type == WIRE_BYTES && f.number == 2 && read_input(f.in, a, r, &in, row, e))
            return -1;
    }
    if (again.is_broken)
        return broken(e, row);
    if (r->n == 0 || in.n_label < 0)
        return api_fail(e, 400, "missing_field", "data",
                        "Row %lld of 'data' must have tokens, and 'target_tokens'.",
                        (long long)row);
    return check_length(in.n_label, "target_tokens", r, row, e) ||
                   check_length(in.n_sampled, "logprobs", r, row, e) ||
                   check_length(in.n_counts, in.counts, r, row, e)
               ? -1
               : 0;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* Both forms in which numbers come: as they are, or in a value that may be a text. */
static int read_config(struct wire w, bool is_value, struct tinker_pass *out, struct api_error *e)
{
    struct wire_field f, inner;
    struct wire key = {.n = 0};
    double x = NAN;
    while (wire_next(&w, &f)) {
        if (f.number == 1)
            key = f.in;
        if (f.number == 2 && !is_value)
            x = wire_double(&f);
        while (f.number == 2 && is_value && wire_next(&f.in, &inner))
            if (inner.number == 1)
                x = wire_double(&inner);
    }
    double *to = is_text(&key, "clip_low_threshold")    ? &out->low
                 : is_text(&key, "clip_high_threshold") ? &out->high
                 : is_text(&key, "beta")                ? &out->beta
                                                        : NULL;
    if (!to || !isfinite(x) || x < 0)
        return api_fail(e, 400, "invalid_value", "loss_fn_config",
                        "'loss_fn_config' may have clip_low_threshold, clip_high_threshold and "
                        "beta, numbers from 0.");
    *to = x;
    return 0;
}

static int count_rows(struct wire w, int64_t *n, struct api_error *e)
{
    struct wire_field f;
    *n = 0;
    while (wire_next(&w, &f))
        *n += f.number == 3 && f.type == WIRE_BYTES;
    if (w.is_broken)
        return api_fail(e, 400, "invalid_message", NULL, "The message is broken.");
    return *n >= 1 && *n <= TINKER_ROWS_MAX
               ? 0
               : api_fail(e, 400, "invalid_value", "data", "'data' must have from 1 to %d rows.",
                          TINKER_ROWS_MAX);
}

int tinker_pass_read(const char *body, size_t n, struct arena *a, struct tinker_pass *out,
                     struct api_error *e)
{
    struct wire w = {.p = (const uint8_t *)body, .n = n};
    struct wire_field f;
    int64_t n_row;
    int rc = 0;
    *out = (struct tinker_pass){.loss = "", .low = NAN, .high = NAN, .beta = NAN};
    if (count_rows(w, &n_row, e))
        return -1;
    out->row = ARENA_ARRAY(a, struct tinker_row, (size_t)n_row);
    while (!rc && wire_next(&w, &f)) {
        if (f.number == 6)
            out->is_forward_only = f.value != 0;
        if (f.type != WIRE_BYTES)
            continue;
        if (f.number == 3) {
            rc = read_row(f.in, a, &out->row[out->n_row], out->n_row, e);
            out->n_row++;
        } else if (f.number == 4) {
            out->loss = arena_strndup(a, (const char *)f.in.p, f.in.n);
        } else if (f.number == 5 || f.number == 7) {
            rc = read_config(f.in, f.number == 7, out, e);
        }
    }
    return rc;
}

/* ---- what is told ---------------------------------------------------------------------------- */

enum { PART_BYTES = 1 << 28 };

static void put_metric(struct buf *out, const char *name, double x)
{
    struct buf entry;
    buf_init(&entry, PART_BYTES);
    wire_put_text(&entry, 1, name);
    wire_put_double(&entry, 2, x);
    wire_put_buf(out, 3, &entry);
}

/* A ForwardBackwardOutput of one record, whose field 'logprobs' has all rows' numbers, and where
 * each row's begin. */
void tinker_pass_write(struct buf *out, const struct tinker_pass *p, const float *logprob,
                       double loss, int64_t n_clipped, int64_t n_moved)
{
    struct buf array, entry, record, at;
    int64_t bytes = 0;
    buf_init(&array, PART_BYTES);
    buf_init(&entry, PART_BYTES);
    buf_init(&record, PART_BYTES);
    buf_init(&at, PART_BYTES);
    buf_add(&at, (const char *)&bytes, sizeof bytes);
    for (int64_t i = 0; i < p->n_row; i++) {
        bytes += p->row[i].n * (int64_t)sizeof *logprob;
        buf_add(&at, (const char *)&bytes, sizeof bytes);
    }
    wire_put_bytes(&array, 1, logprob, (size_t)bytes);
    wire_put_buf(&array, 2, &at);
    wire_put_int(&array, 3, DTYPE_FLOAT32);
    wire_put_text(&entry, 1, "logprobs");
    wire_put_buf(&entry, 2, &array);
    wire_put_text(&record, 1, "ArrayRecord");
    wire_put_buf(&record, 2, &entry);
    wire_put_int(&record, 3, (uint64_t)p->n_row);
    wire_put_text(out, 1, "ArrayRecord");
    wire_put_buf(out, 2, &record);
    put_metric(out, "loss:sum", loss);
    put_metric(out, "clipped:sum", (double)n_clipped);
    put_metric(out, "off_policy:sum", (double)n_moved);
}

void tinker_said_write(struct buf *out, const struct tinker_said *s)
{
    struct buf one;
    buf_init(&one, PART_BYTES);
    if (s->is_cut)
        wire_put_int(&one, 1, STOP_LENGTH);
    wire_put_bytes(&one, 2, s->id, s->n * sizeof *s->id);
    wire_put_bytes(&one, 3, s->logprob, s->n * sizeof *s->logprob);
    wire_put_buf(out, 1, &one);
}

void tinker_prompt_write(struct buf *out, const float *logprob, size_t n, int64_t n_cached)
{
    if (n)
        wire_put_bytes(out, 2, logprob, n * sizeof *logprob);
    if (n_cached > 0)
        wire_put_int(out, 4, (uint64_t)n_cached);
}
