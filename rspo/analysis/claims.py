"""The paper's claims: each with its hypothesis as a formula and its planned comparisons.

Plans depend on the config only, not on data. K is the set of planned k: those that the methods are
trained for (1 for policy gradient) and that the config evaluates. docs/statistics.md says which
comparisons decide a claim, and which are for information.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

from rspo.analysis.comparisons import Comparison, Method, Quantity, difference
from rspo.analysis.labels import label_of
from rspo.config.experiment import BASE, Cell, Experiment
from rspo.config.registered import OWN_REWARDS
from rspo.config.schema import DEFAULT_VARIANT, POOLED
from rspo.objectives import OBJECTIVES
from rspo.pipeline import tasks
from rspo.pipeline.task import Task

TRANSFER = "transfer"  # the family of differences between two suites
BASELINE = "hitchhiking"
RISK_NEUTRAL = "policy_gradient"
GRPO = "grpo"
WITHOUT_K = "without_k"  # the entry of the grid with objectives that have no k
# They have no k, and maximize Pass@1: an objective for Pass@k should be above them at k > 1.
FOR_PASS_AT_1 = (RISK_NEUTRAL, GRPO)
FIXED_K = 4  # that claim A1 compares with the k of evaluation
Plan = Callable[[Experiment], list[Comparison]]
Pairs = dict[tuple[str, str], None]  # (policy, suite), ordered and without repetitions


class NotTested(Exception):
    """The grid lacks what a claim needs; the message names it."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    hypothesis: a formula. P_j(m) is Pass@j of method m (Max@j in C8), averaged over problems;
        mean[...] averages over everything that the text after it does not fix.
    plan: returns the comparisons of the claim, which holds if it holds in every deciding one.
    remark: a caveat that is shown with the verdict; empty if there is none.
    entry: the entry of the grid without which the claim is not made at all; empty if it always is.
    """

    name: str
    title: str
    hypothesis: str
    plan: Plan
    remark: str = ""
    entry: str = ""


class GridMethods:
    """The methods of one entry of the config's grid, or of one variant of a study's cells.

    Args:
        name: the entry of the grid, or the study.
        k_of: the entry whose methods' k are the planned ones; default: `name`.
        variant: use the cells of this variant only.

    Raises: NotTested if the grid has no such entry, or the entry has several models.
    """

    def __init__(
        self,
        experiment: Experiment,
        name: str,
        k_of: str | None = None,
        variant: str = DEFAULT_VARIANT,
    ) -> None:
        for needed in (name, k_of or name):
            if needed not in experiment.config.grid | experiment.config.studies:
                raise NotTested(f"the grid has no {needed}")
        self.experiment = experiment
        self.name = name
        self.k_of = k_of or name
        cells = [cell for cell in experiment.cells_of(name) if cell.variant == variant]
        self.cells = experiment.by_method(cell.name for cell in cells)
        self.benchmarks = experiment.benchmarks_of(experiment.grid_entry(name).suite)
        models = {cell.model for cell in self.cells}
        if len(models) > 1:
            raise NotTested(f"grid.{name} has several models")
        (self.model,) = models
        self.evaluated = tuple(sorted(experiment.config.evaluation.k))
        # Max@k compares graded rewards, and Pass@k verdicts.
        self.metric: Quantity = "pass_at_k"
        self.rspo = "rspo_pass_at_k"
        if any(cell.reward != "binary" for cell in self.cells):
            self.metric = "max_at_k"
            self.rspo = "rspo_max_at_k"

    @cached_property
    def planned(self) -> tuple[int, ...]:
        """K, the planned k.

        Raises: NotTested if none of them is evaluated.
        """
        trained = {cell.k for cell in self.experiment.cells_of(self.k_of)}
        planned = tuple(k for k in self.evaluated if k in trained)
        if not planned:
            raise NotTested(f"evaluation.k has no k that grid.{self.k_of} trains for")
        return planned

    @property
    def base(self) -> Method:
        return Method(BASE, tuple(dict.fromkeys(map(self.experiment.base_of, self._every_seed))))

    @property
    def _every_seed(self) -> list[Cell]:
        """The cells of all seeds of the methods."""
        return [self.experiment.cell(name) for names in self.cells.values() for name in names]

    @property
    def problem_sets(self) -> list[str]:
        """All problems, which are "pooled", and each benchmark."""
        names = [POOLED]
        names.extend(self.benchmarks)
        return names

    @property
    def tie_margin(self) -> float | None:
        """The margin within which a difference is a tie; None for rewards of an unknown range."""
        evaluation = self.experiment.config.evaluation
        if self.metric == "max_at_k" and evaluation.reward in OWN_REWARDS:
            return None
        return evaluation.equivalence_margin

    def by_k(self, objective: str) -> dict[int, Method]:
        """The methods of an objective by the k they are trained for.

        Raises: NotTested if there is none, or they differ in more than k.
        """
        return self._by("k", objective, lambda cell: label_of(objective, cell.k))

    def by_n(self) -> dict[int, Method]:
        """RSPO by the number of responses per prompt.

        Raises: NotTested if there is none, or they differ in more than n.
        """
        return self._by("n", self.rspo, lambda cell: f"{label_of(self.rspo)} n={cell.n}")

    def _by(self, key: str, objective: str, label: Callable[[Cell], str]) -> dict[int, Method]:
        """The methods of an objective by `key`, in ascending order."""
        cells = [cell for cell in self.cells if cell.objective == objective]
        if not cells:
            raise NotTested(f"grid.{self.name} has no {objective}")
        without_key: Any = {key: 0}  # makes cells equal that differ only in `key`
        if len({replace(cell, **without_key) for cell in cells}) > 1:
            raise NotTested(f"grid.{self.name} has {objective} that differs in more than {key}")
        return {
            getattr(cell, key): Method.for_cell(cell, self.cells[cell], label(cell))
            for cell in sorted(cells, key=attrgetter(key))
        }

    def risk_neutral(self) -> Method:
        """Policy gradient.

        Raises: NotTested if there is none.
        """
        (method,) = self.by_k(RISK_NEUTRAL).values()
        return method

    def by_trained_k(self) -> dict[int, Method]:
        """RSPO, with policy gradient as its k = 1."""
        return {1: self.risk_neutral()} | self.by_k(self.rspo)

    def compare(
        self,
        first: Method,
        second: Method,
        ks: Sequence[int],
        where: str = POOLED,
        decides: bool = True,
        margin: float | None = None,
    ) -> Comparison:
        """The first method minus the second, averaged over `ks`, on all problems or a benchmark.

        A tie of the two is tested too, unless the claim itself says that they tie.

        Args:
            margin: the claim says that the difference is between -margin and margin; default: that
                it is above 0.
        """
        return Comparison(
            first.label,
            second.label,
            self.metric,
            terms=tuple(difference(first, second, ks)),
            where=where,
            benchmarks=tuple(self.benchmarks) if where == POOLED else (where,),
            decides=decides,
            margin=margin,
            tie_margin=self.tie_margin if margin is None else None,
        )


def above_baseline(grid: GridMethods) -> list[Comparison]:
    """RSPO minus the baseline of the same k."""
    rspo = grid.by_k(grid.rspo)
    baseline = grid.by_k(BASELINE)
    pairs = [(rspo[k], baseline[k]) for k in rspo if k in baseline]
    return _table("RSPO", "Baseline", grid, pairs, by_benchmark=True)


def worse_as_k_grows(grid: GridMethods) -> list[Comparison]:
    """The baseline of each k minus that of the next larger k."""
    pairs = list(pairwise(grid.by_k(BASELINE).values()))
    return _table("Baseline, smaller", "next k", grid, pairs)


def best_at_its_own_k(grid: GridMethods) -> list[Comparison]:
    """RSPO of each k minus RSPO of every other k, at the k of the first."""
    methods = grid.by_trained_k()
    ks = [k for k in grid.planned if k in methods]
    if len(ks) < 2:
        raise NotTested(f"evaluation.k has less than two k that grid.{grid.name} trains RSPO for")
    return [
        grid.compare(methods[k], method, (k,))
        for k in ks
        for other, method in methods.items()
        if other != k
    ]


def _table(
    method_a: str,
    method_b: str,
    grid: GridMethods,
    pairs: Sequence[tuple[Method, Method]],
    by_benchmark: bool = False,
) -> list[Comparison]:
    """Differences of pairs of methods, as a table of pairs x k (x benchmarks).

    The marginal means of the table decide: the means over pairs and k on each benchmark, over k of
    each pair, and over pairs at each k. Its single entries are for information.

    Raises: NotTested if there is no pair.
    """
    if not pairs:
        raise NotTested(f"grid.{grid.name} has no pair of {method_a} and {method_b}")

    def mean_of_pairs(ks: tuple[int, ...], where: str = POOLED) -> Comparison:
        """The mean of all pairs' differences; everything but its terms is as for the first pair."""
        terms = [term for pair in pairs for term in difference(*pair, ks, 1 / len(pairs))]
        first = grid.compare(*pairs[0], ks, where)
        return replace(first, method_a=method_a, method_b=method_b, terms=tuple(terms))

    # The marginal means.
    planned = grid.planned
    comparisons: list[Comparison] = []
    if by_benchmark:
        comparisons += [mean_of_pairs(planned, where) for where in grid.benchmarks]
    if len(pairs) > 1:
        comparisons += [grid.compare(*pair, planned) for pair in pairs]
    comparisons += [mean_of_pairs((k,)) for k in planned]
    # The entries. With a single pair or a single planned k, those of planned k on all problems are
    # marginal means, which are listed already.
    has_entries_as_means = len(pairs) == 1 or len(planned) == 1
    for pair in pairs:
        for where in grid.problem_sets:
            for k in grid.evaluated:
                is_listed = where == POOLED and k in planned and has_entries_as_means
                if not is_listed:
                    comparisons.append(grid.compare(*pair, (k,), where, decides=False))
    return comparisons


