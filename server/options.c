/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of `tandem serve`.
 */
#include "server/options.h"

#include "engine/base/gate_meter.h"
#include "engine/comm/comm.h"

#define ROW(section_, name_, type_, fallback_, min_, max_, hint_, help_, field_)                   \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_),                            \
        .offset = offsetof(struct server_options, field_)                                          \
    }

enum { DAY_S = 86400 };

const struct opt_row server_rows[N_SERVER_ROWS] = {
    ROW("Model", "config", OPT_CONFIG, NULL, 0, 0, "FILE", "read options from this file", config),
    ROW(NULL, "name", OPT_TEXT, NULL, 0, 0, "NAME",
        "what clients call the model; default: the directory's last part", name),
    ROW(NULL, "ctx", OPT_SIZE, "0", 0, 1 << 30, "N",
        "positions to make room for; 0: what the model was made for", ctx),
    ROW(NULL, "quantize", OPT_CHOICE, "none", 0, 0, "none|int8|bf16|f32",
        "format that weights are packed to; none: as they are stored", quantize),
    ROW(NULL, "kv-type", OPT_CHOICE, "auto", 0, 0, "auto|bf16|f32",
        "format of keys and values; auto: f32 under f32 weights, else bf16", kv_type),
    ROW(NULL, "mode", OPT_CHOICE, "static", 0, 0, "static|eager",
        "run a compiled plan, or op by op", mode),
    ROW(NULL, "adapter", OPT_LIST, NULL, 0, 0, "NAME=DIR",
        "a LoRA adapter to load at the start; may be given again", adapter),
    ROW(NULL, "adapter-root", OPT_TEXT, NULL, 0, 0, "DIR",
        "clients with the scope admin may load adapters that lie under it", adapter_root),
    ROW(NULL, "max-adapters", OPT_INT, "0", 0, 4096, "N", "adapters at once; 0: chosen",
        max_adapters),
    ROW(NULL, "max-lora-rank", OPT_INT, "0", 0, 4096, "N", "largest rank taken; 0: chosen",
        max_lora_rank),
    ROW("Tuning", "data-dir", OPT_TEXT, NULL, 0, 0, "DIR",
        "keep files, fine-tuning jobs and what they make here; without it these are off", data_dir),
    ROW(NULL, "file-bytes-max", OPT_SIZE, "512M", 1, 512 << 20, "SIZE", "of one uploaded file",
        file_bytes_max),
    ROW(NULL, "files-quota", OPT_SIZE, "16G", 0, 1e15, "SIZE",
        "of all files of one key; 0: no limit", files_quota),
    ROW(NULL, "min-examples", OPT_INT, "10", 1, 1e9, "N",
        "a training file with fewer fails its job", min_examples),
    ROW(NULL, "train-memory", OPT_SIZE, "0", 0, 1e15, "SIZE",
        "memory that a job may take; 0: what is free beside keys and values", train_memory),
    ROW(NULL, "train-share", OPT_DOUBLE, "0.03", 0, GATE_SHARE_MAX, "P",
        "part of the machine that jobs get while requests are in work; what is idle they get anyway; "
        "0: they stand still meanwhile",
        train_share),
    ROW(NULL, "target-itl", OPT_DOUBLE, "0", 0, 60000, "MS",
        "instead: jobs get what keeps the time between two tokens under this; 0: no target",
        target_itl),
    ROW("Machine", "threads", OPT_INT, "0", 0, 1024, "N", "compute threads; 0: one for each core",
        threads),
    ROW(NULL, "tp", OPT_INT, "1", 1, COMM_RANK_MAX, "N",
        "ranks that share the model, as threads of this process; processes that a launcher started "
        "together are one rank each",
        tp),
    ROW(NULL, "device", OPT_CHOICE, "auto", 0, 0, "auto|cpu|cuda",
        "where the model runs; auto: on a GPU where there is one", device),
    ROW(NULL, "kernels", OPT_CHOICE, "auto", 0, 0, "auto|ref|avx2|avx512|avx512_bf16",
        "the highest instruction set that kernels may use", kernels),
    ROW(NULL, "kv-memory", OPT_SIZE, "0", 0, 1e15, "SIZE",
        "memory for keys and values; 0: chosen from what is free", kv_memory),
    ROW(NULL, "max-batch-tokens", OPT_INT, "0", 0, 1 << 20, "N", "tokens of one step; 0: chosen",
        max_batch_tokens),
    ROW(NULL, "max-seqs", OPT_INT, "0", 0, 1 << 16, "N", "sequences of one step; 0: chosen",
        max_seqs),
    ROW(NULL, "max-waiting", OPT_INT, "0", 0, 1 << 20, "N",
        "sequences that may wait for their turn; more get 503; 0: chosen", max_waiting),
    ROW(NULL, "prefix-cache", OPT_BOOL, "true", 0, 0, NULL,
        "keep what stands of prompts for others that begin alike", prefix_cache),
    ROW("Door", "host", OPT_TEXT, "127.0.0.1", 0, 0, "ADDRESS",
        "address to listen at; 0.0.0.0 or :: for all", host),
    ROW(NULL, "port", OPT_INT, "8080", 0, 65535, "N",
        "0: any that is free; the log's line \"listening\" says which", port),
    ROW(NULL, "unix-socket", OPT_TEXT, NULL, 0, 0, "PATH", "listen here too", unix_socket),
    ROW(NULL, "http-threads", OPT_INT, "2", 1, 64, "N", "threads that speak HTTP", http_threads),
    ROW(NULL, "max-connections", OPT_INT, "4096", 4, 1 << 20, "N", "connections at once",
        max_connections),
    ROW(NULL, "max-connections-ip", OPT_INT, "0", 0, 1 << 20, "N",
        "connections of one address; 0: three quarters of all", max_connections_ip),
    ROW(NULL, "max-requests", OPT_INT, "2048", 0, 1 << 20, "N",
        "requests in work at once; more get 503; 0: no limit", max_requests),
    ROW(NULL, "body-memory", OPT_SIZE, "512M", 1 << 20, 1e15, "SIZE",
        "for all requests' bodies at once", body_memory),
    ROW(NULL, "allowed-host", OPT_LIST, NULL, 0, 0, "NAME",
        "a name that clients may call this server by, beside the address it listens at and the "
        "names of this machine's loopback; * for any",
        allowed_host),
    ROW(NULL, "cors-origin", OPT_LIST, NULL, 0, 0, "ORIGIN",
        "pages of this origin may ask, as https://example.com; * for any", cors_origin),
    ROW("Keys", "api-key", OPT_TEXT, NULL, 0, 0, "KEY",
        "a key that may do everything; better set in the environment, where others do not see it",
        api_key),
    ROW(NULL, "api-key-file", OPT_TEXT, NULL, 0, 0, "FILE",
        "keys, a line each: NAME SCOPES KEY, with scopes of inference, training, admin, all; KEY "
        "may be sha256:HEX; rpm=N tpm=N at_once=N may follow",
        api_key_file),
    ROW(NULL, "insecure", OPT_BOOL, "false", 0, 0, NULL, "listen beyond this machine without keys",
        insecure),
    ROW(NULL, "key-rpm", OPT_INT, "0", 0, 1e9, "N", "requests a minute of one key; 0: no limit",
        key_rpm),
    ROW(NULL, "key-tpm", OPT_INT, "0", 0, 1e12, "N", "tokens a minute of one key; 0: no limit",
        key_tpm),
    ROW(NULL, "key-at-once", OPT_INT, "0", 0, 1e6, "N", "requests at once of one key; 0: no limit",
        key_at_once),
    ROW("Times", "request-timeout", OPT_DOUBLE, "600", 0, DAY_S, "S",
        "for a whole request; 0: none", request_timeout),
    ROW(NULL, "queue-timeout", OPT_DOUBLE, "0", 0, DAY_S, "S",
        "a request that waited longer for its turn gets 503; 0: never", queue_timeout),
    ROW(NULL, "stream-ping", OPT_DOUBLE, "15", 0, 3600, "S",
        "a stream that is silent so long, also before its first token, is sent a comment, so that "
        "no proxy cuts it; 0: never",
        stream_ping),
    ROW(NULL, "drain-delay", OPT_DOUBLE, "5", 0, 3600, "S",
        "after SIGTERM requests are still taken so long", drain_delay),
    ROW(NULL, "shutdown-timeout", OPT_DOUBLE, "25", 0, 3600, "S",
        "after SIGTERM what is in work may take so long", shutdown_timeout),
    ROW("Log", "log-level", OPT_CHOICE, "info", 0, 0, "debug|info|warn|error|off",
        "least weight of what is logged", log_level),
    ROW(NULL, "log-format", OPT_CHOICE, "text", 0, 0, "text|json", "for people or for machines",
        log_format),
    ROW(NULL, "access-log", OPT_BOOL, "true", 0, 0, NULL, "log a line for each request",
        access_log),
};
