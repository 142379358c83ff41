/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands, made of cmd.def, and the ways to look into it.
 */
#include "clients/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"

static const struct cmd table[] = {
#define CMD(name, args, text) {#name, args, text, cmd_##name},
#include "clients/cli/cmd.def"
#undef CMD
};

enum { N_CMD = sizeof table / sizeof *table };

const struct cmd *cmd_find(const char *name, struct err *e)
{
    struct nearest near;
    nearest_init(&near, name);
    for (int i = 0; i < N_CMD; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
        nearest_add(&near, table[i].name);
    }
    if (near.name)
        err_set(e, ERR_NOT_FOUND, "no command \"%s\"; did you mean \"%s\"?", name, near.name);
    else
        err_set(e, ERR_NOT_FOUND, "no command \"%s\"; `tandem help` lists them", name);
    return NULL;
}

void cmd_list(void)
{
    for (int i = 0; i < N_CMD; i++) {
        char head[64];
        snprintf(head, sizeof head, "tandem %s %s", table[i].name, table[i].args);
        printf("  %-34s %s\n", head, table[i].text);
    }
}

bool cmd_is_bare(int argc, char **argv, int *status)
{
    struct err e = ERR_INIT;
    if (argc == 1)
        return true;
    const struct cmd *cmd = cmd_find(argv[0], &e);
    if (strcmp(argv[1], "--help") == 0 && cmd) {
        printf("tandem %s %s\n\n%s\n", cmd->name, cmd->args, cmd->text);
        *status = CMD_GOOD;
    } else {
        err_set(&e, ERR_BAD_INPUT, "it takes no \"%s\"", argv[1]);
        *status = cmd_fail(argv[0], &e);
    }
    return false;
}

int cmd_fail(const char *name, const struct err *e)
{
    fprintf(stderr, "tandem%s%s: %s\n", name ? " " : "", name ? name : "", e->msg);
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
