/* SPDX-License-Identifier: Apache-2.0
 *
 * A variable's name is turned into the option's that it would be, and looked for among all
 * commands: TANDEM_URL is none of `tandem serve`'s, and is set for those of a server.
 */
#include "clients/cli/env.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "clients/cli/cmd.h"
#include "engine/base/log.h"
#include "engine/base/near.h"

#define PREFIX "TANDEM_"

enum { PREFIX_BYTES = sizeof PREFIX - 1 };

/* What is read elsewhere than as an option: by engine/ where it stands, and by the tests. */
static const char *const others[] = {"NCCL",  "CUDA-PLUG",    "FAIL-ALLOC", "BIN",
                                     "BUILD", "CUDA-KERNELS", "TEST-DATA",  "MODEL-ARGS"};

/* Where the log is for machines, also what is said before the options are read. */
static void log_as_told(void)
{
    const char *format = getenv(PREFIX "LOG_FORMAT");
    if (format && strcmp(format, "json") == 0)
        log_configure(LOG_INFO, LOG_AS_JSON, NULL, NULL);
}

/* TANDEM_SERVICE_HOST, TANDEM_API_SERVICE_PORT_HTTP, TANDEM_PORT_80_TCP_ADDR and their kin. */
static bool is_service_link(const char *name, const char *value)
{
    const char *port = strstr(name, "PORT_");
    return strstr(name, "SERVICE_HOST") || strstr(name, "SERVICE_PORT") ||
           (port && isdigit((unsigned char)port[sizeof "PORT_" - 1])) ||
           (strstr(value, "://") && strlen(name) >= 4 && !strcmp(name + strlen(name) - 4, "PORT"));
}

/* "kv-memory" of TANDEM_KV_MEMORY; false where it is longer than any. */
static bool option_of(const char *variable, char name[OPT_ENV_BYTES])
{
    int n = snprintf(name, OPT_ENV_BYTES, "%s", variable + PREFIX_BYTES);
    for (char *s = name; *s; s++)
        *s = *s == '_' ? '-' : (char)tolower((unsigned char)*s);
    return n < OPT_ENV_BYTES;
}

/* Whether a command has the option; else the nearest is in `near`. */
static bool is_option(const char *name, struct near *near)
{
    char typed[CMD_NAME_BYTES];
    for (size_t c = 0; c < cmd_count(); c++) {
        struct opt_cmd is = cmd_get(c, typed);
        for (size_t i = 0; i < is.n_row; i++) {
            if (strcmp(is.row[i].name, name) == 0)
                return true;
            near_try(near, is.row[i].name);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(others[i], name) == 0)
            return true;
    return false;
}

static void check(const char *variable)
{
    char at[OPT_ENV_BYTES + PREFIX_BYTES], name[OPT_ENV_BYTES], env[OPT_ENV_BYTES];
    size_t n = strcspn(variable, "=");
    snprintf(at, sizeof at, "%.*s", (int)(n < sizeof at ? n : sizeof at - 1), variable);
    struct near near = {.word = name};
    if (is_service_link(at, variable + n) || (option_of(at, name) && is_option(name, &near)))
        return;
    if (near.best)
        log_event(LOG_WARN, "a variable that is no option's is ignored", LOG_TEXT("name", at),
                  LOG_TEXT("meant", opt_env(&(struct opt_row){.name = near.best}, env)));
    else
        log_event(LOG_WARN, "a variable that is no option's is ignored", LOG_TEXT("name", at));
}

void env_check(void)
{
    log_as_told();
    for (char **v = environ; *v; v++)
        if (strncmp(*v, PREFIX, PREFIX_BYTES) == 0)
            check(*v);
}
