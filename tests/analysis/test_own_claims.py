"""The claims A1 to A3: the k of training against the k of evaluation, and against no k."""

from pathlib import Path

import pytest

from rspo.analysis import claims
from rspo.analysis.write import write_claims
from rspo.config.experiment import Cell, Experiment
from rspo.core.tables import read_csv
from rspo.figures import draw
from tests.support import ROOT, planted

MAIN = [("policy_gradient", 1, 16)]
MAIN += [(name, k, 16) for name in ("rspo_pass_at_k", "hitchhiking") for k in (2, 4, 8)]
GRPO = [("grpo", 1, 16)]
# The lines of a figure: only the last one has neither a k nor Pass@1 as its aim.
WITHOUT_K = [*MAIN[:4], *GRPO, ("maxrl", 1, 16)]
GRID = {"main": MAIN, "grpo": GRPO, "without_k": WITHOUT_K}
OWN = ["A1", "A2", "A3"]


def best_at_own_k(cell: Cell) -> planted.Skill:
    """RSPO is best at its own k; GRPO and MaxRL have less of everything."""
    if cell.objective in ("grpo", "maxrl"):
        return (0.3, 0.2)
    if cell.objective == "rspo_pass_at_k":
        return {2: (0.65, 0.7), 4: (0.8, 0.34), 8: (1.0, 0.25)}[cell.k]
    return planted.as_claimed(cell)


def always_best_without_k(cell: Cell) -> planted.Skill:
    """MaxRL is above RSPO at every k, and RSPO k=4 above RSPO of other k."""
    if cell.objective == "maxrl":
        return (1.0, 0.98)
    return (0.9, 0.9) if cell.k == 4 else (0.5, 0.5)


def written(root: Path, skill: object, seeds: int = 3) -> Experiment:
    experiment = planted.load(root, seeds=seeds, grid_of=GRID)
    planted.plant_scores(experiment, skill)  # type: ignore[arg-type]
    planted.plant_logs(experiment)
    write_claims(experiment)
    return experiment


def verdicts(experiment: Experiment) -> dict[str, str]:
    table = read_csv(experiment.files.reports / "claims.csv")
    return dict(zip(table["claim"], table["verdict"], strict=True))


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return written(tmp_path_factory.mktemp("best"), best_at_own_k)


def test_they_are_supported_where_each_k_is_best_at_itself(best: Experiment) -> None:
    found = verdicts(best)
    assert {found[name] for name in OWN} == {"supported"}


def test_they_are_contradicted_where_another_method_is_always_best(tmp_path: Path) -> None:
    found = verdicts(written(tmp_path, always_best_without_k))
    assert found["A1"] == found["A2"] == "contradicted"


def test_each_compares_the_named_methods_at_the_named_k(best: Experiment) -> None:
    def pairs(name: str) -> set[tuple[str, str, tuple[int, ...]]]:
        plan = claims.CLAIMS[name].plan(best)
        return {(one.method_a, one.method_b, one.ks) for one in plan if one.decides}

    own = [("PG", 1), ("RSPO k=2", 2), ("RSPO k=4", 4), ("RSPO k=8", 8)]
    assert pairs("A1") == {(name, "RSPO k=4", (k,)) for name, k in own if k != 4}
    assert pairs("A2") == {(name, "MaxRL", (k,)) for name, k in own}
    assert pairs("A3") == {(name, other, (k,)) for name, k in own[1:] for other in ("PG", "GRPO")}


def test_every_claim_that_the_shipped_config_makes_is_tested() -> None:
    experiment = Experiment.load("tiny", root=ROOT)
    plan, reasons = claims.planned(experiment)
    assert reasons == {}
    assert {one.claim for one in plan} == claims.claims_of(experiment).keys()


def test_grpo_is_a_point_of_the_figure_of_differences(best: Experiment) -> None:
    draw(best, "fig_difference")
    drawn = read_csv(best.files.reports / "fig_difference.csv")
    assert set(drawn["against"]) == {"baseline", "policy gradient", "GRPO"}
    tested = read_csv(best.files.reports / "claim_comparisons.csv").set_index("id")
    for k in (2, 4, 8):
        row = tested.loc[f"A3/RSPO k={k}/GRPO/pass_at_k/{k}/pooled"]
        (point,) = drawn[(drawn["against"] == "GRPO") & (drawn["k"] == str(k))].to_dict("records")
        assert float(point["estimate"]) == pytest.approx(100 * float(row["estimate"]))


def test_without_the_entry_there_are_no_such_claims(tmp_path: Path) -> None:
    grid = {name: cells for name, cells in GRID.items() if name != "without_k"}
    experiment = planted.load(tmp_path, seeds=1, grid_of=grid)
    assert not set(OWN) & claims.claims_of(experiment).keys()
    _, reasons = claims.planned(experiment)
    assert not set(OWN) & reasons.keys()


@pytest.mark.parametrize(
    ("changed", "claim", "reason"),
    [
        (
            {"without_k": [("maxpo", 4, 16), *GRPO, MAIN[0]]},
            "A2",
            "grid.without_k has no objective without a k but policy_gradient and grpo",
        ),
        ({"main": [one for one in MAIN if one[1] != 4]}, "A1", "grid.main has no RSPO with k = 4"),
        ({"grpo": [("maxrl", 1, 16)]}, "A3", "grid.grpo has no grpo"),
    ],
)
def test_what_the_grid_lacks_is_the_reason_that_they_are_not_tested(
    tmp_path: Path, changed: dict[str, list[tuple[str, int, int]]], claim: str, reason: str
) -> None:
    experiment = planted.load(tmp_path, seeds=1, grid_of=GRID | changed)
    _, reasons = claims.planned(experiment)
    assert reasons[claim] == reason
