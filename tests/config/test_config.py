"""Bad configs give one clear line before anything runs; the shipped ones give the paper's grid."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from rspo.cli import main
from rspo.config.experiment import Cell, Experiment
from rspo.config.load import read_files, read_values
from rspo.config.merge import parse_overrides
from rspo.config.names import VERIFIER_VERSIONS, Family, TemplateName
from rspo.config.places import Places
from rspo.config.schema import DEFAULT_VARIANT
from rspo.core.errors import InputError
from rspo.datasets.generated import FAMILIES
from rspo.objectives import OBJECTIVES
from rspo.pipeline import tasks
from rspo.policies.templates import OWN, TEMPLATES
from tests.support import ROOT
from tests.support.tasks import task_of


def cell(**changes: Any) -> dict[str, Any]:
    spec = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16} | changes
    return {"grid": {"main": {"suite": "standard", "cells": [spec]}}}


# Overrides, and parts of the message about them.
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"verifier": "xverify"}, ["verifier = 'xverify' needs the section xverify"]),
    (
        {"data": {"suites": {"standard": {"linear": {"lable": "x"}}}}},
        ["data.suites.standard.linear: unknown key lable = 'x'; did you mean label?"],
    ),
    ({"verifier": "magic"}, ["verifier = 'magic'", "allowed: exact, rules, math_verify"]),
    ({"extract": "boxes"}, ["extract", "did you mean box? Allowed: box, answer-line"]),
    ({"sedes": 3}, ["sedes = 3", "did you mean seeds? Allowed: seeds, base_per_seed, engine"]),
    ({"training": {"steps": 0}}, ["training.steps = 0", "greater than or equal to 1"]),
    ({"training": 3}, ["training = 3"]),
    ({"engine": "deepspeed"}, ["engine = 'deepspeed'", "'local' or 'verl'"]),
    ({"sampling": {"top_p": 0.9}}, ["sampling.top_p = 0.9", "allowed: 1.0"]),
    ({"training": {"mini_batch_prompts": 7}}, ["mini_batch_prompts = 7 must divide", "40"]),
    ({"evaluation": {"samples": 8}}, ["samples = 8", "twice the largest k = 16"]),
    ({"evaluation": {"samples": 48}}, ["block = 128 must divide samples = 48"]),
    ({"evaluation": {"k": [4, 4]}}, ["k = [4, 4] contains a duplicate"]),
    ({"models": {"small": {"scratch": {"hidden_size": 66}}}}, ["= 66 must be a multiple", "4"]),
    (
        {"data": {"train": {"generated": {"split": "test"}}}},
        ["train.generated.split = 'test'; allowed: 'train'"],
    ),
    (cell(objective="grpo", k=1, n=1), ["grpo cannot use k = 1 with n = 1", "n >= 2"]),
    (cell(objective="rspo-pass"), ["did you mean rspo_pass_at_k? Allowed: policy_gradient"]),
    (cell(k=17), ["rspo_pass_at_k cannot use k = 17 with n = 16", "1 <= k <= n"]),
    (cell(k=[]), ["grid.main.cells.0.k = []"]),
    (cell(objective="hitchhiking", k=3), ["k = 3 with n = 16", "allowed: k divides n"]),
    (cell(objective="policy_gradient"), ["policy_gradient has no k", "found k = 4"]),
    (cell(reward="length"), ["rspo_pass_at_k needs reward: binary", "found length"]),
    (cell(model="smal"), ["model = 'smal'; did you mean small? Allowed: small, medium"]),
    ({"seeds": True}, ["seeds = True"]),
    ({"models": {"small": {"learning_rate": "nan"}}}, ["learning_rate = 'nan'"]),
    (cell(k=[2, "four"]), ["grid.main.cells.0.k.1 = 'four'"]),
    ({"grid": {"mx_at_k": None}}, ["grid.mx_at_k = None"]),
    (
        {"grid": {"main": {"suite": "standrad"}}},
        ["grid.main.suite = 'standrad'; did you mean standard? Allowed: standard"],
    ),
]


@pytest.mark.parametrize(("overrides", "parts"), MISTAKES)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(
    overrides: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", overrides, root=ROOT)
    (line,) = str(caught.value).splitlines()
    for part in ["config/tiny.yaml", *parts]:
        assert part in line


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        ({"verifier": "xverify"}, ["verifier = 'xverify' needs the section xverify"]),
        ({"training": {"steps": 0}}, ["training.steps = 0: Input should be greater than or equal"]),
        ({"evaluation": {"k": [4, 4]}}, ["evaluation: k = [4, 4] contains a duplicate"]),
        (
            {"seeds": 0, "sampling": {"top_p": 2}},
            ["seeds = 0: Input should be", "sampling.top_p = 2: Input should be less than or"],
        ),
    ],
)
def test_a_mistake_is_told_with_its_key_alone(overrides: dict[str, Any], lines: list[str]) -> None:
    """Not with the sections around it, which are wrong because of it, nor with pydantic's words."""
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", overrides, root=ROOT)
    for line, begin in zip(str(caught.value).splitlines(), lines, strict=True):
        assert line.startswith(f"{ROOT}/config/tiny.yaml: {begin}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": {"train": {"generated": {"problems": 7}}}},
            "training.prompts_per_step = 40 is more than the 35 problems of data.train",
        ),
        (
            {
                "data": {"validation": {"generated": {"problems": 7}}},
                "training": {"validation": {"every": 1, "problems": 36}},
            },
            "training.validation.problems = 36 is more than the 35 problems of data.validation",
        ),
    ],
)
def test_a_step_or_a_validation_needs_enough_problems(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", changes, root=ROOT)
    assert str(caught.value) == f"{ROOT}/config/tiny.yaml: {message}"


def test_as_many_problems_as_a_step_and_a_validation_have_are_enough() -> None:
    generated = {"generated": {"problems": 8}}
    changes = {
        "data": {"train": generated, "validation": generated},
        "training": {"validation": {"every": 1, "problems": 40}},
    }
    Experiment.load("tiny", changes, root=ROOT)


def test_a_schedule_of_k_goes_from_its_first_to_its_last_value() -> None:
    def schedule(first: int, last: int, steps: int) -> list[int]:
        changes = {"training": {"k_schedule": [first, last], "steps": steps}}
        training = Experiment.load("tiny", changes, root=ROOT).config.training
        return [training.k_at(step, k=9) for step in range(steps)]

    assert schedule(1, 8, 8) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert schedule(8, 1, 3) == [8, 5, 1]  # 4.5 is rounded up
    assert schedule(4, 2, 1) == [4]
    constant = Experiment.load("tiny", root=ROOT).config.training
    assert constant.k_at(3, k=9) == 9


def test_each_mistake_is_a_line_of_every_command_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    file = tmp_path / "config" / "tiny.yaml"
    entry = "{model: small, objective: rspo_pass_at_k, k: 4, n: [4, 8, 16, 32]}"
    assert entry in file.read_text()
    file.write_text(file.read_text().replace(entry, entry.replace("k: 4, ", "")))
    monkeypatch.chdir(tmp_path)
    for command in (["train", "small--rspo-pass--k1--n16--s0"], ["prepare", "train"], ["status"]):
        assert main([*command, "--set=verifier=magic"]) == 2
        first, second = capfd.readouterr().err.splitlines()
        assert first.startswith("rspo: error: --set: verifier = 'magic': ")
        assert second.startswith("config/tiny.yaml: grid.scalability.cells.0: k is missing; rspo_")
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        ({"training": {"steps": "abc"}}, "--set: training.steps = 'abc': "),
        ({"training": {"stops": 5}}, "--set: training: unknown key stops = 5; "),
        ({"sed": 1}, "--set: unknown key sed = 1; "),
        ({"grid": {"main": {"cells": [{"model": 3}]}}}, "--set: grid.main.cells.0.model = 3: "),
        # The two values do not fit each other; the one that was given is to blame.
        ({"training": {"prompts_per_step": 9999}}, "--set: training: mini_batch_prompts = "),
    ],
)
def test_a_value_of_the_command_line_is_blamed_on_it(overrides: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as error:
        Experiment.load("tiny", overrides, root=ROOT, sources={"--set": overrides})
    assert str(error.value).startswith(place)


def test_the_last_place_that_gives_a_value_is_blamed() -> None:
    sources = {
        "mine.yaml": {"training": {"steps": 5, "epochs": "x"}},
        "--config": {"training": {"steps": "y"}},
    }
    overrides = {"training": {"steps": "y", "epochs": "x"}, "seeds": 1}
    with pytest.raises(InputError) as error:
        Experiment.load("tiny", overrides, root=ROOT, sources=sources)
    first, second = sorted(str(error.value).splitlines())
    assert first.startswith("--config: training.steps = 'y': ")
    assert second.startswith("mine.yaml: training.epochs = 'x': ")


def test_an_objective_without_k_has_k1_in_its_cells_names_with_or_without_the_key() -> None:
    for given in ({}, {"k": 1}):
        spec = {"model": "small", "objective": "grpo", "n": 16} | given
        grid = {"mine": {"suite": "standard", "cells": [spec]}}
        experiment = Experiment.load("tiny", {"grid": grid}, root=ROOT)
        assert [c.name for c in experiment.cells_of("mine")] == ["small--grpo--k1--n16--s0"]


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("huge", r"huge.yaml: no such config file; scales here: one_gpu, paper, pretrained, q"),
        ("../config/tiny", r"scale = '\.\./config/tiny': expected the name of a file"),
    ],
)
def test_an_unknown_scale_is_named(scale: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Experiment.load(scale, root=ROOT)


def test_outside_a_project_the_folder_is_the_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", root=tmp_path)
    where = f"run this in the project's folder, {ROOT}"
    assert str(caught.value) == f"{tmp_path}/config/tiny.yaml: no such config file; {where}"


@pytest.mark.parametrize(
    ("item", "overrides"),
    [
        ("training.steps=5", {"training": {"steps": 5}}),
        ("a=b=c", {"a": "b=c"}),
        ("a=", {"a": None}),
        ("a=[1, x]", {"a": [1, "x"]}),
    ],
)
def test_a_value_on_the_command_line_is_yaml(item: str, overrides: dict[str, Any]) -> None:
    assert parse_overrides([item]) == overrides


def test_settings_of_one_section_are_merged_and_the_last_value_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = ["a.b=1", "a.c.d=2", "a.b=3", "a.c.e=4", "f=5", "f=5"]
    assert parse_overrides(items) == {"a": {"b": 3, "c": {"d": 2, "e": 4}}, "f": 5}
    line = "rspo: --set a.b=3: a.b is also given as 1; the last value counts\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("steps", "--set steps: expected KEY=VALUE, such as training.steps=50"),
        ("=5", "--set =5: expected KEY=VALUE, such as training.steps=50"),
        ("a=[1", "--set a=[1: '[1' is not YAML"),
    ],
)
def test_what_is_no_setting_is_refused(item: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_overrides([item])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("label: caf\udce9\n", "not YAML: 'utf-8' codec can't decode byte 0xe9"),
        ("- 1\n", "expected keys"),
        ("", "expected keys"),
        ("seeds: 1\nseeds: 3\n", "not YAML: line 2: the key seeds is duplicated"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tiny.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=f"config/tiny.yaml: {message}"):
        Experiment.load("tiny", root=tmp_path)


def included(root: Path, own: str, theirs: str) -> Path:
    """A config that includes another file."""
    (root / "config").mkdir()
    (root / "config" / "more.yaml").write_text(theirs)
    file = root / "config" / "tiny.yaml"
    file.write_text(f"include: more.yaml\n{own}")
    return file


def test_a_files_own_keys_replace_those_that_it_includes(tmp_path: Path) -> None:
    own = "seeds: 3\nstudies: {mine: {suite: a}}\n"
    theirs = "seeds: 1\nengine: local\nstudies: {mine: {suite: b, title: B}, other: {suite: c}}\n"
    assert read_values(included(tmp_path, own, theirs)) == {
        "seeds": 3,
        "engine": "local",
        "studies": {"mine": {"suite": "a", "title": "B"}, "other": {"suite": "c"}},
    }


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ("a: [", "config/more.yaml: not YAML"),
        ("- 1", "config/more.yaml: expected keys"),
        ("include: tiny.yaml", "config/more.yaml: include: allowed only in the config of a scale"),
    ],
)
def test_a_bad_included_file_is_named(tmp_path: Path, theirs: str, message: str) -> None:
    included(tmp_path, "", theirs)
    with pytest.raises(InputError, match=message):
        Experiment.load("tiny", root=tmp_path)


