/* SPDX-License-Identifier: Apache-2.0
 *
 * Text operations that both a method and a filter offer.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_STROPS_H
#define ENGINE_TEMPLATE_JINJA_STROPS_H

#include "engine/template/jinja_ops.h"

enum jstrip_side { JSTRIP_LEFT = 1, JSTRIP_RIGHT = 2, JSTRIP_BOTH = 3 };
/* set: the characters to take away, or None for blanks */
int jstrip(struct jrun *r, struct jvalue self, struct jvalue set, enum jstrip_side side,
           struct jvalue *out);

enum jcase_rule { JCASE_LOWER, JCASE_UPPER, JCASE_TITLE, JCASE_CAPITAL, JCASE_SWAP };
int jcase(struct jrun *r, const struct jvalue *self, enum jcase_rule rule, struct jvalue *out);

/* max < 0: every place */
int jreplace(struct jrun *r, const struct jvalue *self, const struct jvalue *from,
             const struct jvalue *to, int64_t max, struct jvalue *out);

/* any_type: items are made text; else each must be a string */
int jjoin(struct jrun *r, const struct jvalue *sep, struct jvalue items, bool any_type,
          struct jvalue *out);

/* sep: a string, or None for runs of blanks; max < 0: no limit */
int jsplit(struct jrun *r, const struct jvalue *self, const struct jvalue *sep, int64_t max,
           bool from_right, struct jvalue *out);

/* str.isupper, str.islower */
int jstr_is_case(struct jrun *r, const struct jvalue *self, bool upper, struct jvalue *out);

#endif
