"""The report's page: read every section, then fill in one template."""

from pathlib import Path
from typing import Any

import jinja2
import yaml

from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.figures import difference, training_curves
from rspo.report import figures, require, step
from rspo.report.sections.checklist import checklist
from rspo.report.sections.claims import claims
from rspo.report.sections.errata import errata
from rspo.report.sections.figures import figure_picture, pooled_panel
from rspo.report.sections.headline import headline
from rspo.report.sections.method import example
from rspo.report.sections.provenance import cost, provenance
from rspo.report.sections.samples import readings
from rspo.report.sections.summary import main_figure, summary
from rspo.report.sections.tables import tables
from rspo.report.sections.training import training_pictures
from rspo.report.sections.unresolved import unresolved

TEMPLATE = Path(__file__).with_name("template.html")


def write_report(experiment: Experiment, force: bool = False) -> None:
    """Write the report as one HTML file.

    Raises: InputError for missing or bad inputs.
    """
    made = step(experiment)
    require(experiment, made.input_files, made.outputs[0])
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text())

    def work() -> None:
        write_text(made.outputs[0], template.render(_contents(experiment)))

    made.run(work, force)


def _contents(experiment: Experiment) -> dict[str, Any]:
    config = experiment.config.model_dump(mode="json", exclude_unset=True)
    return {
        "scale": experiment.scale,
        **_story(experiment),
        "summary": summary(experiment),
        "checklist": checklist(experiment),
        "seeds": experiment.config.seeds,
        "samples": experiment.config.evaluation.samples,
        "training": list(training_pictures(experiment)),
        "tables": tables(experiment),
        "readings": list(readings(experiment)),
        "config": yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=90),
        "errata": errata(),
        "cost": cost(experiment),
        "provenance": provenance(experiment),
    }


def _story(experiment: Experiment) -> dict[str, Any]:
    """The sections that tell the result, and the figures that none of them shows."""
    main = main_figure(experiment)
    every = {figure.name: figure_picture(experiment, figure) for figure in figures(experiment)}
    return {
        "example": example(),
        "headline": headline(experiment),
        "main": every.pop(main.name, None) if main else None,
        "pooled": pooled_panel(experiment, main) if main else "",
        "difference": every.pop(difference.FIGURE.name, None),
        "entropy": every.pop(training_curves.ENTROPY.name, None),
        "claims": claims(experiment),
        "unresolved": unresolved(experiment),
        "figures": list(every.values()),
    }