def test_a_mistake_is_reported_in_the_file_that_has_it(tmp_path: Path) -> None:
    """A missing key is reported in the file that has the section."""
    own = "seeds: none\nstudies: {both: {tilte: A}, mine: {suite: a}}\n"
    theirs = "studies: {both: {suite: 3}, theirs: {sut: a}, mine: {sut: b}}\n"
    included(tmp_path, own, theirs)
    with pytest.raises(InputError) as caught:
        Experiment.load("tiny", root=tmp_path)
    lines = str(caught.value).replace(f"{tmp_path}/config/", "").splitlines()
    places = {tuple(line.split(": ")[:2]) for line in lines}
    assert ("tiny.yaml", "seeds = 'none'") in places
    assert ("more.yaml", "studies.theirs") in places
    assert ("tiny.yaml", "studies.both") in places
    assert ("more.yaml", "studies.mine") in places
    assert ("tiny.yaml", "studies.mine") not in places
    included_key = "more.yaml: unknown key benchmarkz"
    (tmp_path / "config" / "tiny.yaml").write_text("include: more.yaml\n")
    (tmp_path / "config" / "more.yaml").write_text("benchmarkz: 3\n")
    with pytest.raises(InputError, match=f"config/{included_key}"):
        Experiment.load("tiny", root=tmp_path)


