/* SPDX-License-Identifier: Apache-2.0
 *
 * One state per byte class; the boundary is searched with a count of matched bytes. It begins with
 * a CR and has no other, so a mismatch falls back to 0 or, at a CR, to 1: no table is needed.
 */
#include "api/multipart.h"

#include <string.h>
#include <strings.h>

static int bad(struct multipart *m, struct api_error *e, const char *what)
{
    m->state = MULTIPART_FAILED;
    return api_fail(e, 400, "invalid_multipart", NULL, "The multipart body is malformed: %s.",
                    what);
}

/* ---- the boundary -------------------------------------------------------------------------- */

static bool is_boundary(const char *p, size_t n)
{
    static const char plain[] = "0123456789'()+_,-./:=? "
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return n > 0 && n <= MULTIPART_BOUNDARY_MAX && strspn(p, plain) >= n && p[n - 1] != ' ';
}

/* The value of boundary=; NULL: there is none. */
static const char *find_boundary(const char *type, size_t *n)
{
    static const char form[] = "multipart/form-data";
    if (!type || strncasecmp(type, form, sizeof form - 1) != 0)
        return NULL;
    for (const char *p = type + sizeof form - 1; (p = strchr(p, ';')) != NULL;) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, "boundary=", 9) != 0)
            continue;
        p += 9;
        bool is_quoted = *p == '"';
        p += is_quoted;
        *n = strcspn(p, is_quoted ? "\"" : "; \t");
        return p;
    }
    return NULL;
}

int multipart_init(struct multipart *m, const char *type, const struct multipart_sink *sink,
                   struct api_error *e)
{
    size_t n = 0;
    const char *p = find_boundary(type, &n);
    memset(m, 0, sizeof *m);
    m->sink = *sink;
    if (!p || !is_boundary(p, n)) {
        m->state = MULTIPART_FAILED;
        return api_fail(e, 415, "invalid_content_type", NULL,
                        "Content-Type must be multipart/form-data with a boundary.");
    }
    memcpy(m->stop, "\r\n--", 4);
    memcpy(m->stop + 4, p, n);
    m->n_stop = n + 4;
    m->n_match = 2; /* the first boundary may stand at the very begin */
    return 0;
}

/* ---- a part's headers ---------------------------------------------------------------------- */

/* A quote, CR or LF in a name, as browsers write them: %22, %0D, %0A (the HTML standard, "multipart
 * form data"), and nothing else: they leave a '%' of the name's own as it is. 0: it is none. */
static char percent_char(const char *p)
{
    if (strncmp(p, "%22", 3) == 0)
        return '"';
    return strncasecmp(p, "%0D", 3) == 0 ? '\r' : strncasecmp(p, "%0A", 3) == 0 ? '\n' : 0;
}

/* name="..." of a Content-Disposition, with \" and \\ as programs write them, or by percent_char.
 * 1: found. */
static int take_param(const char *line, const char *key, char *out, size_t cap)
{
    size_t n = strlen(key), at = 0;
    const char *p = line;
    while ((p = strchr(p, ';')) != NULL) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, key, n) == 0 && p[n] == '=' && p[n + 1] == '"')
            break;
    }
    if (!p)
        return 0;
    for (p += n + 2; *p && *p != '"'; p++) {
        char c = percent_char(p);
        if (c)
            p += 2;
        else if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
            p++;
        if (at + 1 == cap)
            return -1;
        out[at++] = c ? c : *p;
    }
    out[at] = 0;
    return *p == '"' ? 1 : -1;
}

static int begin_part(struct multipart *m, struct api_error *e)
{
    static const char key[] = "Content-Disposition:";
    char name[MULTIPART_NAME_MAX], file[MULTIPART_NAME_MAX];
    char *line = m->header, *end;
    for (; (end = strstr(line, "\r\n")) != NULL; line = end + 2)
        if (strncasecmp(line, key, sizeof key - 1) == 0)
            break;
    if (!end)
        return bad(m, e, "a part has no Content-Disposition");
    *end = 0;
    line += sizeof key - 1;
    line += strspn(line, " \t");
    if (strncasecmp(line, "form-data", 9) != 0 || take_param(line, "name", name, sizeof name) != 1)
        return bad(m, e, "a part has no name");
    int has_file = take_param(line, "filename", file, sizeof file);
    if (has_file < 0)
        return bad(m, e, "a file's name is too long");
    if (++m->n_part > MULTIPART_PARTS_MAX)
        return bad(m, e, "it has too many parts");
    m->state = MULTIPART_BODY;
    m->n_header = 0;
    m->n_match = 0;
    if (m->sink.begin(m->sink.ctx, name, has_file ? file : NULL, e)) {
        m->state = MULTIPART_FAILED;
        return -1;
    }
    return 0;
}

