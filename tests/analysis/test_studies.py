"""Studies of the config on planted data: contrasts, the choice of a variant, methods and pages."""

import json
import re
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from rspo.analysis import pages, studies, study_columns
from rspo.analysis.evidence import Evidence
from rspo.analysis.results import read_rows
from rspo.analysis.study_columns import log_keys
from rspo.analysis.write import ahead_of, study_contents, write_claims, write_study
from rspo.cli import main
from rspo.config.experiment import Cell, Experiment
from rspo.config.load import read_values
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.core.tables import read_csv
from rspo.estimators import pass_at_k
from rspo.evaluation.statistics import mean_of_scores
from rspo.figures import draw
from tests.support import ROOT, planted
from tests.support.tasks import attest

RSPO = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16}
PG = {"model": "small", "objective": "policy_gradient", "n": 16}
VARIANTS = ["default", "rate-third"]
RATES = {
    "title": "Rates",
    "suite": "standard",
    "choose_by_pass_at": 4,
    "frontier": [1, 8],
    "columns": ["late_entropy", "zero_weight"],
    "contrasts": [
        {"family": "against RSPO", "minus": "rspo_pass_at_k", "k": [4]},
        {"family": "against base", "minus": "base"},
    ],
    "cells": [
        RSPO | {"variant": ["default", "rate-third", "rate-triple"]},
        PG | {"variant": ["default", "rate-triple"]},
    ],
}
ERRORS = {
    "title": "Errors",
    "suite": "standard",
    "contrasts": [
        {"family": "changes", "minus": "default", "k": [1, 4]},
        {
            **{"family": "against PG", "minus": "default", "less": "policy_gradient"},
            **{"k": [1, 4], "mean": True},
        },
        {"family": "kinds", "minus": {"accepts-0.1": "rejects-0.1"}, "k": [4]},
        {"family": "verdicts", "minus": "default", "claims": ["C1", "C10"]},
    ],
    "cells": [
        one | {"variant": ["default", "accepts-0.1", "rejects-0.1"]}
        for one in (PG, RSPO, RSPO | {"objective": "hitchhiking"})
    ],
}
TRAINED: dict[str, Any] = {"origins": {}, "bases": ["small 0123abcd"]}
SHIFT = {"default": 0, "rate-third": 0.04, "rate-triple": -0.03}
SHIFT |= {"accepts-0.1": -0.15, "rejects-0.1": -0.02}


def skill(cell: Cell) -> planted.Skill:
    reach, often = planted.as_claimed(cell)
    return reach + SHIFT[cell.variant], often


def planted_studies(root: Path, **options: Any) -> Experiment:
    """Validation prefers the variant rate-triple of each method."""
    experiment = planted.load(root, studies={"rates": RATES, "errors": ERRORS}, **options)
    planted.plant_scores(experiment, skill)
    planted.plant_logs(experiment)
    for cell in {*experiment.cells_of("rates"), *experiment.cells_of("errors")}:
        log = read_json_lines(experiment.files.training_log(cell.name))
        log[-1]["validation"] = {"pass_at_4": 0.5 + (cell.variant == "rate-triple") / 10}
        write_json_lines(experiment.files.training_log(cell.name), log)
    for study in ("rates", "errors"):
        attest(studies.task(experiment, study).inputs())
    return experiment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = planted_studies(tmp_path_factory.mktemp("studies"), seeds=1)
    for name in ("rates", "errors"):
        write_study(experiment, name)
    return experiment


def rows(experiment: Experiment, study: str, **wanted: str) -> list[dict[str, Any]]:
    table = read_rows(studies.task(experiment, study).outputs[0])
    return pages.the_rows(table, **wanted)


def problems_of(experiment: Experiment, policy: str, k: int) -> Any:
    """Pass@k of each problem of the suite."""
    correct = [
        planted.scores_of(experiment, policy, name).correct
        for name in experiment.benchmarks_of("standard")
    ]
    return pass_at_k(planted.SAMPLES, np.concatenate(correct).sum(axis=1), k)


def test_the_variant_that_validation_prefers_is_compared(made: Experiment) -> None:
    assert {row["variant"] for row in rows(made, "rates", family="against base")} == {"rate-triple"}
    methods = read_csv(studies.task(made, "rates").outputs[1])
    chosen = methods[methods["chosen"] == "yes"]
    assert set(chosen["variant"]) == {"rate-triple"}
    assert set(chosen["validation"]) == {"0.6"}
    assert set(chosen["setting"]) == {"models.small.learning_rate = 0.0006"}
    assert set(chosen["instead_of"]) == {"0.0002"}
    assert set(methods["variant"]) == {"default", "rate-third", "rate-triple"}


