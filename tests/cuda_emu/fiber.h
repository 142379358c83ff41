/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that one OS thread runs on in turn. A switch saves what a call must keep and no more:
 * a few nanoseconds on x86-64 and aarch64; elsewhere the C library's contexts.
 *
 * Thread: a fiber runs on the thread that made it.
 */
#ifndef TESTS_CUDA_EMU_FIBER_H
#define TESTS_CUDA_EMU_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

struct fiber {
#if defined(__x86_64__) || defined(__aarch64__)
    void *sp; /* where its registers lie while another runs */
#else
    ucontext_t context;
#endif
};

/* fiber_switch to f will begin `entry` on the stack; entry never returns. */
void fiber_init(struct fiber *f, void *stack, size_t bytes, void (*entry)());

/* Stores the running one in `from` and goes on with `to`. */
#if !defined(__x86_64__) && !defined(__aarch64__)
void fiber_switch(struct fiber *from, struct fiber *to);
#elif defined(__cplusplus)
extern "C" void fiber_swap(void **from, void *to);

static inline void fiber_switch(struct fiber *from, struct fiber *to)
{
    fiber_swap(&from->sp, to->sp);
}
#endif

#endif
