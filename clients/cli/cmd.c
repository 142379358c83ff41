/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands, made of cmd.def, and what is the same for all of them: finding the one
 * that was named, reading its options, its page, its faults.
 */
#include "clients/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/near.h"

enum { PAGE_MAX_BYTES = 1 << 20 };

struct cmd {
    struct opt_cmd is; /* its rows are in opt, whose value the compiler does not see here */
    const struct cmd_opt *opt;
    cmd_fn *run;
};

static const struct cmd table[] = {
#define CMD(name, args, min_arg, max_arg, about)                                                   \
    {{#name, args, about, min_arg, max_arg, NULL, 0}, &cmd_opt_##name, cmd_##name},
#include "clients/cli/cmd.def"
#undef CMD
};

enum { N_CMD = sizeof table / sizeof *table };

/* NULL, with the command that was likely meant, when there is none so named. */
static const struct cmd *find(const char *name, struct opt_cmd *is, struct err *e)
{
    struct near near = {.word = name};
    for (int i = 0; i < N_CMD; i++) {
        if (strcmp(table[i].is.name, name) == 0) {
            *is = table[i].is;
            is->row = table[i].opt->row;
            is->n_row = table[i].opt->n_row;
            return &table[i];
        }
        near_try(&near, table[i].is.name);
    }
    if (near.best)
        err_set(e, ERR_NOT_FOUND, "no command \"%s\"; did you mean \"%s\"?", name, near.best);
    else
        err_set(e, ERR_NOT_FOUND, "no command \"%.40s\"; `tandem help` lists them", name);
    return NULL;
}

static int print_page(const struct opt_cmd *is)
{
    struct buf page;
    buf_init(&page, PAGE_MAX_BYTES);
    opt_help(is, &page);
    fputs(page.data, stdout);
    buf_release(&page);
    return CMD_GOOD;
}

int cmd_dispatch(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct opt_cmd is;
    struct opt o;
    const struct cmd *cmd = find(argv[0], &is, &e);
    if (!cmd)
        return cmd_fail(NULL, &e);
    void *values = xcalloc(1, cmd->opt->bytes + 1);
    int status;
    if (opt_init(&o, &is, values, argc - 1, (const char *const *)argv + 1, &e) != 0)
        status = cmd_fail(&o, &e);
    else
        status = o.wants_help ? print_page(&is) : cmd->run(&o);
    opt_release(&o);
    free(values);
    return status;
}

int cmd_show(const char *name)
{
    struct err e = ERR_INIT;
    struct opt_cmd is;
    return find(name, &is, &e) ? print_page(&is) : cmd_fail(NULL, &e);
}

void cmd_list(void)
{
    int width = 0;
    for (int i = 0; i < N_CMD; i++) {
        int len = (int)(strlen(table[i].is.name) + strlen(table[i].is.args));
        width = len > width ? len : width;
    }
    for (int i = 0; i < N_CMD; i++) {
        const struct opt_cmd *is = &table[i].is;
        int pad = width - (int)strlen(is->name);
        printf("  tandem %s %-*s  %s\n", is->name, pad, is->args, is->about);
    }
}

int cmd_fail(const struct opt *o, const struct err *e)
{
    fprintf(stderr, "tandem%s%s: %s\n", o ? " " : "", o ? o->cmd->name : "", e->msg);
    switch (e->code) {
    case ERR_BAD_INPUT:
    case ERR_NOT_FOUND:
    case ERR_TOO_LARGE:
    case ERR_UNSUPPORTED:
    case ERR_CORRUPT:
        return CMD_USAGE;
    default:
        return CMD_FAILED;
    }
}