def main_findings(experiment: Experiment, name: str) -> list[Comparison]:
    """What C1, C2 and C3 compare, on the methods of a grid entry."""
    grid = GridMethods(experiment, name)
    return above_baseline(grid) + worse_as_k_grows(grid) + best_at_its_own_k(grid)


def main_findings_elsewhere(experiment: Experiment) -> list[Comparison]:
    """The findings on another suite, and RSPO's advantage there minus that on the usual suite."""
    findings = main_findings(experiment, "contamination_free")
    if "main" not in experiment.config.grid:
        return findings
    grid = GridMethods(experiment, "contamination_free")
    usual = GridMethods(experiment, "main")
    rspo = grid.by_k(grid.rspo)
    baseline = grid.by_k(BASELINE)
    transfer = [
        replace(
            grid.compare(rspo[k], baseline[k], (k,), decides=False),
            against=tuple(usual.benchmarks),
            family=TRANSFER,
            tie_margin=None,  # an equal advantage on both suites does not make the methods equal
        )
        for k in grid.planned
        if k in rspo and k in baseline
    ]
    return findings + transfer


def entropy_rises(experiment: Experiment) -> list[Comparison]:
    """The late entropy of RSPO of each k minus that of the next smaller k."""
    methods = GridMethods(experiment, "main").by_trained_k()
    return [
        Comparison(larger.label, smaller.label, "entropy", tuple(difference(larger, smaller, ())))
        for smaller, larger in pairwise(methods.values())
    ]


