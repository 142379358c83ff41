#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""POST /v1/fine_tuning/alpha/graders/run and /validate, as a client of OpenAI's API meets them.

Faults they can catch: a sample that is worth something else than its grader says; a variable that is
not there and counts as empty; a grader that cannot be read, or is not here, and is taken; a field
that is wrong and not named.

Standard library only."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, scratch  # noqa: E402
from test_routes import Description  # noqa: E402
from test_tuning import KEYS, LOW, Client, serve  # noqa: E402

PATH = "/v1/fine_tuning/alpha/graders"
# What is tested here of server/http/routes.def: grader_run grader_validate.
# Of schema.def: GraderRunRequest is asked.
CHECK = {"type": "string_check", "name": "check", "input": "{{sample.output_text}}",
         "reference": "{{ item.answer }}", "operation": "eq"}
ALIKE = {"type": "text_similarity", "name": "alike", "input": "{{ sample.output_text }}",
         "reference": "{{item.answer}}", "evaluation_metric": "fuzzy_match"}
MULTI = {"type": "multi", "name": "both", "graders": {"same": CHECK, "alike": ALIKE},
         "calculate_output": "0.25 * same + 0.75 * alike"}


def run(c, grader, sample, item=None):
    r = c.ask("POST", f"{PATH}/run", {"grader": grader, "model_sample": sample, "item": item})
    assert r.status == 200, (grader, r)
    return r.json


def strings(c):
    item = {"answer": "Yes", "deep": {"list": [1, {"x": "Yes"}]}, "n": 7, "t": True}
    for operation, sample, reward in (
            ("eq", "Yes", 1), ("eq", "yes", 0), ("eq", "Yes ", 0), ("ne", "yes", 1), ("ne", "Yes", 0),
            ("like", "Oh Yes!", 1), ("like", "oh yes", 0), ("ilike", "oh YES", 1), ("ilike", "no", 0)):
        got = run(c, {**CHECK, "operation": operation}, sample, item)
        assert got["reward"] == reward, (operation, sample, got)
    for reference, sample in (("{{item.deep.list.1.x}}", "Yes"), ("a {{item.n}}-{{item.t}} b", "a 7-true b"),
                              ("{{item.deep}}", '{"list":[1,{"x":"Yes"}]}'), ("{ }} {", "{ }} {")):
        assert run(c, {**CHECK, "reference": reference}, sample, item)["reward"] == 1, reference
    for operation, sample, reward in (("like", "\0No, Yes", 1), ("eq", "Yes\0", 0), ("ilike", "\0\0\0", 0)):
        assert run(c, {**CHECK, "operation": operation}, sample, item)["reward"] == reward, sample
    said = {**CHECK, "input": "{{sample.output_json.a.0}}"}
    assert run(c, said, '{"a":["Yes"]}', item)["reward"] == 1


def alike(c):
    for metric, reward in (("fuzzy_match", 40 / 43), ("gleu", .5), ("rouge_1", 5 / 6), ("rouge_5", 0),
                           ("rouge_l", 5 / 6), ("bleu", 0.379917843)):
        got = run(c, {**ALIKE, "evaluation_metric": metric}, "the cat sat on the mat",
                  {"answer": "the cat is on the mat"})
        assert abs(got["reward"] - reward) < 1e-8, (metric, got)


def several(c):
    got = run(c, MULTI, "abcd", {"answer": "abcx"})
    assert got["sub_rewards"] == {"same": 0, "alike": .75} == got["metadata"]["scores"], got
    assert got["reward"] == .5625 and got["metadata"]["type"] == "multi", got
    assert run(c, MULTI, "abcx", {"answer": "abcx"})["reward"] == 1


def faults(c):
    """What cannot be graded is worth nothing, and says why."""
    item = {"answer": "a"}
    for grader, what in (({**CHECK, "reference": "{{item.none}}"}, "invalid_variable_error"),
                         ({**CHECK, "input": "{{sample.output_json.a}}"}, "sample_parse_error"),
                         ({**MULTI, "calculate_output": "log(same) - 1"}, "other_error"),
                         ({**MULTI, "graders": {"same": {**CHECK, "reference": "{{item.none}}"}},
                           "calculate_output": "same + 1"}, "invalid_variable_error")):
        got = run(c, grader, "b", item)
        errors = got["metadata"]["errors"]
        assert got["reward"] == 0 and errors[what] is True and errors["x_details"], (grader, got)
        assert sum(v is True for v in errors.values()) == 1, got
    assert run(c, CHECK, "b")["metadata"]["errors"]["invalid_variable_error"]
    got = run(c, ALIKE, "b" * 60000, {"answer": "c" * 60000})
    assert got["metadata"]["errors"]["other_error"] and "too long" in got["metadata"]["errors"]["x_details"]


