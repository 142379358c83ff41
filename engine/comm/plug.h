/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plug brings that carries bytes between processes. One that needs a library is a shared
 * object of its own, libtandem_<name>.so beside the program or in ../lib/tandem, so that one
 * program serves machines with and without it; it exports one symbol, `tandem_comm_plug`. The one
 * over sockets is the program's own (engine/comm/tcp.c).
 *
 * A plug only moves bytes, and never waits: everything is started in a place [0, COMM_FLIGHT), and
 * asked for with `test`. Sums, order, deadlines and words are engine/comm/wired.c's, alike for all.
 * A shared object uses nothing of the program: this header has only plain types.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_COMM_PLUG_H
#define ENGINE_COMM_PLUG_H

#include <stddef.h>

enum { COMM_PLUG_ABI = 4, COMM_PLUG_BYTES_MAX = 1 << 26 }; /* of one rank in one call */

struct wire; /* a plug's end of a group */

struct comm_plug {
    int abi;
    const char *name;

    /* The group of all processes that were started together; NULL: text says why. */
    struct wire *(*open)(char *text, size_t size);
    void (*close)(struct wire *w, int is_broken); /* a broken one is left as it is */
    /* Touches nothing any more of what is under way, in this group and in those over the same
     * network, which end with it. NULL: there is no way; what it is given then stays for ever. */
    void (*drop)(struct wire *w);
    int (*rank)(const struct wire *w);
    int (*size)(const struct wire *w);
    /* The group of the ranks member[n], which is known by its colour; -1: in none; NULL. */
    struct wire *(*split)(struct wire *w, int colour, const int *member, int n);

    /* 0, or what the library answers. what: a number that all ranks must give alike. A plug whose
     * network has room for it compares them, and says so in `test`; over another those who differ
     * at least never meet. */
    int (*gather)(struct wire *w, int place, unsigned what, const void *in, void *out,
                  size_t bytes);
    int (*exchange)(struct wire *w, int place, unsigned what, const void *in, void *out,
                    size_t bytes); /* of each */
    int (*broadcast)(struct wire *w, int place, unsigned what, void *x, size_t bytes, int from);
    int (*send)(struct wire *w, int place, const void *in, size_t bytes, int to);
    int (*receive)(struct wire *w, int place, void *out, size_t bytes, int from);
    /* 1 done, 0 not yet, -1 failed, -2: another rank does something else */
    int (*test)(struct wire *w, int place);
    int (*missing)(const struct wire *w, int place); /* a rank that it waits for; -1: unknown */
};

#define COMM_PLUG_SYMBOL "tandem_comm_plug"

#endif
