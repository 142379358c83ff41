/* SPDX-License-Identifier: Apache-2.0
 *
 * How the served model writes calls of tools, and thoughts: as its template tells, or, of calls, as
 * its operator says. And by which tokens it knows a gap in a text.
 */
#include <string.h>

#include "engine/serve/engine_own.h"
#include "engine/token/fim.h"
#include "engine/tools/tool_format.h"

/* A mark of thoughts may be a token, special or not. */
static int32_t mark_id(const struct engine *g, const char *mark)
{
    const struct tokenizer *t = g->fixed.res.tokenizer;
    return t ? tokenizer_id(t, mark, strlen(mark)) : -1;
}

_Static_assert(FIM_ENDS_MAX == sizeof((struct engine_info *)0)->fim_end / sizeof(int32_t),
               "room for all of them");

static void find_fim(struct engine_info *i, const struct tokenizer *t)
{
    i->fim = i->generates ? fim_marks_find(t) : NULL;
    i->n_fim_end = i->fim ? fim_marks_ends(i->fim, t, i->fim_end) : 0;
}

int tools_init(struct engine *g, const char *name, struct err *e)
{
    struct engine_info *i = &g->fixed.info;
    if (!name || strcmp(name, "auto") == 0)
        i->tool_format = i->chat_template ? tool_format_told(i->chat_template) : NULL;
    else if (strcmp(name, "none") != 0 && !(i->tool_format = tool_format_find(name)))
        return err_set(e, ERR_BAD_INPUT, "--tool-format: '%s' is none of auto, none, %s", name,
                       tool_format_names());
    i->think = i->chat_template ? think_marks_told(i->chat_template) : NULL;
    i->think_open = i->think ? mark_id(g, i->think->open) : -1;
    i->think_close = i->think ? mark_id(g, i->think->close) : -1;
    if (g->fixed.res.tokenizer)
        find_fim(i, g->fixed.res.tokenizer);
    if (g->fixed.res.tokenizer)
        i->mark = g->fixed.mark =
            tool_format_marks(i->tool_format, i->think, g->fixed.res.tokenizer, &i->n_mark);
    return 0;
}