@pytest.mark.parametrize(
    ("location", "file"),
    [
        (("studies", "mine"), "tiny.yaml"),
        (("studies", "mine", "title"), "more.yaml"),
        (("studies", "other", "suite"), "more.yaml"),
        (("studies", "other", "nothing"), "more.yaml"),
        (("seeds",), "tiny.yaml"),
        (("nothing",), "tiny.yaml"),
    ],
)
def test_the_file_of_a_key_is_the_one_that_decides_it(
    tmp_path: Path, location: tuple[str, ...], file: str
) -> None:
    own = "seeds: 3\nstudies: {mine: {suite: a}}\n"
    theirs = "seeds: 1\nstudies: {mine: {suite: b, title: B}, other: {suite: c}}\n"
    path = included(tmp_path, own, theirs)
    places = Places(read_files(path), {"--set": {"training": {"steps": 5}}})
    assert places.of(location) == str(path.with_name(file))
    assert places.of(("training", "steps")) == "--set"
    assert places.of(("training", "epochs")) == str(path)
    assert Places().of(location) == ""


@pytest.mark.parametrize("name", ["none.yaml", "3", "[more.yaml]"])
def test_a_missing_included_file_is_named(tmp_path: Path, name: str) -> None:
    included(tmp_path, "", "").write_text(f"include: {name}\n")
    with pytest.raises(InputError, match=r"config/tiny.yaml: include = .*: no such file; the path"):
        Experiment.load("tiny", root=tmp_path)


