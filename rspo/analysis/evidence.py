"""Evidence: the results from which a published page is made, small enough to be committed with it.

A Parquet file has, for each policy, the number of correct responses to each problem, the training
log, and the rewards if the page reads rewards other than 1 and 0. It also has the provenance of the
files that these come from. It grows policy by policy, so a study can be trained in pieces, on
several machines. The page can be made from it without training, and a policy that is trained once
more can be compared with it.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write, digest, read_json_lines, write_json_lines, write_text
from rspo.core.settings import differences
from rspo.core.tables import SCORES, read_frame, write_arrow
from rspo.pipeline.provenance import inputs_of, provenance_path, read_provenance, size_of
from rspo.pipeline.state import behind, state_of
from rspo.pipeline.task import Task

FOLDER = Path("docs") / "evidence"
# Significant digits of numbers in logs. Numbers that differ in float32 differ in these digits.
DIGITS = 9
# The folder of the data sets. The column `policy` has this name in their rows, although data sets
# are no policy.
PROBLEMS = "problems"
_META = b"rspo.evidence"  # key of the Parquet file's metadata: the config, as JSON
_SCHEMA = pa.schema(
    [
        ("policy", pa.string()),
        ("file", pa.string()),  # path relative to the folder of results
        ("provenance", pa.string()),  # of the file, as JSON; on its first row
        ("content", pa.string()),  # of a training log, as JSON
        # A table of scores has a row for each problem, with these columns.
        ("benchmark", pa.string()),
        ("problem_id", pa.string()),
        ("responses", pa.int32()),
        ("correct", pa.int32()),
        # Of the first half of the responses; null in evidence from before it was kept.
        ("correct_first", pa.int32()),
        # The reward of each response, correct responses first; null if the evidence keeps none.
        ("rewards", pa.list_(pa.float64())),
    ]
)
_PROBLEM = ["file", "benchmark", "problem_id"]
_HALVES = "correct_first"
TaskOfFile = Mapping[Path, Task]  # the task that writes each file


@dataclass
class Evidence:
    """The contents of one file of evidence.

    scale, overrides: name of the config, and settings that differ from it, such as {"seeds": 3}.
    rows: with the columns of `_SCHEMA`, sorted by policy.
    """

    path: Path
    scale: str
    overrides: Mapping[str, Any]
    rows: pd.DataFrame

    @classmethod
    def read(cls, path: Path) -> "Evidence":
        """Read a file of evidence.

        Raises: InputError if there is no such file, or it is damaged.
        """
        if not path.is_file():
            raise InputError(f"{path}: no such file; `rspo evidence add {path.stem}` makes it")
        try:
            table = pq.ParquetFile(path, page_checksum_verification=True).read()
            made_with = json.loads(table.schema.metadata[_META])
            if _HALVES not in table.column_names:
                table = table.append_column(_HALVES, pa.nulls(table.num_rows, pa.int32()))
            rows = table.select(_SCHEMA.names).cast(_SCHEMA).to_pandas()
            return cls(path, made_with["scale"], made_with["overrides"], rows)
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            line = str(error).partition("\n")[0]
            raise InputError(f"{path}: damaged, or no file of evidence ({line})") from None

    def write(self) -> None:
        """Write the file at `path`."""
        made_with = json.dumps({"scale": self.scale, "overrides": self.overrides})
        table = pa.Table.from_pandas(self.rows, _SCHEMA, preserve_index=False)
        with atomic_write(self.path) as partial:
            table = table.replace_schema_metadata({_META: made_with})
            pq.write_table(table, partial, compression="zstd", write_page_checksum=True)

    @property
    def policies(self) -> list[str]:
        """The policies whose results the file has."""
        return [name for name in self.rows["policy"].unique() if name != PROBLEMS]

    def faults(self, experiment: Experiment, files: TaskOfFile) -> dict[str, str]:
        """Why policies of the file do not fit the config, by policy.

        The config lacks the policy or one of its files, or has other settings for it.

        Args:
            files: all files from which the page is made with this config.
        """
        config = f"config/{experiment.scale}.yaml"
        known = _by_policy(experiment, files)
        faults = {name: f"{name} is not in {config}" for name in self.policies if name not in known}
        for policy, path, note in _notes(experiment, self.rows):
            if path not in files:
                faults[policy] = f"{policy} is not in {config}, or not with {path}"
            elif text := differences(note["settings"], files[path].settings):
                faults[policy] = f"{path} was made with other settings than {config} ({text})"
        return faults

    def require(self, experiment: Experiment, files: TaskOfFile, hint: str) -> None:
        """Raise an InputError if a policy has one of the `faults`; `hint` ends its message."""
        for text in self.faults(experiment, files).values():
            raise InputError(f"{self.path}: {text}; {hint}")


def add(
    path: Path,
    experiment: Experiment,
    files: TaskOfFile,
    keys: Sequence[str],
    rewards: Container[str],
    force: bool,
) -> Iterator[str]:
    """Add finished policies to the file; compare policies that are already in it with the results.

    Args:
        path: the file of evidence, which may not exist yet.
        files: all files from which the page is made.
        keys: keys of training logs that the page reads; `*` matches any text.
        rewards: the policies whose rewards the page reads.
        force: replace policies whose results differ, and remove those of `Evidence.faults`.

    Yields: lines that say what was added, and what differs.

    Raises: InputError for a policy of `Evidence.faults` without `force`, and if policies were made
        from different versions of a file.
    """
    known = _known(path, experiment, files, force)
    wanted = _by_policy(experiment, files)
    # Data sets are not a policy to count; the file gets their provenance at the end.
    data_sets = _rows(experiment, PROBLEMS, wanted.pop(PROBLEMS, {}), keys, rewards)
    old_data_sets = known.pop(PROBLEMS, data_sets)
    added = 0
    equal = 0
    missing = 0
    for policy, policy_files in wanted.items():
        if not _is_finished(policy_files):
            if policy not in known:
                missing += 1
            continue
        rows = _rows(experiment, policy, policy_files, keys, rewards)
        if policy in known and not force:
            change = _difference(known[policy], rows)
            if change:
                yield f"{policy}: {change}; kept, --force replaces it"
            else:
                equal += 1
            continue
        added += 1
        known[policy] = rows
    if known:
        # A clone of the repository without results has no data sets; the file keeps its own.
        known[PROBLEMS] = old_data_sets if data_sets.empty else data_sets
        table = pd.concat([known[name] for name in sorted(known)])
        _require_same_sources(path, experiment, table)
        Evidence(path, experiment.scale, experiment.overrides, table).write()
    count = len(known.keys() - {PROBLEMS})
    yield (
        f"{path}: added {added} policies, found {equal} equal; has {count} of "
        f"{len(wanted)}, {missing} are not finished"
    )


def _known(
    path: Path, experiment: Experiment, files: TaskOfFile, force: bool
) -> dict[str, pd.DataFrame]:
    """The rows of each policy in the file that fits the config; empty if there is no file yet.

    Raises: InputError for a policy of `Evidence.faults`, unless `force` leaves it out.
    """
    if not path.exists():
        return {}
    before = Evidence.read(path)
    if not force:
        before.require(experiment, files, "--force removes it")
    faults = before.faults(experiment, files)
    return {name: rows for name, rows in before.rows.groupby("policy") if name not in faults}


def _require_same_sources(path: Path, experiment: Experiment, rows: pd.DataFrame) -> None:
    """Raise an InputError if two policies were made from different versions of the same file.

    Their results are not comparable. For example, pretraining on another processor makes another
    base policy.
    """
    known: dict[str, tuple[str, str]] = {}
    for policy, file, note in _notes(experiment, rows):
        if policy == PROBLEMS:
            continue
        for source, version in inputs_of(file, note).items():
            # Only a file outside the policy's own folder is shared with other policies.
            first, other = known.setdefault(str(source), (policy, version))
            if other != version and experiment.files.folder(policy) not in source.parents:
                raise InputError(
                    f"{path}: {policy} was made from another version of {source} than {first}"
                )


def restore(evidence: Evidence, experiment: Experiment, files: TaskOfFile) -> None:
    """Write the files of the evidence into an empty folder of results.

    Restored scores have the original number of correct responses to each problem, in each half of
    its responses, and list them before the wrong ones of the half. Evidence from before halves were
    kept is divided at random. Rewards that were not kept are NaN. Numbers in logs have `DIGITS`
    significant digits.

    Raises: InputError for a policy of `Evidence.faults`.
    """
    evidence.require(experiment, files, "its page cannot be made with this config")
    by_file = dict(iter(evidence.rows.groupby("file", sort=False)))
    for _, path, note in _notes(experiment, evidence.rows):
        if _has_content(path):
            rows = by_file[str(path.relative_to(experiment.files.results))]
            _restore(path, rows, experiment.config.evaluation.block, experiment.config.verifier)
            # A restored file is not equal to the original, but its provenance has to fit it.
            note |= {"digest": digest(path), "bytes": size_of(path)}
        write_text(provenance_path(path), json.dumps(note, indent=1) + "\n")


def _by_policy(experiment: Experiment, files: TaskOfFile) -> dict[str, dict[Path, Task]]:
    """The files that evidence keeps of each policy: their provenance, and the contents of some.

    Files of data sets have the key `PROBLEMS` instead of a policy. Evidence keeps only their
    provenance.
    """
    by_policy: dict[str, dict[Path, Task]] = {}
    for path, task in files.items():
        if not path.is_relative_to(experiment.files.results):
            continue
        parts = path.relative_to(experiment.files.results).parts  # cells/POLICY/... or problems/...
        # Curves follow from scores, so evidence does not keep them.
        if parts[0] in ("cells", PROBLEMS) and "curves" not in parts:
            policy = parts[1] if parts[0] == "cells" else PROBLEMS
            by_policy.setdefault(policy, {})[path] = task
    return by_policy


def _is_scores(path: Path) -> bool:
    return path.parent.parent.name == "scores"  # scores/SUITE/BLOCK.parquet


def _has_content(path: Path) -> bool:
    """Whether evidence keeps the content of a file, not only its provenance."""
    return _is_scores(path) or path.name == "training.jsonl"


def _is_finished(files: TaskOfFile) -> bool:
    """Whether all files with content are current, and nothing they are made from has a fault."""
    for path, task in files.items():
        if not _has_content(path):
            continue
        if not state_of(task, path, deep=True).is_current:
            return False
        if any(file.is_fault for file in behind(task.inputs()).values()):
            return False
    return True


def _notes(
    experiment: Experiment, rows: pd.DataFrame
) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """The policy, the path and the provenance of each file."""
    noted = rows.dropna(subset="provenance")[["policy", "file", "provenance"]]
    for policy, file, text in noted.itertuples(index=False, name=None):
        yield policy, experiment.files.results / file, json.loads(text)


def _rows(
    experiment: Experiment,
    policy: str,
    files: TaskOfFile,
    keys: Sequence[str],
    rewards: Container[str],
) -> pd.DataFrame:
    """The rows of a policy from its results, with the columns of `_SCHEMA`."""
    policy_rows: list[dict[str, Any]] = []
    for path in files:
        note = read_provenance(path)
        if not note:  # the policy or its samples were removed
            continue
        rows: list[dict[str, Any]] = [{}]  # one row if evidence keeps only the provenance
        if _is_scores(path):
            rows = _counted(read_frame(path, SCORES), policy in rewards)
        elif _has_content(path):
            rows = [{"content": _content(read_json_lines(path), keys)}]
        rows[0]["provenance"] = json.dumps(note)
        file = str(path.relative_to(experiment.files.results))
        policy_rows += [row | {"policy": policy, "file": file} for row in rows]
    return pa.Table.from_pylist(policy_rows, schema=_SCHEMA).to_pandas()


def _content(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    """The records of a training log as JSON, with some keys and rounded numbers.

    Args:
        keys: patterns of the keys to keep.
    """
    kept = []
    for record in records:
        names = [name for name in record if any(fnmatch(name, key) for key in keys)]
        kept.append({name: record[name] for name in names})
    # `parse_float` gets the text of every float, however deeply it is nested.
    return json.dumps(json.loads(json.dumps(kept), parse_float=_rounded))


def _rounded(text: str) -> float:
    """A number in JSON with `DIGITS` significant digits."""
    return float(f"{float(text):.{DIGITS}g}")


def _counted(scores: pd.DataFrame, rewards: bool) -> list[dict[str, Any]]:
    """A row for each problem: the numbers of responses and of correct ones, and perhaps rewards."""
    in_order = scores.sort_values("sample_index", kind="stable")
    of_problem = in_order.groupby(_PROBLEM[1:], sort=True)
    place = of_problem.cumcount()
    is_first = place < of_problem["correct"].transform("size") // 2
    ordered = in_order.assign(correct_first=in_order["correct"] & is_first).sort_values(
        ["correct", "reward"], ascending=False, kind="stable"
    )
    problems = ordered.groupby(_PROBLEM[1:], sort=True)
    rows = problems.agg(
        responses=("correct", "size"),
        correct=("correct", "sum"),
        correct_first=("correct_first", "sum"),
    )
    if rewards:
        rows["rewards"] = problems["reward"].agg(list)
    return rows.reset_index().to_dict("records")


def _difference(known: pd.DataFrame, now: pd.DataFrame) -> str:
    """A sentence about how a policy's counts differ from the known ones; empty if they do not."""
    both = _counts(known).join(_counts(now).add_suffix("_now"), how="outer")
    # A problem of only one of the two has NaN in the columns of the other, and is not equal.
    equal = (both["responses"] == both["responses_now"]) & (both["correct"] == both["correct_now"])
    count = int((~equal).sum())
    return f"{count} of {len(both)} problems have other counts than the evidence" if count else ""


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    """The responses and the correct responses to each problem."""
    return rows.dropna(subset="problem_id").set_index(_PROBLEM)[["responses", "correct"]]