def refused(c, low):
    sub = {"graders": {"x": CHECK}, "calculate_output": "x"}
    multi = {"type": "multi", "name": "m"}
    for grader, where in (
            (None, ""), ("x", ""), ([], ""), ({}, ".type"), ({**CHECK, "type": 1}, ".type"),
            ({**CHECK, "type": "other"}, ".type"), ({**CHECK, "type": "python"}, ".input"),
            ({**CHECK, "type": "label_model"}, ".reference"), ({**CHECK, "type": "score_model"}, ".reference"),
            ({**CHECK, "type": "endpoint"}, ".input"), ({**CHECK, "name": ""}, ".name"),
            ({**CHECK, "name": "x" * 65}, ".name"), ({**CHECK, "operation": "equals"}, ".operation"),
            ({**CHECK, "operation": None}, ".operation"), ({**CHECK, "input": 7}, ".input"),
            ({**CHECK, "input": "{{item.a"}, ".input"), ({**CHECK, "input": "{{}}"}, ".input"),
            ({**CHECK, "input": "{{item}}"}, ".input"), ({**CHECK, "input": "{{item..a}}"}, ".input"),
            ({**CHECK, "input": "{{other.a}}"}, ".input"),
            ({**CHECK, "input": "{{sample.output_tools}}"}, ".input"),
            ({**CHECK, "input": "{{item" + ".a" * 17 + "}}"}, ".input"),
            ({**CHECK, "referense": "a"}, ".referense"), ({**ALIKE, "operation": "eq"}, ".operation"),
            ({**ALIKE, "evaluation_metric": "meteor"}, ".evaluation_metric"),
            ({**ALIKE, "evaluation_metric": "cosine"}, ".evaluation_metric"),
            ({**multi}, ".graders"), ({**multi, **sub, "graders": [CHECK]}, ".graders"),
            ({**multi, **sub, "graders": {}}, ".graders"), ({**multi, "graders": {"x": CHECK}}, ".calculate_output"),
            ({**multi, **sub, "graders": {"x y": CHECK}}, ".graders"),
            ({**multi, **sub, "graders": {"x": {**CHECK, "operation": 1}}}, ".graders.x.operation"),
            ({**multi, **sub, "graders": {"x": MULTI}}, ".graders.x.type"),
            ({**multi, **sub, "graders": {f"x{i}": CHECK for i in range(17)}}, ".graders"),
            ({**multi, **sub, "calculate_output": "x +"}, ".calculate_output"),
            ({**multi, **sub, "calculate_output": "y"}, ".calculate_output"),
            ({**multi, **sub, "calculate_output": 1}, ".calculate_output")):
        for path in ("run", "validate"):
            r = c.ask("POST", f"{PATH}/{path}", {"grader": grader, "model_sample": "a"})
            assert r.status == 400 and r.error["param"] == "grader" + where, (grader, r)
    for body, param in (({}, "grader"), ({"grader": CHECK}, "model_sample"),
                        ({"grader": CHECK, "model_sample": 1}, "model_sample"),
                        ({"grader": CHECK, "model_sample": "a", "item": []}, "item")):
        r = c.ask("POST", f"{PATH}/run", body)
        assert r.status == 400 and r.error["param"] == param, (body, r)
    assert low.ask("POST", f"{PATH}/run", {}).status == 403


def fits(c):
    api = Description(c.get("/openapi.json").json)
    api.check(run(c, MULTI, "a", {"answer": "b"}), {"$ref": "#/components/schemas/GraderRun"})
    for grader in (CHECK, ALIKE, MULTI):
        r = c.ask("POST", f"{PATH}/validate", {"grader": grader})
        assert r.status == 200 and r.json == {"grader": grader}, r
        api.check(r.json, {"$ref": "#/components/schemas/GraderRequest"})
    assert api.met == {"Grader", "GraderRequest", "GraderRun", "GraderRunMetadata"}, api.met


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with serve(tmp) as s:
            c = Client(s)
            cases.run("strings", lambda: strings(c))
            cases.run("likeness", lambda: alike(c))
            cases.run("several", lambda: several(c))
            cases.run("faults", lambda: faults(c))
            cases.run("refused", lambda: refused(c, Client(s, LOW)))
            cases.run("answers fit", lambda: fits(c))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
