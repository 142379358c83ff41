/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of a classifier's labels are shown through.
 */
#ifndef ENGINE_LOAD_SCORES_H
#define ENGINE_LOAD_SCORES_H

enum config_scores { SCORES_PLAIN, SCORES_SIGMOID, SCORES_SOFTMAX };

#endif
