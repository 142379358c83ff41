/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and their digests; see the header.
 */
#include "server/http/auth.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"
#include "engine/base/sha256.h"
#include "engine/base/vec.h"

struct auth {
    _Atomic int refs;
    struct limit_rule rule;     /* of keys that say nothing else */
    struct auth_key *nobody;    /* owned: while there are no keys */
    VEC(struct auth_key *) key; /* owned */
    VEC(uint8_t) digest;        /* SHA256_BYTES each, as key */
};

static struct auth_key *key_new(const char *name, unsigned scopes, const struct limit_rule *rule)
{
    struct auth_key *k = xcalloc(1, sizeof *k);
    k->who.name = xstrdup(name);
    k->who.scopes = scopes;
    k->who.tenant = map_hash(name, strlen(name));
    k->who.weight = (int32_t)rule->weight;
    limit_init(&k->limit, *rule, clock_us());
    k->who.rule = &k->limit.rule;
    return k;
}

static void key_free(struct auth_key *k)
{
    if (!k)
        return;
    limit_release(&k->limit);
    free((void *)(uintptr_t)k->who.name);
    free(k);
}

struct auth *auth_new(struct limit_rule rule)
{
    struct auth *a = xcalloc(1, sizeof *a);
    atomic_init(&a->refs, 1);
    a->rule = rule;
    a->nobody = key_new("anonymous", SCOPE_INFERENCE | SCOPE_TRAINING | SCOPE_ADMIN, &rule);
    a->nobody->who.tenant = 0;
    return a;
}

struct auth *auth_ref(struct auth *a)
{
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void auth_unref(struct auth *a)
{
    if (!a || atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    for (size_t i = 0; i < a->key.n; i++)
        key_free(a->key.at[i]);
    key_free(a->nobody);
    vec_release(&a->key);
    vec_release(&a->digest);
    free(a);
}

void auth_rule(struct auth *a, struct limit_rule rule)
{
    a->rule = rule;
}

static int nibble(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *p = c ? strchr(digits, c | 0x20) : NULL;
    return p ? (int)(p - digits) : -1;
}

static int digest_of(const char *key, uint8_t digest[SHA256_BYTES], struct err *e)
{
    if (strncmp(key, "sha256:", 7) != 0) {
        if (strlen(key) < AUTH_KEY_LEAST)
            return err_set(e, ERR_BAD_INPUT, "a key has at least %d characters", AUTH_KEY_LEAST);
        sha256_of(key, strlen(key), digest);
        return 0;
    }
    key += 7;
    for (int i = 0; i < SHA256_BYTES; i++) {
        int hi = nibble(key[2 * i]), lo = hi < 0 ? -1 : nibble(key[2 * i + 1]);
        if (lo < 0)
            return err_set(e, ERR_BAD_INPUT, "sha256: wants 64 hexadecimal digits");
        digest[i] = (uint8_t)(hi << 4 | lo);
    }
    return key[2 * SHA256_BYTES] ? err_set(e, ERR_BAD_INPUT, "sha256: wants 64 digits") : 0;
}

/* All of them are looked at, whatever is found. */
static size_t find(const struct auth *a, const uint8_t digest[SHA256_BYTES])
{
    size_t at = a->key.n;
    for (size_t i = 0; i < a->key.n; i++) {
        const uint8_t *d = a->digest.at + i * SHA256_BYTES;
        unsigned differs = 0;
        for (int b = 0; b < SHA256_BYTES; b++)
            differs |= (unsigned)(d[b] ^ digest[b]);
        size_t mask = (size_t)0 - (size_t)(differs == 0);
        at = (at & ~mask) | (i & mask);
    }
    return at;
}

int auth_add(struct auth *a, const char *name, unsigned scopes, const char *key,
             const struct limit_rule *rule, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    if (!*name || strlen(name) > AUTH_NAME_MAX)
        return err_set(e, ERR_BAD_INPUT, "a key's name has 1 to %d characters", AUTH_NAME_MAX);
    if (a->key.n == AUTH_KEYS_MAX)
        return err_set(e, ERR_TOO_LARGE, "more than %d keys", AUTH_KEYS_MAX);
    if (digest_of(key, digest, e))
        return err_wrap(e, "key \"%s\"", name);
    if (find(a, digest) < a->key.n)
        return err_set(e, ERR_EXISTS, "key \"%s\" is \"%s\"'s too", name,
                       a->key.at[find(a, digest)]->who.name);
    struct auth_key *k = key_new(name, scopes, rule ? rule : &a->rule);
    memcpy(&k->who.salt, digest, sizeof k->who.salt);
    vec_push(&a->key, k);
    for (int i = 0; i < SHA256_BYTES; i++)
        vec_push(&a->digest, digest[i]);
    return 0;
}

void auth_carry(struct auth *to, struct auth *from)
{
    limit_carry(&to->nobody->limit, &from->nobody->limit);
    for (size_t i = 0; i < to->key.n; i++) {
        size_t at = find(from, to->digest.at + i * SHA256_BYTES);
        if (at < from->key.n)
            limit_carry(&to->key.at[i]->limit, &from->key.at[at]->limit);
    }
}

size_t auth_count(const struct auth *a)
{
    return a->key.n;
}

/* NULL: no key has that name. */
static const struct auth_key *key_of(const struct auth *a, const char *name)
{
    if (a->key.n == 0)
        return a->nobody;
    for (size_t i = 0; i < a->key.n; i++)
        if (strcmp(a->key.at[i]->who.name, name) == 0)
            return a->key.at[i];
    return NULL;
}

bool auth_has(const struct auth *a, const char *name)
{
    const struct auth_key *k = key_of(a, name);
    return k && strcmp(k->who.name, name) == 0;
}

const struct limit_rule *auth_rule_of(const struct auth *a, const char *name)
{
    const struct auth_key *k = key_of(a, name);
    return k ? &k->limit.rule : &a->rule;
}

void auth_who_of(const struct auth *a, const char *name, struct who *out)
{
    const struct auth_key *k = key_of(a, name);
    uint64_t tenant = map_hash(name, strlen(name));
    *out = k ? k->who : (struct who){.scopes = SCOPE_INFERENCE, .salt = tenant};
    out->name = name;
    out->tenant = k == a->nobody ? 0 : tenant;
    out->rule = NULL;
}

bool auth_is_open(const struct auth *a)
{
    return a->key.n == 0;
}

struct auth_key *auth_find_key(struct auth *a, const char *key)
{
    uint8_t digest[SHA256_BYTES];
    if (a->key.n == 0)
        return a->nobody;
    if (!key)
        return NULL;
    sha256_of(key, strlen(key), digest);
    size_t at = find(a, digest);
    return at < a->key.n ? a->key.at[at] : NULL;
}

struct auth_key *auth_find(struct auth *a, const char *header)
{
    bool is_bearer = header && strncasecmp(header, "Bearer ", 7) == 0;
    return auth_find_key(a, is_bearer ? header + 7 + strspn(header + 7, " ") : NULL);
}

/* ---- the file ------------------------------------------------------------------------------ */

static int scopes_parse(const char *text, unsigned *scopes, struct err *e)
{
    static const struct {
        const char *name;
        unsigned scopes;
    } known[] = {{"inference", SCOPE_INFERENCE},
                 {"training", SCOPE_TRAINING},
                 {"admin", SCOPE_ADMIN},
                 {"all", SCOPE_INFERENCE | SCOPE_TRAINING | SCOPE_ADMIN}};
    *scopes = 0;
    for (;;) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < 4 && (strncmp(known[i].name, text, n) != 0 || known[i].name[n]))
            i++;
        if (i == 4)
            return err_set(e, ERR_BAD_INPUT,
                           "no scope \"%.*s\"; inference, training, admin and all are", (int)n,
                           text);
        *scopes |= known[i].scopes;
        if (!text[n])
            return 0;
        text += n + 1;
    }
}

