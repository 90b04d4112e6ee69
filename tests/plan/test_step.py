"""The estimated phases of a training step, beside estimates and measurements of others."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rspo.config.experiment import Experiment
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path
from rspo.plan import assumptions
from rspo.plan.hours import Range, Sizes, sizes_of
from rspo.plan.jobs import jobs, text
from rspo.plan.step import PHASES, step_phases, step_seconds
from tests.support import ROOT, paper_scale

SMALL = "qwen2.5-math-1.5b"
LARGE = "qwen2.5-math-7b"
CELL = {model: f"{model}--rspo-pass--k4--n16--s0" for model in (SMALL, LARGE)}
# Another estimate of this training, +- 30 %, from a simulation of the sampler and the share of the
# FLOPs that verl reaches: seconds of sampling, verification, log-probabilities, 8 updates,
# weights and the rest, of a step, and GPU-hours of a cell.
TABLE = [
    (SMALL, 8, (11, 2, 0.9, 6.4, 2, 3), 25, 35),
    (SMALL, 4, (13, 2, 1.8, 10, 2, 3), 32, 22),
    (LARGE, 8, (24, 2, 3.7, 18, 4, 3), 54, 76),
]


def load(root: Path, gpus: int, **more: Any) -> Experiment:
    """The paper's scale with a number of GPUs for cells of 1.5B."""
    return paper_scale.load(root, models={SMALL: {"gpus": gpus}}, **more)


def sizes(experiment: Experiment, cell: str) -> Sizes:
    found = sizes_of(experiment, cell)
    assert found is not None
    return found


def step(experiment: Experiment, cell: str) -> Range:
    return step_seconds(experiment, cell, sizes(experiment, cell))


@pytest.mark.parametrize(("model", "gpus", "phases", "seconds", "gpu_hours"), TABLE)
def test_another_estimate_of_each_phase_is_in_the_range(
    tmp_path: Path,
    model: str,
    gpus: int,
    phases: tuple[float, ...],
    seconds: float,
    gpu_hours: float,
) -> None:
    """Within the uncertainty of that estimate for a phase, and as it is for the whole."""
    experiment = load(tmp_path, gpus)
    cell = CELL[model]
    estimate = step_phases(experiment, cell, sizes(experiment, cell))
    for phase, other in zip(PHASES, phases, strict=True):
        least, most = estimate[phase]
        assert least <= 1.3 * other, phase
        assert most >= 0.7 * other, phase
    least, most = step(experiment, cell)
    assert least <= seconds <= most
    (job,) = [job for job in jobs(experiment) if (job.rule, job.policy) == ("train", cell)]
    assert job.hours is not None
    least, most = job.gpus * job.hours
    assert least <= gpu_hours <= most
    # A range that says something.
    assert most < 4 * least


def test_docs_say_what_eight_gpus_cost_instead_of_four(tmp_path: Path) -> None:
    """The tail of sampling takes as long on both."""
    eight = step(load(tmp_path, 8), CELL[SMALL])
    four = step(load(tmp_path, 4), CELL[SMALL])
    least, most = sorted(8 * eight / (4 * four))
    shortest, longest = sorted(1 - eight / four)
    assert 0.23 < shortest < 0.27  # a quarter
    assert 0.31 < longest < 0.35  # a third
    for file in ("docs/plan.md", "config/paper.yaml"):
        words = " ".join((ROOT / file).read_text().replace("#", "").split())
        assert "a quarter to a third less time" in words
        assert f"{least:.1f} to {most:.1f} times the GPU-hours" in words


def test_a_published_step_and_the_papers_cells_are_in_the_ranges(tmp_path: Path) -> None:
    """NeMo RL: 97.7 s for 2,048 responses of 1,060 tokens of 8B parameters on 16 H100s. The paper:
    16 hours for a cell of a model that it does not name, on 8 GPUs."""
    sixteen = {"models": {LARGE: {"gpus": 16}}, "verl": {"gpu": "h100"}}
    least, most = step(paper_scale.load(tmp_path, **sixteen), CELL[LARGE])
    assert least * 1060 / 700 < 97.7 < most * 1060 / 700
    hours = [job.hours for job in jobs(load(tmp_path, 8)) if job.rule == "train"]
    known = [one for one in hours if one is not None]
    assert min(one[0] for one in known) < 16 < max(one[1] for one in known)


