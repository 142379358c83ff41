/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the scheduler (emu.cc) and the instructions (warp.cc): each lane leaves what it brings in
 * its slot, the last to arrive does the instruction's work on all 32, and each finds its result
 * where it left its part. Slots alternate, so that one who is late may still read.
 *
 * Thread: the fibers of a launch.
 */
#ifndef TESTS_CUDA_EMU_WARP_H
#define TESTS_CUDA_EMU_WARP_H

#include <stdint.h>

enum warp_op { WARP_SYNC, WARP_SHUFFLE, WARP_BALLOT, WARP_MMA, WARP_LDMATRIX };

struct warp_slot {
    uint32_t in[10], out[4];
    const void *row;
    uint64_t value; /* shuffled */
};

typedef void warp_fn(struct warp_slot *slots);

struct warp {
    unsigned live, arrived; /* lanes */
    enum warp_op op;
    int phase;
    struct warp_slot slot[2][32];
};

#ifdef __cplusplus
struct warp_slot *emu_warp_mine();
/* All 32 slots, once every lane is here and fn has run. */
struct warp_slot *emu_warp_meet(enum warp_op op, unsigned mask, warp_fn *fn);
struct copies *emu_copies();
[[noreturn]] void emu_fault(const char *what);
#endif

/* Asynchronous copies that a thread has begun, each of the group that the next commit closes. */
struct copy {
    void *to;
    const void *from;
    int bytes, from_bytes;
    int64_t group;
};

enum { COPIES_MAX = 256 };

struct copies {
    struct copy copy[COPIES_MAX];
    int n;
    int64_t group;
};

#endif
