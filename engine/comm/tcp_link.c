/* SPDX-License-Identifier: Apache-2.0
 *
 * Per peer a queue of frames to be written and the one that is being read. A frame that came before
 * its act lies in a list until the act asks for it.
 */
#include "engine/comm/tcp_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/comm/plug.h"

enum { LOOK_NS = 1000000000, LOOKS = 10 };

struct header {
    uint64_t wire, tag;
    uint32_t bytes, what;
};

/* To be written. */
struct out {
    struct out *next;
    struct header header;
    const char *data; /* borrowed until the act is done */
    size_t at;        /* of header and data, one behind the other */
    struct link_act *act;
};

/* What came before its act. */
struct early {
    struct header header;
    int from;
    char *data; /* owned */
};

struct peer {
    int fd; /* owned; -1: gone, or oneself */
    struct out *first, *last;
    struct header header; /* of what is being read */
    size_t header_got, body_got;
    char *body;           /* borrowed from the act, or owned */
    struct link_act *act; /* whose place it is read into; NULL: none waits yet */
    int deaf;             /* looks in a row at which it was */
};

struct link {
    int n_ref, rank, n;
    uint64_t gone;   /* bits */
    int64_t look_ns; /* of the last look at who answers */
    bool is_dead;    /* something failed: nothing is read or written any more */
    VEC(struct link_act *) act;
    VEC(struct early) early;
    struct peer peer[COMM_RANK_MAX];
};

static uint64_t bit(int rank)
{
    return UINT64_C(1) << rank;
}

struct link *link_new(int rank, int n, const int *fd)
{
    struct link *l = xcalloc(1, sizeof *l);
    l->n_ref = 1;
    l->rank = rank;
    l->n = n;
    for (int r = 0; r < n; r++)
        l->peer[r].fd = r == rank ? -1 : fd[r];
    return l;
}

struct link *link_ref(struct link *l)
{
    l->n_ref++;
    return l;
}

int link_rank(const struct link *l)
{
    return l->rank;
}

static void lose(struct link *l, int r)
{
    struct peer *p = &l->peer[r];
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    l->gone |= bit(r);
    while (p->first) {
        struct out *o = p->first;
        p->first = o->next;
        free(o);
    }
    p->last = NULL;
    if (!p->act)
        free(p->body);
    p->body = NULL;
    p->act = NULL;
}

void link_stop(struct link *l)
{
    l->is_dead = true;
}

void link_cut(struct link *l)
{
    for (int r = 0; r < l->n; r++)
        if (r != l->rank)
            lose(l, r);
}

