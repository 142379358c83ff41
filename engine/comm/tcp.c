/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets as a plug: no library, for launchers that start processes and bring no MPI. Whatever all
 * do together is a frame from each to each; groups are small, and what is long was cut into pieces
 * by who calls.
 *
 * A group of a group has the sockets of the first, and frames with a number of its own: it follows
 * from the number of the group that was split, from how often it was, and from the colour; so its
 * members agree without a word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/comm/launch.h"
#include "engine/comm/plug_open.h"
#include "engine/comm/tcp_join.h"
#include "engine/comm/tcp_link.h"

/* What a tag counts. */
enum tag_kind { TAG_TOGETHER, TAG_TO_ONE };

struct wire {
    struct link *link; /* counted */
    uint64_t id;
    int n, own;                /* own: this process's rank here */
    int member[COMM_RANK_MAX]; /* ranks of the link */
    uint64_t n_together, n_split;
    uint64_t n_sent[COMM_RANK_MAX], n_taken[COMM_RANK_MAX];
    struct link_act act[COMM_FLIGHT];
};

static struct wire *wire_new(struct link *l, uint64_t id, const int *member, int n)
{
    struct wire *w = xcalloc(1, sizeof *w);
    w->link = l;
    w->id = id;
    w->n = n;
    for (int i = 0; i < n; i++) {
        w->member[i] = member[i];
        if (member[i] == link_rank(l))
            w->own = i;
    }
    return w;
}

static struct wire *open_wire(char *text, size_t size)
{
    struct comm_launch l;
    struct err e = ERR_INIT;
    int fd[COMM_RANK_MAX], all[COMM_RANK_MAX];
    if (comm_launch_read(&l, &e) || tcp_join(&l, fd, &e)) {
        snprintf(text, size, "%s", e.msg);
        return NULL;
    }
    for (int r = 0; r < l.size; r++)
        all[r] = r;
    return wire_new(link_new(l.rank, l.size, fd), 0, all, l.size);
}

/* Who leaves a broken group is to be missed at once. */
static void close_wire(struct wire *w, int is_broken)
{
    if (is_broken)
        link_cut(w->link);
    link_unref(w->link);
    free(w);
}

static void drop(struct wire *w)
{
    link_stop(w->link);
}

static int rank_of(const struct wire *w)
{
    return w->own;
}

static int size_of(const struct wire *w)
{
    return w->n;
}

static struct wire *split(struct wire *w, int colour, const int *member, int n)
{
    const uint64_t of[2] = {++w->n_split, (uint64_t)colour};
    int of_link[COMM_RANK_MAX];
    if (colour < 0)
        return NULL;
    for (int i = 0; i < n; i++)
        of_link[i] = w->member[member[i]];
    uint64_t id = siphash((struct siphash_key){.k0 = w->id}, of, sizeof of);
    return wire_new(link_ref(w->link), id, of_link, n);
}

/* ---- acts ------------------------------------------------------------------------------------ */

static struct link_act *begin(struct wire *w, int place, enum tag_kind kind, uint64_t number,
                              unsigned what, size_t bytes)
{
    struct link_act *a = &w->act[place];
    *a = (struct link_act){
        .wire = w->id, .tag = number << 1 | kind, .bytes = (uint32_t)bytes, .what = what};
    return a;
}

static void expect(struct wire *w, struct link_act *a, int from, char *to)
{
    a->from |= UINT64_C(1) << w->member[from];
    a->to[w->member[from]] = to;
}

/* From each to each: `skip` bytes lie between what is for one and for the next. */
static int all_to_all(struct wire *w, int place, unsigned what, const char *in, size_t skip,
                      char *out, size_t bytes)
{
    struct link_act *a = begin(w, place, TAG_TOGETHER, w->n_together++, what, bytes);
    const char *own = in + (size_t)w->own * skip;
    char *to = out + (size_t)w->own * bytes;
    for (int r = 0; r < w->n; r++)
        if (r != w->own)
            expect(w, a, r, out + (size_t)r * bytes);
    link_wait(w->link, a);
    for (int r = 0; r < w->n; r++)
        if (r != w->own)
            link_send(w->link, a, w->member[r], in + (size_t)r * skip);
    if (own != to && bytes)
        memcpy(to, own, bytes);
    return 0;
}

static int gather(struct wire *w, int place, unsigned what, const void *in, void *out, size_t bytes)
{
    return all_to_all(w, place, what, in, 0, out, bytes);
}

static int exchange(struct wire *w, int place, unsigned what, const void *in, void *out,
                    size_t bytes)
{
    return all_to_all(w, place, what, in, bytes, out, bytes);
}

static int broadcast(struct wire *w, int place, unsigned what, void *x, size_t bytes, int from)
{
    struct link_act *a = begin(w, place, TAG_TOGETHER, w->n_together++, what, bytes);
    if (w->own != from)
        expect(w, a, from, x);
    link_wait(w->link, a);
    for (int r = 0; r < w->n && w->own == from; r++)
        if (r != from)
            link_send(w->link, a, w->member[r], x);
    return 0;
}

static int send_to(struct wire *w, int place, const void *in, size_t bytes, int to)
{
    struct link_act *a = begin(w, place, TAG_TO_ONE, w->n_sent[to]++, 0, bytes);
    link_wait(w->link, a);
    link_send(w->link, a, w->member[to], in);
    return 0;
}

static int receive(struct wire *w, int place, void *out, size_t bytes, int from)
{
    struct link_act *a = begin(w, place, TAG_TO_ONE, w->n_taken[from]++, 0, bytes);
    expect(w, a, from, out);
    link_wait(w->link, a);
    return 0;
}

static int test(struct wire *w, int place)
{
    return link_test(w->link, &w->act[place]);
}

static int missing(const struct wire *w, int place)
{
    int who = link_missing(w->link, &w->act[place]);
    for (int r = 0; r < w->n && who >= 0; r++)
        if (w->member[r] == who)
            return r;
    return -1;
}

const struct comm_plug comm_tcp_plug = {.abi = COMM_PLUG_ABI,
                                        .name = "tcp",
                                        .open = open_wire,
                                        .close = close_wire,
                                        .drop = drop,
                                        .rank = rank_of,
                                        .size = size_of,
                                        .split = split,
                                        .gather = gather,
                                        .exchange = exchange,
                                        .broadcast = broadcast,
                                        .send = send_to,
                                        .receive = receive,
                                        .test = test,
                                        .missing = missing};
