/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of the environment that nobody reads. An option's variable with a slip of the hand in
 * it would be dropped in silence, and the program would run otherwise than it was told: each
 * TANDEM_ variable that no command has as an option is said at warn, with the option that was
 * meant. What Kubernetes sets for a service called tandem, or tandem-anything, is no option and no
 * slip: nothing is said of it here.
 *
 * Thread: main only, before there are others.
 */
#ifndef CLIENTS_CLI_ENV_H
#define CLIENTS_CLI_ENV_H

void env_check(void);

#endif
