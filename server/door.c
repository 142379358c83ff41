/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may come in: keys and their limits, names and origins. Made at the start, and again when
 * SIGHUP asks for it: from the same words of the command line, and the files and variables that
 * they name, as they are now. Requests in work hold on to the keys that they came with; where what
 * is read now has a fault everything stays as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/opt.h"
#include "server/server_own.h"

enum {
    WAITING = 1024, /* as the engine chooses */
    KEY_AT_ONCE_LEAST = 8,
    KEY_TEXTS_LEAST = 16
};

/* What a reload read; lists of the front lie in it. */
struct door_words {
    struct opt opt;
    struct server_options values;
};

static int64_t half_of(int64_t said, int64_t all, int64_t least)
{
    return said || !all ? said : all / 2 > least ? all / 2 : least;
}

struct auth *door_keys(const struct server_options *o, struct err *e)
{
    struct limit_rule rule = {.requests_min = o->key_rpm,
                              .tokens_min = o->key_tpm,
                              .at_once = o->key_at_once,
                              .texts = o->key_texts,
                              .jobs = o->key_jobs,
                              .jobs_waiting = o->key_jobs_waiting,
                              .adapters = o->key_adapters,
                              .bytes = o->files_quota};
    struct auth *a = auth_new(rule);
    /* who is not alone leaves others half of what all have */
    rule.at_once = half_of(rule.at_once, o->max_requests, KEY_AT_ONCE_LEAST);
    rule.texts = half_of(rule.texts, o->max_waiting ? o->max_waiting : WAITING, KEY_TEXTS_LEAST);
    rule.adapters = half_of(rule.adapters, loader_adapters(o), 1);
    rule.held = o->body_memory / 2;
    rule.model_bytes = o->models_quota;
    auth_rule(a, rule);
    int rc = 0;
    if (o->api_key && *o->api_key &&
        auth_add(a, "default", SCOPE_INFERENCE | SCOPE_TRAINING | SCOPE_ADMIN, o->api_key, NULL, e))
        rc = err_wrap(e, "--api-key");
    if (rc || (o->api_key_file && auth_read(a, o->api_key_file, e))) {
        auth_unref(a);
        return NULL;
    }
    return a;
}

int door_check(const struct server *s, const struct auth *a, const struct server_options *o,
               struct err *e)
{
    if (o->proxy_protocol && o->trusted_proxy.n == 0)
        return err_set(e, ERR_BAD_INPUT,
                       "--proxy-protocol: whose lines are believed? name them by --trusted-proxy");
    if (s->at.is_loopback || !auth_is_open(a) || o->insecure)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "--host %s is open to other machines, and there are no keys; give "
                   "--api-key-file, or --insecure if everybody may ask everything",
                   o->host);
}

int door_names(struct front *f, const struct server *s, const struct server_options *o,
               struct err *e)
{
    const struct listen_at *at = &s->at;
    struct auth *a = f->auth;
    bool any = at->is_wild && !auth_is_open(a);
    for (size_t i = 0; i < o->allowed_host.n; i++)
        any |= strcmp(o->allowed_host.at[i], "*") == 0;
    *f = (struct front){.auth = a,
                        .host = at->is_wild ? "" : s->host,
                        .allowed_host = o->allowed_host,
                        .cors_origin = o->cors_origin,
                        .any_host = any,
                        .any_address = at->is_wild,
                        .max_now = o->max_requests,
                        .retry_s = SERVER_RETRY_S};
    return proxies_read(&f->proxies, &o->trusted_proxy, e);
}

int door_admit(struct server *s, enum front_will will, struct call *c,
               const struct http_headers *headers, const struct route_match *match,
               struct api_error *e)
{
    pthread_rwlock_rdlock(&s->front_lock);
    int rc = front_admit(&s->front, will, http_busy(s->http), c, headers, match, e);
    pthread_rwlock_unlock(&s->front_lock);
    return rc;
}

bool door_is_proxy(void *ctx, const char *address)
{
    struct server *s = ctx;
    pthread_rwlock_rdlock(&s->front_lock);
    bool is = proxies_have(&s->front.proxies, address);
    pthread_rwlock_unlock(&s->front_lock);
    return is;
}

bool door_who(void *ctx, const char *owner, struct who *out, int64_t *quota)
{
    struct server *s = ctx;
    pthread_rwlock_rdlock(&s->front_lock);
    bool has = auth_has(s->front.auth, owner);
    auth_who_of(s->front.auth, owner, out);
    *quota = auth_rule_of(s->front.auth, owner)->bytes;
    pthread_rwlock_unlock(&s->front_lock);
    return has;
}

bool door_has_key(void *ctx, const char *owner)
{
    struct server *s = ctx;
    pthread_rwlock_rdlock(&s->front_lock);
    bool has = auth_has(s->front.auth, owner);
    pthread_rwlock_unlock(&s->front_lock);
    return has;
}

static void words_free(struct door_words *w)
{
    if (w)
        opt_release(&w->opt);
    free(w);
}

static int read_again(struct server *s, struct door_words *w, struct front *f, struct err *e)
{
    const struct opt *from = s->from;
    if (opt_init(&w->opt, from->cmd, &w->values, from->argc, from->argv, e))
        return -1;
    f->auth = door_keys(&w->values, e);
    if (!f->auth || door_check(s, f->auth, &w->values, e))
        return -1;
    return door_names(f, s, &w->values, e);
}

static void take(struct server *s, struct door_words *w, const struct front *f)
{
    struct door_words *old_words = s->words;
    enum log_level level = LOG_INFO;
    auth_carry(f->auth, s->front.auth);
    pthread_rwlock_wrlock(&s->front_lock);
    struct auth *old = s->front.auth;
    s->front = *f;
    s->words = w;
    pthread_rwlock_unlock(&s->front_lock);
    auth_unref(old);
    words_free(old_words);
    log_level_parse(w->values.log_level, &level);
    log_set_level(level);
    log_event(LOG_INFO, "reloaded", LOG_INT("keys", (int64_t)auth_count(f->auth)));
    /* whose key is gone, or back */
    if (atomic_load(&s->batches))
        batches_wake(atomic_load(&s->batches));
    if (atomic_load(&s->tinker)) /* behind the jobs' threads; its own looks each second */
        desk_wake_jobs(s->desk);
}

void door_reload(struct server *s)
{
    struct door_words *w = xcalloc(1, sizeof *w);
    struct front f = {0};
    struct err e = ERR_INIT;
    if (!read_again(s, w, &f, &e)) {
        take(s, w, &f);
        return;
    }
    log_event(LOG_ERROR, "not reloaded, everything stays as it was", LOG_TEXT("why", e.msg));
    auth_unref(f.auth);
    words_free(w);
}

void door_free(struct server *s)
{
    auth_unref(s->front.auth);
    words_free(s->words);
    pthread_rwlock_destroy(&s->front_lock);
}