def more_samples(experiment: Experiment, beyond: bool) -> list[Comparison]:
    """RSPO with each n minus RSPO with the next smaller n.

    Args:
        beyond: compare the n above that of grid.main, instead of those up to it.
    """
    grid = GridMethods(experiment, "scalability", k_of="main")
    usual = max(cell.n for cell in experiment.cells_of("main"))
    pairs = []
    for (_, fewer), (n, more) in pairwise(grid.by_n().items()):
        if (n > usual) == beyond:
            pairs.append((more, fewer))
    return _table("RSPO, next", "smaller n", grid, pairs)


def grpo_like_policy_gradient(experiment: Experiment) -> list[Comparison]:
    """GRPO minus policy gradient; the claim is that they are equivalent within a margin."""
    grid = GridMethods(experiment, "grpo", k_of="main")
    (grpo,) = grid.by_k(GRPO).values()
    risk_neutral = GridMethods(experiment, "main").risk_neutral()
    margin = experiment.config.evaluation.equivalence_margin
    comparisons = []
    for where in grid.problem_sets:
        for k in grid.evaluated:
            decides = where == POOLED and k in grid.planned
            comparisons.append(grid.compare(grpo, risk_neutral, (k,), where, decides, margin))
    return comparisons


def above_base(grid: GridMethods) -> list[Comparison]:
    """RSPO of each k minus the base model, at its own k."""
    return [
        grid.compare(method, grid.base, (k,), where, decides=where == POOLED)
        for where in grid.problem_sets
        for k, method in grid.by_trained_k().items()
        if k in grid.planned
    ]


