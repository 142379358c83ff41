/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a peer, for the files that make it up.
 */
#ifndef CLIENTS_HTTP_PEER_OWN_H
#define CLIENTS_HTTP_PEER_OWN_H

#include "clients/http/peer.h"
#include "engine/base/curl_lib.h"

enum peer_sink { PEER_BODY, PEER_FILE, PEER_EVENTS };

struct peer {
    peer_tick_fn *tick; /* NULL: none */
    void *tick_ctx;
    char *base;                  /* owned: "http://host:8080" */
    char *socket;                /* owned; NULL: none */
    char *key;                   /* owned; NULL: none */
    char *shown;                 /* owned: the address as it was given */
    bool is_near;                /* on this machine: no proxy is asked */
    const struct curl_lib *curl; /* borrowed; NULL: not made ready */
    CURLM *multi;                /* owned */
    CURL *easy;                  /* owned */
    struct curl_slist *headers;  /* owned, of the request under way */

    enum peer_sink sink;
    struct buf body, fault; /* a good answer, and a bad one's */
    struct sse sse;
    sse_fn *event;
    void *event_ctx;
    FILE *file; /* what is sent (owned) or where to write (borrowed) */
    const struct peer_file *upload;
    int64_t upload_bytes;
    struct err why; /* what a callback found wrong with what came */
    int status;
    bool gave_up;
    char text[CURL_ERROR_SIZE];
};

/* The words for an answer whose bytes could not be taken, for one whose status is bad, and for no
 * answer. Return -1. */
int peer_broken(const struct peer *p, struct err *e);
int peer_refused(const struct peer *p, struct err *e);
int peer_unreached(const struct peer *p, int curl_code, int os_errno, struct err *e);

#endif
