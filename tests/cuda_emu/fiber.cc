/* SPDX-License-Identifier: Apache-2.0
 *
 * The switch. What lies on a sleeping fiber's stack, from its sp up: the registers that a call
 * must keep, then the address to go on at.
 */
#include "tests/cuda_emu/fiber.h"

#include <stdint.h>

#if defined(__x86_64__)

asm(".text\n"
    ".globl fiber_swap\n"
    ".hidden fiber_swap\n"
    ".p2align 4\n"
    ".type fiber_swap, @function\n"
    "fiber_swap:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size fiber_swap, .-fiber_swap\n");

void fiber_init(struct fiber *f, void *stack, size_t bytes, void (*entry)())
{
    uintptr_t top = ((uintptr_t)stack + bytes) & ~(uintptr_t)15;
    void **sp = (void **)top;
    *--sp = nullptr; /* where entry would return to; leaves sp as behind a call */
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    f->sp = sp;
}

#elif defined(__aarch64__)

asm(".text\n"
    ".globl fiber_swap\n"
    ".hidden fiber_swap\n"
    ".p2align 4\n"
    ".type fiber_swap, %function\n"
    "fiber_swap:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n"
    "    stp x21, x22, [sp, #16]\n"
    "    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n"
    "    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n"
    "    str x9, [x0]\n"
    "    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n"
    "    ldp x21, x22, [sp, #16]\n"
    "    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n"
    "    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    ret\n"
    ".size fiber_swap, .-fiber_swap\n");

void fiber_init(struct fiber *f, void *stack, size_t bytes, void (*entry)())
{
    uintptr_t top = ((uintptr_t)stack + bytes) & ~(uintptr_t)15;
    uint64_t *sp = (uint64_t *)(top - 160);
    for (int i = 0; i < 20; i++)
        sp[i] = 0;
    sp[11] = (uint64_t)(uintptr_t)entry; /* x30 */
    f->sp = sp;
}

#else

void fiber_init(struct fiber *f, void *stack, size_t bytes, void (*entry)())
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
