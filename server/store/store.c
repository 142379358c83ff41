/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and migrating the database; statements. Whose it is says store_home.c.
 *
 * WAL with full sync: a commit that returned is on the disk, at a power cut too. An older form is
 * copied to backups/ before the first statement that changes it.
 */
#include "server/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/letters.h"
#include "server/store/store_own.h"

/* migrations[i] brings version i to i + 1. Those that were released are never changed. */
static const char *const migrations[] = {
    "CREATE TABLE file (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, purpose TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL);"
    "CREATE INDEX file_owner ON file (owner, seq);"
    "CREATE TABLE job (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, model TEXT NOT NULL, training_file TEXT NOT NULL,"
    " validation_file TEXT, suffix TEXT, metadata TEXT, hyper TEXT NOT NULL,"
    " error_code TEXT, error_message TEXT, error_param TEXT, tuned_model TEXT,"
    " result_files TEXT NOT NULL, state INTEGER NOT NULL, created INTEGER NOT NULL,"
    " started INTEGER NOT NULL, finished INTEGER NOT NULL, seed INTEGER NOT NULL,"
    " trained_tokens INTEGER NOT NULL, estimated_finish INTEGER NOT NULL, step INTEGER NOT NULL,"
    " n_step INTEGER NOT NULL, wants_cancel INTEGER NOT NULL, wants_pause INTEGER NOT NULL,"
    " retry TEXT, body TEXT);"
    "CREATE INDEX job_owner ON job (owner, seq);"
    "CREATE INDEX job_state ON job (state, seq);"
    "CREATE INDEX job_retry ON job (owner, retry) WHERE retry IS NOT NULL;"
    "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " job TEXT NOT NULL REFERENCES job (id), level TEXT NOT NULL, type TEXT NOT NULL,"
    " message TEXT NOT NULL, data TEXT, created INTEGER NOT NULL);"
    "CREATE INDEX event_job ON event (job, seq);"
    "CREATE TABLE tuned (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, job TEXT NOT NULL REFERENCES job (id),"
    " base TEXT NOT NULL, dir TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT,"
    " is_checkpoint INTEGER NOT NULL, created INTEGER NOT NULL);"
    "CREATE INDEX tuned_job ON tuned (job, seq);",
    "CREATE TABLE gone (seq INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL,"
    " owner TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL);"
    "CREATE INDEX gone_id ON gone (id);",
    "ALTER TABLE tuned ADD COLUMN is_full INTEGER NOT NULL DEFAULT 0;",
    "CREATE TABLE home (id TEXT NOT NULL);",
    "CREATE TABLE shared (job TEXT NOT NULL PRIMARY KEY REFERENCES job (id));",
    "ALTER TABLE job ADD COLUMN fingerprint TEXT; ALTER TABLE tuned ADD COLUMN fingerprint TEXT;",
    "ALTER TABLE file ADD COLUMN is_dropped INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE job ADD COLUMN grader TEXT;",
    "CREATE TABLE response (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, previous TEXT, input TEXT NOT NULL, body TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL);"
    "CREATE INDEX response_owner ON response (owner, seq);"
    "CREATE INDEX response_expires ON response (expires);"
    "CREATE TABLE response_sum (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL);"
    "CREATE TRIGGER response_came AFTER INSERT ON response BEGIN"
    " INSERT INTO response_sum VALUES (new.owner, new.bytes)"
    " ON CONFLICT (owner) DO UPDATE SET bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER response_went AFTER DELETE ON response BEGIN"
    " UPDATE response_sum SET bytes = bytes - old.bytes WHERE owner = old.owner; END;",
    "ALTER TABLE job ADD COLUMN ancestor TEXT; ALTER TABLE job ADD COLUMN ancestor_digest TEXT;",
    "CREATE TABLE batch (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, endpoint TEXT NOT NULL, input_file TEXT NOT NULL, model TEXT,"
    " metadata TEXT, errors TEXT, output_file TEXT, error_file TEXT, state INTEGER NOT NULL,"
    " created INTEGER NOT NULL, in_progress INTEGER NOT NULL, finalizing INTEGER NOT NULL,"
    " completed INTEGER NOT NULL, failed INTEGER NOT NULL, expired INTEGER NOT NULL,"
    " cancelling INTEGER NOT NULL, cancelled INTEGER NOT NULL, expires INTEGER NOT NULL,"
    " keep_s INTEGER NOT NULL, n_line INTEGER NOT NULL, n_good INTEGER NOT NULL,"
    " n_bad INTEGER NOT NULL, tok_in INTEGER NOT NULL, tok_cached INTEGER NOT NULL,"
    " tok_out INTEGER NOT NULL, tok_thoughts INTEGER NOT NULL);"
    "CREATE INDEX batch_owner ON batch (owner, seq);"
    "CREATE INDEX batch_state ON batch (state, seq);",
    "ALTER TABLE batch ADD COLUMN retry TEXT; ALTER TABLE batch ADD COLUMN body TEXT;"
    "CREATE INDEX batch_retry ON batch (owner, retry) WHERE retry IS NOT NULL;",
    "ALTER TABLE job ADD COLUMN response_format TEXT;",
    "CREATE TABLE loop_session (id TEXT PRIMARY KEY, owner TEXT NOT NULL,"
    " created INTEGER NOT NULL, seen INTEGER NOT NULL);"
    "CREATE TABLE loop_model (id TEXT PRIMARY KEY, owner TEXT NOT NULL, session TEXT NOT NULL,"
    " base TEXT NOT NULL, fingerprint TEXT NOT NULL, rank INTEGER NOT NULL, seed INTEGER NOT NULL,"
    " parts INTEGER NOT NULL, next INTEGER NOT NULL, kept INTEGER NOT NULL, turn INTEGER NOT NULL,"
    " created INTEGER NOT NULL, seen INTEGER NOT NULL);"
    "CREATE INDEX loop_model_session ON loop_model (session);"
    "CREATE INDEX loop_model_owner ON loop_model (owner);"
    "CREATE TABLE loop_request (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, line TEXT NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " state INTEGER NOT NULL, body BLOB, bytes INTEGER NOT NULL, answer BLOB,"
    " created INTEGER NOT NULL);"
    "CREATE INDEX loop_request_line ON loop_request (line, seq);"
    "CREATE INDEX loop_request_open ON loop_request (state, kind, place);"
    "CREATE TABLE loop_weights (path TEXT PRIMARY KEY, owner TEXT NOT NULL, model TEXT NOT NULL,"
    " dir TEXT NOT NULL, base TEXT NOT NULL, fingerprint TEXT NOT NULL, rank INTEGER NOT NULL,"
    " parts INTEGER NOT NULL, is_sampler INTEGER NOT NULL, is_named INTEGER NOT NULL,"
    " created INTEGER NOT NULL, expires INTEGER NOT NULL);"
    "CREATE INDEX loop_weights_model ON loop_weights (model);"
    "CREATE INDEX loop_weights_owner ON loop_weights (owner);"
    "CREATE TABLE loop_sampler (id TEXT PRIMARY KEY, owner TEXT NOT NULL, session TEXT NOT NULL,"
    " path TEXT, created INTEGER NOT NULL);",
    "ALTER TABLE loop_weights ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;",
    "UPDATE loop_request SET bytes = coalesce(length(body), 0) + coalesce(length(answer), 0);"
    "CREATE TABLE loop_sum (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL);"
    "INSERT INTO loop_sum SELECT owner, sum(bytes) FROM loop_request GROUP BY owner;"
    "CREATE TRIGGER loop_came AFTER INSERT ON loop_request BEGIN"
    " INSERT INTO loop_sum VALUES (new.owner, new.bytes)"
    " ON CONFLICT (owner) DO UPDATE SET bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER loop_changed AFTER UPDATE OF bytes ON loop_request BEGIN"
    " UPDATE loop_sum SET bytes = bytes + new.bytes - old.bytes WHERE owner = new.owner; END;"
    "CREATE TRIGGER loop_went AFTER DELETE ON loop_request BEGIN"
    " UPDATE loop_sum SET bytes = bytes - old.bytes WHERE owner = old.owner; END;",
    "CREATE TABLE upload (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, purpose TEXT NOT NULL, name TEXT NOT NULL, mime TEXT NOT NULL,"
    " file TEXT, asked TEXT, bytes INTEGER NOT NULL, created INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, keep_s INTEGER NOT NULL, state INTEGER NOT NULL);"
    "CREATE INDEX upload_owner ON upload (owner, state);"
    "CREATE INDEX upload_expires ON upload (expires);"
    "CREATE TABLE upload_part (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " upload TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " created INTEGER NOT NULL);"
    "CREATE INDEX upload_part_upload ON upload_part (upload);",
    "ALTER TABLE response ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE response ADD COLUMN model TEXT; ALTER TABLE response ADD COLUMN metadata TEXT;"
    "CREATE TRIGGER response_changed AFTER UPDATE OF bytes ON response BEGIN"
    " UPDATE response_sum SET bytes = bytes + new.bytes - old.bytes WHERE owner = new.owner; END;",
    "CREATE TABLE notice (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " job TEXT NOT NULL, state INTEGER NOT NULL, created INTEGER NOT NULL,"
    " tries INTEGER NOT NULL, due INTEGER NOT NULL);"
    "CREATE INDEX notice_due ON notice (due, seq);",
    "CREATE INDEX IF NOT EXISTS gone_owner ON gone (owner, seq);",
    /* all that a list looks at, since the texts before these columns are long */
    "CREATE INDEX IF NOT EXISTS file_purpose ON file (owner, purpose, seq);"
    "CREATE INDEX response_chat ON response (owner, seq, id, previous, bytes, created, expires,"
    " kind, model, metadata) WHERE kind = 1;",
    /* those that the house is kept of each minute, among all that stay */
    "CREATE INDEX IF NOT EXISTS file_expires ON file (expires) WHERE expires > 0;"
    "CREATE INDEX IF NOT EXISTS file_dropped ON file (seq) WHERE is_dropped;",
    "CREATE TABLE file_sum (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL);"
    "INSERT INTO file_sum SELECT owner, sum(bytes) FROM file GROUP BY owner;"
    "CREATE TRIGGER file_came AFTER INSERT ON file BEGIN"
    " INSERT INTO file_sum VALUES (new.owner, new.bytes)"
    " ON CONFLICT (owner) DO UPDATE SET bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER file_went AFTER DELETE ON file BEGIN"
    " UPDATE file_sum SET bytes = bytes - old.bytes WHERE owner = old.owner; END;",
    "CREATE INDEX IF NOT EXISTS loop_sampler_owner ON loop_sampler (owner);",
};