void link_unref(struct link *l)
{
    if (--l->n_ref > 0)
        return;
    link_cut(l);
    for (size_t i = 0; i < l->early.n; i++)
        free(l->early.at[i].data);
    vec_release(&l->early);
    vec_release(&l->act);
    free(l);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* What can be written now. */
static void write_some(struct link *l, int r)
{
    struct peer *p = &l->peer[r];
    while (p->first && p->fd >= 0) {
        struct out *o = p->first;
        size_t n_header = sizeof o->header, all = n_header + o->header.bytes;
        size_t header_at = o->at < n_header ? o->at : n_header, body_at = o->at - header_at;
        struct iovec v[2] = {{(char *)&o->header + header_at, n_header - header_at},
                             {(char *)(uintptr_t)o->data + body_at, o->header.bytes - body_at}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            lose(l, r);
            return;
        }
        o->at += (size_t)n;
        if (o->at < all)
            continue;
        o->act->out &= ~bit(r);
        p->first = o->next;
        if (!p->first)
            p->last = NULL;
        free(o);
    }
}

void link_send(struct link *l, struct link_act *a, int to, const void *data)
{
    struct peer *p = &l->peer[to];
    a->out |= bit(to);
    if (p->fd < 0 || l->is_dead)
        return; /* link_test says so */
    struct out *o = xmalloc(sizeof *o);
    *o = (struct out){.header = {a->wire, a->tag, a->bytes, a->what}, .data = data, .act = a};
    *(p->last ? &p->last->next : &p->first) = o;
    p->last = o;
    write_some(l, to);
}

/* ---- in -------------------------------------------------------------------------------------- */

static struct link_act *act_of(const struct link *l, const struct header *h, int from)
{
    for (size_t i = 0; i < l->act.n; i++) {
        struct link_act *a = l->act.at[i];
        if (a->wire == h->wire && a->tag == h->tag && (a->from & bit(from)))
            return a;
    }
    return NULL;
}

static bool fits(const struct link_act *a, const struct header *h)
{
    return a->bytes == h->bytes && a->what == h->what;
}

/* Where the frame that begins is to be read to; -1: the peer makes no sense. */
static int begin_body(struct link *l, int r)
{
    struct peer *p = &l->peer[r];
    struct err e = ERR_INIT;
    if (p->header.bytes > COMM_PLUG_BYTES_MAX)
        return -1;
    p->body_got = 0;
    p->act = act_of(l, &p->header, r);
    if (p->act && !fits(p->act, &p->header)) {
        p->act->misfit = r + 1;
        return -1;
    }
    p->body = p->act ? p->act->to[r] : try_resize(NULL, p->header.bytes + 1, "a frame", &e);
    return p->body || p->act ? 0 : -1;
}

static void end_body(struct link *l, int r)
{
    struct peer *p = &l->peer[r];
    if (p->act) {
        p->act->from &= ~bit(r);
    } else {
        vec_push(&l->early, (struct early){p->header, r, p->body});
        struct link_act *a = act_of(l, &p->header, r); /* it may have come meanwhile */
        if (a)
            link_wait(l, a);
    }
    p->body = NULL;
    p->act = NULL;
    p->header_got = 0;
}

/* True: there may be more. */
static bool read_part(struct link *l, int r, char *to, size_t want, size_t *got)
{
    ssize_t n = recv(l->peer[r].fd, to + *got, want - *got, MSG_DONTWAIT);
    if (n > 0)
        *got += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        lose(l, r);
    return n > 0;
}

static void read_some(struct link *l, int r)
{
    struct peer *p = &l->peer[r];
    while (p->fd >= 0) {
        if (p->header_got < sizeof p->header) {
            if (!read_part(l, r, (char *)&p->header, sizeof p->header, &p->header_got))
                return;
            if (p->header_got == sizeof p->header && begin_body(l, r)) {
                lose(l, r);
                return;
            }
            continue;
        }
        if (p->body_got < p->header.bytes &&
            !read_part(l, r, p->body, p->header.bytes, &p->body_got))
            return;
        if (p->fd >= 0 && p->body_got == p->header.bytes)
            end_body(l, r);
    }
}

/* Takes what is there already. */
static void take_early(struct link *l, struct link_act *a)
{
    for (size_t i = 0; i < l->early.n;) {
        struct early *x = &l->early.at[i];
        if (x->header.wire != a->wire || x->header.tag != a->tag || !(a->from & bit(x->from))) {
            i++;
            continue;
        }
        if (!fits(a, &x->header))
            a->misfit = x->from + 1;
        else if (a->bytes)
            memcpy(a->to[x->from], x->data, a->bytes);
        a->from &= ~bit(x->from);
        free(x->data);
        *x = l->early.at[--l->early.n];
    }
}

void link_wait(struct link *l, struct link_act *a)
{
    if (!a->waits)
        vec_push(&l->act, a);
    a->waits = true;
    take_early(l, a);
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* A peer's host owes us the word that it has what we sent, and said nothing for so long. One whose
 * process is only busy, so that it has no room for more, still says that. */
static bool is_deaf(const struct peer *p, int64_t ns)
{
    struct tcp_info i;
    socklen_t n = sizeof i;
    if (getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &i, &n))
        return false;
    return (i.tcpi_unacked > 0 || i.tcpi_probes > 1) &&
           i.tcpi_last_ack_recv * INT64_C(1000000) >= ns;
}

/* Looks are counted, not time: this process may have been elsewhere for long. */
static void look(struct link *l)
{
    int64_t now = clock_ns(), ns = now - l->look_ns;
    if (ns < LOOK_NS)
        return;
    l->look_ns = now;
    for (int r = 0; r < l->n; r++) {
        struct peer *p = &l->peer[r];
        p->deaf = p->fd >= 0 && is_deaf(p, ns) ? p->deaf + 1 : 0;
        if (p->deaf > LOOKS)
            lose(l, r);
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void turn(struct link *l)
{
    struct pollfd p[COMM_RANK_MAX];
    int who[COMM_RANK_MAX];
    nfds_t n = 0;
    look(l);
    for (int r = 0; r < l->n; r++)
        if (l->peer[r].fd >= 0) {
            who[n] = r;
            p[n++] = (struct pollfd){.fd = l->peer[r].fd,
                                     .events = (short)(POLLIN | (l->peer[r].first ? POLLOUT : 0))};
        }
    if (n == 0 || poll(p, n, 0) <= 0)
        return;
    for (nfds_t i = 0; i < n; i++) {
        if (p[i].revents & (POLLOUT | POLLERR))
            write_some(l, who[i]);
        if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
            read_some(l, who[i]);
    }
}

/* Nobody reads or writes for it any more. */
static void leave(struct link *l, struct link_act *a)
{
    size_t i = 0;
    while (i < l->act.n && l->act.at[i] != a)
        i++;
    if (i < l->act.n)
        l->act.at[i] = l->act.at[--l->act.n];
    a->waits = false;
}

int link_test(struct link *l, struct link_act *a)
{
    if (!l->is_dead)
        turn(l);
    if (a->misfit || l->is_dead || ((a->from | a->out) & l->gone)) {
        l->is_dead = true;
        return a->misfit ? -2 : -1;
    }
    if (a->from || a->out)
        return 0;
    leave(l, a);
    return 1;
}

int link_missing(const struct link *l, const struct link_act *a)
{
    uint64_t who = a->from | a->out, gone = who & l->gone;
    if (a->misfit)
        return a->misfit - 1;
    if (gone || l->is_dead)
        who = gone;
    return who ? __builtin_ctzll(who) : -1;
}
