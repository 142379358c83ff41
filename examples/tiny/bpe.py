#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE tokenizer of the bundled model and writes its tokenizer.json.

    examples/tiny/bpe.py TRAIN.jsonl VOCABULARY OUT/tokenizer.json

A text is cut as GPT-2 does, with every digit a piece of its own, since sums are learned digit by
digit. Of pairs that are equally frequent the one that sorts first is merged, so the same rows give
the same file. The first ids are the special tokens, then the 256 bytes, then the merges."""
import collections
import heapq
import json
import re
import sys

SPECIAL = ("<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>",
           "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
# of GPT-2's pattern what ASCII needs; a corpus with other letters would want its classes
PIECE = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_letters():
    """The printable character that stands for each byte in a vocabulary."""
    same = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, n = {b: chr(b) for b in same}, 0
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + n)
            n += 1
    return letters


def texts(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if "messages" in row:
                for message in row["messages"]:
                    yield message["content"] or ""
                    for call in message.get("tool_calls", ()):
                        yield from called(call["function"])
                for tool in row.get("tools", ()):
                    yield from (tool["function"]["name"], *tool["function"]["parameters"]["properties"])
            else:
                yield row["prompt"]
                yield row["completion"]


def called(function):
    yield function["name"]
    for key, value in json.loads(function["arguments"]).items():
        yield from (key, str(value))


def count_pieces(path):
    letters, count = byte_letters(), collections.Counter()
    for text, n in collections.Counter(texts(path)).items():
        if not text.isascii():
            raise SystemExit(f"bpe: a text that is not ASCII: {text[:60]!r}")
        for piece in PIECE.findall(text):
            count[piece] += n
    bare, spaced = collections.Counter(), collections.Counter()
    for piece, n in count.items():
        is_spaced = piece[0] == " " and len(piece) > 1 and not piece.isspace()
        word = tuple(letters[b] for b in piece[is_spaced:].encode())
        bare[word] += n
        if is_spaced:
            spaced[word] += n
    return bare, spaced


def merged(word, pair):
    out, i = [], 0
    while i < len(word):
        if word[i:i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(words, n_merge):
    """Pairs are counted once; a merge changes the counts of the words that have it. In the heap each pair
    has its count, and some that it had before."""
    words = [[w, n] for w, n in sorted(words.items())]
    count, where = collections.Counter(), collections.defaultdict(set)
    for i, (w, n) in enumerate(words):
        for pair in zip(w, w[1:]):
            count[pair] += n
            where[pair].add(i)
    merges, heap = [], [(-n, pair) for pair, n in count.items()]
    heapq.heapify(heap)
    while len(merges) < n_merge and heap:
        most, best = heapq.heappop(heap)
        if count[best] != -most:
            continue
        if -most < 2:
            break
        merges.append(best)
        touched = set()
        for i in sorted(where.pop(best)):
            old, n = words[i]
            new = merged(old, best)
            for pair in zip(old, old[1:]):
                count[pair] -= n
                touched.add(pair)
            for pair in zip(new, new[1:]):
                count[pair] += n
                touched.add(pair)
                where[pair].add(i)
            words[i][0] = new
        for pair in touched:
            heapq.heappush(heap, (-count[pair], pair))
    return merges


def with_spaces(spaced, merges, n_more):
    """The merges of a space with the token behind it, for so many of those that stand there most."""
    rank, count = {pair: i for i, pair in enumerate(merges)}, collections.Counter()
    for word, n in spaced.items():
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: rank.get(pair, len(rank)))
            if best not in rank:
                break
            word = merged(word, best)
        count[word[0]] += n
    space = byte_letters()[ord(" ")]
    return [(space, token) for token, _ in sorted(count.items(), key=lambda x: (-x[1], x[0]))[:n_more]]


def tokenizer(merges):
    vocab = {t: i for i, t in enumerate(SPECIAL)}
    for _, letter in sorted(byte_letters().items()):
        vocab[letter] = len(vocab)
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    begin = {"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for i, t in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, level]},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}},
                                    {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0], "ids": [0],
                                                           "tokens": [SPECIAL[0]]}}},
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [[a, b] for a, b in merges]},
    }


def main():
    path, size, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    bare, spaced = count_pieces(path)
    n = size - len(SPECIAL) - 256
    merges = train(bare, n * 3 // 5)
    merges += with_spaces(spaced, merges, n - len(merges))
    with open(out, "w", encoding="utf-8") as f:
        json.dump(tokenizer(merges), f, ensure_ascii=False, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
