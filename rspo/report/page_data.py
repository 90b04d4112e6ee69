"""The contents of the pages: rows of tables for the templates, and conclusions from them.

The templates call the public functions of this module as `data.NAME`.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isclose, isnan, nan, sqrt
from statistics import fmean
from typing import Any

import pandas as pd

from rspo.analysis.claims import TRANSFER
from rspo.analysis.labels import label_of
from rspo.analysis.pages import the_row
from rspo.analysis.results import (
    ABOVE,
    AGAINST,
    BELOW,
    CONTRADICTED,
    DOES_NOT_TRANSFER,
    FOR,
    NOT_RESOLVED,
    NOT_TESTED,
    OPEN,
    PARTLY_SUPPORTED,
    SUPPORTED,
    TIE,
    Row,
    adjusted_together,
    read_rows,
    shown_by,
)
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.tables import CURVES, read_csv, read_frame
from rspo.datasets.generated import ABOUT
from rspo.evaluation.read_outcomes import scored_samples, share_without_answer
from rspo.evaluation.statistics import Estimate
from rspo.figures import Figure, curves, difference, figures_of, style
from rspo.figures.methods import model_labels
from rspo.formats.checks import READ_ANSWERS
from rspo.objectives import OBJECTIVES
from rspo.pipeline import tasks
from rspo.pipeline.provenance import code_version
from rspo.pipeline.trace import content_of, history, sources
from rspo.pipeline.usage import SECONDS
from rspo.report import OWN_RATES, PEERS, figures, published_tables, readable, task
from rspo.training.logs import clipping_warning, column, read_log, sampler_warning

# From the unit of a comparison to the unit on the pages: percent, reward, nats per token, percent.
_FACTORS = {"pass_at_k": 100.0, "max_at_k": 1.0, "entropy": 1.0, "time_of_dropping": 100.0}
# The columns to which the factors apply.
_SCALED = [
    "estimate",
    "error_problems",
    "error_seeds",
    "error",
    "low",
    "high",
    "margin",
    "tie_margin",
]
# The beginnings of all verdicts, in the order in which pages count them.
_VERDICTS = (
    SUPPORTED,
    PARTLY_SUPPORTED,
    CONTRADICTED,
    TIE,
    DOES_NOT_TRANSFER,
    NOT_RESOLVED,
    NOT_TESTED,
)
# The methods of the table in README.md: from their labels in figures to what the table calls them.
_IN_README = {
    "Base": "nothing: the base model",
    "PG": "policy gradient (PG)",
    "GRPO": "GRPO",
    "MaxRL, not centred": "MaxRL, not centred",
    "Baseline k=4": "the paper's baseline, k = 4",
    "RSPO k=4": "RSPO, k = 4",
    "RSPO k=8": "RSPO, k = 8",
}
SEEDS_LIMIT = 1000  # the largest number of seeds to ask for
# The names in sentences of what RSPO is compared with, by their labels.
_NAMES = {label_of(objective): name for objective, name in difference.SUBTRACTED.items()}
# The figure whose differences each claim tests; C3 and A3 compare the same pairs as fig_difference.
_FIGURES_OF_CLAIMS = {
    "C1": "fig_difference",
    "C3": "fig_difference",
    "A3": "fig_difference",
    "C6": "fig_model_size",
    "C7": "fig_contamination_free",
    "C8": "fig_max_at_k",
}
RSPO = difference.RSPO


# --- what the pages conclude ----------------------------------------------------------------------


def headline(experiment: Experiment) -> dict[str, Any]:
    """The models and the rows of fig_difference; no rows for a scale without this figure.

    The `outcome` of a row is "above" or "below" if the difference is significant, and otherwise
    "tie" or "open".
    """
    rows = _drawn(experiment, difference.FIGURE)
    for row in rows:
        row["outcome"] = shown_by(row)
    policies = difference.FIGURE.policies(experiment) if rows else []
    return {"models": model_labels(experiment, policies), "rows": rows}


def best_baselines(experiment: Experiment) -> list[Row]:
    """Where the baseline with another k has more Pass@k than the one of the headline.

    Returns: rows with the `k`, the `trained_k` of the baseline that has most, by the estimates, and
        the `difference` of the RSPO that is trained for this k to it, in percentage points.
    """
    compared = {row["k"] for row in headline(experiment)["rows"] if row["against"] == "baseline"}
    rspo: dict[int, float] = {}
    baselines: dict[int, dict[int, float]] = {}  # by k, those of each k of training
    for rows in main_table(experiment).values():
        for row in rows:
            k = int(row["k"])
            if row["objective"] == "hitchhiking":
                baselines.setdefault(k, {})[int(row["trained_k"])] = row["estimate"]
            if row["objective"] == "rspo_pass_at_k" and int(row["trained_k"]) == k:
                rspo[k] = row["estimate"]
    found: list[Row] = []
    for k in sorted(int(k) for k in compared):
        if k not in baselines or k not in rspo:
            continue  # the table of the scale has other k
        best = max(baselines[k], key=lambda trained_k: baselines[k][trained_k])
        if best != k:
            found.append({"k": k, "trained_k": best, "difference": rspo[k] - baselines[k][best]})
    return found


def own_rates(experiment: Experiment, problems: str = "") -> list[Row]:
    """The differences of the study of own learning rates, as the rows of `headline` are.

    Each has RSPO at the k that it is trained for, and both methods at the rate that validation
    chooses at this k. They are those of the published table, which comes with the project; there
    are none for a scale without this study, and before the table is published.

    Args:
        problems: "no hidden rule" or "hidden rule", for a part of the problems; empty for all.
    """
    tables = published_tables(experiment, OWN_RATES)
    if not tables:
        return []
    rows = read_rows(tables[0])
    end = f", own rates, {problems}" if problems else ", own rates"
    rows = rows[rows["family"].str.endswith(end)]
    found = []
    for row in adjusted_together(rows.to_dict("records")):
        row["against"] = _NAMES[row["method_b"].partition(" k=")[0]]
        row["outcome"] = shown_by(row)
        found.append(row | {name: 100 * row[name] for name in ("estimate", "low", "high")})
    return found


@dataclass(frozen=True)
class ChosenRates:
    """How the rates of `own_rates` are chosen, and what that changes.

    seeds: the number of training seeds whose validation chooses.
    changed: the number of rates that are not the shared one, one for each method and k.
    at_edge: how many of these are the best ones in validation, too, and the lowest or the highest
        that were tried.
    worse: the changed rates with which the method has less on the test problems than with the
        shared one, as pages print it: its name, the k, and Pass@k in % with either rate. Methods
        that the study does not have at the shared rate are left out.
    unchanged: the rows of `own_rates` in which both methods have the shared rate, so that their
        trainings, and differences, are those of `headline`.
    """

    seeds: int
    changed: int
    at_edge: int
    worse: list[Row]
    unchanged: list[Row]


def chosen_rates(experiment: Experiment) -> ChosenRates | None:
    """The choices behind the rows of `own_rates`, from published tables; None without them."""
    study = experiment.config.studies.get(OWN_RATES)
    if study is None or study.choose_in is None:
        return None
    tables = published_tables(experiment, OWN_RATES)
    choosing = published_tables(experiment, study.choose_in)
    if not tables or not choosing:
        return None
    seeds = read_csv(choosing[1])["seeds"].astype(int).max()
    others = []  # with another rate than the shared one
    shared_variants = {}
    for method in read_csv(tables[1]).to_dict("records"):
        # Without this setting, a variant has the rate of the model, which is the shared one.
        if "learning_rate" in method["setting"]:
            others.append(method)
        else:
            shared_variants[method["method"]] = method["variant"]
    changed = 0
    at_edge = 0
    for method in others:
        chosen_at = method["chosen_at"].split()
        changed += len(chosen_at)
        if method["at_edge"] == "yes":
            at_edge += len(set(chosen_at) & set(method["best_at"].split()))
    worse = _worse_on_test(others, shared_variants, read_rows(tables[0]))
    at_one_rate = {
        (row["against"], row["k"]): row["estimate"] for row in headline(experiment)["rows"]
    }
    unchanged = []
    for row in own_rates(experiment):
        shared = at_one_rate.get((row["against"], row["k"]), nan)
        if isclose(row["estimate"], shared, abs_tol=1e-6):
            unchanged.append(row)
    return ChosenRates(int(seeds), changed, at_edge, worse, unchanged)


def _worse_on_test(
    others: list[Row], shared_variants: Mapping[str, str], rows: pd.DataFrame
) -> list[Row]:
    """`ChosenRates.worse`.

    Args:
        others: the methods with another rate than the shared one.
        shared_variants: the variant of each method that has the shared rate.
        rows: the comparisons of the study, which have the levels, too.

    Raises: InputError if a level is missing, or not the only one.
    """
    worse = []
    for method in others:
        name = method["method"]
        if name not in shared_variants:
            continue
        for k in method["chosen_at"].split():
            own = _level(rows, name, method["variant"], k)
            shared = _level(rows, name, shared_variants[name], k)
            if own < shared:
                worse.append({"method": name, "k": k, "own": own, "shared": shared})
    return worse


def _level(rows: pd.DataFrame, method: str, variant: str, k: str) -> float:
    """Pass@k of a method of a study in %, with the one digit after the point that pages print."""
    wanted = {"method_a": method, "variant": variant, "method_b": "", "claim": "", "k": k}
    row = the_row(rows, **wanted)
    return round(100 * row["estimate"], 1)


@dataclass(frozen=True)
class Peers:
    """Objectives of other papers against RSPO that is trained for the k of evaluation.

    k: the k of evaluation.
    compared: the number of objectives, each k of training counted.
    below, ties, above: how many are significantly below RSPO, ties, and significantly above.
    trained_ks: the k for which those that have one are trained.
    seeds: the number of training seeds.
    """

    k: int
    compared: int
    below: int
    ties: int
    above: int
    trained_ks: list[int]
    seeds: int


def peers(experiment: Experiment) -> list[Peers]:
    """The results of the published study `peers`, for each k that RSPO is trained for.

    The p-values are those of the study, which are adjusted over all its comparisons at a k.
    """
    tables = published_tables(experiment, PEERS)
    if not tables:
        return []
    rows = read_rows(tables[0])
    methods = read_csv(tables[1])
    methods = methods[[OBJECTIVES[name].peer for name in methods["objective"]]]
    trained_ks = sorted({int(float(k)) for k in methods["trained_k"] if k})
    found = []
    for k in sorted({int(row["k"]) for row in own_rates(experiment)}):
        is_against_rspo = (rows["k"] == str(k)) & (rows["method_b"] == label_of(RSPO, k))
        is_peer = rows["method_a"].isin(methods["method"])
        compared = rows[is_against_rspo & is_peer & (rows["family"] != "")].to_dict("records")
        shown = Counter(shown_by(row) for row in compared)
        found.append(
            Peers(
                k=k,
                compared=len(compared),
                below=shown[BELOW],
                ties=shown[TIE],
                above=shown[ABOVE],
                trained_ks=trained_ks,
                seeds=min(int(row["seeds"]) for row in compared),
            )
        )
    return found


def transfer(experiment: Experiment) -> list[Row]:
    """The differences of RSPO on problems that are further from those of the training.

    They are those of claim C7 that `headline` has on the usual problems, with the same keys, and
    with p-values that are adjusted over them. There are none if the claim is not tested.
    """
    rows = [
        row
        for row in _comparisons(experiment)
        if row["claim"] == "C7"
        and row["where"] == POOLED
        and not row["family"]
        and _is_at_own_k(row)
    ]
    return [
        row | {"against": _against(row), "outcome": shown_by(row)}
        for row in adjusted_together(rows)
    ]


@dataclass(frozen=True)
class Gains:
    """Where RSPO gains against another method, by benchmark.

    against: the other method, as sentences name it.
    gained: the labels of the benchmarks with a difference that is significantly above 0 at a k that
        RSPO is trained for.
    missing: the labels of the other benchmarks.
    below: those of them on which every estimate is below 0.
    """

    against: str
    gained: list[str]
    missing: list[str]
    below: list[str]


def compared_by_benchmark(experiment: Experiment) -> list[Row]:
    """The differences of RSPO, at the k that it is trained for, on single benchmarks.

    Claims C1 and A3 have them. Their p-values are adjusted over all of these differences.
    """
    rows = [
        row
        for row in _comparisons(experiment)
        if row["claim"] in ("C1", "A3") and row["where"] != POOLED and _is_at_own_k(row)
    ]
    return adjusted_together(rows)


def gains(experiment: Experiment) -> list[Gains]:
    """Where RSPO gains against each other method, from `compared_by_benchmark`."""
    labels: dict[str, str] = {}
    for suite in experiment.config.data.suites.values():
        labels |= {name: benchmark.label for name, benchmark in suite.items()}
    compared: dict[str, dict[str, list[Row]]] = {}
    for row in compared_by_benchmark(experiment):
        of_method = compared.setdefault(_against(row), {})
        of_method.setdefault(labels[row["where"]], []).append(row)
    found = []
    for against, benchmarks in compared.items():
        gained = []
        below = []
        for label, rows in benchmarks.items():
            if any(shown_by(row) == ABOVE for row in rows):
                gained.append(label)
            elif all(row["estimate"] < 0 for row in rows):
                below.append(label)
        missing = [label for label in benchmarks if label not in gained]
        found.append(Gains(against, gained, missing, below))
    return found


def own_claims(experiment: Experiment) -> list[tuple[str, list[Row]]]:
    """The differences that decide claims A1 and A2, by what is subtracted, in the order of their k.

    Returns: "k = 4" for A1, and the label of each objective without a k for A2. The `outcome` of a
        row is "above", "below", "tie" or "open", with p adjusted over the claim.
    """
    found: dict[str, list[Row]] = {}
    for row in _comparisons(experiment):
        if row["claim"] in ("A1", "A2") and row["decides"] == "yes":
            against = "k = 4" if row["claim"] == "A1" else row["method_b"]
            found.setdefault(against, []).append(row | {"outcome": shown_by(row)})
    for rows in found.values():
        rows.sort(key=lambda row: int(row["k"]))
    return list(found.items())


def below_zero(experiment: Experiment) -> list[tuple[str, list[Row]]]:
    """The differences of RSPO and what it is compared with that are below 0, by figure.

    RSPO is trained for the k at which it is compared, on all problems of the figure's suite.
    """
    found: dict[str, dict[tuple[str, str], Row]] = {}
    for row in _comparisons(experiment):
        figure = _FIGURES_OF_CLAIMS.get(row["claim"], "")
        if not figure or row["where"] != POOLED or row["family"] or not _is_at_own_k(row):
            continue
        if row["estimate"] < 0:
            # Two claims may have the same comparison.
            found.setdefault(figure, {}).setdefault((row["method_a"], row["method_b"]), row)
    return [(figure, list(rows.values())) for figure, rows in found.items()]


def _is_at_own_k(row: Row) -> bool:
    """Whether a comparison is of RSPO with another method, at the k that RSPO is trained for."""
    other = row["method_b"].partition(" k=")[0]
    return row["method_a"] == label_of(RSPO, row["k"]) and other in _NAMES


def _against(row: Row) -> str:
    """The name in sentences of what RSPO is compared with."""
    return _NAMES[row["method_b"].partition(" k=")[0]]


def main_table(experiment: Experiment) -> dict[str, list[Row]]:
    """The rows of fig_main on the pooled problems by method, with a row for each k."""
    methods: dict[str, list[Row]] = {}
    for row in _drawn(experiment, curves.MAIN):
        if row["benchmark"] == POOLED:
            methods.setdefault(row["method"], []).append(row)
    return methods


def levels(experiment: Experiment, ks: list[int]) -> dict[str, list[Row]]:
    """Pass@k on the pooled problems at some k, by method, named in words.

    They are from fig_grpo, and the objective without a k from fig_without_k, if there is one.
    """
    rows = _drawn(experiment, curves.GRPO)
    without_k = figures_of(experiment).get("fig_without_k")
    if without_k is not None:
        rows = rows + _drawn(experiment, without_k)
    found: dict[str, list[Row]] = {}
    for method, name in _IN_README.items():
        of_method = [row for row in rows if row["method"] == method and row["benchmark"] == POOLED]
        at = {int(row["k"]): row for row in of_method}
        if at:
            found[name] = [at[k] for k in ks]
    return found


def _drawn(experiment: Experiment, figure: Figure) -> list[Row]:
    """The rows of a figure's table; none for a scale without the figure."""
    if figure.name not in figures_of(experiment):
        return []
    _, _, csv = figure.task(experiment).outputs
    return read_rows(csv).to_dict("records")