enum { VERSION = sizeof migrations / sizeof *migrations };

/* A full disk that a sync comes to know of is an I/O error to SQLite. */
static bool is_disk_full(struct store *s, int code)
{
    int no = code == SQLITE_IOERR ? sqlite3_system_errno(s->db) : 0;
    return code == SQLITE_FULL || no == ENOSPC || no == EDQUOT || no == EFBIG;
}

int store_fault(struct store *s, struct err *e, const char *what)
{
    int code = sqlite3_errcode(s->db) & 0xff;
    enum err_code as = is_disk_full(s, code)                             ? ERR_NO_SPACE
                       : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ERR_CORRUPT
                       : code == SQLITE_NOMEM                            ? ERR_NO_MEMORY
                       : code == SQLITE_CONSTRAINT                       ? ERR_EXISTS
                                                                         : ERR_IO;
    return err_set(e, as, "store: %s: %s", what, sqlite3_errmsg(s->db));
}

/* ---- statements ---------------------------------------------------------------------------- */

int store_script(struct store *s, const char *sql, const char *what, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_fault(s, e, what);
}

static int check_home(struct store *s, struct err *e)
{
    return !s->is_open || store_look_home(s)
               ? 0
               : err_set(e, ERR_BUSY,
                         "The server's data directory is gone: nothing can be kept now.");
}

