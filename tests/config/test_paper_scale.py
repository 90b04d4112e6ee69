"""The evaluation of the paper's scale without GPUs: only the weights are not real.

Snakemake runs config/paper.yaml with smaller numbers: real rows from the mirror, vLLM, xVerify with
its own server, curves and a figure. The weights of the models are handmade. Nothing is trained: the
"trained" policy is another handmade model in the folder that `rspo train` writes.
"""

import csv
import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.merge import parse_overrides
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table
from rspo.policies.templates import TEMPLATES, set_template
from tests.support import hub_model
from tests.support.judge_prompt import commit
from tests.support.snakemake_project import PROGRAMS, jobs, make_project

BASE, CELL = "qwen2.5-math-1.5b--base", "qwen2.5-math-1.5b--rspo-pass--k2--n16--s0"
BENCHMARKS = {"aime2025": 30, "livemathbench": 140}
FIGURE = "reports/fig_contamination_free.pdf"
SAMPLES_EACH, KS = 8, [1, 2, 4]
JUDGED_CORRECT = 0.25  # hub_model.VERDICT


def settings(judge: Path, upstream: Path, pinned: str) -> list[str]:
    """Overrides of the paper's config: sizes, and the paths of the judge and its prompt."""
    cells = [{"model": "qwen2.5-math-1.5b", "objective": "rspo_pass_at_k", "k": 2, "n": 16}]
    changed: dict[str, Any] = {
        "grid": {"contamination_free": {"cells": cells}},
        "evaluation": {"samples": SAMPLES_EACH, "block": SAMPLES_EACH, "k": KS},
        "xverify": {
            "prompt": {"repository": str(upstream), "commit": pinned},
            "model": str(judge),
            "server_arguments": [
                *("--dtype", "float32", "--enforce-eager"),
                *("--max-model-len", str(hub_model.CONTEXT)),
                # Requests have seeds, and vLLM on a CPU cannot read a seeded prompt in parts.
                *("--no-enable-chunked-prefill", "--max-num-batched-tokens"),
                str(hub_model.CONTEXT),
            ],
        },
    }
    return [f"{key}={json.dumps(value)}" for key, value in changed.items()]


def make_mirror(folder: Path, shared: Path) -> Path:
    """The real rows, and the base model under its name on the hub."""
    folder.mkdir()
    for publisher in (shared / "mirror").iterdir():
        (folder / publisher.name).symlink_to(publisher)
    hub_model.write(folder / "Qwen" / "Qwen2.5-Math-1.5B", hub_model.ANSWER)
    return folder


def run(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",  # of the judge's server, in GiB
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [PROGRAMS / "snakemake", *arguments],
        cwd=project,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=3000,
    )


@pytest.mark.long  # about four minutes of two cores: twice vLLM, twice the judge's server
@pytest.mark.timeout(3600)
def test_the_papers_evaluation_runs_from_real_rows_to_a_figure(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, upstream, judge = make_project(tmp_path), tmp_path / "upstream", tmp_path / "judge"
    pinned = commit(upstream, "PROMPT = 'Q {question} | O {output} | A {answer}'\n")
    hub_model.write(judge, hub_model.VERDICT)
    set_template(judge, TEMPLATES["qwen_math"])
    mirror = make_mirror(tmp_path / "mirror", shared)
    config = ["--config", "scale=paper", f"mirror={mirror}", *settings(judge, upstream, pinned)]
    results = project / "results" / "paper"

    of_training = ("problems/train.parquet", "problems/validation.parquet", "judge/ready")
    needed = [f"results/paper/{name}" for name in (f"cells/{BASE}/policy", *of_training)]
    done = run(project, *needed, *config)
    assert done.returncode == 0, done.stderr
    trained = results / "cells" / CELL
    hub_model.write(trained / "policy", hub_model.ANSWER_LARGE, seed=1)
    set_template(trained / "policy", TEMPLATES["qwen_math"])
    (trained / "training.jsonl").write_text('{"step": 1}\n')
    monkeypatch.chdir(project)
    overrides = parse_overrides(settings(judge, upstream, pinned))
    steps.train(Experiment.load("paper", overrides), CELL).record()

    plan = jobs(run(project, "-n", FIGURE, *config))
    assert plan == {
        "prepare": 2,
        "sample": 2,
        "score": 2,
        "curves": 2,
        "figure": 1,
        "total": 9,
    }
    done = run(project, FIGURE, *config)
    assert done.returncode == 0, done.stderr
    check_samples_and_scores(results)
    check_figure(project / FIGURE)
    done = run(project, FIGURE, *config)
    assert "Nothing to be done" in done.stdout + done.stderr


def check_samples_and_scores(results: Path) -> None:
    for policy in (BASE, CELL):
        for benchmark, count in BENCHMARKS.items():
            problems = read_table(results / "problems" / f"{benchmark}.parquet", PROBLEMS)
            assert len(problems) == count
            place = results / "cells" / policy
            samples = read_table(place / "samples" / benchmark / "0.parquet", SAMPLES)
            assert [row["problem_id"] for row in samples] == [
                problem["id"] for problem in problems for _ in range(SAMPLES_EACH)
            ]
            said: set[str] = set()
            for row in samples:
                digits = row["text"].removeprefix("\\boxed{").removesuffix("}")
                said |= set(digits)
                assert row["text"] == f"\\boxed{{{digits}}}"
                assert row["finish_reason"] == "stop"
                assert row["tokens"] == len(row["text"]) + 1
            assert said == set("0123456789" if policy == BASE else "56789")
            scores = read_table(place / "scores" / benchmark / "0.parquet", SCORES)
            assert {row["verifier"] for row in scores} == {"xverify"}
            assert {row["verdict"] for row in scores} == {"correct", "invalid reply"}


def check_figure(picture: Path) -> None:
    """A judge that accepts a quarter of the responses at random gives Pass@k = 1 - (3/4)^k."""
    assert picture.read_bytes().startswith(b"%PDF")
    with picture.with_suffix(".csv").open() as lines:
        rows = list(csv.DictReader(lines))
    panels = {**BENCHMARKS, "pooled": sum(BENCHMARKS.values())}
    assert {(row["benchmark"], int(row["k"])) for row in rows} == {
        (panel, k) for panel in panels for k in KS
    }
    assert {row["objective"] for row in rows} == {"base", "rspo_pass_at_k"}
    for row in rows:
        k, problems = int(row["k"]), panels[row["benchmark"]]
        assert int(row["problems"]) == problems
        expected = 1 - (1 - JUDGED_CORRECT) ** k
        # No less than the standard error of the mean over problems of 8 samples each.
        error = math.sqrt(expected * (1 - expected) / (problems * SAMPLES_EACH / k))
        assert abs(float(row["estimate"]) / 100 - expected) < 5 * error