def claims(experiment: Experiment) -> list[Row]:
    """The rows of claims.csv, each with further keys.

    verdict: the verdict without its reason.
    reason: why a claim is not tested; empty if it is.
    deciding: the comparisons that decide the claim.
    weakest: that of `deciding` with the weakest evidence; None for a claim that is not tested.
    not_as_claimed: the comparisons of `deciding` that are not as claimed, each with
        `seeds_to_halve`: first those against the claim, then the open ones by p, then the ties.
    transfer: the comparisons of RSPO's advantage on two suites; every claim has the same list.
    """
    comparisons = _comparisons(experiment)
    by_id = {comparison["id"]: comparison for comparison in comparisons}
    transfer = [comparison for comparison in comparisons if comparison["family"] == TRANSFER]
    claim_rows = read_rows(experiment.files.reports / "claims.csv").to_dict("records")
    for row in claim_rows:
        deciding = [
            comparison
            for comparison in comparisons
            if comparison["decides"] == "yes" and comparison["claim"] == row["claim"]
        ]
        not_as_claimed = [comparison for comparison in deciding if comparison["outcome"] != FOR]
        not_as_claimed.sort(key=_rank)
        for comparison in not_as_claimed:
            comparison["seeds_to_halve"] = _seeds_to_halve(comparison)
        # The verdict of an untested claim is such as "not tested: the grid has no main".
        verdict, _, reason = row["verdict"].partition(": ")
        row["verdict"] = verdict
        row["reason"] = reason
        row["deciding"] = deciding
        row["transfer"] = transfer
        row["weakest"] = by_id[row["comparison"]] if deciding else None
        row["not_as_claimed"] = not_as_claimed
    return claim_rows


