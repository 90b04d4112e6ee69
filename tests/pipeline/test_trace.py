"""The history of each file back to the data, and errors where it is broken."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from rspo.cli import main, reporting
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.evaluation.curves import curves
from rspo.evaluation.score import score
from rspo.figures import FIGURES, draw
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path
from rspo.pipeline.run import run
from rspo.pipeline.task import Done, Task
from rspo.pipeline.trace import trace
from rspo.status.targets import targets_by_name
from tests.support import ROOT, small_paper

CELL = "small--rspo-pass--k4--n8--s0"


@pytest.fixture
def experiment(small_project: Path) -> Experiment:
    return small_paper.load()


def figure_of(experiment: Experiment) -> Path:
    return FIGURES["fig_main"].task(experiment).outputs[0]


def test_every_result_has_provenance(small_project: Path) -> None:
    """Locks are no results, and neither are the event files of TensorBoard."""
    folders = set(small_project.glob("results/tiny/cells/*/policy"))
    events = small_project / "results" / "tiny" / "tensorboard"
    for path in small_project.glob("results/tiny/**/*"):
        inside = {*folders, events} & {path, *path.parents}
        if (path.is_file() and path.name[0] != "." and not inside) or path in folders:
            if path.name.endswith(".provenance.json"):
                continue
            assert path.with_name(path.name + ".provenance.json").is_file(), path


def test_the_tree_names_step_settings_commit_time_host_and_revisions(
    experiment: Experiment,
) -> None:
    lines = list(trace(figure_of(experiment)))
    note = json.loads(Path(f"{figure_of(experiment)}.provenance.json").read_text())
    for part in (note["settings_hash"], note["git_commit"][:12], note["written"], note["host"]):
        assert part in lines[0]
    assert lines[1].startswith("    results/")
    text = "\n".join(lines)
    for policy in experiment.policies:
        for path in (
            experiment.files.curves(policy, "standard"),
            experiment.files.scores(policy, "standard", 0),
            experiment.files.samples(policy, "standard", 0),
            experiment.files.policy(policy),
        ):
            assert f" {path}: " in text
    for family in experiment.benchmarks_of("standard"):
        assert f"source: generated/{family}/test @ 2" in text
        assert f"data: generated/{family}/test @ 2 in results/tiny/problems/{family}" in text
    assert "source: generated/worked examples @ seed 0" in text
    # Each file is expanded once.
    assert sum(": generated/linear/train @ 2 in" in line for line in lines) == 1
    base = f"{experiment.files.policy('small--base')}: "
    assert sum(base in line for line in lines) == 1


def test_the_source_of_a_hub_data_set_is_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", "config")
    mirror = str(shared / "mirror")
    assert main(["prepare", "aime2024", "--scale", "paper", "--mirror", mirror]) == 0
    lines = list(trace(Path("results/paper/problems/aime2024.parquet")))
    hub = Experiment.load("paper").data_set("aime2024").hub
    assert hub is not None
    assert f"data: {hub.id}/{hub.split} @ sha256:" in lines[-1]


def test_the_command_prints_the_same_history_for_a_copy(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    original = figure_of(experiment)
    copy = Path("elsewhere") / original.name
    copy.parent.mkdir()
    for suffix in ("", ".provenance.json"):
        shutil.copy(f"{original}{suffix}", f"{copy}{suffix}")
    lines = list(trace(original))
    assert list(trace(copy))[1:] == lines[1:]
    assert main(["trace", str(original)]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.promise("rspo trace reports/fig_main.pdf")
def test_the_history_of_a_figure_ends_at_the_data(
    experiment: Experiment, promised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(promised) == 0
    printed = capsys.readouterr().out
    for family in experiment.benchmarks_of("standard"):
        assert f"source: generated/{family}/test @ 2" in printed


def test_depth_limits_the_levels_that_are_shown_and_not_what_is_checked(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(figure_of(experiment))
    assert main(["trace", path]) == 0
    tree = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    levels = [(len(line) - len(line.lstrip())) // 4 for line in tree]
    assert max(levels) > 3
    for depth in (0, 1):
        assert main(["trace", path, f"--depth={depth}"]) == 0
        shown, _, data = capsys.readouterr().out.partition("\n\n")
        expected = [line for line, level in zip(tree, levels, strict=True) if level <= depth]
        assert shown.splitlines() == expected
        assert data.startswith("data: ")
    experiment.files.samples(CELL, "standard", 0).unlink()
    assert main(["trace", path, "--depth=0"]) == 2


def broken(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(trace(path))
    return str(caught.value)


def test_edited_and_removed_files_are_named(experiment: Experiment) -> None:
    scores, policy = experiment.files.scores(CELL, "standard", 0), experiment.files.policy(CELL)
    samples, problems = (
        experiment.files.samples(CELL, "standard", 0),
        experiment.files.problems("divide"),
    )
    curve, base = experiment.files.curves("small--base", "standard"), "small--base"
    score(small_paper.load({"length_discount": 0.25}), base, "standard", force=True)
    scores.write_bytes(scores.read_bytes() + b"\0")
    (policy / "config.json").write_text("{}")
    samples.unlink()
    Path(f"{problems}.provenance.json").unlink()
    message = broken(figure_of(experiment))
    other = experiment.files.scores(base, "standard", 0)
    assert f"{curve} was made from another version of {other}" in message
    assert f"{scores} was damaged or changed after it was written" in message
    assert f"{policy} was damaged or changed" in message
    assert f"{samples} is missing" in message
    assert f"{problems} has no readable provenance" in message
    assert "has no provenance" in broken(problems)
    assert "no.csv: no such file" in broken(Path("no.csv"))


def test_a_history_is_valid_again_after_its_steps_ran_again(experiment: Experiment) -> None:
    note = Path(f"{experiment.files.scores(CELL, 'standard', 0)}.provenance.json")
    for text in ("", "[]", '{"inputs": []}'):
        note.write_text(text)
        assert str(note) in broken(figure_of(experiment))
    score(experiment, CELL, "standard", force=True)  # the same content
    list(trace(figure_of(experiment)))
    changed = small_paper.load({"length_discount": 0.25})
    for policy in experiment.policies:
        score(changed, policy, "standard", force=True)
        curves(changed, policy, "standard", force=True)
    draw(changed, "fig_main", force=True)
    list(trace(figure_of(experiment)))


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("reports/fig_main.pdf", "reports/fig_main.pdf"),
        ("fig_main.pdf", "reports/fig_main.pdf"),
        (CELL, f"results/tiny/cells/{CELL}/policy"),
        ("trial/reports/fig_main.pdf", "trial/reports/fig_main.pdf --config results=trial"),
        (
            "results/quick/tables/quick.csv",
            "results/quick/tables/quick.csv --config scale=quick",
        ),
        (
            "results/quick/cells/small--base",
            "results/quick/cells/small--base/policy --config scale=quick",
        ),
    ],
)
def test_a_file_that_is_not_made_is_named_with_its_command(
    file: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The folder `trial` has results of a trial run."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "trial" / "cells").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    cell = CELL.replace("n8", "n16")  # of config/tiny.yaml
    file, command = file.replace(CELL, cell), command.replace(CELL, cell)
    for name in (file, str(tmp_path / file)):
        assert main(["trace", name]) == 2
        expected = f"rspo: error: {name}: is not made; `snakemake {command}` makes it\n"
        assert capsys.readouterr().err == expected


def test_a_copy_of_a_result_exists_but_has_no_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a figure in the folder of a paper, before and after the figure itself is made."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    copy = Path("paper/fig_main.pdf")
    copy.parent.mkdir()
    copy.write_text("copied")
    error = f"rspo: error: {copy}: has no provenance; "
    assert main(["trace", str(copy)]) == 2
    command = "`snakemake reports/fig_main.pdf` makes a file that has it\n"
    assert capsys.readouterr().err == error + command
    made = Path("reports/fig_main.pdf")
    made.parent.mkdir()
    made.write_text("made")
    provenance_path(made).write_text("{}")
    assert main(["trace", str(copy)]) == 2
    assert capsys.readouterr().err == error + "did you mean reports/fig_main.pdf?\n"
    copy.unlink()
    assert main(["trace", str(copy)]) == 2
    missing = f"rspo: error: {copy}: no such file or folder; did you mean reports/fig_main.pdf?\n"
    assert capsys.readouterr().err == missing


def test_other_files_have_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "reports/fig_main.pdf"]) == 2  # in a folder without config/
    assert capsys.readouterr().err.endswith("fig_main.pdf: no such file or folder\n")
    shutil.copytree(ROOT / "config", "config")
    shipped = "config/quick/cells/small--base/policy"
    for name, message in (
        ("config/tiny.yaml", "tiny.yaml: has no provenance"),
        (".", "rspo: error: .: expected a result, such as reports/fig_main.pdf"),
        (f"{shipped}/config.json", f"is part of a result: `rspo trace {shipped}` shows it"),
    ):
        assert main(["trace", name]) == 2
        assert message in capsys.readouterr().err


def test_a_copied_base_policy_is_shown_as_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy of a copy names the first one."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    shipped = "config/quick/cells/small--base/policy"
    written = json.loads(Path(f"{shipped}.provenance.json").read_text())["written"]
    for options, folder in (([], "results/quick"), (["--results", "trial"], "trial")):
        assert main(["pretrain", "small", "--scale", "quick", *options]) == 0
        capsys.readouterr()
        assert main(["trace", f"{folder}/cells/small--base/policy"]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert f", a copy of {shipped}, which was made with commit " in first
        assert f", {written} on " in first
    assert main(["trace", shipped]) == 0
    assert "copy" not in capsys.readouterr().out


def test_own_code_is_shown_with_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = Path("policy.json")
    code = Path("all_of_k.py")
    code.write_text("k = 4\n")
    content = hashlib.sha256(b"k = 4\n").hexdigest()

    def work() -> Done:
        result.write_text("{}")
        return Done()

    run(Task((result,), {}, list, result.with_name(".lock"), own_code=(code,)), work)

    def line() -> str:
        capsys.readouterr()
        assert main(["trace", str(result)]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    shown = f"own code: all_of_k.py, content {content}, "
    assert line() == f"{shown}unchanged"
    code.write_text("k = 5\n")
    assert line() == f"{shown}has changed"
    code.unlink()
    assert line() == f"{shown}is missing"


def test_a_folder_and_a_plain_file_need_no_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config that cannot be read says nothing about them."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/tiny.yaml").write_text("[")
    policy = Path("results/tiny/cells/small--base/policy")
    policy.mkdir(parents=True)
    provenance_path(policy).write_text("{}")
    Path("reports").mkdir()
    for name, message in (
        ("reports", "reports is a folder; name a file in it"),
        (str(policy.parent), f"{policy.parent}: is a folder; did you mean {policy}?"),
        ("config/tiny.yaml", "config/tiny.yaml: has no provenance (config/tiny.yaml.provenance.j"),
    ):
        assert main(["trace", name]) == 2
        assert message in capsys.readouterr().err


def test_each_result_that_is_a_file_has_a_known_suffix() -> None:
    experiment = Experiment.load("tiny", root=ROOT)
    targets = [Path(target) for target in targets_by_name(experiment).values()]
    targets += [path for path, _ in tasks.results(experiment)]
    for target in targets:
        assert target.suffix in reporting._SUFFIXES or target.name in reporting._FOLDERS
