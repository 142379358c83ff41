/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport's daemons: one for each listening socket, each with its threads. A daemon must not
 * be stopped while a connection is suspended, so stopping cuts every client first: the watch marks
 * all connections as gone and wakes their calls, no call suspends any more, and the daemons are
 * stopped once no call is left.
 */
#include "server/http/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"
#include "server/http/http_own.h"

enum {
    CONN_BYTES = 32 << 10, /* of a request's headers, and of what is read and written at once */
    STRICT = 1,            /* as strict as the RFCs let a server be */
    HEADERS_US = 10 * 1000 * 1000,
    IDLE_US = 75 * 1000 * 1000,
    STALL_US = 30 * 1000 * 1000,
    BODY_US = 30 * 1000 * 1000,
    PING_US = 15 * 1000 * 1000,
    TURN_NS = 100 * 1000 /* the shortest that there is */
};

enum MHD_Result http_access(void *cls, struct MHD_Connection *m, const char *url,
                            const char *method, const char *version, const char *data, size_t *n,
                            void **ctx);

/* The library's messages are about clients, and so for debugging; its own failures come as return
 * values. */
__attribute__((format(printf, 2, 0))) static void on_message(void *cls, const char *fmt, va_list ap)
{
    char text[LOG_FIELD_BYTES];
    (void)cls;
    if (!log_is_on(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    log_event(LOG_DEBUG, "http", LOG_TEXT("says", text));
}

/* Whether a socket was adopted without a client's name; it is asked once. */
static bool take_unnamed(struct http *h, int fd)
{
    bool is = false;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->unnamed.n && !is; i++) {
        is = h->unnamed.at[i] == fd;
        if (is)
            h->unnamed.at[i] = vec_pop(&h->unnamed);
    }
    pthread_mutex_unlock(&h->lock);
    return is;
}

static void on_connection(void *cls, struct MHD_Connection *m, void **ctx,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        struct conn *n = conn_open(h->watch, m, fd);
        bool is_unnamed = take_unnamed(h, fd);
        if (n)
            n->is_unnamed = is_unnamed;
        *ctx = n;
    } else if (*ctx) {
        conn_close(*ctx);
        *ctx = NULL;
    }
    if (h->o.connection)
        h->o.connection(h->o.ctx, code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

static void on_completed(void *cls, struct MHD_Connection *m, void **ctx,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)m;
    if (*ctx)
        http_end(*ctx, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *ctx = NULL;
}

/* The first line was read: the headers must follow. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *m)
{
    (void)cls;
    (void)uri;
    struct conn *n = MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (n)
        conn_begin(n);
    return NULL;
}

/* Paths and queries are decoded here (route_decode), where a broken escape is an error. */
static size_t leave_escaped(void *cls, struct MHD_Connection *m, char *s)
{
    size_t n = 0;
    (void)cls;
    (void)m;
    while (s[n])
        n++;
    return n;
}

struct http *http_new(const struct http_options *o, struct err *e)
{
    struct http *h = xcalloc(1, sizeof *h);
    h->o = *o;
    pthread_mutex_init(&h->lock, NULL);
    h->o.headers_us = o->headers_us ? o->headers_us : HEADERS_US;
    h->o.idle_us = o->idle_us ? o->idle_us : IDLE_US;
    h->o.stall_us = o->stall_us ? o->stall_us : STALL_US;
    h->o.body_us = o->body_us ? o->body_us : BODY_US;
    h->o.ping_us = o->ping_us ? o->ping_us : PING_US;
    h->o.body_bytes = o->body_bytes ? o->body_bytes : 512 << 20;
    struct watch_times times = {.idle_us = h->o.idle_us, .headers_us = h->o.headers_us};
    h->watch = watch_new((size_t)o->max_conn * HTTP_DAEMONS, times, e);
    if (h->watch && getrandom(&h->id_salt, sizeof h->id_salt, 0) == sizeof h->id_salt)
        return h;
    if (h->watch)
        err_sys(e, "drawing random bytes");
    http_free(h);
    return NULL;
}

static struct MHD_Daemon *start(struct http *h, int fd, unsigned n_thread)
{
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (fd < 0)
        flags |= MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem item[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_message, h},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONN_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)h->o.max_conn, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)h->o.max_conn_ip, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL},
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, STRICT, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, h},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, h},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_line, h},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, h},
        {fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {n_thread ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)n_thread, NULL},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(flags, 0, NULL, NULL, http_access, h, MHD_OPTION_ARRAY, item,
                            MHD_OPTION_END);
}

static int add(struct http *h, int fd, unsigned n_thread, struct err *e)
{
    ASSERT(h->n_daemon < HTTP_DAEMONS);
    machine_turns(TURN_NS); /* its threads are awake for moments, those that compute all the time */
    struct MHD_Daemon *d = start(h, fd, n_thread < 2 ? 0 : n_thread);
    machine_turns(0);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return err_set(e, ERR_IO, "the HTTP library refused to start");
    }
    h->daemon[h->n_daemon++] = d;
    return 0;
}

int http_listen(struct http *h, int fd, struct err *e)
{
    return add(h, fd, h->o.n_thread, e);
}

int http_await(struct http *h, struct err *e)
{
    ASSERT(h->n_daemon == 0);
    return add(h, -1, h->o.n_thread, e);
}

/* A socket of that number that never began may have left its mark. */
static void mark(struct http *h, int fd, bool is_unnamed)
{
    take_unnamed(h, fd);
    if (!is_unnamed)
        return;
    pthread_mutex_lock(&h->lock);
    vec_push(&h->unnamed, fd);
    pthread_mutex_unlock(&h->lock);
}

int http_adopt_from(struct http *h, int fd, const struct sockaddr *from, socklen_t n_from,
                    bool is_unnamed, struct err *e)
{
    mark(h, fd, is_unnamed);
    if (MHD_add_connection(h->daemon[0], fd, from, n_from) != MHD_YES)
        return err_sys(e, "taking over a connection"); /* the library has closed it */
    return 0;
}

int http_adopt(struct http *h, int fd, struct err *e)
{
    return (h->n_daemon == 0 && add(h, -1, 1, e)) || http_adopt_from(h, fd, NULL, 0, false, e) ? -1
                                                                                               : 0;
}

size_t http_busy(const struct http *h)
{
    return atomic_load(&h->n_call);
}

struct server *http_server(const struct http *h)
{
    return h->o.server;
}

void http_cut(struct http *h)
{
    if (h->watch)
        watch_cut(h->watch);
}

void http_free(struct http *h)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    if (!h)
        return;
    http_cut(h);
    while (http_busy(h))
        nanosleep(&pause, NULL);
    for (int i = 0; i < h->n_daemon; i++)
        MHD_stop_daemon(h->daemon[i]);
    watch_free(h->watch);
    vec_release(&h->unnamed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