def own_k_above_fixed_k(experiment: Experiment) -> list[Comparison]:
    """RSPO of each k minus RSPO of `FIXED_K`, at the k of the first.

    Raises: NotTested if RSPO is not trained for this k.
    """
    grid = GridMethods(experiment, "main")
    methods = grid.by_trained_k()
    if FIXED_K not in methods:
        raise NotTested(f"grid.main has no RSPO with k = {FIXED_K}")
    fixed = methods[FIXED_K]
    return [
        grid.compare(method, fixed, (k,))
        for k, method in methods.items()
        if k in grid.planned and k != FIXED_K
    ]


def own_k_above_none(experiment: Experiment) -> list[Comparison]:
    """RSPO of each k minus each objective of grid.without_k that has no k, at the k of the first.

    The entry also has lines of its figure that are not compared here: objectives with a k, and
    those for Pass@1, which claim A3 is about.

    Raises: NotTested if the entry has no other objective.
    """
    grid = GridMethods(experiment, "main")
    others = GridMethods(experiment, WITHOUT_K, k_of="main")
    comparisons = []
    for cell, policies in others.cells.items():
        if OBJECTIVES[cell.objective].has_k or cell.objective in FOR_PASS_AT_1:
            continue
        other = Method.for_cell(cell, policies, label_of(cell.objective))
        comparisons += [
            grid.compare(method, other, (k,))
            for k, method in grid.by_trained_k().items()
            if k in grid.planned
        ]
    if not comparisons:
        raise NotTested(
            f"grid.{WITHOUT_K} has no objective without a k but {' and '.join(FOR_PASS_AT_1)}"
        )
    return comparisons


def above_risk_neutral(experiment: Experiment) -> list[Comparison]:
    """RSPO of each k minus policy gradient, and minus GRPO, at this k; by benchmark too."""
    grid = GridMethods(experiment, "main")
    (grpo,) = GridMethods(experiment, "grpo", k_of="main").by_k(GRPO).values()
    return [
        grid.compare(method, other, (k,), where, decides=where == POOLED)
        for other in (grid.risk_neutral(), grpo)
        for where in grid.problem_sets
        for k, method in grid.by_k(grid.rspo).items()
        if k in grid.planned
    ]


def dropping_saves_time(experiment: Experiment) -> list[Comparison]:
    """The time of each method without dropping, minus that of the same method with dropping.

    The cells of grid.dropping keep all responses; the default variant drops those of weight 0.

    Raises: NotTested if a training with dropping is not in the grid.
    """
    if "dropping" not in experiment.config.grid:
        raise NotTested("the grid has no dropping")
    comparisons = []
    cells = [cell.name for cell in experiment.cells_of("dropping")]
    for first, keeping in experiment.by_method(cells).items():
        dropping = tuple(
            replace(experiment.cell(name), variant=DEFAULT_VARIANT).name for name in keeping
        )
        if missing := [name for name in dropping if name not in experiment.cells]:
            raise NotTested(f"the grid has no {missing[0]}")
        label = label_of(first.objective, first.k)
        terms = difference(Method("all responses", tuple(keeping)), Method(label, dropping), ())
        comparisons.append(
            Comparison(f"{label}, all responses", label, "time_of_dropping", tuple(terms))
        )
    return comparisons


