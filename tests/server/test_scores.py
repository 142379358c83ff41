#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/rerank, /v1/score and /v1/classify: rerankers of two kinds are held to the scores that
sentence-transformers' CrossEncoder gives (tests/golden/encoder/make_scores.py), a model of vectors to the
cosine of what it embeds, a classifier to its labels.

Faults they can catch: two texts put together otherwise than the model's files say, or cut otherwise; token
types that are lost; a score that depends on the others of its request; an order that is not of the scores;
a model that scores though it cannot; a field that is passed over.

Standard library only."""
import json
import math
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

GOLDEN = pathlib.Path("tests/golden")
PATHS = ("/v1/rerank", "/rerank", "/v2/rerank")


def model_of(tmp, name, tokenizer):
    folder = tmp / name
    shutil.copytree(GOLDEN / "encoder" / name, folder)
    want = json.loads((GOLDEN / "encoder" / f"{name}.scores.json").read_text(encoding="utf-8"))
    text = json.loads((GOLDEN / "tokenizer" / f"{tokenizer}.json").read_text(encoding="utf-8"))
    text["post_processor"]["pair"] = want["template"]
    (folder / "tokenizer.json").write_text(json.dumps(text), encoding="utf-8")
    return folder, want


def near(a, b):
    return abs(a - b) <= 1e-4 * max(1, abs(b))


def score(s, first, second, **more):
    r = s.post("/v1/score", {"model": "tiny", "text_1": first, "text_2": second, **more})
    assert r.status == 200, r
    assert [d["index"] for d in r.json["data"]] == list(range(len(r.json["data"]))), r
    return [d["score"] for d in r.json["data"]], r.json["usage"]["prompt_tokens"]


def as_reference(s, want):
    """Each pair alone, and all of them in one request: the reference's score, and the same bits."""
    first, second = zip(*want["pairs"])
    together, n_tok = score(s, list(first), list(second))
    assert n_tok == sum(want["tokens"]), (n_tok, want["tokens"])
    for pair, expected, n, got in zip(want["pairs"], want["scores"], want["tokens"], together):
        alone, count = score(s, *pair)
        assert near(alone[0], expected) and count == n, (pair, alone, expected, count, n)
        assert alone[0] == got, (pair, alone, got)


def ranks(s, want):
    query = want["pairs"][0][0]
    documents = [d for q, d in want["pairs"] if q == query]
    scores, _ = score(s, query, documents)
    order = sorted(range(len(documents)), key=lambda i: (-scores[i], i))
    for path in PATHS:
        r = s.post(path, {"model": "tiny", "query": query,
                          "documents": [{"text": d} if i % 2 else d for i, d in enumerate(documents)]}
                   if path == "/v1/rerank" else {"query": query, "documents": documents})
        assert r.status == 200 and r.json["model"] == "tiny", r
        assert [x["index"] for x in r.json["results"]] == order, (r, order)
        for x in r.json["results"]:
            assert x["relevance_score"] == scores[x["index"]] and x["document"]["text"] == documents[x["index"]], x
    r = s.post("/v1/rerank", {"query": query, "documents": documents, "top_n": 2, "return_documents": False})
    assert [x["index"] for x in r.json["results"]] == order[:2], r
    assert all("document" not in x for x in r.json["results"]), r


def cuts(s, want):
    query, document = want["pairs"][0][0], want["pairs"][4][1]
    r = s.post("/v1/rerank", {"query": query, "documents": [document, " ".join(document.split()[:3])],
                              "max_tokens_per_doc": 3})
    a, b = sorted(r.json["results"], key=lambda x: x["index"])
    assert a["relevance_score"] == b["relevance_score"], r
    whole, n_whole = score(s, query, document)
    less, n_less = score(s, query, document, truncate_prompt_tokens=20)
    assert n_less == 20 < n_whole and less != whole, (n_less, n_whole)
    assert score(s, query, document, truncate_prompt_tokens=-1) == (whole, n_whole)


def texts_stay_texts(s, marker):
    """Fault: a document that ends the query's text, or begins one of its own."""
    _, n = score(s, "a", "b")
    _, more = score(s, "a", f"{marker} b")
    assert more > n + 1, (n, more)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def bare(s, want, is_plain):
    pair = want["pairs"][0]
    shown, plain = score(s, *pair)[0][0], score(s, *pair, use_activation=False)[0][0]
    assert shown == plain if is_plain else near(shown, sigmoid(plain)) and shown != plain, (shown, plain)


def one_label_as_class(s):
    r = s.post("/v1/classify", {"input": ["keeper", "light"]})
    assert r.status == 200 and all(d["num_classes"] == len(d["probs"]) == 1 for d in r.json["data"]), r


def fails(s, path, param, **body):
    r = s.post(path, body)
    assert r.status == 400 and r.error["param"] == param, (path, body, r)
    return r.error["message"]


