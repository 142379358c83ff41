/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem tokenize`: the tokens of a text, one a line (id, bytes of the text, spelling), or the
 * text of ids. The text is the second word or, for "-" or none, what stdin has.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli/cmd.h"
#include "engine/token/tokenizer.h"

enum { MAX_TEXT_BYTES = 256 << 20, MAX_TOKENS = 256 << 20, PART_BYTES = 64 << 10 };

struct tokenize_values {
    bool json, decode, special, trusted;
};

#define AT(field) offsetof(struct tokenize_values, field)

static const struct opt_row rows[] = {
    {.section = "Text",
     .name = "special",
     .type = OPT_BOOL,
     .fallback = "true",
     .help = "with the tokens that the model wants before and after a text",
     .offset = AT(special)},
    {.name = "trusted",
     .type = OPT_BOOL,
     .fallback = "true",
     .help = "special tokens in the text are special tokens; off: as in a user's message",
     .offset = AT(trusted)},
    {.name = "decode",
     .type = OPT_BOOL,
     .help = "the text is a list of ids; show what they say",
     .offset = AT(decode)},
    {.section = "Output",
     .name = "json",
     .type = OPT_BOOL,
     .help = "one JSON object",
     .offset = AT(json)},
};

const struct cmd_opt cmd_opt_tokenize = {rows, sizeof rows / sizeof *rows,
                                         sizeof(struct tokenize_values)};

static int read_text(const struct opt *o, struct buf *text, struct err *e)
{
    if (o->n_arg == 2 && strcmp(o->arg[1], "-") != 0) {
        buf_str(text, o->arg[1]);
        return buf_check(text, "text", e);
    }
    for (size_t n = 1; n > 0 && buf_reserve(text, PART_BYTES) == 0; text->len += n)
        n = fread(text->data + text->len, 1, PART_BYTES, stdin);
    if (ferror(stdin))
        return err_sys(e, "reading from stdin");
    return buf_check(text, "text", e);
}

/* ---- ids to text ---- */

/* "1 2 3", "[1, 2, 3]": numbers with anything but letters between. */
static int parse_ids(const char *s, struct tok_list *ids, struct buf *store, struct err *e)
{
    while (*(s += strspn(s, " \t\r\n,[]"))) {
        char *end;
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s || errno || v < 0 || v > INT32_MAX || !strchr(" \t\r\n,]", *end))
            return err_set(e, ERR_BAD_INPUT, "\"%.20s\" is not a token id", s);
        int32_t id = (int32_t)v;
        buf_add(store, &id, sizeof id);
        s = end;
    }
    ids->id = (int32_t *)(void *)store->data;
    ids->n = store->len / sizeof *ids->id;
    return buf_check(store, "list of ids", e);
}

static int show_text(const struct tokenizer *t, const struct tokenize_values *v, const char *text,
                     struct err *e)
{
    struct buf store, out;
    struct tok_list ids = {0};
    buf_init(&store, MAX_TEXT_BYTES);
    buf_init(&out, (size_t)4 * MAX_TEXT_BYTES);
    int rc = parse_ids(text, &ids, &store, e);
    if (!rc)
        rc = tokenizer_decode(t, ids.id, ids.n, false, &out, e);
    if (!rc && v->json) {
        json_t *root = json_pack("{s:s%}", "text", out.data ? out.data : "", out.len);
        json_dumpf(root, stdout, JSON_COMPACT);
        json_decref(root);
    } else if (!rc) {
        fwrite(out.data ? out.data : "", 1, out.len, stdout);
    }
    if (!rc)
        putchar('\n');
    buf_release(&store);
    buf_release(&out);
    return rc;
}

/* ---- text to ids ---- */

static void print_piece(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c < 0x20 || c == 0x7f || c == '\\')
            printf(c == '\\' ? "\\\\" : "\\x%02x", c);
        else
            putchar(c);
    }
}

static void print_lines(const struct tokenizer *t, const struct tok_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, l->id[i], &n);
        printf("%7d  %u-%u  ", l->id[i], l->span[i].lo, l->span[i].hi);
        print_piece(piece, n);
        putchar('\n');
    }
}

static void print_json(const struct tokenizer *t, const struct tok_list *l)
{
    printf("{\"count\":%zu,\"tokens\":[", l->n);
    for (size_t i = 0; i < l->n; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, l->id[i], &n);
        json_t *token = json_pack("{s:i,s:s%,s:[i,i],s:b}", "id", l->id[i], "piece", piece, n,
                                  "span", (int)l->span[i].lo, (int)l->span[i].hi, "special",
                                  (int)tokenizer_is_special(t, l->id[i]));
        if (i)
            putchar(',');
        json_dumpf(token, stdout, JSON_COMPACT);
        json_decref(token);
    }
    printf("]}\n");
}

static int show_tokens(const struct tokenizer *t, const struct tokenize_values *v,
                       const struct buf *text, struct err *e)
{
    struct tok_list l;
    tok_list_init(&l, MAX_TOKENS, true);
    int rc =
        tokenizer_encode(t, text->data ? text->data : "", text->len, v->trusted, v->special, &l, e);
    if (!rc && v->json)
        print_json(t, &l);
    else if (!rc)
        print_lines(t, &l);
    tok_list_release(&l);
    return rc;
}

int cmd_tokenize(const struct opt *o)
{
    const struct tokenize_values *v = o->values;
    struct err e = ERR_INIT;
    struct buf text;
    buf_init(&text, MAX_TEXT_BYTES);
    struct tokenizer *t = tokenizer_load(o->arg[0], &e);
    int rc = t ? read_text(o, &text, &e) : err_wrap(&e, "%s", o->arg[0]);
    if (!rc)
        rc = v->decode ? show_text(t, v, text.data ? text.data : "", &e)
                       : show_tokens(t, v, &text, &e);
    tokenizer_free(t);
    buf_release(&text);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
