"""The sections Cost and Provenance: the only ones with hosts, times and versions."""

from dataclasses import dataclass

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.provenance import code_version
from rspo.core.tables import read_csv
from rspo.core.trace import Artifact, faults, history, sources
from rspo.report import step, table_path
from rspo.report.page_table import PageTable, page_table

_SECONDS = ["wall_seconds", "cpu_seconds", "gpu_seconds"]


@dataclass(frozen=True)
class Provenance:
    """code: version that wrote the page; faults: where the history of its inputs is broken."""

    code: str
    faults: list[str]
    versions: PageTable
    data: PageTable
    files: PageTable


def cost(experiment: Experiment) -> tuple[PageTable, PageTable]:
    """The time that each policy used for training and evaluation: in total, and by step.

    Raises: InputError for a table that is missing or lacks a column.
    """
    steps = read_csv(table_path(experiment, "cost"), "policy", "step", *_SECONDS, "host")
    seconds = steps[_SECONDS].apply(pd.to_numeric).fillna(0.0)
    sums = seconds.groupby(steps["policy"], sort=False).sum()
    sums.loc["all"] = seconds.sum()
    clocks = sums.map(_clock).reset_index()
    clocks.columns = pd.Index(["policy", "wall, all jobs", "CPU", "GPU"])
    caption = "Time by policy, its training and evaluation together (hours:minutes:seconds)"
    return page_table(caption, clocks), page_table("Time by policy and step", steps)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def provenance(experiment: Experiment) -> Provenance:
    """Read the provenance of every file behind the report.

    Raises: InputError for a damaged provenance file.
    """
    files = history(step(experiment).input_files)
    made = [item for item in files.values() if item.provenance]
    data = [
        [source, str(path), files[path].content]
        for source, paths in sources(files).items()
        for path in paths
    ]
    return Provenance(
        code_version(),
        faults(files, contents=False),
        _versions(made),
        PageTable(
            "Where the data come from", ["source @ revision", "file", "content"], sorted(data)
        ),
        PageTable(
            "Every file behind this page",
            ["file", "made by", "settings", "digest", "commit", "written", "host"],
            [_origin(item) for item in sorted(made, key=lambda item: item.path)],
        ),
    )


def _versions(made: list[Artifact]) -> PageTable:
    frame = pd.DataFrame(
        [
            version
            for item in made
            for version in [
                ("python", item.provenance["python"]),
                ("rspo", item.provenance["rspo"]),
                ("commit", item.provenance["git_commit"]),
                *item.provenance["packages"].items(),
            ]
        ],
        columns=["software", "version"],
    )
    counts = frame.groupby(["software", "version"]).size().reset_index(name="files")
    return page_table("What wrote them", counts)


def _origin(item: Artifact) -> list[str]:
    note = item.provenance
    short = [note["settings_hash"], note["digest"][:12], note["git_commit"][:12]]
    return [str(item.path), item.step, *short, note["written"], note["host"]]