def _rank(comparison: Row) -> tuple[int, float]:
    """The key by which comparisons that are not as claimed are sorted: outcome, then p if open."""
    outcome = [AGAINST, OPEN, TIE].index(comparison["outcome"])
    if comparison["outcome"] != OPEN:
        return outcome, 0.0
    return outcome, inf if isnan(comparison["p"]) else comparison["p"]  # NaN has no order


def by_verdict(claims: list[Row]) -> list[tuple[str, int]]:
    """Each verdict that a claim has, without its reason, and the number of claims with it.

    Args:
        claims: the rows of `claims`.
    """
    counts = Counter(claim["verdict"] for claim in claims)
    ordered = []
    for beginning in _VERDICTS:
        ordered += [pair for pair in counts.items() if pair[0].startswith(beginning)]
    return ordered


def _comparisons(experiment: Experiment) -> list[Row]:
    """Every comparison of the claims, in the units of the pages, and with `ks`, its k as texts."""
    frame = read_rows(experiment.files.reports / "claim_comparisons.csv")
    frame[_SCALED] = frame[_SCALED].mul(frame["metric"].map(_FACTORS).astype(float), axis="index")
    return frame.assign(ks=frame["k"].str.split()).to_dict("records")


def _seeds_to_halve(comparison: Row) -> float:
    """The number of seeds with which the interval is expected to be half as wide.

    It is NaN for a comparison of a single seed or without an error, and infinite if `SEEDS_LIMIT`
    seeds are not enough (docs/statistics.md).
    """
    error = comparison["error"]
    error_problems = comparison["error_problems"]
    error_seeds = comparison["error_seeds"]
    if isnan(error_seeds) or isnan(error) or error == 0:
        return nan
    half = (comparison["high"] - comparison["low"]) / 2
    # The variance that more seeds do not reduce.
    constant = max(0.0, error**2 - error_seeds**2)
    for seeds in range(int(comparison["seeds"]) + 1, SEEDS_LIMIT + 1):
        fraction = comparison["seeds"] / seeds
        seed_variance = error_seeds**2 * fraction
        # The variance over problems includes their interaction with seeds, which more seeds reduce.
        problem_variance = constant + (error_problems**2 - constant) * fraction
        expected = Estimate(
            0.0,
            error_problems=sqrt(problem_variance),
            error_seeds=sqrt(seed_variance),
            error=sqrt(constant + seed_variance),
            degrees=comparison["degrees"],
            seeds=seeds,
        )
        if expected.interval()[1] <= half / 2:
            return seeds
    return inf