@pytest.mark.parametrize("folder", ["my trial", "a;b", "a{b}", "$HOME"])
def test_a_folder_of_results_that_a_shell_would_change_is_refused(folder: str) -> None:
    with pytest.raises(InputError, match="allowed: letters, digits"):
        Experiment.load("tiny", root=ROOT, results=Path(folder))


def test_commands_in_messages_have_the_settings_of_the_experiment() -> None:
    experiment = Experiment.load("tiny", {"training": {"steps": 10}}, root=ROOT)
    assert experiment.command("train", "x") == "rspo train x --set=training.steps=10"


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_the_grid_is_the_papers_25_cells(scale: str) -> None:
    """Apart from further seeds, and from variants of these cells."""
    experiment = Experiment.load(scale, root=ROOT)
    cells = [c for c in experiment.cells.values() if (c.seed, c.variant) == (0, DEFAULT_VARIANT)]
    small, large, *_ = experiment.config.models
    count = Counter((c.model, c.objective, c.k, c.n, c.reward) for c in cells)
    methods = [("policy_gradient", 1)]
    methods += [(name, k) for name in ("rspo_pass_at_k", "hitchhiking") for k in (2, 4, 8)]
    expected = [(model, name, k, 16, "binary") for model in (small, large) for name, k in methods]
    expected += [(small, "rspo_pass_at_k", 4, n, "binary") for n in (4, 8, 32)]
    expected += [(small, name.replace("pass", "max"), k, 16, "length") for name, k in methods]
    expected += [(small, "grpo", 1, 16, "binary")]
    if scale == "tiny":  # of claims that are not the paper's
        expected += [(small, "maxrl_uncentred", 1, 16, "binary")]
    assert count == Counter(expected)


