/* SPDX-License-Identifier: Apache-2.0
 *
 * `check`: for each row, for each level that has something of its own for it, the row's check.
 * Taking every check's address here is what makes an untested kernel not link.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernels/check.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/onnx.h"
#include "tests/kernels/tool.h"

static check_fn *const checks[KERNEL_COUNT] = {
#define KERNEL(name, text) [K_##name] = check_##name,
#include "kernels/kernels.def"
#undef KERNEL
};

static const char *const levels[] = {"ref", "avx2", "avx512", "avx512_bf16", "cuda"};
enum { LEVEL_GPU = 4, N_LEVEL };

/* For the handler alone: what is being checked when a fence is hit. */
static const struct check *volatile running;

static void on_fault(int sig)
{
    char line[320];
    const struct check *c = running;
    int n = snprintf(line, sizeof line, "%s %s: %s: signal %d: outside a buffer?\n",
                     c ? c->name : "?", c ? c->variant : "?", c ? c->what : "?", sig);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(3);
    _exit(1);
}

static void part_begin(struct check *c, const char *name, const char *variant, uint64_t seed)
{
    c->name = name;
    c->variant = variant;
    c->rng = seed;
    c->n_comparison = c->n_fail = 0;
    c->worst = 0;
    check_case(c, "-");
}

static void part_end(struct check *c)
{
    check_begin(c);
    printf("%-16s %-11s %s %7" PRId64 " comparisons, %.2f of tolerance\n", c->name, c->variant,
           c->n_fail ? "FAIL" : "ok  ", c->n_comparison, c->worst);
    if (c->n_fail)
        printf("%-16s %-11s %d comparisons failed\n", c->name, c->variant, c->n_fail);
    fflush(stdout); /* whoever ends a check that takes too long keeps what it found */
    c->n_comparison_all += c->n_comparison;
    c->n_row_fail += c->n_fail > 0;
}

/* A row's numbers follow its name, not its place: another row must not change what it is tried on.
 */
static uint64_t seed_of(const char *name, uint64_t seed)
{
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static void row_run(struct check *c, enum kernel_id id, const struct tool_args *a)
{
    c->id = id;
    part_begin(c, kernel_name(id), c->table->variant[id], seed_of(kernel_name(id), a->seed));
    checks[id](c);
    part_end(c);
}

/* The CPU's levels are run unless one is named; the GPU's, which takes its time, when it is. */
static bool is_wanted(const struct tool_args *a, int level)
{
    return a->variant ? strcmp(a->variant, levels[level]) == 0 : level != LEVEL_GPU;
}

/* A level is run for a row when the row has a function of that level's own. */
static void row_check(struct check *c, enum kernel_id id, const struct kernel_table *tables,
                      const struct tool_args *a)
{
    for (int l = 0; l < N_LEVEL; l++) {
        if (!tables[l].fn[id] || strcmp(tables[l].variant[id], levels[l]) != 0)
            continue;
        if (!is_wanted(a, l))
            continue;
        c->table = &tables[l];
        c->is_gpu = l == LEVEL_GPU;
        row_run(c, id, a);
    }
}

/* The published cases, once per level. */
static void onnx_run(struct check *c, const struct kernel_table *tables, const struct tool_args *a)
{
    for (int l = 0; l < N_LEVEL; l++) {
        if (!tables[l].fn[0] || !is_wanted(a, l))
            continue;
        c->table = &tables[l];
        c->is_gpu = l == LEVEL_GPU;
        part_begin(c, "onnx", levels[l], a->seed);
        int n = onnx_check(c);
        if (n < 0) {
            puts(
                "onnx             skipped: no folder onnx under TANDEM_TEST_DATA (../shared/data)");
            return;
        }
        check_true(c, n > 0, "no case of ours in the folder");
        part_end(c);
    }
}

static int rows_check(struct check *c, const struct tool_args *a, const struct kernel_table *tables)
{
    /* The scratch outlives the cases, so its fences are looked at last. */
    c->scratch = check_buf(c, K_SCRATCH_BYTES, 64);
    struct check_buf *scratch = c->bufs;
    c->bufs = NULL;
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (tool_args_match(a, kernel_name((enum kernel_id)id)))
            row_check(c, (enum kernel_id)id, tables, a);
    }
    if (tool_args_match(a, "onnx"))
        onnx_run(c, tables, a);
    c->bufs = scratch;
    part_begin(c, "scratch", "-", 0);
    check_begin(c);
    return c->n_row_fail + c->n_fail;
}

/* Each level's table; empty where this machine has it not, and the GPU's unless it is named. */
static void tables_init(struct kernel_table *tables, const char *variant)
{
    for (int l = 0; l < LEVEL_GPU; l++) {
        if (kernel_table_init(&tables[l], levels[l]) < 0)
            memset(&tables[l], 0, sizeof tables[l]);
    }
    memset(&tables[LEVEL_GPU], 0, sizeof tables[LEVEL_GPU]);
    if (variant && strcmp(variant, levels[LEVEL_GPU]) == 0)
        gpu_open(&tables[LEVEL_GPU]);
}

static bool has_level(const struct kernel_table *tables, const char *name)
{
    for (int l = 0; l < N_LEVEL; l++) {
        if (strcmp(levels[l], name) == 0 && tables[l].fn[0])
            return true;
    }
    return false;
}

int tool_check(int argc, char **argv)
{
    struct tool_args a;
    struct kernel_table tables[N_LEVEL];
    struct check c = {.ref = &tables[0]};
    if (tool_args_parse(&a, argc, argv) < 0)
        return 2;
    c.seed = a.seed;
    c.is_short = a.is_short;
    tables_init(tables, a.variant);
    if (a.variant && !has_level(tables, a.variant)) {
        fprintf(stderr, "tandem-kernels: this machine has no variant %s\n", a.variant);
        return 2;
    }
    running = &c;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGILL, on_fault);
    int n_fail = rows_check(&c, &a, tables);
    check_spare_free(&c);
    check_kept_free(&c);
    printf("%" PRId64 " comparisons, %d rows failed, on %s\n", c.n_comparison_all, n_fail,
           kernel_cpu().name);
    return n_fail ? 1 : 0;
}
