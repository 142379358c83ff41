/* SPDX-License-Identifier: Apache-2.0
 *
 * How the served model writes calls of tools, and thoughts: as its template tells, or, of calls, as
 * its operator says.
 */
#include <string.h>

#include "engine/serve/engine_own.h"
#include "engine/tools/tool_format.h"

int tools_init(struct engine *g, const char *name, struct err *e)
{
    struct engine_info *i = &g->fixed.info;
    if (!name || strcmp(name, "auto") == 0)
        i->tool_format = i->chat_template ? tool_format_told(i->chat_template) : NULL;
    else if (strcmp(name, "none") != 0 && !(i->tool_format = tool_format_find(name)))
        return err_set(e, ERR_BAD_INPUT, "--tool-format: '%s' is none of auto, none, %s", name,
                       tool_format_names());
    i->think = i->chat_template ? think_marks_told(i->chat_template) : NULL;
    if (g->fixed.res.tokenizer)
        i->mark = g->fixed.mark =
            tool_format_marks(i->tool_format, i->think, g->fixed.res.tokenizer, &i->n_mark);
    return 0;
}