def test_objective_names_stay_unique_in_cell_names() -> None:
    names = {Cell("m", objective, 1, 2, "binary", 0).name for objective in OBJECTIVES}
    assert len(names) == len(OBJECTIVES)


GENERATED = {"families": ["linear"], "split": "test", "problems": 3}
OWN_SUITE = {"mine": {"label": "Mine", "generated": GENERATED}}
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
        ({"training": {"validation": {"every": 7, "samples": 8}}}, []),
        ({"evaluation": {"resamples": 7}}, ["curves"]),
        ({"evaluation": {"k": [1, 2]}}, ["curves", "claims"]),
        ({"evaluation": {"equivalence_margin": 0.1}}, ["claims"]),
        ({"evaluation": {"samples": 256}}, []),  # more tables; those there are stay
        ({"evaluation": {"block": 16}}, ["sample"]),
        ({"evaluation": {"problems": 3}}, ["prepare"]),  # of a benchmark
        ({"sampler": "vllm"}, ["sample"]),
        ({"data": {"train": {"generated": {"problems": 64}}}}, ["prepare"]),
        ({"data": {"suites": {"mine": OWN_SUITE}}}, ["claims"]),
        ({"data": {"suites": {"standard": OWN_SUITE}}}, ["sample", "score", "claims"]),
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
        if task_of(before, step, name).settings_hash != task_of(after, step, name).settings_hash
    ]
    assert changed == remade


def test_the_names_that_a_config_allows_are_implemented() -> None:
    assert get_args(TemplateName) == (*TEMPLATES, OWN)
    assert get_args(Family) == tuple(FAMILIES)


def test_expected_rows_and_hashes_rerun_nothing() -> None:
    """Otherwise, adding the hash that a warning shows would rerun every training."""
    before = Experiment.load("paper", root=ROOT)
    hub = {"rows": [7500, 7501], "content_sha256": {7501: "0" * 64}}
    after = Experiment.load("paper", {"data": {"train": {"hub": hub}}}, root=ROOT)
    assert (
        task_of(after, "prepare", "train").settings == task_of(before, "prepare", "train").settings
    )


