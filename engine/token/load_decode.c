/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of tokenizer.json: a component or a Sequence, fitted into the order that decode.h
 * describes. ByteLevel and Fuse make one text of the list; behind them only Strip can be done.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/internal.h"
#include "engine/token/utf8.h"

enum { MAX_DEPTH = 8 };

static int refuse(const struct json *v, const char *type, struct err *e)
{
    return json_err(v, e, ERR_UNSUPPORTED, "the type \"%.64s\" is not supported in this place",
                    type);
}

static int read_replace(struct decode *d, const struct json *v, struct err *e)
{
    struct decode_step s = {.kind = DECODE_REPLACE};
    if (load_text(v, "content", &s.content, e))
        return -1;
    if (load_pattern(v, &s.text, &s.regex, e)) {
        free(s.content);
        return -1;
    }
    return decode_give(d, &s, e);
}

static int read_strip(struct decode *d, const struct json *v, struct err *e)
{
    struct decode_step s = {.kind = DECODE_STRIP};
    char *c;
    int64_t left = 0, right = 0;
    if (json_get_int(v, "start", 0, DECODE_MAX_STRIP, &left, e) ||
        json_get_int(v, "stop", 0, DECODE_MAX_STRIP, &right, e) || load_text(v, "content", &c, e))
        return -1;
    s.strip.len = (unsigned)strlen(c);
    s.strip.left = (unsigned)left;
    s.strip.right = (unsigned)right;
    if (!*c || s.strip.len != utf8_len((uint8_t)*c)) {
        free(c);
        return json_err(v, e, ERR_BAD_INPUT, "content must be one character");
    }
    memcpy(s.strip.c, c, s.strip.len);
    free(c);
    if (!d->is_fused)
        return decode_give(d, &s, e);
    if (d->strip.len)
        return json_err(v, e, ERR_UNSUPPORTED, "more than one Strip of the whole text");
    d->strip = s.strip;
    return 0;
}

static int read_metaspace(struct decode *d, const struct json *v, struct err *e)
{
    struct decode_step s = {.kind = DECODE_METASPACE, .flag = true};
    const char *scheme = NULL;
    if (json_opt_bool(v, "add_prefix_space", &s.flag, e) ||
        json_opt_str(v, "prepend_scheme", &scheme, e) || load_text(v, "replacement", &s.text, e))
        return -1;
    if (scheme)
        s.flag = strcmp(scheme, "never") != 0;
    return decode_give(d, &s, e);
}

static int read_wordpiece(struct decode *d, const struct json *v, struct err *e)
{
    struct decode_step s = {.kind = DECODE_WORDPIECE, .flag = true};
    if (json_opt_bool(v, "cleanup", &s.flag, e) || load_text(v, "prefix", &s.text, e))
        return -1;
    return decode_give(d, &s, e);
}

static int read_bpe(struct decode *d, const struct json *v, struct err *e)
{
    struct decode_step s = {.kind = DECODE_BPE};
    if (load_text(v, "suffix", &s.text, e))
        return -1;
    return decode_give(d, &s, e);
}

static int load_list(struct decode *d, const struct json *v, int depth, struct err *e);

static int load_any(struct decode *d, const struct json *v, int depth, struct err *e)
{
    const char *type;
    if (load_type(v, &type, e))
        return -1;
    if (!strcmp(type, "Sequence"))
        return load_list(d, v, depth, e);
    if (!strcmp(type, "Fuse")) {
        d->is_fused = true;
        return 0;
    }
    if (!strcmp(type, "Strip") && (d->is_fused || !d->bytes))
        return read_strip(d, v, e);
    if (d->is_fused || d->bytes)
        return refuse(v, type, e);
    if (!strcmp(type, "ByteLevel")) {
        d->bytes = DECODE_BYTE_LEVEL;
        d->is_fused = true;
        return 0;
    }
    if (!strcmp(type, "ByteFallback")) {
        d->bytes = DECODE_BYTE_FALLBACK;
        return 0;
    }
    if (!strcmp(type, "Replace"))
        return read_replace(d, v, e);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(d, v, e);
    if (!strcmp(type, "WordPiece"))
        return read_wordpiece(d, v, e);
    if (!strcmp(type, "BPEDecoder"))
        return read_bpe(d, v, e);
    return refuse(v, type, e);
}

static int load_list(struct decode *d, const struct json *v, int depth, struct err *e)
{
    struct json list, child;
    if (depth == MAX_DEPTH)
        return json_err(v, e, ERR_UNSUPPORTED, "Sequences deeper than %d", MAX_DEPTH);
    if (json_get(v, "decoders", JSON_ARRAY, &list, e))
        return -1;
    json_each(child, list) if (load_any(d, &child, depth + 1, e)) return -1;
    return 0;
}

int load_decode(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "decoder");
    struct decode_step join = {.kind = DECODE_JOIN};
    if (json_absent(&v))
        return decode_give(&t->decode, &join, e);
    return load_any(&t->decode, &v, 0, e);
}
