/* SPDX-License-Identifier: Apache-2.0
 *
 * Options from one table. A command has rows; from a row follow the flag, the variable of the
 * environment, the line of the configuration file, the check of the value, the line of --help, of
 * the manual page and of the shell's completion. A value goes into the caller's struct, at the
 * row's offset, as its type says.
 *
 * Precedence: flag over environment over file over default. A flag is `--name value`,
 * `--name=value`, or for a bool `--name` and `--no-name`; with a letter also `-n value`. The
 * variable of `kv-memory` is TANDEM_KV_MEMORY. `--` ends the options. A list takes every
 * occurrence; in the environment its items are separated by commas; the highest layer that names a
 * list replaces the layers below. The file is named by the command's row of type OPT_CONFIG.
 *
 * Every error is one line that names the flag, the variable, or the file and line.
 *
 * Thread: one at a time; the table is constant.
 */
#ifndef ENGINE_BASE_OPT_H
#define ENGINE_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

enum opt_type {
    OPT_BOOL,      /* bool */
    OPT_INT,       /* int64_t */
    OPT_DOUBLE,    /* double */
    OPT_SIZE,      /* int64_t bytes: "8G" */
    OPT_TEXT,      /* const char * */
    OPT_CHOICE,    /* const char *, one of `hint` */
    OPT_LIST,      /* struct opt_list: may be given again */
    OPT_CONFIG,    /* const char *: the configuration file */
    OPT_CONFIG_ARG /* the same; where no flag names it, the first argument does */
};

struct opt_list {
    const char **at; /* borrowed from the struct opt */
    size_t n;
};

/* The type of the field that a row of each type writes, for structs that are declared by the rows
 * of a .def file: one type for both, and no field without a row. */
#define OPT_BOOL_FIELD       bool
#define OPT_INT_FIELD        int64_t
#define OPT_DOUBLE_FIELD     double
#define OPT_SIZE_FIELD       int64_t
#define OPT_TEXT_FIELD       const char *
#define OPT_CHOICE_FIELD     const char *
#define OPT_LIST_FIELD       struct opt_list
#define OPT_CONFIG_FIELD     const char *
#define OPT_CONFIG_ARG_FIELD const char *

struct opt_row {
    const char *section; /* NULL: that of the row before */
    const char *name;    /* "kv-memory" */
    char letter;         /* 'n' for -n; 0: none */
    enum opt_type type;
    const char *fallback; /* the default, as one would write it; NULL: the field stays as it is */
    double min, max;      /* of numbers; both 0: no bounds */
    const char *hint;     /* what stands for the value in --help; a choice: "auto|cpu|cuda" */
    const char *help;
    size_t offset; /* of the field in the caller's struct */
};

/* A row of a .def file, whose field is `at` bytes into the caller's struct. */
#define OPT_ROW(section_, name_, type_, fallback_, min_, max_, hint_, help_, at)                   \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_), .offset = (at)             \
    }

/* What one can type behind `tandem`. */
struct opt_cmd {
    const char *name;  /* "serve" */
    const char *args;  /* "[MODEL]"; "" when there are none */
    const char *about; /* one or two sentences */
    int min_arg, max_arg;
    const struct opt_row *row;
    size_t n_row;
};

enum opt_source { OPT_DEFAULT, OPT_FILE, OPT_ENV, OPT_FLAG };

struct opt {
    const struct opt_cmd *cmd; /* borrowed */
    void *values;              /* borrowed: the caller's struct */
    struct arena arena;        /* holds the texts */
    enum opt_source *source;   /* [n_row]: where each value came from */
    const char **arg;          /* [n_arg]: what is no option */
    const char *const *argv;   /* borrowed: opt_init's */
    int argc;
    int n_arg;
    bool wants_help; /* --help or -h was given; nothing else was looked at */
};

/* argv without the program's and the command's name. On failure, too, o must be released. */
int opt_init(struct opt *o, const struct opt_cmd *cmd, void *values, int argc,
             const char *const *argv, struct err *e);
void opt_release(struct opt *o); /* the texts in `values` end with it */

/* The page that --help shows, so many columns wide. */
enum { OPT_PAGE_COLUMNS = 80 };
void opt_help(const struct opt_cmd *cmd, int width, struct buf *out);

/* Words that go on at column *at; a line that would be wider breaks, and the next begins at
 * `column`. */
void opt_words(struct buf *out, const char *text, int column, int width, size_t *at);

/* Whether the option was set anywhere: its default may be one of its values. */
bool opt_is_given(const struct opt *o, const char *name);

/* The row's variable of the environment. */
enum { OPT_ENV_BYTES = 64 };
const char *opt_env(const struct opt_row *row, char name[OPT_ENV_BYTES]);

static inline bool opt_is_config(const struct opt_row *row)
{
    return row->type == OPT_CONFIG || row->type == OPT_CONFIG_ARG;
}

#endif
