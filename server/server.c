/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's life. Signals are blocked first of all and read from a descriptor by the main
 * thread alone, so that no moment exists at which one does harm. The sockets listen before the
 * model is loaded: who asks meanwhile is told to come back.
 *
 * SIGTERM: readiness fails at once, requests are taken for --drain-delay more, then refused, and
 * what is in work may take until --shutdown-timeout; all counted from the signal. SIGINT is that
 * without the delay: a person waits. A second signal of either kind ends what is in work.
 */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/json.h"
#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/log_ring.h"
#include "engine/base/mem.h"
#include "engine/base/pool.h"
#include "engine/engine.h"
#include "server/answer/breakers.h"
#include "server/banner.h"
#include "server/confine.h"
#include "server/http/listen.h"
#include "server/metrics/metrics.h"
#include "server/server_own.h"

enum {
    GRACE_US = 2 * 1000 * 1000,
    FALL_US = 500 * 1000,
    TICK_MS = 20,
    HTTP_DOORS = 2,        /* a port and a unix socket */
    HOUSE_TASKS = 2,       /* of the desk's own */
    LOADS_MAX = 64,        /* adapters that wait to be loaded */
    CONSTRAINTS_MAX = 256, /* that wait to be compiled */
    CONSTRAINTS_AT_ONCE = 2,
    GRADERS_MAX = 256, /* requests that wait to be graded */
    GRADERS_AT_ONCE = 4,
    BANNER_BYTES_MAX = 1 << 16,
    BANNER_MS = 2000
};

struct engine *server_engine(const struct server *s)
{
    return atomic_load(&s->engine);
}

struct breakers *server_breakers(const struct server *s)
{
    return s->breakers;
}

struct metrics *server_metrics(const struct server *s)
{
    return s->metrics;
}

bool server_is_ready(const struct server *s)
{
    return atomic_load(&s->state) == SERVER_READY;
}

bool server_is_draining(const struct server *s)
{
    return atomic_load(&s->state) >= SERVER_LEAVING;
}

struct desk *server_desk(const struct server *s)
{
    return s->desk;
}

struct batches *server_batches(const struct server *s)
{
    return atomic_load(&s->batches);
}

struct tinker *server_tinker(const struct server *s)
{
    return atomic_load(&s->tinker);
}

struct background *server_work(const struct server *s)
{
    return s->work;
}

const char *server_adapter_root(const struct server *s)
{
    return s->adapter_root;
}

/* ---- signals ------------------------------------------------------------------------------- */

int server_signals(struct err *e)
{
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* who started us may have ignored it */
    int rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file that may not grow is an error like a full disk */
    int fd = rc ? -1 : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(e, "taking signals") : fd;
}

/* Those that change what is, and end nothing. */
static bool is_minor(struct server *s, int signo)
{
    if (signo == SIGHUP)
        door_reload(s);
    else if (signo == SIGUSR1)
        log_ring_reopen();
    else if (signo == SIGCHLD)
        grader_python_bury(s->python);
    return signo == SIGHUP || signo == SIGUSR1 || signo == SIGCHLD;
}

/* The next signal that asks for the end, waited for until `until_us` (0: for ever) or until fd is
 * readable; 0: none. */