def test_every_variant_is_compared_with_the_same_one_though_one_of_each_is_chosen(
    tmp_path: Path,
) -> None:
    contrasts = [{"family": "a", "minus": "rspo_pass_at_k", "k": [4], "each_variant": True}]
    changed = RATES | {"contrasts": contrasts}
    experiment = planted.load(tmp_path, seeds=1, studies={"rates": changed})
    every = studies.lines_of(experiment, "rates")
    one_of_each = [line for line in every if line.variant == "rate-triple"]
    plan = studies.planned(experiment, "rates", one_of_each)
    compared = [one.policies for one in plan if one.family]
    assert compared == [
        (f"small--policy-gradient--k1--n16{of}--s0", f"small--rspo-pass--k4--n16{of}--s0")
        for of in ("", "--rate-triple")
    ]


def test_a_mean_over_models_has_the_variance_of_their_paired_differences(tmp_path: Path) -> None:
    """Each model is a run; problems are in two strata."""
    cells = [
        {"model": model, "objective": name, "k": k, "n": 16}
        for model in ("small", "small-1", "small-2")
        for name, k in (("policy_gradient", 1), ("rspo_pass_at_k", 4))
    ]
    contrasts = [{"family": "a", "minus": "policy_gradient", "k": [4]}]
    study = {"title": "a", "suite": "standard", "cells": cells, "contrasts": contrasts}
    small = read_values(ROOT / "config" / "tiny.yaml")["models"]["small"]
    others = {name: small | {"label": name} for name in ("small-1", "small-2")}
    experiment = planted.load(tmp_path, seeds=1, studies={"models": study}, models=others)
    planted.plant_scores(experiment, skill)
    planted.plant_logs(experiment)
    attest(studies.task(experiment, "models").inputs())
    write_study(experiment, "models")
    single = rows(experiment, "models", family="a")
    assert [row["variant"] for row in single] == ["small", "small-1", "small-2"]
    differences = []
    for row in single:
        first, second = (problems_of(experiment, policy, 4) for policy in row["cells"].split())
        differences.append(first - second)
        assert row["estimate"] == pytest.approx((first - second).mean())
    expected = mean_of_scores(np.array(differences), (160, 160))
    (mean,) = rows(experiment, "models", family="a, mean over models")
    assert mean["seeds"] == 3
    found = [mean[key] for key in ("estimate", "error_problems", "error_seeds", "error")]
    assert found == pytest.approx(astuple(expected)[:4])


def test_a_difference_of_differences_is_the_difference_of_its_parts(made: Experiment) -> None:
    tested = rows(made, "errors", family="against PG")
    assert [row["method_a"] for row in tested] == ["RSPO k=4"] * 2 + ["Baseline k=4"] * 2
    for row in tested:
        assert row["method_b"] == "default, less PG"
        own, other = (
            np.mean(
                [
                    one["estimate"]
                    for one in rows(
                        made, "errors", family="changes", method_a=method, variant=row["variant"]
                    )
                ]
            )
            for method in (row["method_a"], "PG")
        )
        assert row["estimate"] == pytest.approx(own - other)
        assert row["k"] == "1 4"


def test_claims_of_a_study_are_those_of_rspo_claims(tmp_path: Path) -> None:
    """On a grid with the cells of the default variant."""
    cells = [(one["objective"], one.get("k", 1), 16) for one in ERRORS["cells"]]
    experiment = planted_studies(tmp_path, seeds=3, grid_of={"main": cells})
    write_claims(experiment)
    write_study(experiment, "errors")
    verdicts = read_csv(experiment.files.reports / "claims.csv").set_index("claim")["verdict"]
    tested = read_rows(experiment.files.reports / "claim_comparisons.csv")
    numbers = ["estimate", "error_problems", "error_seeds", "error", "p_computed", "p_tie"]
    for claim in ("C1", "C10"):
        (level,) = rows(experiment, "errors", claim=claim, method_a=claim, variant="default")
        assert level["outcome"] == verdicts[claim]
        expected = tested[(tested["claim"] == claim) & (tested["decides"] == "yes")]
        found = pd.DataFrame(rows(experiment, "errors", family=f"{claim} of default"))
        pd.testing.assert_frame_equal(
            found[numbers], expected[numbers].reset_index(drop=True), check_exact=True
        )
        (change,) = rows(
            experiment, "errors", family="verdicts", claim=claim, variant="accepts-0.1"
        )
        (other,) = rows(
            experiment, "errors", claim=claim, method_a=claim, variant="accepts-0.1", family=""
        )
        assert change["estimate"] == pytest.approx(other["estimate"] - level["estimate"])
        assert change["method_b"] == "default"


