/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing log-probabilities. A name is made in a scratch buffer, since it is looked at (is it
 * text?), compared (is it there already?) and counted before it is written.
 */
#include "api/logprobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/template/jvalue.h"

enum { NAME_BYTES_MAX = 1 << 20 };

static const double no_chance = -9999;

/* One list being written. */
struct lister {
    struct jout *j;
    const struct api_vocab *v;
    const char *prefix;     /* of names that are bytes */
    struct buf bytes, name; /* of the token at hand */
};

static void begin(struct lister *l, struct jout *j, const struct api_vocab *v, const char *prefix)
{
    *l = (struct lister){.j = j, .v = v, .prefix = prefix};
    buf_init(&l->bytes, NAME_BYTES_MAX);
    buf_init(&l->name, 8 * NAME_BYTES_MAX);
}

static void end(struct lister *l)
{
    buf_release(&l->bytes);
    buf_release(&l->name);
}

/* Many readers of JSON stop at a NUL in a key. */
static bool is_text(const struct buf *b)
{
    return jutf8_valid(b->data, b->len) && !memchr(b->data, 0, b->len);
}

static void look(struct lister *l, int32_t id)
{
    buf_clear(&l->bytes);
    buf_clear(&l->name);
    l->v->bytes(l->v->ctx, id, &l->bytes);
    if (l->v->names_ids) {
        buf_printf(&l->name, "token_id:%" PRId32, id);
    } else if (!l->bytes.len || is_text(&l->bytes)) {
        buf_add(&l->name, l->bytes.data, l->bytes.len);
    } else {
        buf_str(&l->name, l->prefix);
        for (size_t i = 0; i < l->bytes.len; i++)
            buf_printf(&l->name, "\\x%02x", (unsigned char)l->bytes.data[i]);
    }
}

static void put_name(struct lister *l)
{
    jout_bytes(l->j, l->name.len ? l->name.data : "", l->name.len);
}

static void put_logprob(struct jout *j, float x)
{
    if (isfinite(x))
        jout_float(j, x);
    else
        jout_num(j, no_chance);
}

/* ---- a chat -------------------------------------------------------------------------------- */

static void put_bytes(struct lister *l)
{
    jout_key(l->j, "bytes");
    jout_open(l->j, '[');
    for (size_t i = 0; i < l->bytes.len; i++)
        jout_int(l->j, (unsigned char)l->bytes.data[i]);
    jout_close(l->j, ']');
}

static void put_entry(struct lister *l, int32_t id, float logprob)
{
    look(l, id);
    jout_open(l->j, '{');
    jout_key(l->j, "token");
    put_name(l);
    jout_key(l->j, "logprob");
    put_logprob(l->j, logprob);
    put_bytes(l);
}

void api_logprobs_entries(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                          size_t n)
{
    struct lister l;
    begin(&l, j, v, "");
    for (size_t i = 0; i < n; i++) {
        put_entry(&l, at[i].id, at[i].logprob);
        jout_key(j, "top_logprobs");
        jout_open(j, '[');
        for (int32_t k = 0; k < at[i].n_top; k++) {
            put_entry(&l, at[i].top[k].id, at[i].top[k].logprob);
            jout_close(j, '}');
        }
        jout_close(j, ']');
        jout_close(j, '}');
    }
    end(&l);
}

void api_logprobs_chat(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                       size_t n)
{
    jout_open(j, '{');
    jout_key(j, "content");
    jout_open(j, '[');
    api_logprobs_entries(j, v, at, n);
    jout_close(j, ']');
    jout_put_null(j, "refusal");
    jout_close(j, '}');
}

/* ---- a completion -------------------------------------------------------------------------- */

/* The names that a dict has so far, one behind the other in `names`. */
struct dict {
    struct buf names;
    size_t end[GEN_TOP_MAX + 1];
    int n;
};

static bool has_name(const struct dict *d, const struct buf *name)
{
    size_t lo = 0;
    for (int i = 0; i < d->n; lo = d->end[i++])
        if (d->end[i] - lo == name->len &&
            (!name->len || !memcmp(d->names.data + lo, name->data, name->len)))
            return true;
    return false;
}

/* Two tokens of one spelling would make a key twice: the first, which is the likelier, stays. */
static void put_member(struct lister *l, struct dict *d, int32_t id, float logprob)
{
    look(l, id);
    if (d->n > GEN_TOP_MAX || has_name(d, &l->name))
        return;
    buf_add(&d->names, l->name.data, l->name.len);
    d->end[d->n++] = d->names.len;
    put_name(l);
    buf_char(l->j->out, ':');
    l->j->is_behind = false;
    put_logprob(l->j, logprob);
}

static void put_dict(struct lister *l, const struct api_logprob *p, struct dict *d)
{
    if (p->is_unknown) {
        jout_null(l->j);
        return;
    }
    d->n = 0;
    buf_clear(&d->names);
    jout_open(l->j, '{');
    for (int32_t k = 0; k < p->n_top; k++)
        put_member(l, d, p->top[k].id, p->top[k].logprob);
    put_member(l, d, p->id, p->logprob);
    jout_close(l->j, '}');
}

static void open_list(struct jout *j, const char *key)
{
    jout_key(j, key);
    jout_open(j, '[');
}

void api_logprobs_completion(struct jout *j, const struct api_vocab *v,
                             const struct api_logprob *at, size_t n)
{
    struct lister l;
    struct dict d = {.n = 0};
    begin(&l, j, v, "bytes:");
    buf_init(&d.names, (size_t)64 * NAME_BYTES_MAX);
    jout_open(j, '{');
    open_list(j, "tokens");
    for (size_t i = 0; i < n; i++) {
        look(&l, at[i].id);
        put_name(&l);
    }
    jout_close(j, ']');
    open_list(j, "token_logprobs");
    for (size_t i = 0; i < n; i++) {
        if (at[i].is_unknown)
            jout_null(j);
        else
            put_logprob(j, at[i].logprob);
    }
    jout_close(j, ']');
    open_list(j, "top_logprobs");
    for (size_t i = 0; i < n; i++)
        put_dict(&l, &at[i], &d);
    jout_close(j, ']');
    open_list(j, "text_offset");
    for (size_t i = 0; i < n; i++)
        jout_int(j, (int64_t)at[i].offset);
    jout_close(j, ']');
    jout_close(j, '}');
    buf_release(&d.names);
    end(&l);
}

/* ---- a prompt ------------------------------------------------------------------------------ */

static void put_ranked(struct lister *l, int32_t id, float logprob, int32_t rank)
{
    char key[16];
    snprintf(key, sizeof key, "%" PRId32, id);
    look(l, id);
    jout_key(l->j, key);
    jout_open(l->j, '{');
    jout_key(l->j, "logprob");
    put_logprob(l->j, logprob);
    jout_put_int(l->j, "rank", rank);
    jout_key(l->j, "decoded_token");
    put_name(l);
    jout_close(l->j, '}');
}

void api_logprobs_prompt(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                         size_t n)
{
    struct lister l;
    begin(&l, j, v, "bytes:");
    jout_open(j, '[');
    for (size_t i = 0; i < n; i++) {
        if (at[i].is_unknown) {
            jout_null(j);
            continue;
        }
        jout_open(j, '{');
        put_ranked(&l, at[i].id, at[i].logprob, at[i].rank);
        for (int32_t k = 0; k < at[i].n_top; k++)
            if (at[i].top[k].id != at[i].id)
                put_ranked(&l, at[i].top[k].id, at[i].top[k].logprob, k + 1);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    end(&l);
}
