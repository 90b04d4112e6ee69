"""Read outcomes from a policy's tables of scores, or from files of responses of any software.

Importing this module does not import pandas, so that short commands start quickly.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rspo.config.experiment import Experiment
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, require_name
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_frame
from rspo.evaluation.outcomes import Outcomes
from rspo.formats.answers import Gold, read_answers
from rspo.formats.checks import (
    READ_ANSWERS,
    no_answer_warning,
    none_correct_in_file,
    none_correct_warning,
    problem_warnings,
    text_warnings,
)
from rspo.formats.responses import Response, require_one_answer, responses_of
from rspo.formats.rows import Row
from rspo.formats.source import Reading, Source, how_read, open_source, unlike_files
from rspo.formats.verdicts import recorded_places, verified_responses
from rspo.formats.verified_response import VerifiedResponse
from rspo.rewards import Verdict, places_named, shown_verifier, verify
from rspo.rewards.verdict import NO_ANSWER

if TYPE_CHECKING:
    import pandas as pd

# The columns that identify a sample of a policy on a benchmark.
_SAMPLE = ["problem_id", "sample_index"]
_COLUMNS = ["benchmark", "problem_id", "sample_index", "correct", "reward"]
_OUTCOMES = pa.schema([SCORES.field(name) for name in _COLUMNS])
_VERDICTS = pa.schema([SCORES.field("verdict")])
# By file: the verdicts on its responses, each with its row.
_Verified = dict[Path, list[tuple[Row, VerifiedResponse]]]


def suite_scores(experiment: Experiment, policy: str, suite: str) -> dict[str, Outcomes]:
    """Outcomes of a policy on each benchmark of a suite, all blocks together.

    Problems are sorted by id, samples by index.
    """
    import pandas as pd

    paths = experiment.score_files(policy, suite)
    frame = pd.concat([read_frame(path, _OUTCOMES) for path in paths])
    by_index = frame.sort_values("sample_index", kind="stable")
    benchmarks = dict(iter(by_index.groupby("benchmark")))
    result = {}
    for name in experiment.benchmarks_of(suite):
        rows = benchmarks[name]
        problem, ids = pd.factorize(rows["problem_id"], sort=True)
        # Scores that were restored from evidence have NaN for rewards that it does not keep.
        has_rewards = bool(rows["reward"].notna().all())
        result[name] = Outcomes.of_rows(
            ids, problem, rows["correct"], rows["reward"], has_rewards=has_rewards
        )
    return result


def share_without_answer(experiment: Experiment, policy: str, suite: str) -> float:
    """The share of a policy's responses on a suite in which the verifier found no answer."""
    verdicts: list[str] = []
    for path in experiment.score_files(policy, suite):
        verdicts.extend(read_frame(path, _VERDICTS)["verdict"])
    return verdicts.count(NO_ANSWER) / len(verdicts)


