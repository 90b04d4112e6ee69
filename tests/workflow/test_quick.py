"""`make quick`: the base policy that comes with it, and what its two commands make and print."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.tables import SCORES, read_frame
from rspo.datasets.generated import worked_examples
from rspo.estimators import pass_at_k
from rspo.pipeline import tasks
from rspo.policies import qwen2
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training import pretraining
from rspo.training.pretraining import make_base_policy
from rspo.training.supervised import backward
from tests.support import ROOT
from tests.support.snakemake_project import PROGRAMS, jobs, make_project, setting, snakemake
from tests.support.terminal import run_in_terminal

SHIPPED = ROOT / "config" / "quick" / "cells" / "small--base" / "policy"
METHODS = {"PG": "policy-gradient--k1", "GRPO": "grpo--k1", "RSPO k=4": "rspo-pass--k4"}
# A base policy of seconds.
SHORT = {"models": {"small": {"scratch": {"examples": 96, "batch": 16, "steps": 2}}}}


def load(root: Path, **changes: Any) -> Experiment:
    """The scale quick, with a copy of config/ below `root`."""
    shutil.copytree(ROOT / "config", root / "config")
    return Experiment.load("quick", changes, root=root)


def recipe() -> list[str]:
    """The commands of the Makefile's target, without the program's folder."""
    text = (ROOT / "Makefile").read_text().partition("\nquick: setup")[2].partition("\n\n")[0]
    return re.findall(r"^\t@(?:\$\(WITH_VENV\) \$\(BIN\)/)?(.*)$", text, flags=re.MULTILINE)


def test_the_scale_is_that_of_tiny_but_for_steps_and_evaluation() -> None:
    quick, tiny = (Experiment.load(scale, root=ROOT).config for scale in ("quick", "tiny"))
    assert quick.models["small"] == tiny.models["small"]
    assert quick.sampling == tiny.sampling
    assert quick.rewards == tiny.rewards
    assert quick.training == tiny.training.model_copy(update={"steps": quick.training.steps})
    ((_, benchmark),) = quick.data.suites["standard"].items()
    assert benchmark == tiny.data.suites["standard"]["divide"]


def test_the_base_policy_has_the_settings_of_tiny_and_is_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load(tmp_path)
    task = tasks.pretrain(experiment, "small")
    tiny = Experiment.load("tiny", root=tmp_path)
    assert task.settings == tasks.pretrain(tiny, "small").settings
    make_base_policy(experiment, "small")
    assert digest(task.outputs[0]) == digest(SHIPPED)
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 500_000
    assert "trained" not in capsys.readouterr().out


def test_the_scale_tiny_and_its_trials_begin_with_it_too(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    for results in (None, tmp_path / "trial"):
        tiny = Experiment.load("tiny", root=tmp_path, results=results)
        make_base_policy(tiny, "small")
        assert digest(tasks.pretrain(tiny, "small").outputs[0]) == digest(SHIPPED)


def test_with_other_settings_it_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load(tmp_path, **SHORT)
    make_base_policy(experiment, "small")
    assert digest(tasks.pretrain(experiment, "small").outputs[0]) != digest(SHIPPED)
    said = capsys.readouterr().out
    assert "config/quick/cells/small--base/policy was made with other settings (scratch." in said
    assert "; the base policy is trained\n" in said


def test_a_damaged_base_policy_is_refused(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    weights = tmp_path / SHIPPED.relative_to(ROOT) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(
        InputError, match=r"small--base/policy was damaged .*; without the key base"
    ):
        make_base_policy(experiment, "small")
    assert not tasks.pretrain(experiment, "small").outputs[0].exists()


@pytest.mark.ci  # minutes
def test_the_config_makes_the_base_policy(tmp_path: Path) -> None:
    """Its loss on examples of another seed; on another processor, the weights differ."""
    experiment = load(tmp_path, base_policies=None)
    make_base_policy(experiment, "small")
    again = tasks.pretrain(experiment, "small").outputs[0]
    tokenizer = ChatTokenizer(SHIPPED)
    examples = pretraining._encode(tokenizer, worked_examples(2000, seed=1))
    losses = []
    for folder in (SHIPPED, again):
        model = qwen2.load(folder)
        losses.append(backward(model, examples))
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    untrained = qwen2.Qwen2(model.config)
    untrained.initialise(0.05, torch.Generator().manual_seed(0))
    assert backward(untrained, examples) > 1.5 * losses[0]


@pytest.mark.promise("make quick")
@pytest.mark.promise("make setup")
def test_its_command_plans_three_trainings_and_no_other_scale(tmp_path: Path) -> None:
    command, show = recipe()
    program, *words = shlex.split(command.replace("$(ARGS)", ""))
    assert program == "snakemake"
    plan = jobs(snakemake(make_project(tmp_path / "project"), "-n", *words))
    counts = {"prepare": 3, "pretrain": 1, "train": 3, "sample": 4, "score": 4}
    assert plan == counts | {"study": 1, "figure": 1, "total": 17}
    assert show == "cat results/quick/tables/quick.md"


@pytest.mark.ci
def test_after_ctrl_c_the_same_command_finishes(tmp_path: Path) -> None:
    """The second run resumes the trainings from their checkpoints."""
    project = make_project(tmp_path / "project")
    command, _ = recipe()
    words = [str(PROGRAMS / "snakemake"), *shlex.split(command.replace("$(ARGS)", ""))[1:]]
    words.append("--cores=1")
    policy = project / "results" / "quick" / "cells" / "small--rspo-pass--k4--n16--s0"
    status, output = run_in_terminal(words, project, policy / "checkpoint")
    assert status != 0
    assert output.splitlines()[-1] == "The same command resumes."
    assert not (policy / "policy").exists()
    assert run_in_terminal(words, project)[0] == 0
    steps = [json.loads(line)["step"] for line in (policy / "training.jsonl").open()]
    assert steps == list(range(1, 76))
    assert (project / "reports" / "fig_quick.pdf").is_file()


@pytest.mark.ci
def test_it_prints_pass_at_k_of_its_own_trainings(tmp_path: Path) -> None:
    """A second run does nothing."""
    project = make_project(tmp_path / "project")
    command, show = recipe()
    words = shlex.split(command.replace("$(ARGS)", ""))[1:]
    small = {"training": {"steps": 2}, "evaluation": {"samples": 16, "block": 16}}
    words.append(setting(small))
    done = snakemake(project, *words)
    assert done.returncode == 0, done.stderr
    page = (project / show.removeprefix("cat ")).read_text()
    folders = {"base model": "small--base"}
    folders |= {name: f"small--{cell}--n16--s0" for name, cell in METHODS.items()}
    for name, folder in folders.items():
        table = (
            project / "results" / "quick" / "cells" / folder / "scores" / "standard" / "0.parquet"
        )
        correct = read_frame(table, SCORES).groupby("problem_id")["correct"].sum().to_numpy()
        (line,) = re.findall(rf"^\| {name} .*$", page, flags=re.MULTILINE)
        shown = re.findall(r"\| ([\d.]+) \(", line)
        assert shown == [f"{100 * pass_at_k(16, correct, k).mean():.1f}" for k in (1, 4)]
    drawn = pd.read_csv(project / "reports" / "fig_quick.csv")
    assert {"forest", "frontier"} <= set(drawn["part"])
    again = snakemake(project, "-n", *words)
    assert "Nothing to be done" in again.stdout + again.stderr
