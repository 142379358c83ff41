/* SPDX-License-Identifier: Apache-2.0
 *
 * The server from inside.
 *
 *     LOADING -> READY -> LEAVING -> REFUSING -> done
 *
 * LEAVING: a signal came; readiness says so, requests are still taken, since those who send them
 * hear of it late. REFUSING: new requests get 503, those in flight go on.
 *
 * Thread: main makes and frees it; the loader's thread publishes the engine; state is atomic.
 */
#ifndef SERVER_SERVER_OWN_H
#define SERVER_SERVER_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/batches/batches.h"
#include "server/desk/desk.h"
#include "server/graders/grader_python.h"
#include "server/graders/graders.h"
#include "server/http/front.h"
#include "server/http/greeter.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/options.h"
#include "server/server.h"
#include "server/tinker/tinker.h"
#include "server/traces/traces.h"
#include "server/wandb/wandb.h"
#include "server/webhooks/webhooks.h"

enum { SERVER_RETRY_S = 2 }; /* what a refused client is told */

enum server_state { SERVER_LOADING, SERVER_READY, SERVER_LEAVING, SERVER_REFUSING };

struct server {
    _Atomic int state;             /* enum server_state */
    struct engine *_Atomic engine; /* owned; NULL while it loads */
    struct metrics *metrics;       /* owned */
    struct breakers *breakers;     /* owned */
    pthread_rwlock_t front_lock;
    struct front front;           /* under it; its auth is counted */
    struct door_words *words;     /* owned: what the front's lists lie in; NULL: at the start's */
    const struct opt *from;       /* borrowed: the command line */
    const char *host;             /* borrowed: --host */
    int signals;                  /* borrowed */
    struct listen_at at;          /* where clients come in */
    struct http *http;            /* owned */
    struct greeter *greeter;      /* owned; NULL: proxies send no lines */
    struct http *probes;          /* owned; NULL: no --probe-port */
    struct route *probe_route;    /* owned: what it answers */
    const char **shape;           /* owned: the routes' paths, for the metrics */
    struct traces *traces;        /* owned; NULL: no --otlp-endpoint */
    struct webhooks *webhooks;    /* owned; NULL: no --webhook */
    struct wandb *wandb;          /* owned; NULL: no --wandb */
    struct background *work;      /* owned */
    struct grader_python *python; /* owned; NULL: no --python-graders */
    struct graders *graders;      /* owned; NULL: no --data-dir */
    struct desk *desk;            /* owned; NULL: no --data-dir */
    struct batches *_Atomic batches; /* owned; NULL: none, or not yet */
    struct tinker *_Atomic tinker;   /* owned; as the batches */
    const char *adapter_root;        /* borrowed from the options; NULL: none */
    struct comm **group;             /* borrowed: moved into the engine; NULL: one process */
    int broke_fd;                    /* owned: readable once a rank is gone */
    bool logs_requests;
};

/* The hooks of the transport; ctx is the server. */
int server_admit(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e);
void server_ended(void *ctx, const struct http_record *r);
void server_connection(void *ctx, int change);

/* door.c: who may come in, at the start and after each SIGHUP. */
struct auth *door_keys(const struct server_options *o, struct err *e);
int door_check(const struct server *s, const struct auth *a, const struct server_options *o,
               struct err *e); /* open beyond this machine? */
int door_names(struct front *f, const struct server *s, const struct server_options *o,
               struct err *e);
int door_admit(struct server *s, enum front_will will, struct call *c,
               const struct http_headers *headers, const struct route_match *match,
               struct api_error *e);
bool door_has_key(void *s, const char *owner);                              /* any thread */
bool door_who(void *s, const char *owner, struct who *out, int64_t *quota); /* any thread */
bool door_is_proxy(void *s, const char *address); /* NULL: over a unix socket; any thread */
void door_reload(struct server *s);
void door_free(struct server *s);

/* probes.c: --probe-port. */
int probes_open(struct server *s, const struct server_options *o, struct err *e);
void probes_close(struct server *s);

void server_broke(void *s); /* by the engine's thread: a rank is gone */

/* loader.c: makes the engine on a thread of its own, since that takes long and signals do not wait.
 * It owns copies of what it reads, and whoever will not wait for it may leave it behind. */
struct loader;
struct loader *loader_new(struct server *s, const struct server_options *o, const char *model,
                          struct err *e);
int64_t loader_adapters(const struct server_options *o); /* how many there is room for */
int loader_fd(const struct loader *l);                   /* readable once it is done */
int loader_join(struct loader *l, struct err *e);        /* frees it; -1: what failed */

#endif
