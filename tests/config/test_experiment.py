"""What an experiment says of its cells, files and commands."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Cell, Experiment
from rspo.config.files import Files
from rspo.core.errors import InputError
from tests.support import ROOT

CELL = "small--rspo-pass--k4--n16--s0"
FIRST = CELL
SECOND = CELL.replace("s0", "s1")
OTHER = "small--grpo--k1--n16--s0"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.load("tiny", {"seeds": 2}, root=ROOT)


def test_the_files_of_a_scale_are_below_its_root(experiment: Experiment) -> None:
    files = experiment.files
    results = ROOT / "results" / "tiny"
    folder = results / "cells" / CELL
    assert (files.results, files.reports) == (results, ROOT / "reports")
    assert not files.are_elsewhere
    assert files.problems("train") == results / "problems" / "train.parquet"
    assert files.folder(CELL) == folder
    assert files.policy(CELL) == folder / "policy"
    assert files.training_log(CELL) == folder / "training.jsonl"
    assert files.checkpoint(CELL) == folder / "checkpoint"
    assert files.samples(CELL, "standard", 3) == folder / "samples" / "standard" / "3.parquet"
    assert files.scores(CELL, "standard", 3) == folder / "scores" / "standard" / "3.parquet"
    assert files.verdicts(CELL, "standard.0") == folder / "verdicts" / "standard.0.jsonl"
    assert files.curves(CELL, "standard") == folder / "curves" / "standard.parquet"
    assert files.table("cost") == results / "tables" / "cost.csv"
    assert files.judge_prompt == results / "judge" / "prompt.py"
    assert files.judge_model == results / "judge" / "model"


def test_another_folder_of_results_has_the_reports_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = Files.of_scale("tiny", Path(), Path("trial"))
    assert (files.results, files.reports) == (Path("trial"), Path("trial/reports"))
    assert files.are_elsewhere
    own = tmp_path / "results" / "tiny"
    assert Files.of_scale("tiny", Path(), own) == Files(Path("results/tiny"), Path("reports"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Files.of_scale("tiny", Path(), Path("~/trial")).results == tmp_path / "trial"
    assert not Files.of_scale("tiny", Path(), Path("~/results/tiny")).are_elsewhere


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / ".hidden").touch()
    Files.of_scale("tiny", tmp_path, folder)
    (folder / "notes.txt").touch()
    (folder / "zebra.txt").touch()
    expected = "expected a folder of results, or a new one"
    with pytest.raises(InputError) as error:
        Files.of_scale("tiny", tmp_path, folder)
    assert str(error.value) == f"--results {folder}: has notes.txt; {expected}"
    for name in ("cells", "problems"):
        (folder / name).mkdir()
        Files.of_scale("tiny", tmp_path, folder)  # results, beside which there are notes
        (folder / name).rmdir()
    (folder / "tables").mkdir()
    with pytest.raises(InputError, match=r"has notes\.txt"):
        Files.of_scale("tiny", tmp_path, folder)
    with pytest.raises(InputError) as error:
        Files.of_scale("tiny", tmp_path, folder / "notes.txt")
    assert str(error.value) == f"--results {folder}/notes.txt: is a file; {expected}"


def test_the_tables_of_an_evaluation_are_one_for_each_block() -> None:
    changes = {"evaluation": {"samples": 64, "block": 32}}
    experiment = Experiment.load("tiny", changes, root=ROOT)
    files = experiment.files
    assert experiment.sample_files(CELL, "standard") == [
        files.samples(CELL, "standard", block) for block in (0, 1)
    ]
    assert experiment.score_files(CELL, "standard") == [
        files.scores(CELL, "standard", block) for block in (0, 1)
    ]


def test_a_block_exists_if_the_grid_or_a_study_has_it() -> None:
    studies = Experiment.load("tiny", root=ROOT).config.studies
    samples = {name: {"samples": None} for name in studies}
    samples["peers"] = {"samples": 128}
    evaluation = {"samples": 64, "block": 32}
    changes: dict[str, Any] = {"evaluation": evaluation, "studies": samples}
    experiment = Experiment.load("tiny", changes, root=ROOT)
    of_peers = experiment.cells_of("peers")[0].name
    for policy, most in ((of_peers, 3), ("medium--base", 1)):
        experiment.require_block(policy, "standard", 0)
        experiment.require_block(policy, "standard", most)
        for block in (most + 1, -1):
            with pytest.raises(InputError) as error:
                experiment.require_block(policy, "standard", block)
            assert str(error.value) == (
                f"no block {block}: config/tiny.yaml evaluates {policy} on standard with "
                f"{32 * (most + 1)} samples, which are the blocks 0 to {most}"
            )
    # The study evaluates on another suite.
    with pytest.raises(InputError, match="which are the blocks 0 to 1"):
        experiment.require_block(of_peers, "contamination_free", 3)


def test_a_study_may_have_its_own_samples_and_k() -> None:
    own = {"samples": 128, "k": [1, 2]}
    studies = {"peers": own | {"contrasts": [{"family": "all", "minus": "base"}], "frontier": None}}
    experiment = Experiment.load("tiny", {"studies": studies}, root=ROOT)
    evaluation = experiment.of_study("peers").config.evaluation
    assert (evaluation.samples, evaluation.k) == (128, (1, 2))
    others = {"samples", "k"}
    rest = experiment.config.evaluation.model_dump(exclude=others)
    assert evaluation.model_dump(exclude=others) == rest


def test_a_study_whose_samples_do_not_fit_the_evaluation_is_named() -> None:
    studies = {"peers": {"samples": 100}}
    experiment = Experiment.load("tiny", {"studies": studies}, root=ROOT)
    with pytest.raises(
        InputError, match=r"^config/studies/tiny\.yaml: studies\.peers: block = \d+ must"
    ):
        experiment.of_study("peers")


def test_the_cells_of_an_entry_are_all_combinations_in_order() -> None:
    spec = {"model": "small", "objective": "hitchhiking", "k": [2, 4], "n": [4, 8]}
    grid = {"mine": {"suite": "standard", "seeds": 2, "cells": [spec | {"reward": "length"}]}}
    experiment = Experiment.load("tiny", {"grid": grid}, root=ROOT)
    assert experiment.cells_of("mine") == [
        Cell("small", "hitchhiking", k, n, "length", seed)
        for k, n in ((2, 4), (2, 8), (4, 4), (4, 8))
        for seed in (0, 1)
    ]


@pytest.mark.parametrize(("seeds", "of_entry", "count"), [(1, 3, 3), (3, 1, 3), (2, 2, 2)])
def test_an_entry_has_the_larger_number_of_seeds(seeds: int, of_entry: int, count: int) -> None:
    changes = {"seeds": seeds, "grid": {"grpo": {"seeds": of_entry}}}
    experiment = Experiment.load("tiny", changes, root=ROOT)
    assert [cell.seed for cell in experiment.cells_of("grpo")] == list(range(count))


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([], ""),
        (["small--base"], ""),
        (["small--base", FIRST], "1 seed"),
        ([FIRST, SECOND], "2 seeds"),
        ([FIRST, SECOND, FIRST, OTHER], "1 to 2 seeds"),
    ],
)
def test_the_seeds_of_policies_are_those_of_each_method(
    experiment: Experiment, policies: list[str], words: str
) -> None:
    assert experiment.seeds_of(policies) == words


def test_a_method_is_a_cell_without_its_seed(experiment: Experiment) -> None:
    methods = experiment.by_method(["small--base", SECOND, OTHER, FIRST])
    assert {cell.name: names for cell, names in methods.items()} == {
        FIRST: [SECOND, FIRST],
        OTHER: [OTHER],
    }


def test_a_cell_that_does_not_exist_is_refused_with_similar_names(experiment: Experiment) -> None:
    with pytest.raises(InputError) as error:
        experiment.cell("small--rspo-pass--k4--n16")
    assert str(error.value).startswith(
        "no cell 'small--rspo-pass--k4--n16' in config/tiny.yaml; `rspo status` lists all; "
        "similar: small--rspo-pass--k4--n16--s"
    )
    with pytest.raises(InputError, match=r"; similar: none$"):
        experiment.cell("xyz")
    with pytest.raises(InputError) as error:
        experiment.cell("small--rspo-pass--k4--n16--s7")
    assert str(error.value) == (
        "no cell 'small--rspo-pass--k4--n16--s7': config/tiny.yaml has fewer seeds; "
        "--set seeds=8 adds seeds to every cell"
    )
    with pytest.raises(InputError) as error:
        experiment.cell("small--rspo-pass--k4--n16--s00")
    assert str(error.value) == (
        "no cell 'small--rspo-pass--k4--n16--s00': did you mean small--rspo-pass--k4--n16--s0?"
    )


def test_a_base_policy_is_no_cell_and_similar_cells_are_no_base_policies(
    experiment: Experiment,
) -> None:
    with pytest.raises(InputError) as error:
        experiment.cell("small--base")
    command = experiment.command("pretrain", "small")  # with the options of this experiment
    assert command.startswith("rspo pretrain small --set=")
    assert str(error.value) == f"small--base is a base policy; `{command}` makes it"
    with pytest.raises(InputError) as error:
        experiment.cell("smal--base")
    assert "--base" not in str(error.value).partition("similar: ")[2]
    with pytest.raises(InputError, match="similar: small--base"):
        experiment.model_of("smal--base")


def test_only_the_limit_of_replacing_is_lifted(experiment: Experiment) -> None:
    lifted = experiment.replacing()
    assert experiment.config.replace_above == 10
    assert lifted.config.replace_above is None
    rest = {"replace_above"}
    assert lifted.config.model_dump(exclude=rest) == experiment.config.model_dump(exclude=rest)


def test_the_parts_of_a_config_are_found_by_name(experiment: Experiment) -> None:
    assert experiment.model_of(CELL) == experiment.model_of("small--base") == "small"
    bases = ["small--base", "small--s1--base", "small--s2--base", "medium--base"]
    assert [base for base in experiment.bases if base in bases] == bases
    assert experiment.benchmarks_of("contamination_free") == ["linear_larger", "divide_larger"]
    assert experiment.suite_of("linear_larger") == "contamination_free"
    assert list(experiment.data_sets)[:3] == ["train", "validation", "linear"]
    assert experiment.data_set("linear_larger").label == "linear, larger b"
    assert experiment.key_of("train") == "config/tiny.yaml: data.train"
    assert experiment.key_of("linear") == "config/tiny.yaml: data.suites.standard.linear"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "benchmarks_of",
            "no suite 'x' in config/tiny.yaml; allowed: standard, contamination_free",
        ),
        ("data_set", "no data set 'x' in config/tiny.yaml; allowed: train, validation, linear, "),
        ("cells_of", "no entry of grid 'x' in config/tiny.yaml; allowed: main, scalability, "),
    ],
)
def test_a_name_that_the_config_lacks_is_refused(
    experiment: Experiment, method: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        getattr(experiment, method)("x")
    assert str(error.value).startswith(message)


def test_policies_are_the_base_models_and_then_the_cells(experiment: Experiment) -> None:
    bases = [policy for policy in experiment.policies if experiment.is_base(policy)]
    assert {"small--base", "small--s1--base", "small--s2--base", "medium--base"} < set(bases)
    assert experiment.policies == bases + list(experiment.cells)
    assert ("small--base", "contamination_free") in experiment.evaluations
    assert len(set(experiment.evaluations)) == len(experiment.evaluations)
    without_suite = {cell.name for cell in experiment.cells_of("dropping")}
    assert without_suite <= set(experiment.cells)
    assert without_suite.isdisjoint(policy for policy, _ in experiment.evaluations)
    of_study = {"small--base", *(f"small--s{seed}--base" for seed in (1, 2, 3, 4))}
    assert set(experiment.policies_of("peers")) < set(experiment.every_cell) | of_study


def test_a_command_in_a_message_repeats_scale_results_and_settings(tmp_path: Path) -> None:
    changes = {
        "training": {"steps": 10, "optimizer": {"betas": [0.9, 0.95]}},
        "models": {"small": {"label": "a b"}},
        "variants": {},
        "models_of.mine": None,
    }
    experiment = Experiment.load("tiny", root=ROOT, results=tmp_path)
    plain = Experiment("paper", experiment.config, experiment.files, overrides=changes)
    assert plain.command("train", "x y") == (
        f"rspo train 'x y' --scale paper --results {tmp_path} --set=training.steps=10 "
        "'--set=training.optimizer.betas=[0.9, 0.95]' '--set=models.small.label=\"a b\"' "
        "'--set=variants={}' --set=models_of.mine=null"
    )


def test_a_key_with_a_dot_stays_within_the_value_of_its_section() -> None:
    changes = {"models": {"small": {"verl": {"actor.clip": 1}}}}
    experiment = Experiment.load("tiny", changes, root=ROOT)
    words = "'--set=models.small.verl={\"actor.clip\": 1}'"
    assert experiment.command("status") == f"rspo status {words}"


@pytest.mark.parametrize("scale", ["", ".", "a/b", None, 3])
def test_only_a_name_is_a_scale(scale: Any) -> None:
    with pytest.raises(InputError) as error:
        Experiment.load(scale, root=ROOT)
    assert str(error.value) == f"scale = {scale!r}: expected the name of a file in config/"
