"""Files of other tools: every layout gives the same verdicts as rows of one's own."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rspo.cli import main
from rspo.core.errors import InputError
from rspo.evaluation.read_outcomes import read_run
from rspo.formats.layouts import LAYOUTS
from rspo.formats.paths import parsed, reach, text_of
from rspo.formats.source import Reading, all_files, open_source
from tests.support import response_files
from tests.support.response_files import CORRECT, PROBLEMS, WITH_ANSWERS, WITH_VERDICTS, write_lines

Write = Callable[[Path], list[Path]]
Line = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path()


def verify(*words: object) -> list[Line]:
    assert main(["verify", *map(str, words), "--output=out.jsonl", "--force"]) == 0
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def verdict_counts(rows: list[Line]) -> Counter[tuple[str, str, bool]]:
    return Counter((row["problem"], row["response"], row["correct"]) for row in rows)


EXPECTED: Counter[tuple[str, str, bool]] = Counter()
for (PROBLEM, _, TEXTS), VERDICTS in zip(PROBLEMS, CORRECT, strict=True):
    for TEXT, VERDICT in zip(TEXTS, VERDICTS, strict=True):
        EXPECTED[PROBLEM, TEXT or "", VERDICT] += 1


def name_of(value: object) -> str:
    """The name of a parameter: of a function, or the text itself."""
    return getattr(value, "__name__", str(value))


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "name"), WITH_ANSWERS, ids=name_of)
def test_each_layout_is_verified_without_an_option(
    folder: Path, write: Write, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = verify(*write(folder))
    assert verdict_counts(rows) == EXPECTED
    assert {row["reason"] for row in rows if not row["response"]} == {"no answer"}
    output = capsys.readouterr().out
    read_as = re.findall(r": read as (\S+) \(--format names another layout\)", output)
    assert read_as == [name] * bool(name)
    assert "verdicts: 3 correct, 2 no answer, 1 incorrect" in output
    assert "no answer: 33.3% of the responses have none" in output


def test_the_name_of_the_format_may_be_stated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = response_files.qwen_math(folder)
    assert verdict_counts(verify(path, "--format=qwen-math")) == EXPECTED
    capsys.readouterr()
    message = refused(capsys, "verify", path, "--format=qwen")
    assert "no format 'qwen'; did you mean qwen-math? Allowed: plain, lm-eval" in message
    message = refused(capsys, "verify", path, "--format=lm-eval")
    assert "test_qwen.jsonl, line 1: is not in the format lm-eval, which has doc_id, doc" in message
    message = refused(capsys, "verify", path, "--format=plain")
    assert "the key 'problem' is missing; has idx, question" in message


def test_one_filter_of_lm_eval_is_read_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = response_files.lm_eval(folder)
    verify(path)
    note = "; one of 2 filters, strict; another: --format lm-eval:flexible\n"
    assert note in capsys.readouterr().out
    verify(path, "--format=lm-eval:flexible")
    assert "one of 2 filters, flexible; another: --format lm-eval:strict" in capsys.readouterr().out
    assert "no filter 'loose'; allowed: strict" in refused(
        capsys, "verify", path, "--format=lm-eval:loose"
    )


def test_the_list_of_targets_that_lm_eval_writes_as_a_text_has_accepted_forms(
    folder: Path,
) -> None:
    row = {"doc_id": 0, "doc": {"question": "a"}, "resps": [[r"\boxed{5}"]], "filter": "none"}
    targets = ["['5', 'five']", "[4, 5]"]  # a list of texts, and an interval
    rows = [row | {"doc": {"question": text}, "target": text} for text in targets]
    write_lines(folder / "samples.jsonl", rows)
    verified = verify("samples.jsonl")
    assert [line["answer"] for line in verified] == [["5", "five"], "[4, 5]"]
    assert [line["correct"] for line in verified] == [True, False]


def test_samples_of_inspect_ai_that_failed_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = response_files.inspect_samples()
    samples[0] |= {"output": {}, "error": {"message": "lost"}, "scores": None}
    Path("log.json").write_text(json.dumps({"eval": {}, "samples": samples}))
    verify("log.json")
    assert "; 1 of 6 samples ended with an error\n" in capsys.readouterr().out


@pytest.mark.parametrize(("write", "name"), WITH_VERDICTS, ids=name_of)
def test_the_verdicts_of_a_file_are_read(folder: Path, write: Write, name: str) -> None:
    run = read_run(write(folder))
    assert sorted(run.outcomes.correct.tolist()) == sorted(CORRECT)
    assert f": read as {name} " in run.lines[0]


def test_two_verdicts_of_a_file_can_both_be_read(folder: Path) -> None:
    (path,) = response_files.evalplus(folder)
    assert read_run([path], Reading(correct="base_status")).outcomes.correct.all()
    samples = response_files.inspect_samples()
    for sample in samples:
        sample["scores"]["judge"] = {"value": 1}
    log = Path("two.json")
    log.write_text(json.dumps({"eval": {}, "samples": samples}))
    run = read_run([log])  # the verifier decides between the scorers
    assert "2 scorers, whose verdicts are read with --correct-column scores.match" in run.lines[0]
    assert sorted(run.outcomes.correct.tolist()) == sorted(CORRECT)
    assert read_run([log], Reading(correct="scores.judge.value")).outcomes.correct.all()


def test_files_without_verdicts_are_verified_when_they_are_compared(folder: Path) -> None:
    (path,) = response_files.lm_eval(folder)
    run = read_run([path])
    assert run.outcomes.correct.tolist() == CORRECT
    assert "verified with rules; 33.3% of the responses have no answer" in run.lines[1]
    (path,) = response_files.qwen_math(folder)
    text = path.read_text().replace("true", "false")
    path.write_text(text)
    assert not read_run([path]).outcomes.correct.any()  # the verdicts of the file
    assert read_run([path], verifier="rules").outcomes.correct.tolist() == CORRECT


def test_the_files_of_a_run_are_verified_together(folder: Path) -> None:
    """Two seeds with the same responses are found; the share of answers is that of all files."""
    paths = response_files.nemo_skills(folder)
    paths[1].write_text(paths[0].read_text())
    paths[2].write_text(paths[0].read_text())
    run = read_run(paths, verifier="rules")
    assert run.outcomes.correct.tolist() == [[True] * 3, [True] * 3]
    assert run.lines[1] == (
        "output-rs0.jsonl and 2 more: verified with rules; 0.0% of the responses have no answer"
    )
    assert "warning: all responses to each problem are equal" in run.lines[2]


def test_a_file_without_answers_says_what_reads_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = response_files.human_eval(folder)
    message = refused(capsys, "verify", path)
    assert "has verdicts (passed) and no answers; `rspo pass-at-k` reads the verdicts" in message
    row = {"input": "a", "output": r"\boxed{5}", "step": 1}
    write_lines(folder / "6.jsonl", [row | {"score": 0.5, "gts": None}])
    assert "6.jsonl, line 1: 'gts' is null; expected text, number" in refused(
        capsys, "verify", "6.jsonl"
    )
    write_lines(folder / "6.jsonl", [row | {"gts": "5", "score": -1}])
    message = refused(capsys, "pass-at-k", "6.jsonl")
    assert "'score' is -1; expected true or false, or 1 or 0 (--verifier rules verifies" in message
    assert main(["pass-at-k", "6.jsonl", "--verifier=rules"]) == 0


def test_a_verdict_that_was_not_given_yet_is_none(folder: Path) -> None:
    paths = response_files.nemo_skills(folder)
    for path in paths:
        text = path.read_text().replace("true", "null").replace("false", "null")
        path.write_text(text)
    run = read_run(paths)
    assert run.verifiers == ("rules",)
    assert sorted(run.outcomes.correct.tolist()) == sorted(CORRECT)


def test_the_files_in_the_shared_folder_are_read_without_an_option(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """8 of 12 responses are right; the human-eval file has 6 of 12 verdicts that are true."""
    examples = shared / "examples" / "response_files"
    if not examples.is_dir() and not os.environ.get("CI"):
        pytest.skip(f"{examples} is not here")
    seeds = sorted(examples.glob("output-rs*.jsonl"))
    (programs,) = examples.glob("*_results.jsonl")
    single = [
        path
        for path in sorted(examples.iterdir())
        if path.suffix != ".md" and path not in [*seeds, programs]
    ]
    assert len(single) == 9
    for paths in [[path] for path in single] + [seeds]:
        rows = verify(*paths)
        assert (len(rows), sum(row["correct"] for row in rows)) == (12, 8), paths
    outcomes = read_run([programs]).outcomes
    assert (outcomes.responses.sum(), outcomes.counts.sum()) == (12, 6)


def test_the_rows_may_be_a_list_in_a_document(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("results.json").write_text(
        json.dumps({"model": "m", "tags": ["a"], "results": response_files.plain_rows()})
    )
    assert verdict_counts(verify("results.json")) == EXPECTED
    assert "read as plain (--format names another layout); the rows are those of 'results'" in (
        capsys.readouterr().out
    )
    row = {"problem": "a", "answer": "5", "response": r"\boxed{5}", "steps": [{"n": 1}]}
    Path("results.json").write_text(json.dumps(row))
    assert [line["correct"] for line in verify("results.json")] == [True]
    capsys.readouterr()
    message = refused(capsys, "verify", "results.json", "--format=verl:5")
    assert "is not in the format verl" in message
    (path,) = response_files.verl(folder)
    assert "verl has no part to choose" in refused(capsys, "verify", path, "--format=verl:5")


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "lighteval",
            [{"full_prompt": "a", "gold": ["5"], "predictions": ["x"]}] + [{"gold": "5"}],
        ),
        ("evalplus", [{"eval": {"a": None}, "hash": "h"}]),
        ("inspect_ai", [{"eval": {}, "samples": [{"input": "a", "output": {"choices": [0]}}]}]),
    ],
)
def test_a_row_that_the_tool_would_not_write_is_one_line(
    folder: Path, name: str, rows: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(folder / "broken.jsonl", rows)
    for command in ("verify", "pass-at-k"):
        message = refused(capsys, command, "broken.jsonl")
        assert f"broken.jsonl: a row is not as {name} writes it (" in message


# --- columns that reach in ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.b", 1),
        ("a.c.0", "x"),
        ("a.c.-1", "y"),
        ("list.t", ["p", "q"]),
        ("list.1.t", "q"),
        ("dotted.key", 2),
        ("metric.pass@1.5", 3),
        ("null.on.the.way", None),
        ("a.c.*", ["x", "y"]),
        ("list.*.t", ["p", "q"]),
        ("json.0", "5"),
        ("json.*", ["5"]),
        ("python.0", "5"),
        ("json_struct.gold", 7),
    ],
)
def test_a_path_reaches_into_values(path: str, expected: Any) -> None:
    values = {
        "a": {"b": 1, "c": ["x", "y"]},
        "list": [{"t": "p"}, {"t": "q"}],
        "dotted.key": 2,
        "metric": {"pass@1.5": 3},
        "null": None,
        "json": '["5"]',
        "python": "['5']",
        "json_struct": '{"gold": 7}',
    }
    assert reach(values, path) == expected


@pytest.mark.parametrize("path", ["b", "a.d", "a.c.2", "a.b.e", "text.0"])
def test_a_path_to_nothing_is_an_error(path: str) -> None:
    with pytest.raises(KeyError):
        reach({"a": {"b": 1, "c": ["x"]}, "text": "[not a list"}, path)


def test_texts_that_only_look_like_lists_stay_texts() -> None:
    assert parsed("[0, 1)") == "[0, 1)"
    assert parsed("x") == "x"
    assert (
        text_of([{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]) is None
    )
    assert text_of({"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}) == "ab"


def test_columns_reach_into_the_replies_of_an_api_and_answers_are_joined_by_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `vllm run-batch` and OpenAI's batches write them, without the problem and the answer."""
    rows: list[Line] = []
    for place, (_, _, texts) in enumerate(PROBLEMS):
        choices = [{"message": {"role": "assistant", "content": text}} for text in texts]
        rows.append({"custom_id": place, "response": {"body": {"choices": choices}}})
    rows.append({"custom_id": 1, "response": None, "error": "too long"})
    write_lines(folder / "batch.jsonl", rows)
    gold = [{"id": i, "problem": p, "gold": a} for i, (p, a, _) in enumerate(PROBLEMS)]
    gold.append({"id": 9, "problem": "unused", "gold": "0"})
    write_lines(folder / "gold.jsonl", gold)
    column = "--response-column=response.body.choices.message"
    verified = verify("batch.jsonl", column, "--answers=gold.jsonl")
    assert [row["correct"] for row in verified] == [*CORRECT[0], *CORRECT[1], False]
    assert [row["problem"] for row in verified] == ["0"] * 3 + ["1"] * 4
    assert {row["question"] for row in verified} == {problem for problem, *_ in PROBLEMS}
    assert read_run([Path("out.jsonl")]).outcomes.ids == ("0", "1")
    write_lines(folder / "gold.jsonl", gold[1:])
    capsys.readouterr()
    message = refused(capsys, "verify", "batch.jsonl", column, "--answers=gold.jsonl")
    assert "batch.jsonl, line 1: gold.jsonl has no answer for '0'; it has those for '1'" in message


