"""What each task of the pipeline reads, and the settings that decide its results."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.config.merge import parse_overrides
from rspo.config.names import JUDGE_SAMPLING
from rspo.config.schema import VerlSettings
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.pipeline import tasks
from rspo.pipeline.task import Task
from rspo.pipeline.verl_fingerprint import policy_settings
from tests.support import ROOT, copy_config

CELL = "small--rspo-pass--k4--n16--s0"
BLOCKS = {"evaluation": {"samples": 64, "block": 32}}


def load(scale: str = "tiny", *settings: str, **changes: Any) -> Experiment:
    return Experiment.load(scale, parse_overrides(settings) | changes, root=ROOT)


def names_of(inputs: list[tuple[Path, Task]]) -> list[str]:
    """The inputs below the folder of results; each comes with the task that writes it."""
    for path, task in inputs:
        assert path in task.outputs
    return ["/".join(path.relative_to(ROOT / "results").parts[1:]) for path, _ in inputs]


def test_a_training_reads_the_base_policy_and_the_problems() -> None:
    task = tasks.train(load(), CELL)
    assert names_of(list(task.inputs())) == [
        "cells/small--base/policy",
        "problems/train.parquet",
    ]
    assert tasks.log_input(load(), CELL) == (task.outputs[1], task)


def test_a_block_of_samples_is_read_with_the_problems_of_its_suite() -> None:
    experiment = load(**BLOCKS)
    problems = ["problems/linear_larger.parquet", "problems/divide_larger.parquet"]
    sample = tasks.sample(experiment, CELL, "contamination_free", 1)
    assert names_of(list(sample.inputs())) == [f"cells/{CELL}/policy"] + problems
    base = tasks.sample(experiment, "small--base", "contamination_free", 1)
    assert names_of(list(base.inputs()))[0] == "cells/small--base/policy"
    score = tasks.score(experiment, CELL, "contamination_free", 1)
    samples = f"cells/{CELL}/samples/contamination_free/1.parquet"
    assert names_of(list(score.inputs())) == [samples] + problems


def test_curves_read_the_scores_of_every_block() -> None:
    experiment = load(**BLOCKS)
    curves = tasks.curves(experiment, CELL, "standard")
    scores = [f"cells/{CELL}/scores/standard/{block}.parquet" for block in (0, 1)]
    assert names_of(list(curves.inputs())) == scores
    assert names_of(tasks.score_inputs(experiment, CELL, "standard")) == scores
    samples = [f"cells/{CELL}/samples/standard/{block}.parquet" for block in (0, 1)]
    assert names_of(tasks.scored_inputs(experiment, CELL, "standard")) == [
        samples[0],
        scores[0],
        samples[1],
        scores[1],
    ]


def test_the_results_of_an_experiment_are_its_data_policies_logs_scores_and_curves() -> None:
    grid = {name: None for name in load().config.grid if name not in ("main", "dropping")}
    spec = {"model": "small", "objective": "grpo", "n": 4}
    main = {"suite": "contamination_free", "seeds": 1, "cells": [spec]}
    dropping = {"cells": [spec | {"n": 8}]}
    experiment = load(grid=grid | {"main": main, "dropping": dropping})
    base = "cells/small--base"
    cell = "cells/small--grpo--k1--n4--s0"
    trained_only = "cells/small--grpo--k1--n8--s0"
    suite = "contamination_free"
    expected = [f"problems/{name}.parquet" for name in experiment.data_sets]
    expected += [f"{folder}/policy" for folder in (base, cell, trained_only)]
    expected += [f"{folder}/training.jsonl" for folder in (cell, trained_only)]
    for folder in (base, cell):
        expected.append(f"{folder}/samples/{suite}/0.parquet")
        expected.append(f"{folder}/scores/{suite}/0.parquet")
    curves = [f"{folder}/curves/{suite}.parquet" for folder in (base, cell)]
    assert names_of(tasks.results(experiment)) == expected + curves
    assert names_of(tasks.every_curve(experiment)) == curves


def test_only_what_a_judge_decides_reads_its_prompt_and_model() -> None:
    judged = load("paper", "verifier=xverify")
    cell = next(iter(judged.cells))
    files = ["judge/prompt.py", "judge/model"]
    assert names_of(tasks.judge_inputs(judged, "xverify")) == files
    assert names_of(list(tasks.train(judged, cell).inputs()))[2:] == files
    assert names_of(list(tasks.score(judged, cell, "standard", 0).inputs()))[-2:] == files
    served = load("paper", "verifier=xverify", "xverify.url=http://node1:8000")
    assert names_of(tasks.judge_inputs(served, "xverify")) == files[:1]
    assert tasks.judge_inputs(judged, "math_verify") == []
    with pytest.raises(InputError, match=r"^config/tiny\.yaml: has no section xverify"):
        tasks.fetch_judge(load())


def test_a_verdict_is_decided_by_the_version_of_the_rules_or_by_the_judge() -> None:
    config = load("paper", "verifier=xverify").config
    assert config.xverify is not None
    judge = config.xverify
    assert tasks.verifier_settings(None, "rules") == {"verifier": "rules", "rules": 6}
    assert tasks.verifier_settings(config, "math_verify") == {"verifier": "math_verify", "rules": 4}
    assert tasks.verifier_settings(config, "xverify") == {
        "verifier": "xverify",
        "xverify": {
            "prompt": judge.prompt.model_dump(),
            "model": judge.model,
            "revision": judge.revision,
            "sampling": JUDGE_SAMPLING,
        },
    }


def test_only_a_reward_by_length_has_a_discount() -> None:
    config = load("tiny", "rewards.length_discount=0.25").config
    assert tasks.reward_settings(config, "binary") == {}
    assert tasks.reward_settings(config, "length") == {"length_discount": 0.25}


GENERATED = {"families": ["linear"], "split": "test", "problems": 200}


def test_the_settings_of_generated_problems_are_their_section_and_the_generators_revision() -> None:
    assert tasks.source_settings(load(), "linear") == {
        "generated": GENERATED,
        "hub": None,
        "file": None,
        "generator": 2,
    }
    assert tasks.prepare(load(), "linear").settings == tasks.source_settings(load(), "linear")


def test_the_problems_of_a_benchmark_may_be_the_first_ones_only() -> None:
    experiment = load("tiny", "evaluation.problems=3")
    assert tasks.prepare(experiment, "linear").settings["first"] == 3
    for name in ("train", "validation"):
        assert "first" not in tasks.prepare(experiment, name).settings


def test_the_settings_of_a_hub_data_set_have_those_of_the_set_that_it_excludes() -> None:
    experiment = load("paper")
    settings = tasks.source_settings(experiment, "validation")
    hub = experiment.data_sets["validation"].hub
    assert hub is not None
    assert settings == {
        "generated": None,
        "hub": {
            "id": hub.id,
            "configs": list(hub.configs),
            "split": hub.split,
            "revision": hub.revision,
            "problem": hub.problem,
            "context": None,
            "answer": hub.answer,
            "answer_in": "box",
            "unit": None,
            "filter": None,
            "exclude": "math500",
        },
        "file": None,
        "excluded": tasks.source_settings(experiment, "math500"),
    }


def test_the_settings_of_a_file_have_its_columns_and_content(tmp_path: Path) -> None:
    copy_config(tmp_path)
    own = {"file": "mine.csv", "label": "Mine", "answer": "solution"}
    changes = {"data": {"suites": {"mine": {"mine": own}}}}
    experiment = Experiment.load("tiny", changes, root=tmp_path)
    with pytest.raises(InputError) as error:
        tasks.prepare(experiment, "mine")
    assert str(error.value) == (
        f"{tmp_path}/mine.csv: cannot be read (No such file or directory; "
        "config/tiny.yaml: data.suites.mine.mine.file)"
    )
    (tmp_path / "mine.csv").write_text("problem,solution\n1+1,2\n")
    assert tasks.source_settings(experiment, "mine") == {
        "generated": None,
        "hub": None,
        "file": "mine.csv",
        "problem": "problem",
        "context": None,
        "answer": "solution",
        "answer_in": "column",
        "unit": None,
        "filter": None,
        "exclude": None,
        "content": digest(tmp_path / "mine.csv"),
    }


def test_a_task_has_its_command_and_the_limit_of_the_config() -> None:
    experiment = load("tiny", "replace_above=3")
    task = tasks.fetch_judge(load("paper", "replace_above=null"))
    assert task.command == "rspo fetch-judge --scale paper --set=replace_above=null"
    assert task.replace_above is None
    task = tasks.sample(experiment, CELL, "standard", 0)
    assert task.command == f"rspo sample {CELL} standard 0 --set=replace_above=3"
    assert task.replace_above == 3
    assert task.configured is None


def test_long_lists_are_counted() -> None:
    first = tasks.counted("policies", ["a", "b"])
    assert first["policies"] == 2
    assert first == tasks.counted("policies", ("a", "b"))
    assert first["names"] != tasks.counted("policies", ["a", "c"])["names"]


def test_verl_keeps_the_device_and_the_keys_that_decide_a_policy() -> None:
    """Those of the command line override those of the model."""
    overrides = {"rollout": {"top_k": 5, "max_num_seqs": 8}, "trainer": {"logger": ["console"]}}
    verl = VerlSettings(device="cuda", ranks=8, overrides=overrides)
    of_model = {"rollout": {"top_k": 1, "top_p": 0.9}, "ray_kwargs": {"a": 1}, "empty": {}}
    assert policy_settings(verl, of_model) == {
        "device": "cuda",
        "overrides": {"rollout": {"top_k": 5, "top_p": 0.9}},
    }