static const int64_t MOST = INT64_C(1) << 40;

static int rule_parse(const char *word, struct limit_rule *rule, struct err *e)
{
    const struct {
        const char *name;
        int64_t least, most, *to;
    } row[] = {{"rpm=", 0, MOST, &rule->requests_min},
               {"tpm=", 0, MOST, &rule->tokens_min},
               {"at_once=", 0, MOST, &rule->at_once},
               {"texts=", 0, MOST, &rule->texts},
               {"jobs=", 0, MOST, &rule->jobs},
               {"jobs_waiting=", 0, MOST, &rule->jobs_waiting},
               {"adapters=", 0, MOST, &rule->adapters},
               {"bytes=", 0, MOST, &rule->bytes},
               {"model_bytes=", 0, MOST, &rule->model_bytes},
               {"weight=", 1, 1000, &rule->weight}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strncmp(word, row[i].name, strlen(row[i].name)) == 0)
            return num_int(word + strlen(row[i].name), row[i].least, row[i].most, row[i].to, e);
    return err_set(e, ERR_BAD_INPUT,
                   "what stands behind a key is rpm=N, tpm=N, at_once=N, texts=N, jobs=N, "
                   "jobs_waiting=N, adapters=N, bytes=N, model_bytes=N, weight=N");
}

/* Cuts the next word out of the line; NULL at its end. */
static char *word(char **line)
{
    char *p = *line + strspn(*line, " \t\r");
    size_t n = strcspn(p, " \t\r");
    if (n == 0 || *p == '#')
        return NULL;
    *line = p + n + (p[n] != 0);
    p[n] = 0;
    return p;
}

static int line_read(struct auth *a, char *line, struct err *e)
{
    char *name = word(&line), *scopes_text = name ? word(&line) : NULL;
    char *key = scopes_text ? word(&line) : NULL, *more;
    unsigned scopes;
    struct limit_rule rule = a->rule;
    if (!name)
        return 0;
    if (!key)
        return err_set(e, ERR_BAD_INPUT, "a line is NAME SCOPES KEY");
    if (scopes_parse(scopes_text, &scopes, e))
        return -1;
    while ((more = word(&line)))
        if (rule_parse(more, &rule, e))
            return -1;
    return auth_add(a, name, scopes, key, &rule, e);
}

int auth_read(struct auth *a, const char *path, struct err *e)
{
    struct buf text;
    int rc, n = 0;
    buf_init(&text, AUTH_FILE_BYTES);
    rc = fs_read(path, &text, e);
    if (!rc && text.data && strlen(text.data) != text.len)
        rc = err_set(e, ERR_BAD_INPUT, "%s: holds a zero byte", path);
    for (char *p = text.data; !rc && p && *p;) {
        char *end = p + strcspn(p, "\n"), *next = end + (*end != 0);
        *end = 0;
        n++;
        rc = line_read(a, p, e);
        if (rc)
            err_wrap(e, "%s:%d", path, n);
        p = next;
    }
    if (!rc && a->key.n == 0)
        rc = err_set(e, ERR_BAD_INPUT, "%s: no key stands in it", path);
    buf_release(&text);
    return rc;
}
