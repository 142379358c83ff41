/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of everything that templates can call by name, one list per kind, so that the parser
 * resolves a filter or a test once.
 */
#include "engine/template/jinja_native.h"

#include <string.h>

const struct jnative *const jnative_filters[] = {jfilter_text_rows, jfilter_seq_rows,
                                                 jfilter_pick_rows, jfilter_num_rows, NULL};
const struct jnative *const jnative_tests[] = {jtest_rows, NULL};
const struct jnative *const jnative_globals[] = {jglobal_rows, NULL};

const struct jnative *jnative_find(const struct jnative *const *tables, const char *name)
{
    for (; *tables; tables++)
        for (const struct jnative *row = *tables; row->name; row++)
            if (strcmp(row->name, name) == 0)
                return row;
    return NULL;
}
