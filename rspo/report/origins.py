"""Cost and provenance: the part of the page that tells of hosts, times and versions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rspo.config.experiment import Experiment
from rspo.core.provenance import code_version
from rspo.core.trace import Artifact, faults, history, sources
from rspo.report import inputs, table_path
from rspo.report.main_table import Row, Shown, read_csv, shown

_SECONDS = ("wall_seconds", "cpu_seconds", "gpu_seconds")


@dataclass(frozen=True)
class Cost:
    """by_policy: sums over steps; steps: every row of tables/cost.csv."""

    by_policy: Shown
    steps: Shown


@dataclass(frozen=True)
class Provenance:
    """code: that wrote the page; faults: where the history of its inputs is broken."""

    code: str
    faults: list[str]
    versions: Shown
    data: Shown
    files: Shown


def cost(experiment: Experiment) -> Cost:
    """What each policy took, its training and its evaluation together.

    Raises: InputError for a table that is missing or lacks a column.
    """
    rows = read_csv(table_path(experiment, "cost"), "policy", "step", *_SECONDS, "host")
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    sums = [[name, *_sums(row for row in rows if row["policy"] == name)] for name in policies]
    return Cost(
        Shown(
            "Time by policy, its training and evaluation together (hours:minutes:seconds)",
            ["policy", "wall, all jobs", "CPU", "GPU"],
            [*sums, ["all", *_sums(rows)]],
        ),
        shown("Time by policy and step", rows),
    )


def _sums(rows: Iterable[Row]) -> list[str]:
    listed = list(rows)
    return [_clock(sum(float(row[key] or 0) for row in listed)) for key in _SECONDS]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def provenance(experiment: Experiment) -> Provenance:
    """From the notes beside every file that the report comes from, directly or not.

    Raises: InputError for a damaged note.
    """
    found = history(inputs(experiment))
    made = [item for item in found.values() if item.provenance]
    data = [
        [source, str(path), found[path].content]
        for source, paths in sources(found).items()
        for path in paths
    ]
    return Provenance(
        code_version(),
        faults(found, contents=False),
        _versions(made),
        Shown("Where the data come from", ["source @ revision", "file", "content"], sorted(data)),
        Shown(
            "Every file behind this page",
            ["file", "made by", "settings", "digest", "commit", "written", "host"],
            [_origin(item) for item in sorted(made, key=lambda item: item.path)],
        ),
    )


def _versions(made: list[Artifact]) -> Shown:
    counts: Counter[tuple[str, str]] = Counter()
    for item in made:
        note = item.provenance
        about = {"python": note["python"], "rspo": note["rspo"], "commit": note["git_commit"]}
        counts.update((about | note["packages"]).items())
    rows = [[name, version, str(count)] for (name, version), count in sorted(counts.items())]
    return Shown("What wrote them", ["software", "version", "files"], rows)


def _origin(item: Artifact) -> list[str]:
    note = item.provenance
    short = [note["settings_hash"], note["digest"][:12], note["git_commit"][:12]]
    return [str(item.path), item.step, *short, note["written"], note["host"]]
