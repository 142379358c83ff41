/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a call that are no JSON, read as they come and told as JSON: parameters between
 * marks (TOOL_MARKED), as Python's calls have them (TOOL_PYTHON), or with bare names (TOOL_BARE).
 * What has been told is the beginning of a JSON object at any time; values whose kind is known only
 * at their end are told then, texts as they come.
 *
 * A value between marks is what the tool's schema lets it be (schema_types_of_member): a text where
 * only strings may stand; where others may, what reads as one of these, and else a text.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_ARGS_READER_H
#define ENGINE_TOOLS_ARGS_READER_H

#include "engine/base/buf.h"
#include "engine/tools/json_scan.h"
#include "engine/tools/tool_format.h"

enum { ARGS_NAME_MAX = 1024, ARGS_VALUE_MAX = 256 << 20 };

struct args_reader {
    const struct tool_format *format; /* borrowed */
    const struct jvalue *schema;      /* borrowed: of the tool; NULL */
    uint8_t state;
    bool has_some; /* a member was told */
    struct buf name, held;
    struct json_scan scan;
    /* between marks */
    size_t n_match[2]; /* of `value` and `value_json`; SIZE_MAX: it is not this one. Bare: [0] of
                        * the quote */
    uint32_t types;    /* of the value */
    bool drops_line;   /* a newline that comes next is the mark's */
    bool is_nested;    /* within a JSON value, whose strings may hold the mark */
    bool is_begun;     /* something but a space stands in the value */
    /* as Python, and bare */
    uint64_t kind[2]; /* a bit for each level: is it a dict, is it closed by ) */
    uint8_t depth, n_hex;
    uint32_t code;
    char quote;
    bool is_key, needs_comma;
};

void args_reader_init(struct args_reader *r);
void args_reader_release(struct args_reader *r);

/* A call of the tool begins, behind what stands before its arguments. */
void args_reader_begin(struct args_reader *r, const struct tool_format *f,
                       const struct tool_spec *tool);

/* What is new joins *out. JSON_SCAN_DONE: with the last byte of what ends the call. */
enum json_scan_is args_reader_byte(struct args_reader *r, char c, struct buf *out);

/* For its files: a byte of a text as JSON has it, and a member's name with what stands around. */
void args_json_char(struct buf *out, char c);
void args_json_name(struct args_reader *r, struct buf *out);
void args_json_key(const struct args_reader *r, struct buf *out); /* the same without these */

enum json_scan_is args_marked_byte(struct args_reader *r, char c, struct buf *out);
enum json_scan_is args_python_byte(struct args_reader *r, char c, struct buf *out);
enum json_scan_is args_bare_byte(struct args_reader *r, char c, struct buf *out);

/* Words and numbers, of which the beginning is held. JSON_SCAN_DONE: this byte stands behind it,
 * and it is told. */
bool args_in_word(char c);
enum json_scan_is args_word_byte(struct args_reader *r, char c, struct buf *out);

/* Whether it is one JSON value, and nothing else. */
bool args_is_json(const char *text, size_t n);

#endif