static int next_signal(struct server *s, int fd, int64_t until_us)
{
    struct pollfd p[2] = {{.fd = s->signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    for (;;) {
        int64_t now = clock_us();
        int ms = !until_us ? -1 : until_us <= now ? 0 : (int)((until_us - now + 999) / 1000);
        if (poll(p, 2, ms) <= 0 || !(p[0].revents & POLLIN))
            return 0;
        if (read(s->signals, &info, sizeof info) != sizeof info)
            return 0;
        if (!is_minor(s, (int)info.ssi_signo))
            return (int)info.ssi_signo;
    }
}

/* ---- beginning ----------------------------------------------------------------------------- */

static void raise_files(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* One that comes later would lie outside of the sandbox. */
static int check_adapter_root(const struct server_options *o, struct err *e)
{
    const char *root = o->adapter_root && *o->adapter_root ? o->adapter_root : NULL;
    int fd = root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0)
        close(fd);
    return fd >= 0 || !root ? 0 : err_sys(e, "--adapter-root %s", root);
}

static int make_http(struct server *s, const struct server_options *o, struct err *e)
{
    int64_t most = o->max_connections, ip = o->max_connections_ip;
    int64_t ping = (int64_t)(o->stream_ping * 1e6);
    struct http_options h = {.route = routes,
                             .n_route = n_routes,
                             .n_thread = (unsigned)o->http_threads,
                             .max_conn = (unsigned)most,
                             .max_conn_ip =
                                 (unsigned)(ip || o->trusted_proxy.n ? ip : most - most / 4),
                             .request_timeout_us = (int64_t)(o->request_timeout * 1e6),
                             .ping_us = ping > 0 ? ping : -1,
                             .body_bytes = o->body_memory,
                             .server = s,
                             .work = s->work,
                             .lane = SERVER_HANDLERS,
                             .admit = server_admit,
                             .ended = server_ended,
                             .connection = server_connection,
                             .ctx = s};
    s->shape = xcalloc(n_routes, sizeof *s->shape);
    for (size_t i = 0; i < n_routes; i++)
        s->shape[i] = routes[i].path;
    s->metrics = metrics_new(s->shape, n_routes);
    s->breakers = breakers_new();
    s->logs_requests = o->access_log;
    s->adapter_root = o->adapter_root && *o->adapter_root ? o->adapter_root : NULL;
    s->http = http_new(&h, e);
    return s->http ? 0 : -1;
}

/* The desk's queue is bounded by the connections: each has one errand in work at a time. */
static int make_work(struct server *s, const struct server_options *o, struct err *e)
{
    const struct background_lane lane[SERVER_LANES] = {
        [SERVER_DESK] = {"desk", 1, (size_t)o->max_connections * HTTP_DOORS + HOUSE_TASKS, 0},
        [SERVER_LOADS] = {"adapters", 1, LOADS_MAX, 0},
        [SERVER_FETCHES] = {"fetches", 1, 0, 0}, /* a request has one at most */
        [SERVER_HANDLERS] = {"handlers", (int)o->http_threads, 0, (size_t)o->body_memory},
        [SERVER_CONSTRAINTS] = {"constraints", CONSTRAINTS_AT_ONCE, CONSTRAINTS_MAX, 0},
        [SERVER_GRADERS] = {"graders", GRADERS_AT_ONCE, GRADERS_MAX, 0},
        [SERVER_COPIES] = {"copies", 1, 1, 0}}; /* of the store: no errand waits for one */
    s->work = background_new(lane, SERVER_LANES, e);
    return s->work ? 0 : -1;
}

static int make_traces(struct server *s, const struct server_options *o, struct err *e)
{
    const struct traces_options t = {.endpoint = traces_endpoint(o->otlp_endpoint),
                                     .service = getenv("OTEL_SERVICE_NAME"),
                                     .headers = getenv("OTEL_EXPORTER_OTLP_HEADERS"),
                                     .share = o->otlp_share};
    if (!t.endpoint)
        return 0;
    s->traces = traces_new(&t, e);
    return s->traces ? 0 : -1;
}

static int make_graders(struct server *s, const struct server_options *o, struct err *e)
{
    const struct graders_options g = {.http = s->http,
                                      .url = o->grader_url.at,
                                      .n_url = o->grader_url.n,
                                      .key_file = o->grader_key_file,
                                      .python = s->python,
                                      .timeout_us = (int64_t)(o->grader_timeout * 1e6),
                                      .who = door_who,
                                      .ctx = s};
    if (!o->data_dir || !*o->data_dir)
        return 0;
    s->graders = graders_new(&g, e);
    return s->graders ? 0 : -1;
}

/* Before the sandbox, in which nothing is started any more. */
static int make_python(const struct server_options *o, bool is_launched, struct grader_python **out,
                       struct err *e)
{
    *out = NULL;
    if (!o->python_graders || !*o->python_graders)
        return 0;
    if (is_launched)
        return err_set(e, ERR_UNSUPPORTED,
                       "--python-graders: not where a launcher started several processes");
    *out = grader_python_new(o->python_graders, (int64_t)(o->grader_timeout * 1e6), e);
    return *out ? 0 : -1;
}

static int make_desk(struct server *s, const struct server_options *o, struct err *e)
{
    struct desk_options d = {.dir = o->data_dir,
                             .file_bytes_max = o->file_bytes_max,
                             .quota = o->files_quota,
                             .responses_quota = o->responses_quota,
                             .min_examples = o->min_examples,
                             .jobs_at_once = o->jobs,
                             .train_memory = o->train_memory,
                             .board = o->tensorboard && *o->tensorboard ? o->tensorboard : NULL,
                             .wandb = s->wandb,
                             .metrics = s->metrics,
                             .work = s->work};
    if (!d.dir || !*d.dir)
        return d.board ? err_set(e, ERR_BAD_INPUT,
                                 "--tensorboard: jobs write these files, and "
                                 "without --data-dir there are none")
                       : 0;
    if (d.board && fs_mkdirs(d.board, e))
        return err_wrap(e, "--tensorboard");
    d.graders = graders_outside(s->graders);
    d.graders_at_once = o->grader_requests;
    s->desk = desk_new(&d, e);
    if (s->desk)
        store_keys(desk_store(s->desk), door_has_key, s);
    return s->desk ? 0 : -1;
}

static int make_wandb(struct server *s, const struct server_options *o, struct err *e)
{
    const struct wandb_options w = {
        .project = o->wandb, .key_file = o->wandb_key_file, .url = o->wandb_url};
    if (!w.project || !*w.project)
        return 0;
    if (!o->data_dir || !*o->data_dir)
        return err_set(e, ERR_BAD_INPUT,
                       "--wandb: it is sent jobs' numbers, and without --data-dir there are none");
    s->wandb = wandb_new(&w, e);
    return s->wandb ? 0 : -1;
}

static int make_webhooks(struct server *s, const struct server_options *o, struct err *e)
{
    const struct webhooks_options w = {.url = o->webhook,
                                       .secret_file = o->webhook_secret_file,
                                       .store = s->desk ? desk_store(s->desk) : NULL};
    if (!w.url || !*w.url)
        return 0;
    if (!w.store)
        return err_set(e, ERR_BAD_INPUT,
                       "--webhook: it tells of jobs, and without --data-dir there are none");
    s->webhooks = webhooks_new(&w, e);
    return s->webhooks ? 0 : -1;
}

static int make_batches(struct server *s, const struct server_options *o, struct err *e)
{
    const struct batches_options b = {.store = desk_store(s->desk),
                                      .engine = server_engine(s),
                                      .http = s->http,
                                      .metrics = s->metrics,
                                      .dir = o->data_dir,
                                      .at_once = (size_t)o->batch_requests,
                                      .who = door_who,
                                      .ctx = s};
    struct batches *made = batches_new(&b, e);
    atomic_store(&s->batches, made);
    return made ? 0 : -1;
}

static int make_tinker(struct server *s, const struct server_options *o, struct err *e)
{
    const struct tinker_options t = {.store = desk_store(s->desk),
                                     .engine = server_engine(s),
                                     .work = s->work,
                                     .lane = SERVER_DESK,
                                     .dir = o->data_dir,
                                     .train_memory = o->train_memory,
                                     .who = door_who,
                                     .ctx = s};
    struct tinker *made = tinker_new(&t, e);
    atomic_store(&s->tinker, made);
    return made ? 0 : -1;
}

/* A socket that listens is the transport's, or of who reads what proxies say first. */
static int put_door(struct server *s, int fd, struct err *e)
{
    if (!s->greeter)
        return http_listen(s->http, fd, e);
    greeter_listen(s->greeter, fd);
    return 0;
}

static int make_greeter(struct server *s, struct err *e)
{
    const struct greeter_options o = {.http = s->http, .is_proxy = door_is_proxy, .ctx = s};
    s->greeter = http_await(s->http, e) ? NULL : greeter_new(&o, e);
    return s->greeter ? 0 : -1;
}

static int open_door(struct server *s, const struct server_options *o, struct err *e)
{
    const struct listen_at *at = &s->at;
    int fd = listen_tcp(o->host, (int)o->port, &s->at, e);
    if (fd < 0)
        return -1;
    if (door_check(s, s->front.auth, o, e) || door_names(&s->front, s, o, e)) {
        close(fd);
        return -1;
    }
    if ((o->proxy_protocol && make_greeter(s, e)) || put_door(s, fd, e))
        return -1;
    log_event(LOG_INFO, "bound", LOG_TEXT("address", at->address), LOG_INT("port", at->port));
    if (o->unix_socket) {
        fd = listen_unix(o->unix_socket, e);
        if (fd < 0 || put_door(s, fd, e))
            return -1;
        log_event(LOG_INFO, "bound", LOG_TEXT("path", o->unix_socket));
    }
    return (s->greeter && greeter_start(s->greeter, e)) || probes_open(s, o, e) ? -1 : 0;
}

/* Said when who comes is served: until then there is only somebody who says so. */
static void say_ready(const struct server *s, const struct server_options *o)
{
    const struct engine_info *info = engine_info(server_engine(s));
    log_event(LOG_INFO, "listening", LOG_TEXT("address", s->at.address),
              LOG_INT("port", s->at.port));
    if (o->unix_socket)
        log_event(LOG_INFO, "listening", LOG_TEXT("path", o->unix_socket));
    log_event(LOG_INFO, "ready", LOG_TEXT("model", info->name), LOG_INT("ctx", info->ctx));
}

/* ---- ending -------------------------------------------------------------------------------- */

/* Until nothing is in work, time is over, or a signal comes; true for the first. */
static bool settle(struct server *s, int64_t until_us, bool hears)
{
    while (http_busy(s->http)) {
        int64_t now = clock_us();
        if (now >= until_us)
            return false;
        if (next_signal(s, -1, now + TICK_MS * 1000) && hears)
            return false;
    }
    return true;
}

static void drain(struct server *s, const struct server_options *o, int signo)
{
    int64_t begin = clock_us(), end = begin + (int64_t)(o->shutdown_timeout * 1e6);
    int64_t delay = signo == SIGINT ? 0 : (int64_t)(o->drain_delay * 1e6);
    atomic_store(&s->state, SERVER_LEAVING);
    batches_stop(s->batches); /* they go on at the next start */
    tinker_leave(s->tinker);  /* as its requests do */
    log_event(LOG_INFO, "draining", LOG_INT("in_work", (int64_t)http_busy(s->http)));
    bool is_fast = delay && next_signal(s, -1, begin + delay);
    atomic_store(&s->state, SERVER_REFUSING);
    if (!is_fast && settle(s, end, true))
        return;
    log_event(LOG_WARN, "cutting short", LOG_INT("in_work", (int64_t)http_busy(s->http)));
    engine_stop(server_engine(s)); /* what runs is answered: cancelled */
    if (!settle(s, clock_us() + GRACE_US, false))
        log_event(LOG_WARN, "cutting off", LOG_INT("in_work", (int64_t)http_busy(s->http)));
}

void server_broke(void *ctx)
{
    struct server *s = ctx;
    uint64_t one = 1;
    atomic_store(&s->state, SERVER_REFUSING);
    (void)!write(s->broke_fd, &one, sizeof one);
}

/* Without one of its ranks, or its device, the model is gone. Those who wait were told, and are
 * given the time to read it; who comes now is sent elsewhere, and a balancer has the time to see
 * it. */
static void fall(struct server *s, const struct err *why)
{
    int64_t end = clock_us() + FALL_US;
    log_event(LOG_ERROR, "the model is lost", LOG_INT("in_work", (int64_t)http_busy(s->http)),
              LOG_TEXT("why", why->msg));
    while (clock_us() < end && !next_signal(s, -1, end))
        continue;
}

static void server_free(struct server *s)
{
    struct engine *g = server_engine(s);
    batches_stop(s->batches); /* its calls need the engine, and background work, to end */
    desk_leave(s->desk);
    tinker_stop(s->tinker); /* its samples need the engine to end, and who waits is told */
    if (s->work)
        background_stop(s->work); /* what runs may still look at the engine, and at the desk */
    desk_stop(s->desk);           /* a job that runs needs the engine to come to a checkpoint */
    if (g)
        engine_stop(g);
    greeter_free(s->greeter);
    http_free(s->http);
    probes_close(s);
    traces_free(s->traces);
    webhooks_free(s->webhooks);
    batches_free(s->batches);
    tinker_free(s->tinker);
    desk_free(s->desk);
    wandb_free(s->wandb);
    graders_free(s->graders);
    grader_python_free(s->python);
    background_free(s->work);
    engine_free(g);
    metrics_free(s->metrics);
    breakers_free(s->breakers);
    door_free(s);
    free(s->shape);
    if (s->broke_fd >= 0)
        close(s->broke_fd);
    free(s);
}

/* A signal while the model loads: nothing is in work that could be lost. A small model is waited
 * for; a large one is left to the end of the process, with all that it may still look at. */
static int leave_loading(struct server *s, struct loader *l, const struct server_options *o)
{
    struct pollfd p = {.fd = loader_fd(l), .events = POLLIN};
    struct err e = ERR_INIT;
    atomic_store(&s->state, SERVER_REFUSING);
    log_event(LOG_INFO, "leaving before the model is loaded");
    if (poll(&p, 1, GRACE_US / 1000) == 1) {
        loader_join(l, &e);
        server_free(s);
    } else {
        background_stop(s->work);
        greeter_free(s->greeter);
        http_free(s->http);
        probes_close(s);
    }
    if (o->unix_socket)
        unlink(o->unix_socket);
    return 0;
}

/* A pipe that nobody reads holds up neither requests nor the end: what it has no room for is not
 * said. In pieces that do not block where there is room at all. */
static void say_if_read(const char *p, size_t n)
{
    struct pollfd to = {.fd = STDOUT_FILENO, .events = POLLOUT};
    fflush(stdout);
    while (n > 0 && poll(&to, 1, BANNER_MS) == 1) {
        ssize_t done = write(STDOUT_FILENO, p, n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0)
            return;
        p += done;
        n -= (size_t)done;
    }
}

/* The banner, but where the log is JSON: then no person reads along. */
static void greet(const struct server *s, const struct server_options *o)
{
    struct engine *g = server_engine(s);
    struct banner b = {.model = engine_info(g),
                       .at = &s->at,
                       .data_dir = s->desk ? o->data_dir : NULL,
                       .threads = engine_info(g)->n_thread,
                       .wants_key = !auth_is_open(s->front.auth)};
    struct buf text;
    if (strcmp(o->log_format, "json") == 0)
        return;
    buf_init(&text, BANNER_BYTES_MAX);
    banner_write(&b, &text);
    if (!text.failed)
        say_if_read(text.data, text.len);
    buf_release(&text);
}

/* Until a signal comes, which is returned, or a rank is gone: 0. */
static int serve_all(struct server *s)
{
    struct err e = ERR_INIT;
    int signo = 0;
    while (!signo && !engine_check(server_engine(s), &e))
        signo = next_signal(s, s->broke_fd, 0);
    return signo;
}

static int serve(struct server *s, const struct server_options *o, const char *model, struct err *e)
{
    struct loader *l = loader_new(s, o, model, e);
    if (!l) {
        server_free(s);
        return -1;
    }
    if (next_signal(s, loader_fd(l), 0))
        return leave_loading(s, l, o);
    int rc = loader_join(l, e);
    if (!rc && s->desk)
        rc =
            desk_open(s->desk, server_engine(s), e) || make_batches(s, o, e) || make_tinker(s, o, e)
                ? -1
                : 0;
    if (!rc) {
        atomic_store(&s->state, SERVER_READY);
        say_ready(s, o);
        greet(s, o);
        if (engine_tokenizer(server_engine(s)))
            breakers_read(s->breakers, engine_tokenizer(server_engine(s)));
        int signo = serve_all(s);
        if (signo)
            drain(s, o, signo);
        rc = engine_check(server_engine(s), e);
        if (rc)
            fall(s, e);
    }
    server_free(s);
    if (o->unix_socket)
        unlink(o->unix_socket);
    log_event(LOG_INFO, "ended");
    return rc;
}

int server_log(const struct server_options *o, struct err *e)
{
    enum log_level level = LOG_INFO;
    log_level_parse(o->log_level, &level);
    return log_ring_start(level, strcmp(o->log_format, "json") == 0 ? LOG_AS_JSON : LOG_AS_TEXT,
                          o->log_file && *o->log_file ? o->log_file : NULL, e);
}

int server_run(const struct server_options *o, const char *model, struct comm **group, int signals,
               const struct opt *from, struct err *e)
{
    struct confine confine;
    struct grader_python *python;
    if (check_adapter_root(o, e) || make_python(o, *group != NULL, &python, e))
        return -1;
    if (confine_enter(&confine, o, model, *group != NULL, e)) {
        grader_python_free(python);
        return -1;
    }
    struct server *s = xcalloc(1, sizeof *s);
    s->python = python;
    s->group = group;
    s->signals = signals;
    s->host = o->host;
    s->from = from;
    pthread_rwlock_init(&s->front_lock, NULL);
    s->broke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    raise_files();
    api_json_init();
    if (s->broke_fd < 0)
        err_sys(e, "making an eventfd");
    int rc = server_log(o, e);
    if (!rc)
        confine_log(&confine);
    if (rc || s->broke_fd < 0 || !(s->front.auth = door_keys(o, e)) || make_work(s, o, e) ||
        make_traces(s, o, e) || make_http(s, o, e) || make_graders(s, o, e) ||
        make_wandb(s, o, e) || make_desk(s, o, e) || make_webhooks(s, o, e) || open_door(s, o, e)) {
        server_free(s);
        return -1;
    }
    return serve(s, o, model, e);
}