/* Until the empty line. */
static int push_header(struct multipart *m, char c, struct api_error *e)
{
    if (c == 0)
        return bad(m, e, "a header holds a NUL");
    if (m->n_header == MULTIPART_HEADER_MAX)
        return bad(m, e, "a part's headers are too long");
    m->header[m->n_header++] = c;
    m->header[m->n_header] = 0;
    bool is_over = m->n_header >= 4 && memcmp(m->header + m->n_header - 4, "\r\n\r\n", 4) == 0;
    if (!is_over)
        return 0;
    m->header[m->n_header - 2] = 0;
    return begin_part(m, e);
}

/* Behind a boundary stands a line's end, or -- behind the last. head holds what came so far. */
static int push_behind(struct multipart *m, char c, struct api_error *e)
{
    m->header[m->n_header++] = c;
    if (m->n_header < 2)
        return c == '\r' || c == '-' ? 0 : bad(m, e, "a boundary is followed by something else");
    bool is_line = memcmp(m->header, "\r\n", 2) == 0, is_last = memcmp(m->header, "--", 2) == 0;
    if (!is_line && !is_last)
        return bad(m, e, "a boundary is followed by something else");
    m->state = is_last ? MULTIPART_AFTER : MULTIPART_HEADERS;
    m->n_header = 0;
    return 0;
}

/* ---- bodies -------------------------------------------------------------------------------- */

static int give(struct multipart *m, const char *p, size_t n, struct api_error *e)
{
    if (n == 0 || m->state == MULTIPART_BEFORE)
        return 0;
    if (m->sink.data(m->sink.ctx, p, n, e) == 0)
        return 0;
    m->state = MULTIPART_FAILED;
    return -1;
}

static int reach_boundary(struct multipart *m, struct api_error *e)
{
    bool ends = m->state == MULTIPART_BODY;
    m->state = MULTIPART_BEHIND;
    m->n_header = m->n_match = 0;
    if (ends && m->sink.end(m->sink.ctx, e)) {
        m->state = MULTIPART_FAILED;
        return -1;
    }
    return 0;
}

/* Takes bytes up to a boundary, or all; *at moves on. */
static int push_body(struct multipart *m, const char *p, size_t n, size_t *at, struct api_error *e)
{
    while (*at < n) {
        if (m->n_match == 0) {
            const char *cr = memchr(p + *at, '\r', n - *at);
            size_t plain = cr ? (size_t)(cr - p) - *at : n - *at;
            if (give(m, p + *at, plain, e))
                return -1;
            *at += plain;
            if (!cr)
                return 0;
        }
        if (p[*at] != m->stop[m->n_match]) { /* what looked like a boundary is data */
            if (give(m, m->stop, m->n_match, e))
                return -1;
            m->n_match = 0;
            if (p[*at] != '\r' && give(m, p + (*at)++, 1, e))
                return -1;
            continue;
        }
        ++*at;
        if (++m->n_match == m->n_stop)
            return reach_boundary(m, e);
    }
    return 0;
}

int multipart_push(struct multipart *m, const char *p, size_t n, struct api_error *e)
{
    for (size_t at = 0; at < n;) {
        int rc = 0;
        switch (m->state) {
        case MULTIPART_BEFORE:
        case MULTIPART_BODY:
            rc = push_body(m, p, n, &at, e);
            break;
        case MULTIPART_BEHIND:
            rc = push_behind(m, p[at++], e);
            break;
        case MULTIPART_HEADERS:
            rc = push_header(m, p[at++], e);
            break;
        case MULTIPART_AFTER:
            return 0;
        case MULTIPART_FAILED:
            return -1;
        }
        if (rc)
            return -1;
    }
    return 0;
}

int multipart_finish(struct multipart *m, struct api_error *e)
{
    if (m->state == MULTIPART_FAILED)
        return -1;
    return m->state == MULTIPART_AFTER ? 0 : bad(m, e, "it ends before its last boundary");
}
