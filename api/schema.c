/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to JSON Schema. Types are our own literals: one that cannot be read is our fault.
 */
#include "api/schema.h"

#include <string.h>

#include "engine/base/err.h"

#define REQUIRED                       true
#define OPTIONAL                       false
#define SCHEMA(name, about)            {true, #name, "object", about, false},
#define FIELD(name, type, need, about) {false, #name, type, about, need},
const struct schema_row schema_rows[] = {
#include "api/schema.def"
};
const size_t n_schema_rows = sizeof schema_rows / sizeof *schema_rows;

/* ---- types --------------------------------------------------------------------------------- */

static void word(struct jout *j, const char *p, size_t n)
{
    static const char *const known[] = {"string", "integer", "number", "boolean", "object", "null"};
    if (n == 3 && !memcmp(p, "any", 3))
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i]) == n && !memcmp(known[i], p, n)) {
            jout_put_str(j, "type", known[i]);
            return;
        }
    }
    BUG("no type: %.*s", (int)n, p);
}

static void reference(struct jout *j, const char *p, size_t n)
{
    static const char place[] = "#/components/schemas/";
    char text[128];
    ASSERT(n + sizeof place <= sizeof text);
    memcpy(text, place, sizeof place);
    memcpy(text + sizeof place - 1, p, n);
    jout_key(j, "$ref");
    jout_bytes(j, text, sizeof place - 1 + n);
}

/* One alternative; what [] and {} stand before is nested by them. */
static void single(struct jout *j, const char *p, size_t n)
{
    int depth = 0;
    while (n > 2 && (*p == '[' || *p == '{')) {
        bool is_full = p[1] == '1'; /* [1]: it holds something */
        jout_put_str(j, "type", *p == '[' ? "array" : "object");
        if (is_full)
            jout_put_int(j, "minItems", 1);
        jout_key(j, *p == '[' ? "items" : "additionalProperties");
        jout_open(j, '{');
        p += 2 + is_full;
        n -= (size_t)(2 + is_full);
        depth++;
    }
    if (*p == '#') {
        reference(j, p + 1, n - 1);
    } else if (*p == '\'') {
        jout_key(j, "const");
        jout_bytes(j, p + 1, n - 2);
    } else {
        word(j, p, n);
    }
    while (depth--)
        jout_close(j, '}');
}

void schema_type(struct jout *j, const char *type, const char *about)
{
    size_t n = strcspn(type, "|");
    if (*about)
        jout_put_str(j, "description", about);
    if (!type[n]) {
        single(j, type, n);
        return;
    }
    jout_key(j, "anyOf");
    jout_open(j, '[');
    for (const char *p = type;; p += n + 1) {
        n = strcspn(p, "|");
        jout_open(j, '{');
        single(j, p, n);
        jout_close(j, '}');
        if (!p[n])
            break;
    }
    jout_close(j, ']');
}

/* ---- objects ------------------------------------------------------------------------------- */

static size_t object(struct jout *j, const struct schema_row *row, size_t n)
{
    size_t end = 1;
    while (end < n && !row[end].is_schema)
        end++;
    jout_key(j, row->name);
    jout_open(j, '{');
    schema_type(j, row->type, row->about);
    jout_key(j, "properties");
    jout_open(j, '{');
    for (size_t i = 1; i < end; i++) {
        jout_key(j, row[i].name);
        jout_open(j, '{');
        schema_type(j, row[i].type, row[i].about);
        jout_close(j, '}');
    }
    jout_close(j, '}');
    jout_key(j, "required");
    jout_open(j, '[');
    for (size_t i = 1; i < end; i++)
        if (row[i].is_required)
            jout_str(j, row[i].name);
    jout_close(j, ']');
    jout_close(j, '}');
    return end;
}

void schema_write(struct jout *j)
{
    for (size_t i = 0; i < n_schema_rows;)
        i += object(j, &schema_rows[i], n_schema_rows - i);
}