_C1_FORMULA = (
    "mean[P_j(RSPO k) - P_j(Baseline k)] > 0 on each benchmark, for each k, and at each j in K"
)
_C1_TO_C3 = "the formulas of C1, C2 and C3"

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim(
            "C1",
            "RSPO is above the baseline on every benchmark",
            _C1_FORMULA,
            lambda experiment: above_baseline(GridMethods(experiment, "main")),
        ),
        Claim(
            "C2",
            "The baseline gets worse as its k grows",
            "mean[P_j(Baseline k) - P_j(Baseline k')] > 0 for each k < k' (neighbours), "
            "and at each j in K",
            lambda experiment: worse_as_k_grows(GridMethods(experiment, "main")),
        ),
        Claim(
            "C3",
            "RSPO tends to be best at the k that it was trained for (policy gradient: k = 1)",
            "P_k(RSPO k) - P_k(RSPO k') > 0 for each k in K, k' != k (PG is k = 1)",
            lambda experiment: best_at_its_own_k(GridMethods(experiment, "main")),
            "the paper says 'tends'; here against every other k, so that no k may tie another one",
        ),
        Claim(
            "C4",
            "Entropy is higher for larger k",
            "H(RSPO k') - H(RSPO k) > 0 for each k < k' (neighbours, PG is k = 1); H is the mean "
            "entropy over the last third of training",
            entropy_rises,
        ),
        Claim(
            "C5",
            "At one k, more samples per prompt are better, up to the n of all other experiments",
            "mean[P_j(RSPO n') - P_j(RSPO n)] > 0 for each n < n' (neighbours, n' <= the n of "
            "grid.main), and at each j in K",
            lambda experiment: more_samples(experiment, beyond=False),
            "steps and prompts per step are the same, so more samples are also more computing; the "
            "paper's advice n >= 2k is the step that crosses it, its n = 32 stands alone as C5b",
        ),
        Claim(
            "C5b",
            "Still more samples per prompt are better still (the paper's n = 32)",
            "mean[P_j(RSPO n') - P_j(RSPO n)] > 0 for each n < n' (neighbours, n' > the n of "
            "grid.main), and at each j in K",
            lambda experiment: more_samples(experiment, beyond=True),
        ),
        Claim(
            "C6",
            "C1, C2 and C3 hold at the second model size",
            f"{_C1_TO_C3}, on the cells of grid.model_size",
            lambda experiment: main_findings(experiment, "model_size"),
        ),
        Claim(
            "C7",
            "C1, C2 and C3 hold on benchmarks further from what the models have seen",
            f"{_C1_TO_C3}, on the suite of grid.contamination_free",
            main_findings_elsewhere,
            "its verdict is 'does not transfer' if it is not supported and RSPO is above the "
            "baseline by significantly less than on the suite of grid.main; at the paper's scale "
            "benchmarks that are newer than the models, at the tiny scale "
            "harder problems than those trained on",
        ),
        Claim(
            "C8",
            "C1, C2 and C3 hold for Max@k",
            f"{_C1_TO_C3}, P_j being Max@j, on the cells of grid.max_at_k",
            lambda experiment: main_findings(experiment, "max_at_k"),
        ),
        Claim(
            "C9",
            "GRPO behaves like policy gradient",
            "|P_j(GRPO) - P_j(PG)| < evaluation.equivalence_margin at each j in K",
            grpo_like_policy_gradient,
        ),
        Claim(
            "C10",
            "Reinforcement learning beats the base model at Pass@k when it is trained for that k",
            "P_k(RSPO k) - P_k(base) > 0 for each k in K (PG is k = 1)",
            lambda experiment: above_base(GridMethods(experiment, "main")),
        ),
        Claim(
            "C11",
            "Dropping responses of weight 0 shortens training",
            "time of the update without dropping - with it, mean over steps, > 0 for each "
            "method of grid.dropping; the unit is the time of sampling in the same step, and the "
            "mean difference is relative to the time of the whole training with dropping",
            dropping_saves_time,
            "both trainings have the same seed, prompts and weights; times are those of this "
            "machine",
        ),
        # Claims beyond the paper's, about its advice to train for the k of evaluation.
        Claim(
            "A1",
            f"Training for the k of evaluation is better than for k = {FIXED_K} throughout",
            f"P_k(RSPO k) - P_k(RSPO {FIXED_K}) > 0 for each k in K, k != {FIXED_K} (PG is k = 1)",
            own_k_above_fixed_k,
            entry=WITHOUT_K,
        ),
        Claim(
            "A2",
            "Training for the k of evaluation is better than with an objective without k",
            "P_k(RSPO k) - P_k(X) > 0 for each k in K and each objective X of grid.without_k that "
            "has no k and is not PG or GRPO (PG is k = 1)",
            own_k_above_none,
            entry=WITHOUT_K,
        ),
        Claim(
            "A3",
            "RSPO is above policy gradient and GRPO at the k that it is trained for",
            "P_k(RSPO k) - P_k(PG) > 0 and P_k(RSPO k) - P_k(GRPO) > 0 for each k in K, k > 1",
            above_risk_neutral,
            entry=WITHOUT_K,
        ),
    )
}


