/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler: one block at a time, its threads on a stack of those that can go on, so that a
 * thread runs as far as it can before another is looked at. Also what threads of a warp or a block
 * do together.
 *
 * State is of the process, as a GPU is; a lock lets one launch in at a time.
 */
#include "tests/cuda_emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <mutex>

#include "tests/cuda_emu/fiber.h"
#include "tests/cuda_emu/warp.h"

enum {
    STACK_BYTES = 64 << 10,
    LINE = 64,
    PAGE = 4096,
    SHARED_MAX = 227 << 10, /* of a block on sm_90 */
    THREAD_MAX = 1024
};

/* Short, or all that switch among each other would lie on more pages than a CPU knows. */
struct thread {
    struct fiber fiber;
    struct emu_thread at;
    struct warp *warp;
    bool is_gone;
};

struct emu_place emu_here;

static struct {
    std::mutex lock;
    struct thread thread[THREAD_MAX];
    struct copies copies[THREAD_MAX];
    struct warp warp[THREAD_MAX / 32];
    struct thread *ready[THREAD_MAX], *self;
    int n_ready, n_thread, n_live, n_at_barrier;
    int any[2], turn; /* of __syncthreads_or: of this barrier, of the one before */
    void (*kernel)(const void *args);
    const void *args;
    struct fiber home;
    unsigned char *stacks, *shared_end, *shared;
    enum emu_order order;
    uint64_t rng;
} emu;

void emu_order(enum emu_order order)
{
    emu.order = order;
}

void emu_fault(const char *what)
{
    dim3 at = emu.self ? emu.self->at.idx : dim3(0, 0, 0);
    fprintf(stderr, "cuda_emu: block %u %u %u, thread %u %u: %s\n", emu_here.block.x,
            emu_here.block.y, emu_here.block.z, at.x, at.y, what);
    abort();
}

static void *map(size_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("cuda_emu: memory for a block");
        abort();
    }
    return p;
}

/* Each stack ends, below, in a page without access; so does shared memory, above. */
static void memory_init()
{
    emu.stacks = (unsigned char *)map((size_t)THREAD_MAX * (STACK_BYTES + PAGE));
    for (int i = 0; i < THREAD_MAX; i++)
        mprotect(emu.stacks + (size_t)i * (STACK_BYTES + PAGE), PAGE, PROT_NONE);
    size_t shared = (SHARED_MAX + PAGE - 1) / PAGE * PAGE;
    emu.shared_end = (unsigned char *)map(shared + PAGE) + shared;
    mprotect(emu.shared_end, PAGE, PROT_NONE);
    emu.rng = 0x9e3779b97f4a7c15u;
}

static unsigned below(unsigned n)
{
    emu.rng ^= emu.rng << 13;
    emu.rng ^= emu.rng >> 7;
    emu.rng ^= emu.rng << 17;
    return (unsigned)(emu.rng >> 33) % n;
}

/* Threads [lo, hi) can go on; the first of the order is the first to be taken. */
static void wake(int lo, int hi, const struct thread *but)
{
    int from = emu.n_ready;
    for (int i = lo; i < hi; i++) {
        struct thread *t = &emu.thread[emu.order == EMU_BACKWARD ? i : lo + hi - 1 - i];
        if (t != but)
            emu.ready[emu.n_ready++] = t;
    }
    for (int i = emu.n_ready - 1; emu.order == EMU_RANDOM && i > from; i--) {
        int j = from + (int)below((unsigned)(i - from + 1));
        struct thread *t = emu.ready[i];
        emu.ready[i] = emu.ready[j];
        emu.ready[j] = t;
    }
}

static inline void go_on(struct fiber *from)
{
    struct fiber *to = &emu.home;
    if (emu.n_ready > 0) {
        struct thread *t = emu.self = emu.ready[--emu.n_ready];
        emu_here.thread = t->at;
        to = &t->fiber;
    } else if (emu.n_live > 0) {
        emu_fault("waits for a thread that waits elsewhere or is gone");
    }
    if (to != from)
        fiber_switch(from, to);
}

/* The running thread waits; what made it ready again has put it among the ready. */
static inline void wait()
{
    go_on(&emu.self->fiber);
}

static void barrier_open()
{
    emu.n_at_barrier = 0;
    emu.turn ^= 1;
    emu.any[emu.turn] = 0;
    for (int i = 0, lo = 0; i < emu.n_thread; i++) { /* those that are gone stay gone */
        if (emu.thread[i].is_gone) {
            wake(lo, i, nullptr);
            lo = i + 1;
        }
        if (i + 1 == emu.n_thread)
            wake(lo, i + 1, nullptr);
    }
}

