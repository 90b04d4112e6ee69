"""The arguments and options that several commands share, and the experiment that they select."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rspo.config.given import DEFAULT_SCALE, EXPERIMENT_VARIABLE
from rspo.config.merge import parse_overrides
from rspo.core.checkout import require_same_checkout
from rspo.core.errors import InputError

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

Scale = Annotated[
    str | None,
    typer.Option(help="Read config/SCALE.yaml. Default: tiny.", metavar="SCALE"),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a config key, such as seeds=3 or training.steps=50. Repeatable.",
    ),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Folder of the results, such as one for trial runs. Default: results/SCALE.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace results made with other settings. Trainings start from step 1.",
    ),
]
Mirror = Annotated[Path | None, typer.Option(help="Folder to use instead of the Hugging Face hub.")]
Ks = Annotated[
    list[int] | None,
    typer.Option(
        "--k",
        help="Repeatable. Default: 1, 2, 4, ... up to the smallest number of responses to a "
        "problem.",
    ),
]

# How files of responses are read: `rspo.formats.source.Reading`.
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Layout of the rows, such as lm-eval (docs/own_files.md). Default: recognised by "
        "their keys.",
    ),
]
ProblemColumn = Annotated[
    str | None,
    typer.Option(
        help="Key of the problem, or of its id; a.b.0 reaches into values. Default: problem."
    ),
]
AnswerColumn = Annotated[str | None, typer.Option(help="Key of the answer. Default: answer.")]
ResponseColumn = Annotated[
    str | None,
    typer.Option(help="Key of the response, or of a list of several. Default: response."),
]
CorrectColumn = Annotated[
    str | None, typer.Option(help="Key of the verdict, or of a list. Default: correct.")
]
Answers = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the answers by id, if the responses have none."),
]

SuiteOfPolicies = Annotated[
    str | None,
    typer.Option("--suite", help="Suite of benchmarks; names of policies are then read as such."),
]

DataSet = Annotated[str, typer.Argument(help="train, validation or a benchmark.")]
Suite = Annotated[str, typer.Argument(help="A suite of benchmarks.")]
Model = Annotated[str, typer.Argument(help="A model of the config.")]
Cell = Annotated[str, typer.Argument(help="A cell of the grid; `rspo status` lists all.")]
Policy = Annotated[str, typer.Argument(help="A cell, or a base policy such as small--base.")]
BlockNumber = Annotated[
    int, typer.Argument(help="Number of the block of samples; evaluation.block sets its size.")
]


def load_experiment(
    scale: Scale = None,
    overrides: Overrides = [],  # noqa: B006
    results: Results = None,
) -> "Experiment":
    """Read the experiment that --scale, --set and --results select.

    For the commands of its rules, Snakemake passes `scale`, `set` and `results` in an environment
    variable (workflow/rules/common.smk). An option replaces the value of the same name.
    """
    from rspo.config.experiment import Experiment

    require_same_checkout(Path())
    if scale == "":  # such as --scale "$SCALE" without the variable
        raise InputError("--scale is empty; expected the name of a file in config/, such as tiny")
    from_snakemake = json.loads(os.environ.get(EXPERIMENT_VARIABLE, "{}"))
    by_hand = parse_overrides(overrides)
    scale = scale or from_snakemake.get("scale", DEFAULT_SCALE)
    if results is None and from_snakemake.get("results"):
        results = Path(from_snakemake["results"])
    experiment = Experiment.load(
        scale,
        by_hand or from_snakemake.get("set", {}),
        results=results,
        sources={"--set": by_hand},
    )
    if by_hand and not experiment.files.are_elsewhere:
        # `rspo.pipeline.run` compares with the config alone, because it refuses to write results of
        # other settings into the folder of the config's own results.
        return replace(experiment, as_configured=Experiment.load(scale))
    return experiment


def has_config(scale: str | None) -> bool:
    """Whether the current folder has the config of a scale."""
    return Path("config", f"{scale or DEFAULT_SCALE}.yaml").is_file()