def scored_samples(experiment: Experiment, policy: str, benchmark: str) -> "pd.DataFrame":
    """A row for each sample of a policy on a benchmark, in the order of the files of samples.

    It has the columns of SAMPLES, SCORES and PROBLEMS; the problem's `id` is `problem_id`.
    """
    import pandas as pd

    suite = experiment.suite_of(benchmark)
    sample_files = experiment.sample_files(policy, suite)
    score_files = experiment.score_files(policy, suite)
    sample_tables = [read_frame(file, SAMPLES, benchmark) for file in sample_files]
    score_tables = [read_frame(file, SCORES, benchmark) for file in score_files]
    samples = pd.concat(sample_tables, ignore_index=True)
    scores = pd.concat(score_tables, ignore_index=True)
    problems = read_frame(experiment.files.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    joined = samples.drop(columns="benchmark").merge(
        scores.drop(columns="benchmark"), how="left", on=_SAMPLE, validate="one_to_one"
    )
    return joined.merge(problems, how="left", on="problem_id")


@dataclass(frozen=True)
class Run:
    """The verdicts of the files of a run.

    lines: how the files were read, and warnings, for the user.
    verifiers: the verifiers that decided, now or when `rspo verify` wrote the files, each with its
        places; an empty name stands for other software.
    """

    outcomes: Outcomes
    lines: tuple[str, ...] = ()
    verifiers: tuple[str, ...] = ("",)


def read_outcomes(path: Path) -> Outcomes:
    """The outcomes of a file; `read_run` has the details."""
    return read_run([path]).outcomes


def read_run(
    paths: Sequence[Path],
    reading: Reading = Reading(),  # noqa: B008
    verifier: str | None = None,
    extract: str | Sequence[str] | None = None,
) -> Run:
    """Outcomes of the responses in files of JSON lines, .csv, .parquet and others.

    Each row is a response, or has several, in one of the layouts of `rspo.formats`. Where a file
    has no verdicts, but responses and answers, the verifier `rules` decides. A response without a
    reward has the reward 1 if it is correct, else 0. Problems and responses are in the order of the
    files. If every row has a sample index, as in a table of scores, they are sorted by problem and
    index instead.

    Args:
        paths: the files of one run, whose responses are taken together.
        reading: what the user states about the files.
        verifier: verify the responses again with this verifier, whatever verdicts the files have.
        extract: verify them again, with these places of the answer (`rspo.rewards.verify`).
            Default: those that the rows of `rspo verify` record, or the last box.

    Raises: InputError for files without rows, and for a row that is invalid or a duplicate.
    """
    gold = read_answers(reading.answers, reading) if reading.answers else None
    if extract is not None:
        verifier = verifier or "rules"
    sources = [open_source(path, reading) for path in paths]
    unjudged = [source for source in sources if verifier or _is_unjudged(source, gold)]
    verified: _Verified = {}
    lines = list(how_read(sources))
    if unjudged:
        verified, notes = _verify(unjudged, gold, verifier or "rules", extract)
        lines.extend(notes)
    table: dict[tuple[str, int], VerifiedResponse] = {}
    problems_of: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for row, response in verified.get(source.path) or verified_responses(source):
            # Without an index, the place in the file tells responses to the same problem apart.
            number = len(table) if response.sample_index is None else response.sample_index
            sample = (response.problem, number)
            if sample in table:
                raise InputError(f"{row}: sample {number} of problem {sample[0]!r} is duplicated")
            table[sample] = response
            problems_of[source.layout.name].add(response.problem)
    if not table:
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: has no rows; at least one verified response is needed")
    responses = list(table.values())
    lines.extend(unlike_files(problems_of))
    lines.extend(problem_warnings([(response.problem, response.id) for response in responses]))
    if not any(response.verifier for response in responses):  # `rspo verify` has warned
        lines.extend(none_correct_in_file([response.correct for response in responses]))
    if all(response.sample_index is not None for response in responses):
        responses = [table[sample] for sample in sorted(table)]
    verifiers = tuple(sorted({response.verifier for response in responses}))
    return Run(_outcomes(responses), tuple(lines), verifiers)


def _is_unjudged(source: Source, gold: Gold | None) -> bool:
    """Whether a file has responses and answers, but no verdicts."""
    has_answers = gold is not None or source.has("answer")
    return source.has("response") and has_answers and not source.has("correct")


def _verify(
    sources: Sequence[Source],
    gold: Gold | None,
    verifier: str,
    extract: str | Sequence[str] | None = None,
) -> tuple[_Verified, list[str]]:
    """The verdicts of a verifier on the responses of files, and lines about them.

    Raises: InputError for two answers to one problem, and for a verifier that needs a config.
    """
    require_name(f"verifier {verifier!r}", verifier, verifier_names())
    if verifier == "xverify":
        raise InputError("xverify needs a config: `rspo verify --verifier xverify` writes verdicts")
    named = places_named(extract, [verifier])
    rows: list[tuple[Path, Row]] = []
    responses: list[Response] = []
    answer_of: dict[str, Any] = {}
    for source in sources:
        for row, response in responses_of(source, gold):
            require_one_answer(source, row, response, answer_of)
            rows.append((source.path, row))
            responses.append(response)
    texts = [response.text for response in responses]
    places = [named or recorded_places(row) for _, row in rows]
    verdicts = _verdicts(responses, verifier, places)
    verified: _Verified = defaultdict(list)
    for index, (path, row) in enumerate(rows):
        judged = VerifiedResponse(
            responses[index].problem,
            verdicts[index].correct,
            id=_text_id(responses[index]),
            verifier=shown_verifier(verifier, places[index]),
        )
        verified[path].append((row, judged))
    without_answer = sum(verdict.reason == NO_ANSWER for verdict in verdicts)
    share = without_answer / max(len(texts), 1)
    shown = f"; {share:.1%} of the responses have no answer" if verifier in READ_ANSWERS else ""
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    options = sorted({shown_verifier(verifier, each) for each in places}) or [verifier]
    lines = [f"{sources[0].path}{more}: verified with {' and '.join(options)}{shown}"]
    # `read_run` warns about the problems of all files.
    lines.extend(text_warnings(responses))
    if len(set(places)) == 1:
        lines.extend(no_answer_warning(texts, without_answer, verifier, places[0]))
        lines.extend(none_correct_warning(responses, verdicts, verifier, places[0]))
    return verified, lines


def _verdicts(
    responses: Sequence[Response], verifier: str, places: Sequence[tuple[str, ...]]
) -> list[Verdict]:
    """The verdicts on responses, each with its own places of the answer."""
    rows_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, extract in enumerate(places):
        rows_of[extract].append(row)
    verdicts: dict[int, Verdict] = {}
    for extract, rows in rows_of.items():
        texts = [responses[row].text for row in rows]
        answers = [responses[row].answers for row in rows]
        results = verify(texts, answers, verifier, extract=extract)
        verdicts.update(zip(rows, results, strict=True))
    return [verdicts[row] for row in range(len(responses))]


def _text_id(response: Response) -> str:
    """The id of the problem of a response that is grouped by text; otherwise empty."""
    return "" if response.by_id else response.id


def _outcomes(responses: Sequence[VerifiedResponse]) -> Outcomes:
    """The outcomes of responses, with problems in the order in which they first appear."""
    index_of: dict[str, int] = {}
    problem = [index_of.setdefault(response.problem, len(index_of)) for response in responses]
    rewards = []
    for response in responses:
        rewards.append(response.correct if response.reward is None else response.reward)
    return Outcomes.of_rows(
        index_of,
        np.array(problem),
        [response.correct for response in responses],
        rewards,
        has_rewards=all(response.reward is not None for response in responses),
    )