def test_new_rules_make_new_scores_and_keep_trained_policies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def settings() -> tuple[str, str]:
        experiment = Experiment.load("tiny", {"verifier": "rules"}, root=ROOT)
        cell = next(iter(experiment.cells))
        names = {"score": "standard", "train": cell}
        score, train = (task_of(experiment, *item).settings_hash for item in names.items())
        return score, train

    before = settings()
    monkeypatch.setitem(VERIFIER_VERSIONS, "rules", -1)
    assert settings()[0] != before[0]
    assert settings()[1] == before[1]


def test_other_places_of_answers_make_new_scores_and_policies_and_the_default_makes_none() -> None:
    def settings(changes: dict[str, Any]) -> tuple[str, str]:
        experiment = Experiment.load("tiny", changes, root=ROOT)
        cell = next(iter(experiment.cells))
        score = task_of(experiment, "score", "standard").settings_hash
        return score, task_of(experiment, "train", cell).settings_hash

    before = settings({})
    assert settings({"extract": "box"}) == before
    after = settings({"extract": "box, last-number"})
    assert after == settings({"extract": ["box", "last-number"]})
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_the_judge_but_not_its_server_changes_fingerprints() -> None:
    before = judge_hashes([])
    server = ["server_arguments=[--max-model-len, '9']", "url=http://node1:8000", "retry_seconds=7"]
    assert judge_hashes([f"xverify.{change}" for change in server]) == before
    assert judge_hashes(["xverify.revision=another"]) != before


def judge_hashes(overrides: list[str]) -> list[str]:
    """Fingerprints of the steps that use a judge."""
    experiment = Experiment.load("paper", parse_overrides(["verifier=xverify", *overrides]), ROOT)
    names = {"train": next(iter(experiment.cells)), "score": "standard"}
    return [task_of(experiment, *item).settings_hash for item in names.items()]


def test_a_comparison_that_is_null_is_left_out() -> None:
    left_out = {"model_size": None, "max_at_k": None}
    experiment = Experiment.load("paper", {"grid": left_out}, root=ROOT)
    assert list(experiment.config.grid) == ["main", "scalability", "contamination_free", "grpo"]
    assert len(experiment.cells) == 25 - 7 - 7


ROLLOUT, ACTOR = ("actor_rollout_ref.rollout", "actor_rollout_ref.actor")


def test_only_operational_settings_of_verl_leave_the_fingerprint_as_it_is() -> None:
    model_dtype = f"{ACTOR}.fsdp_config.model_dtype=bf16"
    for operational in (
        "verl.overrides.trainer.logger=[wandb]",
        "verl.ranks=2",
        "models.small.gpus=2",
        f"verl.overrides.{ROLLOUT}.gpu_memory_utilization=0.5",
        "verl.overrides.ray_kwargs.ray_init._node_ip_address=10.0.0.1",
        f"models.small.verl.{ACTOR}.ppo_max_token_len_per_gpu=8192",
    ):
        assert verl_hash([operational]) == verl_hash([]), operational
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
    return tasks.train(experiment, "small--rspo-pass--k4--n16--s0").settings_hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "192, 256]",
            "192, 300]",
            "tiny.yaml: studies.overtake: samples = 512 must be at least twi",
        ),
        (
            "columns: [late_entropy]\n    frontier: [1, 16]",
            "columns: [late_entropy]\n    frontier: [1, 7]",
            "studies.knobs.frontier = 7; allowed: evalua",
        ),
    ],
)
def test_a_study_with_a_k_that_it_cannot_have_is_refused_when_it_runs(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    file = tmp_path / "config" / "studies" / "tiny.yaml"
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))
    experiment = Experiment.load("tiny", root=tmp_path)  # a run without this study may go on
    study = message.partition("studies.")[2].partition(".")[0].partition(":")[0]
    with pytest.raises(InputError) as caught:
        experiment.require_evaluated(study)
    assert message in str(caught.value)