# --- what was run ---------------------------------------------------------------------------------


def pictures(experiment: Experiment) -> Iterator[Row]:
    """The figures, results before formulas, with their captions and pictures.

    wide: whether a picture is wider than a column of a paper.
    """
    for figure in figures(experiment):
        _, image, _ = figure.task(experiment).outputs
        content = image.read_bytes()
        # A PNG has its width in pixels in these bytes.
        width = int.from_bytes(content[16:20]) / style.DOTS_PER_INCH
        yield {
            "figure": figure,
            "alt": figure.caption.partition(";")[0],  # without the details
            "wide": width > style.COLUMN_WIDTH + 0.1,
            # The picture is part of the page, because the report has no files beside it.
            "png": b64encode(content).decode(),
        }


def setup(experiment: Experiment) -> dict[str, Any]:
    """The number of responses and of policies, the models, and the problems of each benchmark."""
    frame = pd.concat(read_frame(path, CURVES) for path, _ in tasks.every_curve(experiment))
    sizes = frame[frame["benchmark"] != POOLED].drop_duplicates(["cell", "benchmark"])
    problems = sizes.set_index("benchmark")["problems"].to_dict()
    suites = experiment.config.data.suites.values()
    labels = {name: benchmark.label for suite in suites for name, benchmark in suite.items()}
    models = dict.fromkeys(cell.model for cell in experiment.cells.values())
    return {
        "models": [experiment.config.models[model].label for model in models],
        "responses": (sizes["problems"] * sizes["samples"]).sum(),
        "policies": sizes["cell"].nunique(),
        "benchmarks": [(labels[name], problems[name]) for name in labels if name in problems],
    }