def test_columns_are_means_of_the_training_logs(made: Experiment) -> None:
    for row in read_csv(studies.task(made, "rates").outputs[1]).to_dict("records"):
        log = read_json_lines(made.files.training_log(row["cells"]))
        late = [record["entropy"] for record in log[-planted.STEPS // 3 :]]
        assert float(row["late_entropy"]) == pytest.approx(np.mean(late))
        zeros = [record["zero_weight"] for record in log]
        assert float(row["zero_weight"]) == pytest.approx(np.mean(zeros))


def test_accepted_wrong_responses_are_the_rewards_of_those_that_are_not_correct(
    tmp_path: Path,
) -> None:
    """Of 10 responses in two kinds of steps, written out one by one."""
    correct = [[1, 1, 0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    rewarded = [[1, 1, 1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]]
    columns = ["accepted_wrong", "correct"]
    experiment = planted.load(
        tmp_path, seeds=1, studies={"rates": changed("{}") | {"columns": columns}}
    )
    planted.plant_scores(experiment, skill)
    planted.plant_logs(experiment)
    for cell in experiment.cells_of("rates"):
        path = experiment.files.training_log(cell.name)
        steps = read_json_lines(path)
        for record in steps:
            of_step = record["step"] % 2
            record["correct"] = np.mean(correct[of_step])
            record["reward"] = np.mean(rewarded[of_step])
        write_json_lines(path, steps)
    attest(studies.task(experiment, "rates").inputs())
    write_study(experiment, "rates")
    methods = read_csv(studies.task(experiment, "rates").outputs[1])
    wrong = sum(
        reward and not right
        for of_step, rewards in zip(correct, rewarded, strict=True)
        for right, reward in zip(of_step, rewards, strict=True)
    )
    assert methods["accepted_wrong"].astype(float).to_list() == pytest.approx([wrong / 20] * 5)
    assert methods["correct"].astype(float).to_list() == pytest.approx([3 / 20] * 5)
    assert log_keys(experiment.config.studies["rates"]) == ["correct", "reward"]


def test_only_the_logged_numbers_that_a_study_shows_are_read(made: Experiment) -> None:
    assert log_keys(made.config.studies["rates"]) == ["zero_weight", "entropy", "validation"]
    assert log_keys(made.config.studies["errors"]) == []


def test_labels_in_tables_have_no_formulas(tmp_path: Path) -> None:
    cells = [{"model": "small", "objective": "pkpo_s_loo", "k": 4, "n": 16}]
    contrasts = [{"family": "a", "minus": "base"}]
    study = {"title": "a", "suite": "standard", "cells": cells, "contrasts": contrasts}
    experiment = planted.load(tmp_path, seeds=1, studies={"formulas": study})
    (method,) = studies.lines_of(experiment, "formulas")
    assert method.label == "PKPO s(loo) k=4"


def test_a_study_has_a_picture(made: Experiment) -> None:
    draw(made, "fig_rates")
    drawn = read_csv(made.files.reports / "fig_rates.csv")
    assert set(drawn["part"]) == {"forest", "frontier"}
    assert set(drawn[drawn["part"] == "frontier"]["k"]) == {"1", "8"}
    draw(made, "fig_errors")
    assert set(read_csv(made.files.reports / "fig_errors.csv")["part"]) == {"forest"}


# --- pages ---------------------------------------------------------------------------------------


def page(made: Experiment, template: Path, table: pd.DataFrame) -> str:
    methods = pd.read_csv(studies.task(made, "rates").outputs[1])
    return pages.render(template, study_contents(made, "rates", table, methods) | TRAINED)


def test_a_sentence_follows_from_the_table(made: Experiment) -> None:
    table = read_rows(studies.task(made, "rates").outputs[0])
    tested = table["family"] == "against RSPO"
    columns = ["estimate", "p_adjusted", "p_tie_adjusted"]
    template = pages.FOLDER / "study.md.jinja"
    for values, sentence in (
        ([-0.031, 0.001, 0.3], "1 of 1 differences are significant; the largest is PG (rate"),
        (
            [-0.001, 0.001, 0.001],
            "minus RSPO k=4); none are ties within 5 points and none are not resolved.",
        ),
        ([-0.031, 0.2, 0.3], "none of 1 differences is significant; none are ties within 5"),
        ([-0.031, np.nan, np.nan], "none of 1 differences is significant; none are ties within 5"),
        (
            [-0.001, 0.2, 0.001],
            "none of 1 differences is significant; 1 is a tie within 5 points and none are not",
        ),
    ):
        table.loc[tested, columns] = values
        assert sentence in page(made, template, table)


def test_numbers_have_a_minus_sign_and_unknown_ones_are_empty() -> None:
    numbers = [pages.number(value) for value in (-0.25, 3.0, np.nan)]
    assert numbers == [f"{pages.MINUS}0.25", "3", ""]


def test_ties_of_a_contrast_are_tested_and_adjusted_in_its_family(made: Experiment) -> None:
    """By two one-sided tests, where one is smallest and one largest among the adjusted ones."""
    tested = rows(made, "errors", family="changes")
    assert {row["tie_margin"] for row in tested} == {0.05}
    assert {row["decides"] for row in tested} == {""}  # it is about no claim
    p = [
        max(
            stats.t.sf((0.05 - sign * row["estimate"]) / row["error"], row["degrees"])
            for sign in (1, -1)
        )
        for row in tested
    ]
    assert [row["p_tie"] for row in tested] == pytest.approx(p)
    smallest = min(tested, key=lambda row: row["p_tie"])
    assert smallest["p_tie_adjusted"] == pytest.approx(min(1.0, len(p) * min(p)))
    levels = rows(made, "errors", method_b="", claim="")
    assert all(np.isnan(row["tie_margin"]) for row in levels)


def test_settings_with_more_at_both_k_are_ahead() -> None:
    # Pass@1, Pass@16: c is behind a and b; a and b are each ahead at one k; equal is not ahead.
    points = {"a": (0.3, 0.5), "b": (0.2, 0.6), "c": (0.1, 0.4), "d": (0.1, 0.6)}
    rows = [
        {"method_a": "RSPO", "variant": name, "k": k, "estimate": estimate}
        for name, pair in points.items()
        for k, estimate in zip(("1", "16"), pair, strict=True)
    ]
    base = {"method_a": "base", "variant": "", "k": "1", "estimate": 0.9}
    table = pd.DataFrame([*rows, base]).assign(method_b="", claim="")
    ahead = {
        variant: {one for _, one in found}
        for (_, variant), found in ahead_of(table, (1, 16)).items()
    }
    assert ahead == {"a": set(), "b": set(), "c": {"a", "b"}, "d": set()}


def test_a_page_may_have_a_template_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = planted_studies(tmp_path, seeds=1)
    monkeypatch.chdir(tmp_path)
    Path("mine.md.jinja").write_text("{{ row(family='against RSPO').estimate | points }} points\n")
    assert main(["study", "rates", "--set", "studies.rates.page=mine.md.jinja", "--force"]) == 0
    text = studies.task(experiment, "rates").outputs[2].read_text()
    assert re.fullmatch(r"[+−][\d.]+ points\n", text)


# --- what the config may not say -----------------------------------------------------------------


MISTAKES = """
contrasts: [{family: a, minus: default, claims: [C1], mean: true}]  ~  without less, k, mean and ben
contrasts: [{family: a, minus: default, claims: [C2]}]  ~  'C1', 'C3' or 'C10'
contrasts: [{family: a, minus: base}, {family: a, minus: base}]  ~  'a': two have this family
contrasts: []  ~  contrasts
cells: [{model: small, <<: &a {objective: grpo, n: 8}}, {model: medium, <<: *a}]  ~  several models
columns: [speed]  ~  'late_entropy'
contrasts: [{family: a, minus: policygradient}]  ~  did you mean policy_gradient?
contrasts: [{family: a, minus: rate-thrid}]  ~  did you mean rate-third?
contrasts: [{family: a, minus: {default: other}}]  ~  minus = 'other'; allowed: default, rate-third
contrasts: [{family: a, minus: default, less: policy_grad}]  ~  less = 'policy_grad'; did you mean
"""
WITHOUT_TRAINING = """
contrasts: [{family: a, minus: grpo}]  ~  'a' compares nothing
contrasts: [{family: a, minus: default, less: grpo}]  ~  'a' compares nothing
contrasts: [{family: a, minus: base, claims: [C1]}]  ~  'a' compares nothing
contrasts: [{family: a, minus: {default: rate-third}, claims: [C1]}]  ~  'a' compares nothing
{contrasts: [{family: a, minus: default}], choose_by_pass_at: 4}  ~  'a' compares nothing
frontier: [1, 16]  ~  studies.rates.frontier = 16; allowed: evaluation.k
choose_by_pass_at: 3  ~  studies.rates.choose_by_pass_at = 3; allowed: evaluation.k
contrasts: [{family: a, minus: base, k: [4, 256]}]  ~  'a': k = 256; allowed: evaluation.k
page: gone.md.jinja  ~  studies.rates.page = gone.md.jinja: no such file
"""


def cases(text: str) -> list[list[str]]:
    """Changes of a study, and parts of the messages about them."""
    return [line.split("  ~  ") for line in text.strip().splitlines()]


def changed(change: str) -> dict[str, Any]:
    return RATES | {"choose_by_pass_at": None} | yaml.safe_load(change)


@pytest.mark.parametrize(("change", "message"), cases(MISTAKES))
def test_a_mistake_in_a_study_is_named(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        planted.load(tmp_path, studies={"rates": changed(change)})


@pytest.mark.parametrize(("change", "message"), cases(WITHOUT_TRAINING))
def test_a_study_that_cannot_be_made_is_refused_before_it_trains(
    tmp_path: Path, change: str, message: str
) -> None:
    experiment = planted.load(tmp_path, studies={"rates": changed(change)})
    with pytest.raises(InputError, match=re.escape(message)):
        studies.task(experiment, "rates")


def test_an_objective_is_subtracted_at_the_same_k_n_and_variant(tmp_path: Path) -> None:
    cells = [
        {"model": "small", "objective": name, "k": [4, 8], "n": [8, 16], "variant": VARIANTS}
        for name in ("rspo_pass_at_k", "hitchhiking")
    ]
    contrasts = [{"family": "a", "minus": "rspo_pass_at_k", "k": [4]}]
    entry = {"title": "a", "suite": "standard", "cells": cells, "contrasts": contrasts}
    experiment = planted.load(tmp_path, seeds=1, studies={"grid": entry})
    plan = studies.planned(experiment, "grid", studies.lines_of(experiment, "grid"))
    tested = [one for one in plan if one.family]
    assert len(tested) == 8
    for one in tested:
        first, second = (experiment.cell(name) for name in one.policies)
        assert (first.k, first.n, first.variant) == (second.k, second.n, second.variant)
        assert one.method_b == one.method_a.replace("Baseline", "RSPO")


def test_a_choice_without_validation_is_an_error(tmp_path: Path) -> None:
    experiment = planted.load(tmp_path, seeds=1, studies={"rates": RATES})
    planted.plant_scores(experiment, skill)
    planted.plant_logs(experiment)
    with pytest.raises(InputError, match="the last step has no validation with Pass@4"):
        write_study(experiment, "rates")


def experiment_of(study: str) -> Experiment:
    """The shipped experiment whose config has a study."""
    for scale in ("tiny", "pretrained"):
        experiment = Experiment.load(scale, root=ROOT)
        if study in experiment.config.studies:
            return experiment
    raise AssertionError(f"no config has the study {study}")


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted((ROOT / "docs/studies").glob("*.md"))]
)
def test_a_published_page_follows_from_its_published_tables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ROOT / "docs" / "studies"
    experiment = experiment_of(name)
    table = read_rows(folder / f"{name}.csv")
    text = dict.fromkeys(("setting", "instead_of", "chosen_at", "best_at"), str)
    methods = pd.read_csv(folder / f"{name}_methods.csv", dtype=text).fillna(
        dict.fromkeys(text, "")
    )
    evidence = Evidence.read(ROOT / "docs" / "evidence" / f"{name}.parquet")
    noted = evidence.rows.dropna(subset="provenance")
    notes = dict(zip(noted["file"], map(json.loads, noted["provenance"]), strict=True))
    bases = {
        f"{Path(path).parent.name.removesuffix('--base')} {digest[:8]}"
        for note in notes.values()
        for path, digest in note["inputs"].items()
        if note["command"][1] == "train" and path.endswith("--base/policy")
    }
    contents = study_contents(experiment, name, table, methods)
    contents |= {"origins": {}, "bases": sorted(bases)}
    if experiment.scale != "tiny":
        by_path = {experiment.files.results / file: note for file, note in notes.items()}
        monkeypatch.setattr(study_columns, "read_provenance", by_path.get)
        cells = [cell.name for cell in experiment.cells_of(name)]
        contents["origins"] = study_columns.origins(experiment, cells)
    text = pages.render(folder / f"{name}.md.jinja", contents)
    assert text == (folder / f"{name}.md").read_text()


# --- the studies of the config -------------------------------------------------------------------


OWN = ["overtake", "knobs"]
KS = [1, 2, 4, 8, 16]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The config's studies, with 64 samples in the one that has 512, and 32 in the others."""
    root = tmp_path_factory.mktemp("own")
    config = read_values(ROOT / "config" / "tiny.yaml")
    entries = {name: config["studies"][name] for name in OWN}
    entries["overtake"] |= {"samples": 64, "k": [*KS, 32]}
    planted.load(root, studies=entries)

    def with_samples(samples: int) -> Experiment:
        evaluation = {"samples": samples, "block": 16, "k": KS}
        return Experiment.load("tiny", {"seeds": 1, "evaluation": evaluation}, root=root)

    skill = lambda cell: planted.as_claimed(replace(cell, n=16))  # noqa: E731
    planted.plant_scores(with_samples(64), skill, base=(1.0, 0.08))
    experiment = with_samples(32)
    planted.plant_logs(experiment)
    for study in OWN:
        attest(studies.task(experiment, study).inputs())
        write_study(experiment, study)
    return experiment


def test_a_study_with_its_own_samples_reads_so_many_blocks(own: Experiment) -> None:
    """Its k may be larger than those of the others."""
    policy = "small--policy-gradient--k1--n16--s0"
    for name, samples, k in (("overtake", 64, 32), ("knobs", 32, 16)):
        folder = own.files.scores(policy, "standard", 0).parent
        frames = [pd.read_parquet(folder / f"{block}.parquet") for block in range(samples // 16)]
        correct = pd.concat(frames).groupby(["benchmark", "problem_id"])["correct"].sum()
        label = "PG" if name == "overtake" else "PG, n=16"
        found = rows(own, name, method_a=label, variant="default", method_b="", k=str(k))
        assert found[0]["estimate"] == pytest.approx(pass_at_k(samples, correct, k).mean())


def test_samples_that_are_not_whole_blocks_are_refused(tmp_path: Path) -> None:
    changes = {"samples": 40, "k": [1, 4]}
    experiment = planted.load(tmp_path, studies={"rates": changed("{}") | changes})
    message = "config/tiny.yaml: studies.rates: block = 16 must divide samples = 40"
    with pytest.raises(InputError, match=re.escape(message)):
        studies.task(experiment, "rates")


def differences(name: str, family: str) -> set[tuple[str, str]]:
    """What is compared with what in the config: the policies of seed 0, without model and seed."""
    experiment = Experiment.load("tiny", {"seeds": 1}, root=ROOT)
    plan = studies.planned(experiment, name, studies.lines_of(experiment, name))
    return {
        tuple(  # type: ignore[misc]
            policy.split("--", 1)[-1].removesuffix("--s0")
            for policy in one.policies
            if policy.endswith("--s0")
        )
        for one in plan
        if one.family == family
    }


def test_an_objective_with_one_variant_is_subtracted_from_every_variant() -> None:
    family = "baseline against RSPO with 40 prompts"
    variants = ["", "--prompts-400"]
    assert differences("knobs", family) == {
        (f"hitchhiking--k{k}--n16{variant}", f"rspo-pass--k{k}--n16")
        for k in (4, 8)
        for variant in variants
    }


def test_a_method_with_another_n_is_compared_with_the_only_default() -> None:
    default = "policy-gradient--k1--n16"
    changes = ["n16--lr-third", "n16--lr-triple", "n32--prompts-20", "n64--prompts-10"]
    changes += [f"n16--entropy-{value}" for value in (0.003, 0.01, 0.03)]
    assert differences("knobs", "knobs of policy gradient, Pass@16") == {
        (f"policy-gradient--k1--{change}", default) for change in changes
    }
    assert differences("knobs", "RSPO against policy gradient, Pass@16") == {
        (f"rspo-pass--{change}", default)
        for change in ("k2--n16", "k4--n16", "k8--n16", "k8--n16--annealed")
    }
