"""What is compared: the files of a run, or a policy of an experiment by its name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import STANDARD_INPUT
from rspo.core.tables import PROBLEMS, read_table
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.read_outcomes import read_run, suite_scores
from rspo.formats.source import Reading, files_of, without_verdicts
from rspo.pipeline import tasks
from rspo.pipeline.run import require_inputs
from rspo.rewards import shown_verifier


@dataclass(frozen=True)
class Side:
    """The verdicts on the responses of a run.

    name: that of the file, of the pattern of several files, or of the policy.
    outcomes: their ids are unique: texts or ids of problems for files, BENCHMARK/ID for a policy.
    texts: texts of the problems in this order; those of files are the ids of the outcomes.
    lines: how files were read, and warnings.
    verifiers: the verifiers that decided, as in `Run`.
    is_policy: whether the verdicts are the scores of a policy.
    """

    name: str
    outcomes: Outcomes
    texts: tuple[str, ...]
    lines: tuple[str, ...] = ()
    verifiers: tuple[str, ...] = ("",)
    is_policy: bool = False


def side_of_files(
    files: Sequence[Path],
    reading: Reading,
    verifier: str | None = None,
    name: str = "",
    extract: str | None = None,
) -> Side:
    """The side of the files of a run; `read_run` has the details."""
    kept, left_out = without_verdicts(files)
    run = read_run(kept, reading, verifier, extract)
    name = name or str(kept[0])
    lines = tuple(left_out) + run.lines
    return Side(name, run.outcomes, run.outcomes.ids, lines, run.verifiers)


def side_of_policy(experiment: Experiment, policy: str, suite: str) -> Side:
    """The side of a policy: its scores on all benchmarks of a suite, all blocks together.

    Raises: InputError for an unknown policy or suite, and for scores that are missing, or that were
        made with other settings or from other files than the config says.
    """
    experiment.model_of(policy)
    benchmarks = experiment.benchmarks_of(suite)
    require_inputs(tasks.curves(experiment, policy, suite))
    scores = suite_scores(experiment, policy, suite)
    ids = []
    texts = []
    for benchmark in benchmarks:
        rows = read_table(experiment.files.problems(benchmark), PROBLEMS)
        text_of = {row["id"]: row["prompt"][-1]["content"] for row in rows}
        for problem in scores[benchmark].ids:
            ids.append(f"{benchmark}/{problem}")
            texts.append(text_of.get(problem, problem))
    outcomes = replace(Outcomes.pooled(scores.values()), ids=tuple(ids))
    config = experiment.config
    verifiers = (shown_verifier(config.verifier, config.extract),)
    return Side(policy, outcomes, tuple(texts), verifiers=verifiers, is_policy=True)


def side_of(
    argument: Path,
    reading: Reading,
    verifier: str | None,
    suite: str | None,
    load: Callable[[], Experiment],
    extract: str | None = None,
) -> Side:
    """The side that an argument of the command line names: a file, a pattern, or a policy.

    Args:
        suite: the suite of policies; None if the user gives none, so that there are files only.
        load: reads the experiment; it is called for a policy only.

    Raises: InputError for a name of neither.
    """
    if suite is None or argument.exists():
        files = files_of(argument)
        is_name = not argument.suffix and str(argument) not in STANDARD_INPUT
        if not files[0].exists() and is_name:
            raise InputError(f"{argument}: no such file (--suite names the suite of a policy)")
        return side_of_files(files, reading, verifier, str(argument), extract)
    require_own_verdicts(verifier, extract)
    return side_of_policy(load(), str(argument), suite)


def require_own_verdicts(verifier: str | None, extract: str | None) -> None:
    """Raises: InputError if the user asks to verify the responses of a policy, which has scores."""
    option = "--verifier" if verifier is not None else "--extract"
    if verifier is not None or extract is not None:
        raise InputError(
            f"{option} is for files; `rspo verify POLICY --suite SUITE --verifier NAME` compares "
            "a second verifier with the scores of a policy"
        )


def paired(first: Side, second: Side) -> list[tuple[int, int]]:
    """The places of each shared problem in both sides, in the order of the first.

    Problems are the same if their ids are, or, if no ids are shared, their texts, as for a policy
    and a file.
    """
    return _shared(first.outcomes.ids, second.outcomes.ids) or _shared(first.texts, second.texts)


def _shared(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """The places of each name that both have, in the order of the first; a name counts once."""
    place_in_second = {name: place for place, name in reversed(list(enumerate(second)))}
    places = []
    taken = set()
    for place, name in enumerate(first):
        if name in place_in_second and name not in taken:
            places.append((place, place_in_second[name]))
            taken.add(name)
    return places
