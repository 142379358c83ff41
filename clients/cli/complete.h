/* SPDX-License-Identifier: Apache-2.0
 *
 * What a shell needs to complete the program's commands, made of their table: one maker for each
 * shell, and what the makers ask of a row.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_CLI_COMPLETE_H
#define CLIENTS_CLI_COMPLETE_H

#include "clients/cli/cmd.h"

void complete_bash(struct buf *out);
void complete_zsh(struct buf *out);
void complete_fish(struct buf *out);

enum complete_value {
    COMPLETE_NONE,   /* a flag without a value */
    COMPLETE_ANY,    /* a number, a name: nothing to offer */
    COMPLETE_CHOICE, /* the words of the row's hint, between bars */
    COMPLETE_FILE
};
enum complete_value complete_value(const struct opt_row *row);

/* Whether the command's words that are no options may be files. */
bool complete_takes_file(const struct opt_cmd *cmd);

/* "get" of "jobs get"; NULL where the name is one word. */
const char *complete_second(const char *name);

/* Goes through the first words of all commands, or through the second ones behind `first`; each
 * once. Begins as {0}; false at the end. */
struct complete_word {
    const char *text, *about; /* about: of the first command that has it */
    size_t next;
    char name[CMD_NAME_BYTES];
};
bool complete_each(struct complete_word *w, const char *first);

/* 'jobs get'|'jobs cancel'|...: the commands of two words, as a shell's pattern. */
void complete_pairs(struct buf *out);

/* The words of a choice, between spaces. */
void complete_words(const struct opt_row *row, struct buf *out);

/* A text between single quotes, as each of these shells reads it; `also`: characters before which a
 * backslash is wanted inside of them. */
void complete_quote(const char *text, const char *also, struct buf *out);

#endif
