/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained adapter as a PEFT directory: adapter_config.json and adapter_model.safetensors, as PEFT
 * itself writes them and as the server loads them, and beside them tandem.json, which names the
 * base (engine/load/base_id.h). The folder is written aside and takes its name
 * synced and whole.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_ADAPTER_DIR_H
#define ENGINE_TRAIN_ADAPTER_DIR_H

#include "engine/train/subject.h"

/* base: what base_model_name_or_path is to say; NULL: null. A call of all ranks; the first writes.
 */
int adapter_dir_write(const char *path, struct train_subject *s, const char *base, struct err *e);

#endif
