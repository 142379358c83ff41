/* SPDX-License-Identifier: Apache-2.0
 *
 * Detection by cpuid and xgetbv. A CPU that has AVX-512 under a kernel (or a hypervisor) that does
 * not save zmm registers must not be given AVX-512 code, so XCR0 is read, not assumed.
 */
#include "kernels/cpu.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    XCR0_YMM = 0x06, /* xmm and upper halves of ymm */
    XCR0_ZMM = 0xe6  /* those, the mask registers, both halves of zmm */
};

struct regs {
    unsigned a, b, c, d;
};

static struct regs leaf(unsigned id, unsigned sub)
{
    struct regs r = {0, 0, 0, 0};
    if (!__get_cpuid_count(id, sub, &r.a, &r.b, &r.c, &r.d))
        memset(&r, 0, sizeof r);
    return r;
}

static uint64_t xcr0_get(const struct regs *l1)
{
    if (!(l1->c & bit_OSXSAVE))
        return 0;
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_all(unsigned reg, unsigned bits)
{
    return (reg & bits) == bits;
}

/* The brand string is three leaves of sixteen characters, often with blanks on both ends. */
static void name_get(char out[64])
{
    char raw[49] = {0};
    if (leaf(0x80000000u, 0).a >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++) {
            struct regs r = leaf(0x80000002u + i, 0);
            memcpy(raw + 16 * i, &r, sizeof r);
        }
    }
    const char *s = raw;
    while (*s == ' ')
        s++;
    size_t n = strlen(s);
    while (n > 0 && s[n - 1] == ' ')
        n--;
    if (n == 0) {
        s = "x86-64";
        n = strlen(s);
    }
    memcpy(out, s, n);
    out[n] = '\0';
}

void cpu_detect(struct k_cpu *cpu)
{
    memset(cpu, 0, sizeof *cpu);
    name_get(cpu->name);
    struct regs l1 = leaf(1, 0), l7 = leaf(7, 0), l71 = leaf(7, 1);
    uint64_t xcr0 = xcr0_get(&l1);
    cpu->avx2 = (xcr0 & XCR0_YMM) == XCR0_YMM && has_all(l1.c, bit_AVX | bit_FMA | bit_F16C) &&
                has_all(l7.b, bit_AVX2);
    cpu->avx512 = cpu->avx2 && (xcr0 & XCR0_ZMM) == XCR0_ZMM &&
                  has_all(l7.b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
                  has_all(l7.c, bit_AVX512VBMI);
    cpu->avx512_bf16 = cpu->avx512 && has_all(l7.c, bit_AVX512VNNI) &&
                       has_all(l71.a, bit_AVX512BF16); /* no CPU has these without those */
}

#else

void cpu_detect(struct k_cpu *cpu)
{
    memset(cpu, 0, sizeof *cpu);
    snprintf(cpu->name, sizeof cpu->name, "not x86-64");
}

#endif
