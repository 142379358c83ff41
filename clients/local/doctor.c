/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem doctor`: what this machine has, which kernels will run on it, and what is amiss, each
 * warning with its mend. The first thing to ask of who reports that it is slow. With --data-dir it
 * looks at what a server keeps there, and with --repair mends it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "clients/cli/cmd.h"
#include "engine/base/machine.h"
#include "engine/base/version.h"
#include "engine/device/open.h"
#include "kernels/kernels.h"
#include "server/store/store_doctor.h"

enum { FILES_WANTED = 4096 }; /* a connection is a file, and so is each of a model */

static void show(const char *what, const char *text)
{
    printf("%-12s %s\n", what, text);
}

static void warn(const char *text)
{
    printf("%-12s %s\n", "! warning", text);
}

static void show_cpu(const struct k_cpu *cpu)
{
    char text[160];
    snprintf(text, sizeof text, "%s; %d to use;%s%s%s%s", cpu->name, machine_cpus(),
             cpu->avx2 ? " avx2" : "", cpu->avx512 ? " avx512" : "",
             cpu->avx512_bf16 ? " avx512_bf16" : "", cpu->avx2 ? "" : " no vector level");
    show("cpu", text);
}

/* "45 avx512, 2 ref": how many kernels run in which variant. */
static void show_kernels(const struct kernel_table *t)
{
    char text[160] = "";
    bool counted[KERNEL_COUNT] = {false};
    for (int i = 0; i < KERNEL_COUNT; i++) {
        int n = 0;
        for (int j = i; j < KERNEL_COUNT && !counted[i]; j++) {
            if (strcmp(t->variant[i], t->variant[j]) == 0) {
                n++;
                counted[j] = j > i;
            }
        }
        size_t len = strlen(text);
        if (n > 0)
            snprintf(text + len, sizeof text - len, "%s%d %s", len ? ", " : "", n, t->variant[i]);
    }
    show("kernels", text);
}

static void show_memory(void)
{
    size_t total, free_now;
    char text[80];
    machine_memory(&total, &free_now);
    snprintf(text, sizeof text, "%.1f GiB, %.1f GiB free", (double)total / (1 << 30),
             (double)free_now / (1 << 30));
    show("memory", text);
}

/* Each GPU, or in one line why there is none. */
static void show_gpus(void)
{
    struct err e = ERR_INIT;
    const struct device_plug *p = device_plug_get(&e);
    struct device_found found;
    char text[256];
    int n = p ? p->count(&e) : -1;
    if (n <= 0)
        show("gpu", n < 0 ? e.msg : "none: its driver is here, and finds nothing");
    for (int i = 0; i < n; i++) {
        if (p->look(i, &found, &e)) {
            show("gpu", e.msg);
            return;
        }
        snprintf(text, sizeof text, "%s, %.1f GiB, %s", found.name, (double)found.bytes / (1 << 30),
                 found.about);
        show("gpu", text);
    }
    if (n > 1)
        show("between gpus", p->rails(text, sizeof text, &e) ? e.msg : text);
}

static void show_files(void)
{
    struct rlimit lim;
    char text[160];
    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return;
    snprintf(text, sizeof text, "%llu at once", (unsigned long long)lim.rlim_cur);
    show("open files", text);
    if (lim.rlim_cur < FILES_WANTED) {
        snprintf(text, sizeof text, "few open files for a server: ulimit -n %d", FILES_WANTED);
        warn(text);
    }
}

static void warn_all(const struct k_cpu *cpu)
{
    if (!cpu->avx2)
        warn("no AVX2 and FMA here: the reference kernels run, many times slower");
    if (strcmp(version_mode(), "release") != 0)
        warn("this is no release build: it checks more and is slower; `make` builds the release");
    if (*version_note())
        warn(version_note());
}

struct doctor {
    const char *config, *kernels, *data_dir;
    bool repair;
};

static const struct opt_row rows[] = {
    {.name = "config",
     .type = OPT_CONFIG,
     .hint = "FILE",
     .help = "read options from a file, one `name = value` a line",
     .offset = offsetof(struct doctor, config)},
    {.name = "kernels",
     .type = OPT_CHOICE,
     .fallback = "auto",
     .hint = "auto|ref|avx2|avx512|avx512_bf16",
     .help = "the highest level of kernels to use",
     .offset = offsetof(struct doctor, kernels)},
    {.name = "data-dir",
     .type = OPT_TEXT,
     .hint = "DIR",
     .help = "look at a data directory too, while no server has it: its store, rows and files",
     .offset = offsetof(struct doctor, data_dir)},
    {.name = "repair",
     .type = OPT_BOOL,
     .help = "mend it: adopt the folder, restore the store's newest backup, enter files again by "
             "the notes beside them; nothing is deleted",
     .offset = offsetof(struct doctor, repair)},
};

const struct cmd_opt cmd_opt_doctor = {rows, sizeof rows / sizeof *rows, sizeof(struct doctor)};

static void say_data(void *ctx, bool is_amiss, const char *text)
{
    (void)ctx;
    if (is_amiss)
        warn(text);
    else
        show("data", text);
}

/* CMD_FAILED: something is amiss, and stays so. */
static int show_data(const struct opt *o, const struct doctor *want)
{
    struct store_doctor d = {.repairs = want->repair, .say = say_data};
    struct err e = ERR_INIT;
    if (!want->data_dir || !*want->data_dir)
        return CMD_GOOD;
    return store_doctor(&d, want->data_dir, &e) ? cmd_fail(o, &e)
           : d.n_amiss                          ? CMD_FAILED
                                                : CMD_GOOD;
}

int cmd_doctor(const struct opt *o)
{
    const struct doctor *want = o->values;
    struct err e = ERR_INIT;
    struct kernel_table table;
    struct k_cpu cpu = kernel_cpu();
    if (kernel_table_init(&table, strcmp(want->kernels, "auto") == 0 ? NULL : want->kernels) != 0) {
        err_set(&e, ERR_UNSUPPORTED, "--kernels %s: this CPU (%s) lacks it", want->kernels,
                cpu.name);
        return cmd_fail(o, &e);
    }
    show("tandem", version_number());
    show("build", version_compiler());
    show("libraries", version_libs());
    show_cpu(&cpu);
    show_kernels(&table);
    show_memory();
    show_gpus();
    show_files();
    warn_all(&cpu);
    return show_data(o, want);
}