int store_begin(struct store *s, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    if (!check_home(s, e) && !store_script(s, "BEGIN IMMEDIATE", "begin", e))
        return 0;
    pthread_mutex_unlock(&s->lock);
    return -1;
}

int store_end(struct store *s, int rc, struct err *e)
{
    if (!rc)
        rc = store_script(s, "COMMIT", "commit", e) || check_home(s, e) ? -1 : 0;
    if (rc)
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

sqlite3_stmt *store_query(struct store *s, struct err *e, const char *sql, const char *types, ...)
{
    sqlite3_stmt *q;
    va_list ap;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) {
        store_fault(s, e, "prepare");
        return NULL;
    }
    va_start(ap, types);
    for (int i = 0; types[i]; i++) {
        const struct store_blob *b;
        if (types[i] == 't')
            sqlite3_bind_text(q, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else if (types[i] == 'b' && (b = va_arg(ap, const struct store_blob *))->p)
            sqlite3_bind_blob64(q, i + 1, b->p, b->n, SQLITE_TRANSIENT);
        else if (types[i] == 'b')
            sqlite3_bind_null(q, i + 1);
        else
            sqlite3_bind_int64(q, i + 1, va_arg(ap, int64_t));
    }
    va_end(ap);
    return q;
}

int store_row(struct store *s, sqlite3_stmt *q, struct err *e)
{
    int rc = sqlite3_step(q);
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : store_fault(s, e, "step");
}

int store_run(struct store *s, sqlite3_stmt *q, struct err *e)
{
    int rc = q ? store_row(s, q, e) : -1;
    sqlite3_finalize(q);
    return rc < 0 ? -1 : 0;
}

int store_has(struct store *s, const char *sql, const char *of, bool *has, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, sql, "t", of);
    int row = q ? store_row(s, q, e) : -1;
    *has = row == 1;
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

const char *store_text(sqlite3_stmt *q, int column, struct arena *a)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    return text ? arena_strndup(a, text, (size_t)sqlite3_column_bytes(q, column)) : NULL;
}