def test_responses_are_grouped_by_an_id_on_request(folder: Path) -> None:
    rows = [
        {"id": number, "problem": "Same text?", "answer": str(number), "response": r"\boxed{1}"}
        for number in (1, 2)
    ]
    write_lines(folder / "ids.jsonl", rows)
    verified = verify("ids.jsonl", "--problem-column=id")
    assert [(row["problem"], row["question"], row["correct"]) for row in verified] == [
        ("1", "Same text?", True),
        ("2", "Same text?", False),
    ]


def test_a_second_answer_names_the_option_that_groups_by_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": n, "problem": "a", "answer": str(n), "response": "x"} for n in (1, 2)]
    write_lines(folder / "ids.jsonl", rows)
    message = refused(capsys, "verify", "ids.jsonl")
    assert "the answer '2' differs from '1', given before for the same problem" in message
    assert "(--problem-column id groups responses by id)" in message


def test_a_verdict_column_takes_the_place_of_answers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": i, "checks": {"ok": verdicts}} for i, verdicts in enumerate(CORRECT)]
    write_lines(folder / "mine.jsonl", rows)
    reading = Reading(problem="id", correct="checks.ok")
    assert read_run([Path("mine.jsonl")], reading).outcomes.correct.tolist() == CORRECT
    pd.DataFrame({"task": ["a", "a", "b"], "ok": ["True", "0", "pass"]}).to_csv("mine.csv")
    outcomes = read_run([Path("mine.csv")], Reading(problem="task", correct="ok")).outcomes
    assert outcomes.counts.tolist() == [1, 1]
    write_lines(folder / "mine.jsonl", [{"problem": "a", "correct": [True, None]}])
    with pytest.raises(InputError, match="true or false, or 1 or 0 for each response"):
        read_run([Path("mine.jsonl")])
    write_lines(folder / "mine.jsonl", [{"problem": "a", "correct": [True], "reward": [1, 2]}])
    with pytest.raises(InputError, match="expected 1 numbers, one for each verdict"):
        read_run([Path("mine.jsonl")])