def test_measured_and_published_rates_of_sampling_are_reached(tmp_path: Path) -> None:
    """vLLM's tokens per second by the seconds of a token of all running responses.

    7B on an H100 with 128 and 64 requests: 15,000 and 8,800, from which the least seconds come.
    1.5B on an H200 with 256 and 512 requests: 18,600 and 21,900, from which the most come.
    """
    for parameters, bandwidth, end, rates in (
        (7.62e9, 3.35e12, 0, {128: 15_000, 64: 8_800}),
        (1.54e9, 4.8e12, 1, {256: 18_600, 512: 21_900}),
    ):
        for requests, rate in rates.items():
            seconds = assumptions.SAMPLER_STEP_SECONDS[end] + 2 * parameters / bandwidth
            of_each = assumptions.SAMPLER_RESPONSE_SECONDS[end] + 2 * parameters / 989e12
            assert requests / (seconds + requests * of_each) == pytest.approx(rate, rel=0.05)


def test_responses_that_wait_for_a_place_make_sampling_longer(tmp_path: Path) -> None:
    """By hand: of 512 responses 128 run at a time, so three more rounds of 700 tokens follow."""
    key = "actor_rollout_ref.rollout.max_num_seqs"
    few = load(tmp_path, 4, verl={"overrides": paper_scale.nested(key, 128)})
    cell = CELL[SMALL]
    longer = step_phases(few, cell, sizes(few, cell))["sampling"]
    usual = step_phases(load(tmp_path, 4), cell, sizes(few, cell))["sampling"]
    reading = 2 * 1.543714e9 / 3.35e12
    expected = 3 * 700 * (np.array([0.0015, 0.0036]) + reading)
    assert longer - usual == pytest.approx(expected, rel=1e-6)


def test_without_a_judge_or_without_dropping_the_phases_change(tmp_path: Path) -> None:
    cell = CELL[SMALL]
    rules = load(tmp_path, 4, verifier="rules")
    assert (step_phases(rules, cell, sizes(rules, cell))["verification"] == 0).all()
    usual = load(tmp_path, 4)
    everything = load(tmp_path, 4, training={"drop_zero_weights": False})
    before = step_phases(usual, cell, sizes(usual, cell))["log-probs"]
    after = step_phases(everything, cell, sizes(everything, cell))["log-probs"]
    assert after == pytest.approx(before * [2, 1])


def finish(experiment: Experiment, cell: str, gpus: int, seconds: dict[str, float]) -> None:
    """The files of a finished training that took `seconds` in each step."""
    experiment.files.policy(cell).mkdir(parents=True)
    steps = experiment.for_cell(cell).config.training.steps
    lines = [json.dumps({"step": number + 1, "seconds": seconds}) for number in range(steps)]
    experiment.files.training_log(cell).write_text("\n".join(lines) + "\n")
    config = {"trainer": {"n_gpus_per_node": gpus}}
    (experiment.files.folder(cell) / "verl.yaml").write_text(yaml.safe_dump(config))
    task = tasks.train(experiment, cell)
    for path in task.outputs:
        inputs = {str(source): "made" for source in task.input_files}
        note = {"file": str(path), "settings": task.settings, "digest": "made", "inputs": inputs}
        size = path.stat().st_size if path.is_file() else 0
        provenance_path(path).write_text(json.dumps(note | {"bytes": size}))


def test_the_log_of_a_finished_cell_is_compared_with_the_estimate(tmp_path: Path) -> None:
    """Even that of a trial, with the number of GPUs on which it was trained."""
    experiment = load(tmp_path, 4)
    assert "measured in" not in text(experiment)
    pilot = f"{SMALL}--policy-gradient--k1--n16--pilot--s0"
    took = {"sample": 14.25, "reward": 1.5, "update": 9.0, "weights": 2.5}
    finish(experiment, pilot, gpus=8, seconds=took)
    (line,) = [line for line in text(experiment).splitlines() if line.startswith("measured")]
    assert line.startswith(f"measured in {pilot} on 8 GPUs, ")
    estimate = step_phases(experiment, pilot, sizes(experiment, pilot)._replace(gpus=8))
    least, most = estimate["sampling"]
    assert f"sampling 14.2 ({least:.0f} to {most:.0f})" in line
    least, most = estimate["log-probs"] + estimate["updates"]
    assert f"log-probs and updates 9.0 ({least:.0f} to {most:.0f})" in line
    # A second finished cell of the model has no line of its own.
    finish(experiment, CELL[SMALL], gpus=4, seconds=took)
    assert text(experiment).count("measured in") == 1


def test_the_page_has_the_assumed_numbers() -> None:
    """Each row of its table begins with the name of a constant."""
    page = (ROOT / "docs" / "plan.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    found = {}
    for cells in rows:
        numbers = [float(cell.replace(",", "")) for cell in cells[2:4]]
        found[cells[0].strip("| `")] = numbers
    constants = {
        name: np.broadcast_to(value, 2).tolist()
        for name, value in vars(assumptions).items()
        if name.isupper() and name not in ("GPUS", "REFERENCE_BANDWIDTH")
    }
    assert found == constants