def _restore(path: Path, rows: pd.DataFrame, block: int, verifier: str) -> None:
    """Write a file of scores or a training log from its rows.

    Args:
        block: number of samples of each problem in a block.
        verifier: name of the verifier, which is a column of scores.
    """
    if _is_scores(path):
        number = int(path.stem)  # scores/SUITE/BLOCK.parquet
        write_arrow(path, _scores(rows, block * number, verifier))
    else:
        write_json_lines(path, json.loads(rows["content"].iloc[0]))


def _scores(rows: pd.DataFrame, first: int, verifier: str) -> pa.Table:
    """A table `SCORES` from the rows of its problems; in each half, the correct responses first.

    Args:
        first: the sample index of the first response to each problem.
    """
    responses = rows["responses"].to_numpy(int)
    # The problem of each response, and the place of the response among those to the problem.
    problem = np.repeat(np.arange(len(rows)), responses)
    place = np.arange(len(problem)) - np.repeat(np.cumsum(responses) - responses, responses)
    half = (responses // 2)[problem]
    in_first = _correct_in_first_half(rows)
    in_second = rows["correct"].to_numpy(int) - in_first
    correct = np.where(place < half, place < in_first[problem], place - half < in_second[problem])
    rewards = np.full(len(problem), np.nan)  # rewards that were not kept
    if rows["rewards"].notna().all():
        # They are kept with those of correct responses first.
        rewards[np.lexsort([place, ~correct, problem])] = np.concatenate(rows["rewards"].to_list())
    # Arrow repeats a text for a tenth of the time of pandas, and a page restores millions of rows.
    verdicts = pa.array(["incorrect", "correct"])
    columns = {
        "benchmark": pa.array(rows["benchmark"]).take(pa.array(problem)),
        "problem_id": pa.array(rows["problem_id"]).take(pa.array(problem)),
        "sample_index": first + place,
        "correct": correct,
        "verifier": pa.repeat(verifier, len(problem)),
        "verdict": verdicts.take(pa.array(correct.astype(int))),
        "reward": rewards,
    }
    return pa.table(columns, schema=SCORES)


def _correct_in_first_half(rows: pd.DataFrame) -> NDArray[np.int64]:
    """The correct ones of the first half of each problem's responses, [problems].

    Where they were not kept, they are those of a random half.
    """
    if rows[_HALVES].notna().all():
        return rows[_HALVES].to_numpy(np.int64)
    rng = np.random.default_rng(crc32(str(rows["file"].iloc[0]).encode()))
    correct = rows["correct"].to_numpy(int)
    responses = rows["responses"].to_numpy(int)
    return rng.hypergeometric(correct, responses - correct, responses // 2)