int __syncthreads_or(int predicate)
{
    int turn = emu.turn;
    emu.any[turn] |= predicate != 0;
    if (++emu.n_at_barrier == emu.n_live)
        barrier_open();
    wait();
    return emu.any[turn];
}

void __syncthreads()
{
    (void)__syncthreads_or(0);
}

static void thread_main()
{
    struct thread *t = emu.self;
    emu.kernel(emu.args);
    if (t->warp->arrived)
        emu_fault("ends while its warp waits for it");
    t->warp->live &= ~(1u << t->at.lane);
    t->is_gone = true;
    emu.n_live--;
    if (emu.n_live > 0 && emu.n_at_barrier == emu.n_live)
        barrier_open();
    go_on(&t->fiber);
    __builtin_unreachable();
}

static void thread_init(int i, dim3 block)
{
    struct thread *t = &emu.thread[i];
    t->at.idx = dim3((unsigned)i % block.x, (unsigned)i / block.x % block.y,
                     (unsigned)i / (block.x * block.y));
    t->at.lane = i % 32;
    t->warp = &emu.warp[i / 32];
    t->is_gone = false;
    emu.copies[i].n = 0;
    /* stacks that all began at the same place of a page would push each other out of the cache */
    size_t begin = (size_t)(i * 7 % (PAGE / LINE)) * LINE;
    fiber_init(&t->fiber, emu.stacks + (size_t)i * (STACK_BYTES + PAGE) + PAGE, STACK_BYTES - begin,
               thread_main);
}

static void block_run(dim3 block, size_t shared_bytes)
{
    emu.n_thread = emu.n_live = (int)(block.x * block.y * block.z);
    emu.n_ready = emu.n_at_barrier = emu.turn = emu.any[0] = 0;
    for (int i = 0; i < emu.n_thread; i++)
        thread_init(i, block);
    for (int i = 0; i < emu.n_thread / 32; i++) {
        emu.warp[i].live = 0xffffffffu;
        emu.warp[i].arrived = 0;
    }
    emu.shared = emu.shared_end - (shared_bytes + 15) / 16 * 16;
    memset(emu.shared, 0xff, (size_t)(emu.shared_end - emu.shared));
    wake(0, emu.n_thread, nullptr);
    go_on(&emu.home);
    emu.self = nullptr;
}

void emu_launch(dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(const void *args),
                const void *args)
{
    std::lock_guard<std::mutex> guard(emu.lock);
    unsigned n = block.x * block.y * block.z;
    if (n % 32 != 0 || n == 0 || n > THREAD_MAX || shared_bytes > SHARED_MAX || grid.y > 65535 ||
        grid.z > 65535)
        emu_fault("a launch that no GPU would take");
    if (!emu.stacks)
        memory_init();
    emu.kernel = kernel;
    emu.args = args;
    emu_here.block_dim = block;
    emu_here.grid_dim = grid;
    for (unsigned z = 0; z < grid.z; z++) {
        for (unsigned y = 0; y < grid.y; y++) {
            for (unsigned x = 0; x < grid.x; x++) {
                emu_here.block = dim3(x, y, z);
                block_run(block, shared_bytes);
            }
        }
    }
}

void *emu_shared()
{
    return emu.shared;
}

struct copies *emu_copies()
{
    return &emu.copies[emu.self - emu.thread];
}

/* ---- what the lanes of a warp do together ---- */

struct warp_slot *emu_warp_mine()
{
    struct warp *w = emu.self->warp;
    return &w->slot[w->phase][emu_here.thread.lane];
}

/* Inlined where it is called most: a third of a kernel's time is the way to a switch. */
static inline struct warp_slot *meet(enum warp_op op, unsigned mask, warp_fn *fn)
{
    struct warp *w = emu.self->warp;
    struct warp_slot *slots = w->slot[w->phase];
    if (w->arrived == 0)
        w->op = op;
    if (mask != 0xffffffffu || w->live != mask)
        emu_fault("an instruction of part of a warp");
    if (w->op != op)
        emu_fault("lanes of a warp are at different instructions");
    w->arrived |= 1u << emu_here.thread.lane;
    if (w->arrived != w->live) {
        wait();
        return slots;
    }
    if (fn)
        fn(slots);
    w->arrived = 0;
    w->phase ^= 1;
    int first = (int)(w - emu.warp) * 32;
    wake(first, first + 32, nullptr);
    wait();
    return slots;
}

struct warp_slot *emu_warp_meet(enum warp_op op, unsigned mask, warp_fn *fn)
{
    return meet(op, mask, fn);
}

uint64_t emu_shuffle(unsigned mask, uint64_t value, int from)
{
    emu_warp_mine()->value = value;
    return meet(WARP_SHUFFLE, mask, nullptr)[from].value;
}
