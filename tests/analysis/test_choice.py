"""Rates that validation chooses for each k, and contrasts that describe what they subtract."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.analysis import studies
from rspo.analysis.choice import chosen_lines
from rspo.analysis.measure import Measurer
from rspo.analysis.write import write_study
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.core.tables import read_csv
from rspo.passk import pass_at_k
from tests.support import planted
from tests.support.tasks import attest

RATES = ["rate-third", "rate-triple"]
PG = {"model": "small", "objective": "policy_gradient", "n": 16}
RSPO = {"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4, 8], "n": 16}
MAXRL = {"model": "small", "objective": "maxrl", "n": 16}
# Validation of each rate at each k: the other one is best at Pass@8, and they are equal at Pass@4.
VALIDATION = {
    "default": {1: 0.9, 2: 0.9, 4: 0.9, 8: 0.9},
    "rate-third": {1: 0.4, 2: 0.4, 4: 0.5, 8: 0.5},
    "rate-triple": {1: 0.3, 2: 0.3, 4: 0.5, 8: 0.6},
}


def study(*contrasts: dict[str, Any], **more: Any) -> dict[str, Any]:
    cells = [cell | {"variant": ["default", *RATES]} for cell in (PG, RSPO, MAXRL)]
    entry = {"title": "Rates", "suite": "standard", "cells": cells, "contrasts": list(contrasts)}
    return {"rates": entry | more}


def planted_rates(root: Path, *contrasts: dict[str, Any], **more: Any) -> Experiment:
    return plant(planted.load(root, seeds=1, studies=study(*contrasts, **more)))


def plant(experiment: Experiment) -> Experiment:
    """Scores and logs of the study, with the validation of each rate in those of seed 0."""
    planted.plant_scores(experiment, planted.as_claimed)
    planted.plant_logs(experiment)
    for cell in experiment.cells_of("rates"):
        path = experiment.files.training_log(cell.name)
        log = read_json_lines(path)
        values = VALIDATION[cell.variant].items()
        log[-1]["validation"] = {f"pass_at_{k}": value for k, value in values}
        write_json_lines(path, log)
    for name in experiment.config.studies:
        attest(studies.task(experiment, name).inputs())
    return experiment


def chosen_variants(experiment: Experiment, name: str = "rates") -> dict[int, set[str]]:
    """The variants that are compared at each k."""
    lines = studies.lines_of(experiment, name)
    chosen = chosen_lines(Measurer(experiment), name, lines)
    return {k: {line.variant for line in of_k} for k, of_k in chosen.items()}


def test_each_k_has_the_rate_that_validation_prefers_there(tmp_path: Path) -> None:
    """The lowest of equally good ones; the variant outside the choice is compared at every k."""
    contrast = {"family": "a", "minus": "policy_gradient"}
    choice = {"choose_by_pass_at": "each", "choose_within": RATES}
    experiment = planted_rates(tmp_path, contrast, **choice)
    lines = studies.lines_of(experiment, "rates")
    chosen = chosen_lines(Measurer(experiment), "rates", lines)
    expected = {1: "rate-third", 2: "rate-third", 4: "rate-third", 8: "rate-triple"}
    for k, variant in expected.items():
        assert {line.variant for line in chosen[k]} == {"default", variant}
    write_study(experiment, "rates")
    table = read_csv(studies.task(experiment, "rates").outputs[0])
    compared = table[table["family"] == "a"]
    for k, variant in expected.items():
        assert set(compared[compared["k"] == str(k)]["variant"]) == {"default", variant}
    methods = read_csv(studies.task(experiment, "rates").outputs[1])
    of_maxrl = methods[methods["objective"] == "maxrl"].set_index("variant")
    assert of_maxrl["chosen_at"].to_dict() == {
        "default": "1 2 4 8",
        "rate-third": "1 2 4",
        "rate-triple": "8",
    }
    assert of_maxrl.loc["rate-triple", "validation_at_8"] == "0.6"
    assert of_maxrl.loc["default", "validation_at_8"] == ""
    # At Pass@4 both are the best ones.
    assert of_maxrl["best_at"].to_dict() == {
        "default": "",
        "rate-third": "1 2 4",
        "rate-triple": "4 8",
    }
    assert of_maxrl["at_edge"].to_dict() == dict.fromkeys(RATES, "yes") | {"default": "no"}


def test_of_rates_within_the_margin_the_lowest_is_chosen(tmp_path: Path) -> None:
    """Of 0.5 and 0.6 at Pass@8, whose difference is just within the first margin."""
    contrast = {"family": "a", "minus": "base"}
    for margin, variant in ((0.1, "rate-third"), (0.09, "rate-triple")):
        choice = {"choose_by_pass_at": 8, "choose_within": RATES, "choose_margin": margin}
        experiment = planted_rates(tmp_path / str(margin), contrast, **choice)
        assert chosen_variants(experiment)[8] == {"default", variant}


def test_the_smallest_regret_over_all_k_may_be_that_of_a_rate_that_is_best_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"default": (0.9, 0.5, 0.1), "rate-third": (0.6, 0.4, 0.3)}
    values["rate-triple"] = (0.2, 0.3, 0.5)
    monkeypatch.setattr(
        f"{__name__}.VALIDATION",
        {name: dict(zip((1, 2, 4), of_rate, strict=True)) for name, of_rate in values.items()},
    )
    experiment = planted_rates(tmp_path, {"family": "a", "minus": "base"}, choose_by_pass_at="all")
    assert chosen_variants(experiment) == {k: {"rate-third"} for k in (1, 2, 4, 8)}
    write_study(experiment, "rates")
    methods = read_csv(studies.task(experiment, "rates").outputs[1])
    regret = methods.set_index("variant")["validation_regret"].astype(float)
    best = [max(of_k) for of_k in zip(*values.values(), strict=True)]
    for name, of_rate in values.items():
        expected = max(most - value for most, value in zip(best, of_rate, strict=True))
        assert regret[name].to_list() == pytest.approx([expected] * 5)


def of_two_studies(root: Path, variants: list[str], margin: float = 0.05) -> Experiment:
    """A study of three seeds that has some variants, and one of one seed that chooses for it."""
    cells = [PG | {"variant": variants}]
    entry = {"title": "Own", "suite": "standard", "cells": cells, "seeds": 3}
    entry |= {"contrasts": [{"family": "a", "minus": "base"}]}
    entry |= {"choose_by_pass_at": "each", "choose_in": "rates"}
    trying = study(
        {"family": "a", "minus": "base"},
        choose_by_pass_at=4,
        choose_within=RATES,
        choose_margin=margin,
    )
    return plant(planted.load(root, seeds=1, studies=trying | {"own": entry}))


def test_another_study_chooses_by_its_own_trainings_variants_and_margin(tmp_path: Path) -> None:
    """The logs of seeds 1 and 2, and of variants outside its choice, have no validation at all."""
    experiment = of_two_studies(tmp_path, ["default", *RATES])
    chosen = chosen_variants(experiment, "own")
    rates = {1: "rate-third", 2: "rate-third", 4: "rate-third", 8: "rate-triple"}
    # The variant that stands outside the other study's choice is compared, too.
    assert chosen == {k: {"default", rate} for k, rate in rates.items()}
    write_study(experiment, "own")
    methods = read_csv(studies.task(experiment, "own").outputs[1]).set_index("variant")
    assert methods["validation_at_8"].to_dict() == {
        "default": "",
        "rate-third": "0.5",
        "rate-triple": "0.6",
    }
    assert set(methods["seeds"]) == {"3"}
    at_edge = {"default": "no", "rate-third": "yes", "rate-triple": "yes"}
    assert methods["at_edge"].to_dict() == at_edge


def test_logs_that_decide_are_inputs_and_a_chosen_rate_that_is_missing_is_an_error(
    tmp_path: Path,
) -> None:
    experiment = of_two_studies(tmp_path, ["rate-third"])
    paths = [path for path, _ in studies.task(experiment, "own").inputs()]
    for variant in RATES:
        cell = f"small--policy-gradient--k1--n16--{variant}--s0"
        assert paths.count(experiment.files.training_log(cell)) == 1
    message = (
        "validation at Pass@8, studies.rates chooses the variant rate-triple of policy_gradient; "
        "add it to"
    )
    with pytest.raises(InputError, match=message):
        write_study(experiment, "own")


def test_another_margin_of_the_study_that_chooses_makes_a_new_page(tmp_path: Path) -> None:
    variants = ["rate-third", "rate-triple"]
    hashes = {
        studies.task(of_two_studies(tmp_path / str(margin), variants, margin), "own").settings_hash
        for margin in (0.05, 0.2)
    }
    assert len(hashes) == 2


def test_a_study_without_a_choice_may_not_say_how_to_choose(tmp_path: Path) -> None:
    contrast = {"family": "a", "minus": "base"}
    for change in ({"choose_margin": 0.1}, {"choose_in": "other"}):
        (key,) = change
        with pytest.raises(InputError, match=f"{key} is for a study with choose_by_pass_at"):
            planted.load(tmp_path, studies=study(contrast, **change))


CANNOT_CHOOSE = [
    ({"choose_in": "rats"}, {}, "choose_in = 'rats'"),
    ({"choose_in": "own"}, {}, "choose_in = own: allowed: another study, with choose_by_pass_at"),
    ({}, {"choose_by_pass_at": None}, "choose_in = rates: allowed: another study, with choose_by"),
    ({}, {"cells": [RSPO]}, "studies.rates has no variant of PG to choose; add it to its cells"),
    ({}, {"cells": [PG | {"model": "medium"}]}, "both studies need cells of the same models"),
    ({}, {"choose_within": ["rate-thrid"]}, "choose_within = 'rate-thrid'"),
]


@pytest.mark.parametrize(("change", "of_chooser", "message"), CANNOT_CHOOSE)
def test_a_study_that_cannot_choose_for_another_one_is_named(
    tmp_path: Path, change: dict[str, Any], of_chooser: dict[str, Any], message: str
) -> None:
    contrast = {"family": "a", "minus": "base"}
    entries = study(contrast, **({"choose_by_pass_at": 4} | of_chooser))
    own = {"title": "Own", "suite": "standard", "cells": [PG], "contrasts": [contrast]}
    entries["own"] = own | {"choose_by_pass_at": 4, "choose_in": "rates"} | change
    experiment = planted.load(tmp_path, studies=entries)
    if change == {"choose_in": "rats"}:  # a dry run asks for these cells before anything else
        with pytest.raises(InputError, match=message):
            experiment.deciding_cells("own")
    name = "rates" if "choose_within" in of_chooser else "own"
    with pytest.raises(InputError, match=message):
        studies.task(experiment, name)


def test_a_method_with_a_k_is_chosen_only_where_it_is_compared(tmp_path: Path) -> None:
    """A study whose contrasts have `k: own` needs no other rate of RSPO than that of its own k."""
    contrast = {"family": "a", "k": "own", "minus": "base"}
    choice = {"choose_by_pass_at": "each", "choose_within": RATES}
    experiment = planted_rates(tmp_path, contrast, **choice)
    write_study(experiment, "rates")
    methods = read_csv(studies.task(experiment, "rates").outputs[1])
    chosen_at = methods.set_index(["method", "variant"])["chosen_at"]
    assert chosen_at["RSPO k=2"].to_dict() == {
        "default": "2",
        "rate-third": "2",
        "rate-triple": "",
    }
    assert chosen_at["RSPO k=8"].to_dict() == {
        "default": "8",
        "rate-third": "",
        "rate-triple": "8",
    }
    assert chosen_at["PG", "default"] == "1"
    assert chosen_at["MaxRL", "default"] == ""


def test_a_method_that_is_only_subtracted_is_chosen_where_it_is_subtracted(tmp_path: Path) -> None:
    """MaxRL at the k of each RSPO, and at no other."""
    contrast = {"family": "a", "k": "own", "method": "rspo_pass_at_k", "minus": "maxrl"}
    choice = {"choose_by_pass_at": "each", "choose_within": RATES}
    experiment = planted_rates(tmp_path, contrast, **choice)
    lines = studies.lines_of(experiment, "rates")
    chosen = chosen_lines(Measurer(experiment), "rates", lines)
    labels = {k: {line.label for line in of_k} for k, of_k in chosen.items()}
    assert labels == {1: set()} | {k: {f"RSPO k={k}", "MaxRL"} for k in (2, 4, 8)}


def test_with_each_variant_an_objective_that_has_one_is_subtracted_from_that_one_only(
    tmp_path: Path,
) -> None:
    """Also if the only variant that it has is another one."""
    cells = [PG | {"variant": "rate-third"}, RSPO | {"k": 8, "variant": ["default", *RATES]}]
    for minus in ("policy_gradient", {"objective": "policy_gradient"}):
        contrast = {"family": "a", "k": [8], "minus": minus, "method": "rspo_pass_at_k"}
        entry = {"title": "a", "suite": "standard", "cells": cells}
        entry["contrasts"] = [contrast | {"each_variant": True}]
        experiment = planted.load(tmp_path, seeds=1, studies={"rates": entry})
        plan = studies.planned(experiment, "rates", studies.lines_of(experiment, "rates"))
        compared = [[term.method.variant for term in one.terms] for one in plan if one.family]
        assert compared == [["rate-third", "rate-third"]]


def pairs(root: Path, contrast: dict[str, Any]) -> set[tuple[str, str, str]]:
    """What a contrast compares in the study: both methods with their variants, and k."""
    experiment = planted.load(root, seeds=1, studies=study({"family": "a"} | contrast))
    plan = studies.planned(experiment, "rates", studies.lines_of(experiment, "rates"))
    found = set()
    for one in plan:
        if one.family:
            first, second = (term.method for term in one.terms)
            names = [
                f"{experiment.cell(line.policies[0]).objective} {line.k} {line.variant}"
                for line in (first, second)
            ]
            found.add((names[0], names[1], " ".join(map(str, one.ks))))
    return found


def test_a_method_at_its_own_k_minus_the_same_objective_with_another(tmp_path: Path) -> None:
    contrast = {
        "method": "rspo_pass_at_k",
        "k": "own",
        "minus": {"objective": "rspo_pass_at_k", "k": 4},
    }
    assert pairs(tmp_path, contrast) == {
        (f"rspo_pass_at_k {k} {variant}", f"rspo_pass_at_k 4 {variant}", str(k))
        for k in (2, 8)
        for variant in ("default", *RATES)
    }


def test_an_objective_without_k_minus_the_rspo_of_the_k_of_evaluation(tmp_path: Path) -> None:
    """Which at Pass@1 is policy gradient."""
    contrast = {
        "method": "maxrl",
        "minus": {"objective": "rspo_pass_at_k", "k": "own", "variant": "default"},
    }
    rspo = {1: "policy_gradient None", 2: "rspo_pass_at_k 2", 4: "rspo_pass_at_k 4"}
    rspo[8] = "rspo_pass_at_k 8"
    assert pairs(tmp_path, contrast) == {
        (f"maxrl None {variant}", f"{name} default", str(k))
        for k, name in rspo.items()
        for variant in ("default", *RATES)
    }


def test_policy_gradient_has_its_own_k_and_an_objective_without_k_none(tmp_path: Path) -> None:
    contrast = {"k": "own", "minus": {"objective": "maxrl", "variant": "default"}}
    found = pairs(tmp_path, contrast)
    assert ("policy_gradient None default", "maxrl None default", "1") in found
    assert ("rspo_pass_at_k 8 rate-third", "maxrl None default", "8") in found
    assert not any(first.startswith("maxrl") for first, _, _ in found)
    assert len(found) == 4 * 3


MISTAKES = [
    ({"minus": {"objective": "maxrk"}}, "maxrk"),
    ({"minus": {"objective": "maxrl", "k": "any"}}, "any"),
    ({"minus": {"objective": "maxrl", "rate": 1}}, "unknown key rate"),
    ({"minus": "base", "k": "own", "mean": True}, "no mean over k with k: own"),
]


@pytest.mark.parametrize(("contrast", "message"), MISTAKES)
def test_a_mistake_in_a_contrast_is_named(
    tmp_path: Path, contrast: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        planted.load(tmp_path, studies=study({"family": "a"} | contrast))


def test_regret_and_crossing_are_columns_of_the_methods(tmp_path: Path) -> None:
    """Of planted policies, where policy gradient is best at Pass@1 and RSPO k=8 at Pass@8."""
    experiment = planted_rates(
        tmp_path, {"family": "a", "minus": "base"}, columns=["regret", "crossing"]
    )
    write_study(experiment, "rates")
    methods = read_csv(studies.task(experiment, "rates").outputs[1])
    methods = (
        methods[methods["variant"] == "default"]
        .set_index("method")
        .astype({"regret": float, "regret_at": int, "excess_regret": float, "mean_regret": float})
    )
    assert methods.loc["PG", "regret_at"] == 8
    assert methods.loc["RSPO k=8", "regret_at"] == 1
    assert (methods["mean_regret"] <= methods["regret"]).all()
    assert methods["excess_regret"].min() == pytest.approx(0, abs=0.02)
    # Each method solves more problems than the base model, or as many, up to Pass@8.
    assert methods.loc["RSPO k=8", "crossing"] == "inf"
    # Seed 0 is the only one.
    assert (methods["crossing"] == methods["crossing_seed0"]).all()
    rises = methods["crossing_rises"]
    assert rises["PG"] == "1.0"
    assert rises["MaxRL"] == ""
    # Neither RSPO k=4 nor k=8 is overtaken up to Pass@8.
    assert methods.loc["RSPO k=4", "crossing"] == "inf"
    assert rises["RSPO k=8"] == "0.0"


def test_a_contrast_may_count_the_problems_of_some_benchmarks_only(tmp_path: Path) -> None:
    """The same difference on one of two benchmarks, beside that on both."""
    minus = {"minus": "policy_gradient", "method": "rspo_pass_at_k", "k": [4]}
    experiment = planted_rates(
        tmp_path,
        minus | {"family": "both"},
        minus | {"family": "one", "benchmarks": ["multiply"]},
    )
    write_study(experiment, "rates")
    table = read_csv(studies.task(experiment, "rates").outputs[0])
    measurer = Measurer(experiment)
    rows = table[(table["method_a"] == "RSPO k=4") & (table["variant"] == "default")]
    for family, benchmarks in (("both", ["linear", "multiply"]), ("one", ["multiply"])):
        (row,) = rows[rows["family"] == family].to_dict("records")
        first, second = row["cells"].split()
        levels = []
        for cell in (first, second):
            counts = np.concatenate([measurer.scores(cell, one).counts for one in benchmarks])
            levels.append(pass_at_k(planted.SAMPLES, counts, 4).mean())
        assert float(row["estimate"]) == pytest.approx(levels[0] - levels[1])
        assert int(row["problems"]) == len(counts)
        assert row["where"] == ("pooled" if family == "both" else "multiply")


def test_a_benchmark_of_a_contrast_that_the_suite_lacks_is_named(tmp_path: Path) -> None:
    contrast = {"family": "a", "minus": "base", "benchmarks": ["divid"]}
    experiment = planted.load(tmp_path, studies=study(contrast))
    with pytest.raises(InputError, match="contrasts, 'a': benchmarks = 'divid'"):
        studies.task(experiment, "rates")


def test_a_regret_needs_the_same_k_in_every_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = {"rate-triple": {1: 0.3, 2: 0.3}}
    monkeypatch.setattr(f"{__name__}.VALIDATION", VALIDATION | fewer)
    experiment = planted_rates(tmp_path, {"family": "a", "minus": "base"}, choose_by_pass_at="all")
    with pytest.raises(
        InputError, match=r"rate-triple--s0/training.jsonl: the last validation has"
    ):
        write_study(experiment, "rates")
