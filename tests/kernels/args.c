/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of tandem-kernels: names and a few options, each option followed by its value.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/kernels/tool.h"

static int number_parse(const char *opt, const char *text, unsigned long long max,
                        unsigned long long *out)
{
    char *end;
    errno = 0;
    unsigned long long v = text ? strtoull(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || errno || v > max) {
        fprintf(stderr, "tandem-kernels: %s wants a whole number up to %llu, not %s\n", opt, max,
                text ? text : "nothing");
        return -1;
    }
    *out = v;
    return 0;
}

/* How many words it took; -1 after a message. */
static int option_parse(struct tool_args *a, const char *opt, const char *value)
{
    unsigned long long v = 0;
    if (strcmp(opt, "--json") == 0) {
        a->json = true;
        return 1;
    }
    if (strcmp(opt, "--short") == 0) {
        a->is_short = true;
        return 1;
    }
    if (strcmp(opt, "--variant") == 0 && value) {
        a->variant = value;
        return 2;
    }
    if (strcmp(opt, "--seed") == 0)
        return number_parse(opt, value, ~0ull, &a->seed) < 0 ? -1 : 2;
    if (strcmp(opt, "--threads") == 0 || strcmp(opt, "--rows") == 0) {
        if (number_parse(opt, value, 100000, &v) < 0)
            return -1;
        *(opt[2] == 't' ? &a->n_thread : &a->rows) = (int)v;
        return 2;
    }
    fprintf(stderr, "tandem-kernels: unknown option %s\n", opt);
    return -1;
}

static bool is_known(const char *prefix)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (strncmp(kernel_name((enum kernel_id)id), prefix, strlen(prefix)) == 0)
            return true;
    }
    return strcmp(prefix, "onnx") == 0;
}

int tool_args_parse(struct tool_args *a, int argc, char **argv)
{
    *a = (struct tool_args){.names = (const char *const *)argv, .seed = 1};
    for (int i = 0; i < argc;) {
        if (argv[i][0] == '-') {
            int n = option_parse(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            if (n < 0)
                return -1;
            i += n;
            continue;
        }
        if (!is_known(argv[i])) {
            fprintf(stderr, "tandem-kernels: no kernel begins with %s\n", argv[i]);
            return -1;
        }
        argv[a->n_name++] = argv[i++];
    }
    return 0;
}

bool tool_args_match(const struct tool_args *a, const char *name)
{
    for (int i = 0; i < a->n_name; i++) {
        if (strncmp(name, a->names[i], strlen(a->names[i])) == 0)
            return true;
    }
    return a->n_name == 0;
}