def test_a_file_that_is_named_twice_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = response_files.nemo_skills(folder)
    message = refused(capsys, "verify", *paths, "./output-rs0.jsonl")
    assert "output-rs0.jsonl: is named twice; its responses would count twice" in message
    assert all_files([Path("output-rs*.jsonl")]) == paths
    assert "no*.jsonl: no such file" in refused(capsys, "verify", "no*.jsonl")


def test_the_verdicts_of_several_files_are_named_after_what_their_names_share(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = response_files.nemo_skills(folder)
    assert main(["verify", *map(str, paths)]) == 0
    verdicts = Path("output-rs.verdicts.jsonl")
    written = verdicts.read_text()
    # The pattern matches the verdicts, too.
    for words in (
        ["verify", "output-rs*.jsonl"],
        ["compare", "output-rs*.jsonl", "output-rs?*.jsonl"],
    ):
        capsys.readouterr()
        assert main(words) == 0
        output = capsys.readouterr().out
        assert f"left out: {verdicts}, which `rspo verify` wrote" in output
        assert verdicts.read_text() == written


def test_the_verdicts_of_a_file_are_compared_with_those_of_the_verifier(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = response_files.qwen_math(folder)
    path.write_text(path.read_text().replace("[true, false, true]", "[false, false, true]"))
    rows = verify(path)
    assert [row["correct_in_file"] for row in rows] == [True, False, False, False, False, True]
    output = capsys.readouterr().out
    assert (
        "A: the verdicts of the file, 33.3% correct; B: rules; they agree on 83.3% of 6 responses, "
        "kappa 0.667" in output
    )
    assert "they differ on 1 response, such as:" in output
    assert 'only B accepts "\\boxed{2.5}" for \\frac{5}{2}  "Halve 5."' in output
    own = [{"problem": "a", "answer": "5", "response": r"\boxed{5}", "correct": 0, "mine": 1}]
    write_lines(folder / "own.jsonl", own)
    assert "correct_in_file" not in verify("own.jsonl")[0]
    assert verify("own.jsonl", "--correct-column=mine")[0]["correct_in_file"] is True
    write_lines(folder / "own.jsonl", [own[0] | {"mine": [True, False]}])
    capsys.readouterr()
    message = refused(capsys, "verify", "own.jsonl", "--correct-column=mine")
    assert "expected 1 verdicts, one for each response" in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[1]", "a.json, item 1: expected a JSON object, got 1"),
        ("a.jsonl", "[{}, \n", "a.jsonl, line 2: not JSON ("),
        ("a.json", '{"problem": 1,\n', "a.json, line 1: not JSON ("),
        ("a.eval", "text", "a.eval: not a complete zip file ("),
        ("a.json", "[]", "a.json: has no rows; at least one response is needed"),
    ],
)
def test_broken_files_are_one_line(
    folder: Path, name: str, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text(content)
    assert message in refused(capsys, "verify", name)


def test_every_layout_is_recognised_by_its_own_keys(folder: Path) -> None:
    """No file fits two layouts, except that rows of one's own may have further keys."""
    for write, name in WITH_ANSWERS + WITH_VERDICTS:
        source = open_source(write(folder)[0], Reading())
        assert source.layout.name == (name or "plain")
    assert {name for _, name in WITH_ANSWERS + WITH_VERDICTS} - {""} == set(LAYOUTS) - {"plain"}
    assert np.array(CORRECT).shape == (2, 3)
