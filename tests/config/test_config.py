"""Bad configs give one clear line before anything runs; the shipped ones give the paper's grid."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from rspo.cli import main, parse_overrides
from rspo.config import steps
from rspo.config.experiment import Cell, Experiment
from rspo.config.names import LARGER_FAMILIES, VERIFIER_VERSIONS, Family, TemplateName
from rspo.config.schema import CellSpec
from rspo.core.errors import InputError
from rspo.datasets.generated import FAMILIES
from rspo.objectives import OBJECTIVES
from rspo.policies.templates import OWN, TEMPLATES
from tests.support import ROOT
from tests.support.steps import step_of

SUITE = "data.suites.standard"


def cell(**changes: Any) -> dict[str, Any]:
    spec = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16} | changes
    return {"grid": {"main": {"suite": "standard", "cells": [spec]}}}


# Overrides, and parts of the message about them.
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"verifier": "xverify"}, ["verifier = 'xverify' needs the section xverify"]),
    (
        {"agreement": {"against": "cascade"}},
        ["agreement.against = 'cascade' needs the section xverify"],
    ),
    (
        {"data": {"suites": {"standard": {"linear": {"lable": "x"}}}}},
        ["unknown key data.suites.standard.linear.lable = 'x'", "did you mean label?"],
    ),
    ({"verifier": "magic"}, ["verifier = 'magic'", "allowed: exact, rules, math_verify"]),
    ({"sedes": 3}, ["sedes = 3", "did you mean seeds?", "allowed: seeds, engine"]),
    ({"training": {"stepz": 9}}, ["training.stepz = 9", "did you mean steps?"]),
    ({"training": {"steps": 0}}, ["training.steps = 0", "greater than or equal to 1"]),
    ({"seeds": "many"}, ["seeds = 'many'", "valid integer"]),
    (
        {"training": {"validation": {"every": 0}}},
        ["training.validation.every = 0", "equal to 1"],
    ),
    ({"verl": {"loggers": ["mlflow"]}}, ["verl.loggers.0 = 'mlflow'", "'tensorboard'"]),
    (
        {"grid": dict.fromkeys(Experiment.load("tiny", root=ROOT).config.grid)},
        ["tiny.yaml: grid", "at least 1 item"],
    ),
    (
        {"training": {"loss_aggregation": "seq-mean-token-sum"}},
        ["training.loss_aggregation", "'seq-mean-token-sum-norm' or 'token-mean'"],
    ),
    ({"engine": "deepspeed"}, ["engine = 'deepspeed'", "'local' or 'verl'"]),
    ({"verifier": "eval"}, ["verifier = 'eval'", "allowed: exact, rules"]),
    ({"sampling": {"temperature": 0}}, ["sampling.temperature = 0", "greater than 0"]),
    ({"sampling": {"top_p": 0.9}}, ["sampling.top_p = 0.9", "allowed: 1.0"]),
    ({"models": {"small": {"scratch": {"hiden": 1}}}}, ["models.small.scratch.hiden"]),
    ({"training": {"mini_batch_prompts": 7}}, ["mini_batch_prompts = 7 must divide", "40"]),
    ({"evaluation": {"samples": 8}}, ["samples = 8", "twice the largest k = 16"]),
    ({"evaluation": {"samples": 48}}, ["block = 32 must divide samples = 48"]),
    ({"sampler": "hf"}, ["sampler = 'hf'", "'torch' or 'vllm'"]),
    ({"evaluation": {"k": [4, 4]}}, ["k = [4, 4] contains a duplicate"]),
    ({"training": {"optimizer": {"betas": [1.5, 0.9]}}}, ["betas.0 = 1.5", "less than 1"]),
    ({"sampling": {"temperature": float("inf")}}, ["temperature = inf", "finite"]),
    ({"models": {"small": {"scratch": {"hidden_size": 66}}}}, ["= 66 must be a multiple", "4"]),
    ({"training": {"prompts_per_step": 5000}}, ["prompts_per_step = 5000 is more", "4000"]),
    (
        {"data": {"train": {"generated": {"split": "test"}}}},
        ["train.generated.split = 'test'; allowed: 'train'"],
    ),
    (cell(objective="grpo", k=1, n=1), ["grpo cannot use k = 1 with n = 1", "n >= 2"]),
    (cell(objective="rspo"), ["unknown objective 'rspo'", "rspo_pass_at_k_plug_in", "grpo"]),
    (cell(objective="rspo_pass_at_k_plugin"), ["is now 'rspo_pass_at_k_plug_in'"]),
    (cell(k=17), ["rspo_pass_at_k cannot use k = 17 with n = 16", "1 <= k <= n"]),
    (cell(k=0), ["k = 0", "1 <= k <= n"]),
    (cell(k=None), ["grid.main.cells.0", "k is missing; rspo_pass_at_k needs it"]),
    (cell(objective="hitchhiking", k=None), ["k is missing; hitchhiking", "k divides n"]),
    (cell(k=[]), ["grid.main.cells.0", "k or n is an empty list"]),
    (cell(objective="hitchhiking", k=3), ["k = 3 with n = 16", "allowed: k divides n"]),
    (cell(objective="policy_gradient"), ["policy_gradient has no k", "found k = 4"]),
    (cell(reward="length"), ["rspo_pass_at_k needs reward: binary", "found length"]),
    (cell(model="smal"), ["model 'smal' is not one of models: small, medium"]),
    (cell(kk=4), ["unknown key grid.main.cells.0.kk = 4", "did you mean k?"]),
    (cell(k=[2, "four"]), ["grid.main.cells.0.k", "'four'", "valid integer"]),
    ({"grid": {"main": {"suite": "standrad"}}}, ["'standrad' is not one of data.suites"]),
    ({"data": {"train": {"hub": {"id": "a/b"}}}}, ["data.train"]),
    (
        {"data": {"suites": {"standard": {"multiply": {"generated": {"split": "larger"}}}}}},
        ["standard.multiply.generated", "multiply does not have it; allowed families: linear"],
    ),
]


@pytest.mark.parametrize(("overrides", "parts"), MISTAKES)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(
    overrides: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", overrides, root=ROOT)
    message = str(caught.value)
    assert "config/tiny.yaml" in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("overrides", [overrides for overrides, _ in MISTAKES])
def test_a_mistake_ends_a_command_with_status_2_before_it_writes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    overrides: dict[str, Any],
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    sets = [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    assert main(["prepare", "linear", *sets]) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("rspo: error: config/tiny.yaml: ")
    assert all(line.startswith("config/tiny.yaml: ") for line in others)  # one for each mistake
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        (f"{SUITE}.amc.hub.prompt=What?", ["amc.hub.prompt = 'What?'", "must contain {problem}"]),
        (f"{SUITE}.amc.hub.content_sha256=abc", ["content_sha256.83 = 'abc'", "pattern"]),
        (
            f"{SUITE}.olympiadbench.hub.content_sha256={'a' * 64}",
            ["olympiadbench.hub.content_sha256", "rows has several numbers; allowed: {ROWS: SHA"],
        ),
        ("xverify.url=judge:8000", ["xverify.url = 'judge:8000'"]),
    ],
)
def test_a_wrong_value_of_the_paper_scale_is_named(override: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Experiment.load("paper", parse_overrides([override]), root=ROOT)
    for part in ["config/paper.yaml", *parts]:
        assert part in str(caught.value)


def test_every_command_refuses_a_grid_without_k_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    file = tmp_path / "config" / "tiny.yaml"
    entry = "{model: small, objective: rspo_pass_at_k, k: 4, n: [4, 8, 16, 32]}"
    assert entry in file.read_text()
    file.write_text(file.read_text().replace(entry, entry.replace("k: 4, ", "")))
    monkeypatch.chdir(tmp_path)
    for command in (["train", "small--rspo-pass--k1--n16--s0"], ["prepare", "train"], ["status"]):
        assert main(command) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert "config/tiny.yaml: grid.scalability.cells.0: k is missing; rspo_pass_at_k" in line
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


def test_an_objective_without_k_has_k1_in_its_cells_names_with_or_without_the_key() -> None:
    for given in ({}, {"k": None}, {"k": 1}):
        spec = {"model": "small", "objective": "grpo", "n": 16} | given
        grid = {"main": {"suite": "standard", "cells": [spec]}}
        experiment = Experiment.load("tiny", {"grid": grid}, root=ROOT)
        assert [c.name for c in experiment.cells_of("main")] == ["small--grpo--k1--n16--s0"]
        assert experiment.config.grid["main"].cells[0].model_dump()["k"] == 1


def test_an_error_in_the_file_does_not_name_the_command_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    path = tmp_path / "config" / "tiny.yaml"
    path.write_text(path.read_text().replace("ppo_clip:", "ppo_clpi:"))
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", root=tmp_path)
    assert "unknown key training.ppo_clpi = 0.2; did you mean ppo_clip?" in str(caught.value)
    assert "training.ppo_clip is missing" in str(caught.value)
    assert "command line" not in str(caught.value)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("huge", r"huge.yaml: no such config file; scales here: paper, smollm, t"),
        ("../config/tiny", r"scale = '\.\./config/tiny': expected the name of a file"),
    ],
)
def test_an_unknown_scale_is_named(scale: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Experiment.load(scale, root=ROOT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("- 1\n", "expected keys"),
        ("", "expected keys"),
        ("seeds: 1\nseeds: 3\n", "not YAML: line 2: the key seeds is duplicated"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tiny.yaml").write_text(text)
    with pytest.raises(InputError, match=f"config/tiny.yaml: {message}"):
        Experiment.load("tiny", root=tmp_path)


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_the_grid_is_the_papers_25_cells(scale: str) -> None:
    experiment = Experiment.load(scale, root=ROOT)
    assert len(experiment.cells) == 25
    small, large = experiment.config.models
    count = Counter((c.model, c.objective, c.k, c.n, c.reward) for c in experiment.cells.values())
    methods = [("policy_gradient", 1)]
    methods += [(name, k) for name in ("rspo_pass_at_k", "hitchhiking") for k in (2, 4, 8)]
    expected = [(model, name, k, 16, "binary") for model in (small, large) for name, k in methods]
    expected += [(small, "rspo_pass_at_k", 4, n, "binary") for n in (4, 8, 32)]
    expected += [(small, name.replace("pass", "max"), k, 16, "length") for name, k in methods]
    expected += [(small, "grpo", 1, 16, "binary")]
    assert count == Counter(expected)


def test_both_scales_run_the_same_experiments() -> None:
    tiny, paper = (Experiment.load(scale, root=ROOT) for scale in ("tiny", "paper"))
    models = dict(zip(paper.config.models, tiny.config.models, strict=True))

    def methods(experiment: Experiment, grid: str, rename: dict[str, str]) -> set[Cell]:
        return {
            Cell(rename.get(c.model, c.model), c.objective, c.k, c.n, c.reward, c.seed)
            for c in experiment.cells_of(grid)
        }

    for grid in tiny.config.grid:
        assert methods(tiny, grid, {}) == methods(paper, grid, models)


def test_cell_names_are_readable_sortable_and_unique() -> None:
    experiment = Experiment.load("tiny", {"seeds": 2}, root=ROOT)
    assert "small--rspo-pass--k4--n16--s0" in experiment.cells
    assert "small--rspo-max--k4--n16--length--s1" in experiment.cells
    assert len(experiment.cells) == 50


def test_objective_names_stay_unique_in_cell_names() -> None:
    names = {Cell("m", objective, 1, 2, "binary", 0).name for objective in OBJECTIVES}
    assert len(names) == len(OBJECTIVES)


def test_an_unknown_cell_gets_near_names() -> None:
    experiment = Experiment.load("tiny", root=ROOT)
    with pytest.raises(InputError, match="did you mean small--rspo-pass--k4--n16--s0"):
        experiment.cell("small--rspo-pass--k4--n16")


def test_the_contamination_free_suite_belongs_to_the_main_cells_at_paper_scale() -> None:
    paper = Experiment.load("paper", root=ROOT)
    assert paper.policies_of("contamination_free") == paper.policies_of("main")
    assert paper.benchmarks_of("contamination_free") == ["aime2025", "livemathbench"]


STEPS = [
    ("prepare", "train"),
    ("prepare", "linear"),
    ("pretrain", "small"),
    ("train", "small--rspo-pass--k4--n16--s0"),
    ("train", "small--rspo-max--k4--n16--length--s0"),
    ("sample", "standard"),
    ("score", "standard"),
    ("curves", ""),
    ("claims", ""),
]


@pytest.mark.parametrize(
    ("overrides", "remade"),
    [
        ({"seeds": 3}, ["claims"]),
        ({"models": {"small": {"label": "x"}}}, []),
        ({"models": {"small": {"learning_rate": 0.1}}}, ["train", "train"]),
        ({"models": {"medium": {"learning_rate": 0.1}}}, []),
        ({"rewards": {"length_discount": 0.1}}, ["train", "score"]),
        ({"training": {"ppo_clip": 0.1}}, ["train", "train"]),
        ({"training": {"checkpoint_every": 7}}, []),
        ({"evaluation": {"resamples": 7}}, ["curves"]),
        ({"evaluation": {"k": [1, 2]}}, ["curves", "claims"]),
        ({"evaluation": {"equivalence_margin": 0.1}}, ["claims"]),
        ({"evaluation": {"samples": 64}}, []),  # more tables; those there are stay
        ({"evaluation": {"block": 16}}, ["sample"]),
        ({"evaluation": {"problems": 3}}, ["prepare"]),  # of a benchmark
        ({"sampler": "vllm"}, ["sample"]),
        ({"data": {"train": {"generated": {"problems": 64}}}}, ["prepare"]),
    ],
)
def test_a_change_reruns_only_what_depends_on_it(
    overrides: dict[str, Any], remade: list[str]
) -> None:
    before = Experiment.load("tiny", root=ROOT)
    after = Experiment.load("tiny", overrides, root=ROOT)
    changed = [
        step
        for step, name in STEPS
        if step_of(before, step, name).settings_hash != step_of(after, step, name).settings_hash
    ]
    assert changed == remade


def test_the_names_that_a_config_allows_are_implemented() -> None:
    assert get_args(TemplateName) == (*TEMPLATES, OWN)
    assert get_args(Family) == tuple(FAMILIES)
    assert tuple(name for name in FAMILIES if FAMILIES[name].larger) == LARGER_FAMILIES


def test_expected_rows_and_hashes_rerun_nothing() -> None:
    """Otherwise, adding the hash that a warning shows would rerun every training."""
    before = Experiment.load("paper", root=ROOT)
    hub = {"rows": [7500, 7501], "content_sha256": {7501: "0" * 64}}
    after = Experiment.load("paper", {"data": {"train": {"hub": hub}}}, root=ROOT)
    assert (
        step_of(after, "prepare", "train").settings == step_of(before, "prepare", "train").settings
    )


def test_new_rules_make_new_scores_and_keep_trained_policies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def settings() -> tuple[str, str]:
        experiment = Experiment.load("tiny", {"verifier": "rules"}, root=ROOT)
        cell = next(iter(experiment.cells))
        names = {"score": "standard", "train": cell}
        score, train = (step_of(experiment, *item).settings_hash for item in names.items())
        return score, train

    before = settings()
    monkeypatch.setitem(VERIFIER_VERSIONS, "rules", -1)
    assert settings()[0] != before[0]
    assert settings()[1] == before[1]


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_the_address_of_a_judge_may_end_with_its_version(end: str) -> None:
    change = {"xverify": {"url": f"http://node1:8000{end}"}}
    settings = Experiment.load("paper", change, ROOT).config.xverify
    assert settings is not None
    assert settings.url == "http://node1:8000"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("xverify.server_arguments=[--gpu-memory-utilization, '0.5']", True),
        ("xverify.url=http://node1:8000", True),
        ("xverify.training_gpu_memory=0.1", True),
        ("xverify.retry_seconds=7", True),
        ("xverify.revision=another", False),
    ],
)
def test_the_judge_but_not_its_server_changes_fingerprints(change: str, same: bool) -> None:
    assert (judge_hashes([change]) == judge_hashes([])) is same


def judge_hashes(overrides: list[str]) -> list[str]:
    """Fingerprints of the steps that use a judge."""
    experiment = Experiment.load("paper", parse_overrides(["verifier=xverify", *overrides]), ROOT)
    names = {"train": next(iter(experiment.cells)), "score": "standard", "agreement": ""}
    return [step_of(experiment, *item).settings_hash for item in names.items()]


def test_a_comparison_that_is_null_is_left_out() -> None:
    left_out = {"model_size": None, "max_at_k": None}
    experiment = Experiment.load("tiny", {"grid": left_out}, root=ROOT)
    assert list(experiment.config.grid) == ["main", "scalability", "contamination_free", "grpo"]
    assert len(experiment.cells) == 25 - 7 - 7


ROLLOUT, ACTOR = ("actor_rollout_ref.rollout", "actor_rollout_ref.actor")


@pytest.mark.parametrize(
    "change",
    [
        ["verl.loggers=[wandb]"],
        ["verl.nodes=2"],
        ["verl.ranks_per_node=4"],
        [f"verl.overrides.{ROLLOUT}.gpu_memory_utilization=0.5"],
        [f"verl.overrides.{ACTOR}.fsdp_config.param_offload=true"],
        ["verl.overrides.ray_kwargs.ray_init._node_ip_address=10.0.0.1"],
        [f"models.small.verl.{ACTOR}.ppo_max_token_len_per_gpu=8192"],
    ],
)
def test_operational_settings_of_verl_do_not_change_the_fingerprint(change: list[str]) -> None:
    assert verl_hash(change) == verl_hash([])


def test_other_settings_of_verl_change_the_fingerprint() -> None:
    model_dtype = f"{ACTOR}.fsdp_config.model_dtype=bf16"
    hashes = [
        verl_hash(change)
        for change in (
            [],
            ["training.loss_aggregation=token-mean"],
            ["verl.device=cuda"],
            [f"verl.overrides.{ROLLOUT}.top_k=5", f"verl.overrides.{ROLLOUT}.max_num_seqs=8"],
            [f"verl.overrides.{model_dtype}"],
        )
    ]
    assert len(set(hashes)) == len(hashes)
    assert verl_hash([f"models.small.verl.{model_dtype}"]) == hashes[-1]


def verl_hash(overrides: list[str]) -> str:
    """Fingerprint of a cell's training with verl."""
    parsed = parse_overrides(["engine=verl", *overrides])
    experiment = Experiment.load("tiny", parsed, root=ROOT)
    return steps.train(experiment, "small--rspo-pass--k4--n16--s0").settings_hash


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_can_be_in_the_grid(objective: str) -> None:
    has_k = OBJECTIVES[objective].has_k
    spec = {"model": "m", "objective": objective, "n": 4} | ({"k": 2} if has_k else {})
    assert CellSpec.model_validate(spec).pairs == [(2 if has_k else 1, 4)]


def test_k_must_be_below_n_where_the_objective_leaves_responses_out() -> None:
    spec = {"model": "m", "objective": "maxpo", "k": 4, "n": 4}
    with pytest.raises(ValueError, match=r"maxpo cannot use k = 4 with n = 4; allowed: 1 <= k < n"):
        CellSpec.model_validate(spec)