def register(claim: Claim) -> None:
    """Add a claim to `CLAIMS`; it is tested and reported like the paper's.

    Raises: ValueError for a name that is taken.
    """
    if claim.name in CLAIMS:
        raise ValueError(f"claim {claim.name!r} exists already; choose another name")
    CLAIMS[claim.name] = claim


def claims_of(experiment: Experiment) -> dict[str, Claim]:
    """The claims that are made of a config: all but those whose entry its grid lacks."""
    grid = experiment.config.grid
    return {name: claim for name, claim in CLAIMS.items() if not claim.entry or claim.entry in grid}


def planned(experiment: Experiment) -> tuple[list[Comparison], dict[str, str]]:
    """The comparisons of every claim that can be tested, and why any other claim is not.

    Returns: the comparisons of all claims, and a reason for each claim that is not tested.
    """
    plan: list[Comparison] = []
    reasons = {}
    for name, claim in claims_of(experiment).items():
        try:
            comparisons = claim.plan(experiment)
            if not any(comparison.decides for comparison in comparisons):
                raise NotTested("evaluation.k has no k at which it would be decided")
            plan += [replace(comparison, claim=name) for comparison in comparisons]
        except NotTested as reason:
            reasons[name] = str(reason)
    return plan, reasons


def task(experiment: Experiment) -> Task:
    """`rspo claims`: writes the table of claims and the table of comparisons."""
    return tasks.claims(experiment, inputs=lambda: _inputs(experiment))


def evaluations(plan: Sequence[Comparison], experiment: Experiment) -> Pairs:
    """Each pair of a policy and a suite whose scores some comparisons need."""
    return dict.fromkeys(
        (policy, experiment.suite_of(benchmark))
        for comparison in plan
        for benchmark in comparison.benchmarks + comparison.against
        for policy in comparison.policies
    )


def logs(plan: Sequence[Comparison], *metrics: Quantity) -> dict[str, None]:
    """The cells whose training logs the comparisons of these metrics need."""
    logged = (comparison for comparison in plan if comparison.metric in metrics)
    return dict.fromkeys(cell for comparison in logged for cell in comparison.policies)


def _inputs(experiment: Experiment) -> list[tuple[Path, Task]]:
    """The scores and training logs that the claims are tested on."""
    plan, _ = planned(experiment)
    inputs = []
    for policy, suite in evaluations(plan, experiment):
        inputs += tasks.score_inputs(experiment, policy, suite)
    for cell in logs(plan, "entropy", "time_of_dropping"):
        inputs.append(tasks.log_input(experiment, cell))
    return inputs