def warnings(experiment: Experiment) -> list[str]:
    """Sentences that warn of clipped gradients and of a sampler that differs from the policy."""
    logs = {cell: read_log(experiment, cell) for cell in experiment.cells}
    clipped = {
        cell: fmean(column(experiment.files.training_log(cell), log, "gradient_clipped"))
        for cell, log in logs.items()
    }
    sentences = [clipping_warning(clipped), sampler_warning(logs)]
    return [sentence for sentence in sentences if sentence]


def without_answer(experiment: Experiment) -> list[str]:
    """The share of responses without an answer of each policy whose responses are shown.

    A judge model and verifiers of the user do not say whether a response has an answer; there is a
    sentence instead of shares then.
    """
    if experiment.config.verifier not in READ_ANSWERS:
        return [f"The verifier {experiment.config.verifier} does not say."]
    suites = dict.fromkeys(
        (policy, experiment.suite_of(benchmark)) for policy, benchmark in readable(experiment)
    )
    return [
        f"{policy} on {suite}: {share_without_answer(experiment, policy, suite):.1%}"
        for policy, suite in suites
    ]


def cost(experiment: Experiment) -> list[Row]:
    """The seconds of each policy, training and evaluation together, and of all policies."""
    frame = read_rows(experiment.files.table("cost"))
    sums = frame.groupby("policy", sort=False)[list(SECONDS)].sum()
    sums.loc["all"] = sums.sum()
    return sums.reset_index().to_dict("records")