def refusals(s):
    fails(s, "/v1/rerank", "query", documents=["a"])
    fails(s, "/v1/rerank", "documents", query="a")
    fails(s, "/v1/rerank", "documents", query="a", documents=[])
    fails(s, "/v1/rerank", "documents", query="a", documents="b")
    fails(s, "/v1/rerank", "documents", query="a", documents=["b", 1])
    fails(s, "/v1/rerank", "documents", query="a", documents=[{"body": "b"}])
    fails(s, "/v1/rerank", "query", query=["a"], documents=["b"])
    fails(s, "/v1/rerank", "top_n", query="a", documents=["b"], top_n=-1)
    fails(s, "/v1/rerank", "rank_fields", query="a", documents=["b"], rank_fields=["title"])
    fails(s, "/v1/rerank", "add_special_tokens", query="a", documents=["b"], add_special_tokens=False)
    fails(s, "/v1/score", "text_1", text_1=["a", "b"], text_2=["a", "b", "c"])
    fails(s, "/v1/score", "queries", text_1="a", queries="b", text_2="c")
    fails(s, "/v1/score", "text_2", text_1="a")
    fails(s, "/v1/score", "truncation_side", text_1="a", text_2="b", truncation_side="left")
    assert "labels texts" in fails(s, "/v1/embeddings", "model", input="a")
    assert "labels texts" in fails(s, "/v1/completions", "model", prompt="a")
    r = s.post("/v1/score", {"queries": "a", "documents": ["b", "c"], "model": "other"})
    assert r.status == 404, r


def reranker(cases, tmp, name, tokenizer, is_plain):
    folder, want = model_of(tmp, name, tokenizer)
    with Tandem(folder, "--name", "tiny", "--quantize", "f32") as s:
        cases.run(f"{name}: scores", lambda: as_reference(s, want))
        cases.run(f"{name}: ranks", lambda: ranks(s, want))
        cases.run(f"{name}: cuts", lambda: cuts(s, want))
        cases.run(f"{name}: bare", lambda: bare(s, want, is_plain))
        cases.run(f"{name}: texts", lambda: texts_stay_texts(s, "[SEP]" if tokenizer == "bert" else "</s>"))
        cases.run(f"{name}: one label", lambda: one_label_as_class(s))
        cases.run(f"{name}: refusals", lambda: refusals(s))


def classes(tmp):
    folder = tmp / "classes"
    shutil.copytree(GOLDEN / "models" / "xlmr_label", folder)
    words = make_model(tmp / "words", "--family", "bert")
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, **{c: i + 4 for i, c in enumerate("abcdefg")}}
    shutil.copy(words / "tokenizer_config.json", folder)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}}))
    with Tandem(folder, "--name", "tiny") as s:
        r = s.post("/v1/classify", {"input": ["a b", "c d e", "a"]})
        assert r.status == 200 and r.json["usage"]["prompt_tokens"] == 6, r
        names = ["no", "yes", "maybe"]
        for d in r.json["data"]:
            assert d["num_classes"] == 3 and near(sum(d["probs"]), 1), d
            assert d["label"] == names[d["probs"].index(max(d["probs"]))], d
        alone = s.post("/classify", {"input": "c d e"}).json["data"][0]
        assert alone["probs"] == r.json["data"][1]["probs"], (alone, r)
        plain = s.post("/v1/classify", {"input": [4, 5], "use_activation": False}).json["data"][0]["probs"]
        most = [math.exp(x) for x in plain]
        assert all(near(x / sum(most), y) for x, y in zip(most, r.json["data"][0]["probs"])), (plain, r)
        assert "several labels" in fails(s, "/v1/score", "model", text_1="a", text_2="b")
        assert "several labels" in fails(s, "/v1/rerank", "model", query="a", documents=["b"])
        fails(s, "/v1/classify", "input")
        fails(s, "/v1/classify", "messages", input="a", messages=[{"role": "user", "content": "a"}])


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def by_vectors(tmp):
    folder = tmp / "bge_m3"
    shutil.copytree(GOLDEN / "encoder" / "bge_m3", folder)
    shutil.copy(GOLDEN / "tokenizer" / "xlmr.json", folder / "tokenizer.json")
    texts = ["the keeper", "the old light", "été"]
    with Tandem(folder, "--name", "tiny") as s:
        v = [d["embedding"] for d in s.post("/v1/embeddings", {"input": texts}).json["data"]]
        got, _ = score(s, texts[0], texts)
        assert all(near(x, cosine(v[0], y)) for x, y in zip(got, v)), got
        got, _ = score(s, texts, texts)
        assert all(near(x, 1) for x in got), got
        r = s.post("/v1/rerank", {"query": texts[0], "documents": texts[1:] + texts[:1]})
        assert r.json["results"][0]["index"] == 2, r
        fails(s, "/v1/rerank", "max_tokens_per_doc", query="a", documents=["b"], max_tokens_per_doc=4)
        fails(s, "/v1/classify", "model", input="a")


def writers(tmp):
    with Tandem(make_model(tmp / "writer", "--family", "llama")) as s:
        fails(s, "/v1/rerank", "model", query="a", documents=["b"])
        fails(s, "/v1/score", "model", text_1="a", text_2="b")
        fails(s, "/v1/classify", "model", input="a")


def main():
    cases = Cases()
    with scratch() as tmp:
        reranker(cases, tmp, "minilm_rank", "bert", True)
        reranker(cases, tmp, "bge_rank", "xlmr", False)
        cases.run("classes", lambda: classes(tmp))
        cases.run("by vectors", lambda: by_vectors(tmp))
        cases.run("writers", lambda: writers(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