/* ---- opening ------------------------------------------------------------------------------- */

int store_int(struct store *s, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *q = store_query(s, e, sql, "");
    int rc = q ? store_row(s, q, e) : -1;
    *out = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return rc < 0 ? -1 : 0;
}

static int check(struct store *s, struct err *e)
{
    sqlite3_stmt *q = store_query(s, e, "PRAGMA integrity_check(1)", "");
    int rc = q ? store_row(s, q, e) : -1;
    const char *said = rc == 1 ? (const char *)sqlite3_column_text(q, 0) : NULL;
    if (rc == 1 && (!said || strcmp(said, "ok")))
        rc = err_set(e, ERR_CORRUPT, "store.db is damaged: %.200s", said ? said : "");
    sqlite3_finalize(q);
    return rc < 0 ? -1 : 0;
}

static int migrate(struct store *s, struct err *e)
{
    char pragma[48];
    int64_t version;
    if (store_int(s, "PRAGMA user_version", &version, e))
        return -1;
    if (version > VERSION)
        return err_set(e, ERR_UNSUPPORTED,
                       "store.db is of version %" PRId64 ", this program knows %d: it was made by "
                       "a newer one",
                       version, VERSION);
    if (version > 0 && version < VERSION && store_back_up(s, e))
        return -1;
    for (; version < VERSION; version++) {
        snprintf(pragma, sizeof pragma, "PRAGMA user_version = %" PRId64, version + 1);
        if (store_begin(s, e))
            return -1;
        int rc = store_script(s, migrations[version], "migration", e);
        if (store_end(s, rc ? rc : store_script(s, pragma, "migration", e), e))
            return -1;
    }
    return 0;
}

int store_prepare(struct store *s, struct err *e)
{
    return store_script(s,
                        "PRAGMA journal_mode=WAL;"
                        "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                        "PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY;",
                        "open", e) ||
                   check(s, e) || migrate(s, e)
               ? -1
               : 0;
}

void store_id(const char *prefix, char id[STORE_ID_BYTES])
{
    size_t n = strlen(prefix);
    memcpy(id, prefix, n);
    letters_draw(id + n, 24);
}
