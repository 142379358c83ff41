/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills the kernel table: the reference first, then each level that the CPU has and the mask
 * allows overwrites the rows it has something for. Also what belongs to no row: names, sizes of
 * types, running a whole call.
 */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/variants.h"

enum level { LEVEL_REF, LEVEL_AVX2, LEVEL_AVX512, LEVEL_AVX512_BF16, LEVEL_COUNT };

static const char *const level_names[LEVEL_COUNT] = {"ref", "avx2", "avx512", "avx512_bf16"};

static const char *const names[KERNEL_COUNT] = {
#define KERNEL(name, text) [K_##name] = #name,
#include "kernels/kernels.def"
#undef KERNEL
};

struct k_cpu kernel_cpu(void)
{
    struct k_cpu cpu;
    cpu_detect(&cpu);
    return cpu;
}

static enum level level_of(const struct k_cpu *cpu)
{
    return cpu->avx512_bf16 ? LEVEL_AVX512_BF16
           : cpu->avx512    ? LEVEL_AVX512
           : cpu->avx2      ? LEVEL_AVX2
                            : LEVEL_REF;
}

/* -1: no such level. */
static int level_parse(const char *name)
{
    for (int l = 0; l < LEVEL_COUNT; l++) {
        if (strcmp(name, level_names[l]) == 0)
            return l;
    }
    return -1;
}

#if defined(__x86_64__)
static void overwrite(struct kernel_table *t, kernel_fn *const *rows, enum level l)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (rows[id]) {
            t->fn[id] = rows[id];
            t->variant[id] = level_names[l];
        }
    }
}

static void overwrite_all(struct kernel_table *t, enum level top)
{
    if (top >= LEVEL_AVX2)
        overwrite(t, kernel_rows_avx2, LEVEL_AVX2);
    if (top >= LEVEL_AVX512)
        overwrite(t, kernel_rows_avx512, LEVEL_AVX512);
    if (top >= LEVEL_AVX512_BF16)
        overwrite(t, kernel_rows_avx512_bf16, LEVEL_AVX512_BF16);
}
#else
static void overwrite_all(struct kernel_table *t, enum level top)
{
    (void)t, (void)top;
}
#endif

int kernel_table_init(struct kernel_table *t, const char *mask)
{
    struct k_cpu cpu = kernel_cpu();
    enum level top = level_of(&cpu);
    if (mask) {
        int want = level_parse(mask);
        if (want < 0 || want > (int)top)
            return -1;
        top = (enum level)want;
    }
    for (int id = 0; id < KERNEL_COUNT; id++) {
        t->fn[id] = kernel_rows_ref[id].fn;
        t->variant[id] = level_names[LEVEL_REF];
    }
    overwrite_all(t, top);
    t->gates = top == LEVEL_REF || top == LEVEL_AVX512_BF16;
    return 0;
}

const char *kernel_name(enum kernel_id id)
{
    return names[id];
}

struct k_shape kernel_shape(enum kernel_id id, const void *args)
{
    return kernel_rows_ref[id].shape(args);
}

void kernel_run(const struct kernel_table *t, enum kernel_id id, const void *args, void *scratch)
{
    struct k_slice s = {.lo = 0, .hi = kernel_shape(id, args).n_unit, .scratch = scratch};
    if (s.hi > 0)
        t->fn[id](args, &s);
}