def used_by_models(experiment: Experiment) -> Row:
    """The seconds of training, sampling and verification, of all policies together.

    The pretraining of base policies counts as training. The seconds of curves are left out, because
    `rspo evidence page` computes the curves each time.
    """
    frame = read_rows(experiment.files.table("cost"))
    row: Row = frame.loc[frame["step"] != "curves", list(SECONDS)].sum().to_dict()
    return row


def samples(experiment: Experiment) -> Iterator[tuple[str, str, Row]]:
    """The responses that the report shows: benchmark, policy, and a row of each kind.

    The kinds are the first right, the first wrong and the longest response. A kind has None if
    there is no such response.
    """
    for policy, benchmark in readable(experiment):
        frame = scored_samples(experiment, policy, benchmark)
        correct = frame.groupby("problem_id")["correct"]
        frame = frame.assign(right=correct.transform("sum"), total=correct.transform("size"))
        kinds = {
            "right": frame[frame["correct"]].head(1),
            "wrong": frame[~frame["correct"]].head(1),
            "longest": frame.loc[[frame["tokens"].idxmax()]],
        }
        first = {kind: next(iter(part.to_dict("records")), None) for kind, part in kinds.items()}
        yield benchmark, policy, first


def families(experiment: Experiment, benchmark: str) -> list[str]:
    """Descriptions of the families of problems of a generated benchmark; empty for another one."""
    generated = experiment.data_set(benchmark).generated
    return [ABOUT[family] for family in generated.families] if generated else []


def provenance(experiment: Experiment) -> dict[str, Any]:
    """The version of the code, and all data from which the contents of the page were made."""
    behind = history(task(experiment).input_files)
    return {
        "code": code_version(),
        "data": sorted(
            (source, str(path), content_of(behind[path]))
            for source, paths in sources(behind).items()
            for path in paths
        ),
    }
