"""The `rspo` command with valid and invalid input."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.training.progress import read_progress
from tests.support import ROOT, registries, tiny_world
from tests.support.processes import LONGEST_WAIT, wait_until

CELL = "small--rspo-pass--k4--n16--s0"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the configs; tiny has the sizes of tests."""
    tiny_world.write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_imports_neither_numpy_nor_torch() -> None:
    code = (
        "import sys; from rspo.cli import main; main(['--help']);"
        "print({'numpy', 'torch', 'pandas'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "set()\n"


def experiment_seen_by(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The experiment that `rspo status ARGUMENTS` shows."""
    seen: list[Experiment] = []
    monkeypatch.setattr("rspo.status.display.table_text", lambda e: seen.append(e) or "")
    assert main(["status", *arguments]) == 0
    return seen[0]


def test_commands_of_rules_read_the_experiment_of_snakemake(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "other"):
        (project / name).mkdir()
    given = {"scale": "pretrained", "set": {"seeds": 3}, "results": str(project / "own")}
    monkeypatch.setenv("RSPO_EXPERIMENT", json.dumps(given))
    seen = experiment_seen_by([], monkeypatch)
    assert (seen.scale, seen.config.seeds, seen.files.results) == ("pretrained", 3, project / "own")
    options = ["--scale", "tiny", "--set", "seeds=2", "--results", str(project / "other")]
    seen = experiment_seen_by(options, monkeypatch)
    assert (seen.scale, seen.config.seeds, seen.files.results) == ("tiny", 2, project / "other")
    monkeypatch.setenv("RSPO_EXPERIMENT", '{"scale": "tiny", "set": {}, "results": null}')
    assert experiment_seen_by([], monkeypatch).files.results == Path("results/tiny")


def test_results_do_not_go_into_a_folder_with_other_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "reports").mkdir()
    file = project / "file"
    file.touch()
    for folder, what in (
        (project / "config", "has "),
        (project, "has config;"),
        (file, "is a file"),
        (Path("/dev/null"), "is a file"),
    ):
        assert main(["status", "--results", str(folder)]) == 2
        assert f": {what}" in capsys.readouterr().err


def test_a_closed_standard_output_is_not_an_error(project: Path) -> None:
    """As in `rspo status | head -1`."""
    read, write = os.pipe()
    os.close(read)
    command = [Path(sys.executable).with_name("rspo"), "status"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.EROFS, "", "results/tiny"), "results/tiny: Read-only file system"),
        (OSError(errno.ENOSPC, "", "a.parquet"), "a.parquet: No space left on device"),
        (BrokenPipeError(errno.EPIPE, ""), "Broken pipe"),  # not of the standard output
    ],
)
def test_an_error_of_the_system_is_one_line_that_names_the_file(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    line: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("rspo.status.display.table_text", fail)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == f"rspo: error: {line}\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "small--rspo-pass--k5--n16--s0"], "similar: small--rspo-pass--k"),
        (
            ["train", CELL.replace("s0", "s7"), "--set=grid.main.seeds=3"],
            "has fewer seeds; --set seeds=8 adds seeds to every cell",
        ),
        (["train", CELL, "--set", "engine=verl"], "would have other settings than the config ("),
        (["train", CELL], "small--base/policy: no such file; `rspo pretrain small` makes it"),
        (["pretrain", "smal"], "config/tiny.yaml; did you mean small? Allowed: small, medium"),
        (["sample", CELL, "other"], "no suite 'other' in config/tiny.yaml; allowed: standard, co"),
        (["score", CELL, "standard", "99"], "no block 99: config/tiny.yaml evaluates "),
        (["score", CELL, "standard"], f"`rspo sample {CELL} standard 0` makes it"),
        (["figure", "fig_mian"], "fig_mian"),
        (["status", "--set", "seeds"], "--set seeds: expected KEY=VALUE"),
        (["status", "--set", "a.b=["], "'[' is not YAML"),
        (["train", "small--base"], "small--base is a base policy; `rspo pretrain small` makes it"),
        (["sample", "medium--base", "standard", "5"], "with 8 samples, which are block 0"),
        (["verify", "-"], "-: a pipe can be read only once"),
        (["pass-at-k", "/dev/stdin"], "/dev/stdin: a pipe can be read only once"),
        (["compare", "-", "b.jsonl"], "-: a pipe can be read only once"),
        (["fetch-judge"], "has no section xverify; `--scale one_gpu` has one; `--scale paper` has"),
        (["status", "--set", "training.steps=abc"], "--set: training.steps = 'abc': "),
        (["scoer", CELL], "Did you mean 'score'"),
        (["status", "--scale", ""], "--scale is empty; expected the name of a file in config/"),
        (["status", "--config", "results=trial"], "--config; rspo takes --scale SCALE, --results "),
        (["status", "scale=paper"], "argument(s) (scale=paper); rspo takes --scale SCALE, --resu"),
        (["status", "--set", "seeds=2", "--no"], "error: No such option: --no\n"),
        (["--scale", "paper", "status"], "--scale; options come after the command: rspo COMMAND "),
        (["compare", "a.jsonl", "./a.jsonl"], "a.jsonl would be compared with itself; name two f"),
        (["compare", CELL, CELL, "--suite=standard"], " would be compared with itself; name two "),
        (["verify", "a.jsonl", "--out", "config"], "config: is a folder; expected a file with th"),
        (["verify", "a.jsonl", "--out", "a.csv"], "a.csv: has the suffix '.csv'; allowed: .jsonl"),
        (["verify", "a.jsonl", "--out", "no/a.jsonl"], "no/a.jsonl: no such folder: no"),
        (
            ["verify", "a.jsonl", "--verifier=xverify", "--scale=papr"],
            "config/papr.yaml: no such config file; scales here: one_gpu, paper, ",
        ),
        (
            ["verify", "a.jsonl", "--k", "2,x"],
            "'--k': Input should be a valid integer",
        ),
        (["compare", "a", "b", "--metric=pass"], "'pass' is not one of 'pass_at_k'"),
        (["score", CELL], "Missing argument 'suite'"),
        (
            ["sample", "qwen2.5-math-7b--base", "standard", "--scale", "paper"],
            "no such file; `rspo pretrain qwen2.5-math-7b --scale paper` makes it",
        ),
    ],
)
def test_errors_that_the_user_can_fix_are_one_line_and_exit_status_2(
    project: Path, capsys: pytest.CaptureFixture[str], command: list[str], message: str
) -> None:
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("rspo: error: ")
    assert error.count("\n") == 1
    assert message in error
    written = {path.name for path in project.rglob("*") if path.is_file()}
    shipped = {path.name for path in (ROOT / "config").rglob("*")}
    assert written - shipped - {".lock"} == set()


def test_a_command_outside_of_the_project_names_the_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").touch()
    for command in (["status"], ["plan"], ["verify", "a.jsonl", "--verifier=xverify"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert f"run this in the project's folder, {ROOT}" in error
        assert error.count("\n") == 1


OWN_FIGURE = """\
from rspo.figures import Figure, register

def table():
    return cell({"a": 1})

def cell(row):
    return row["b"]

register(Figure("fig_mine", "Mine.", table, print))
"""


def test_a_figure_of_the_user_that_fails_is_shown_with_the_users_lines_only(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "mine.py").write_text(OWN_FIGURE)
    with registries.restored():
        assert main(["figure", "fig_mine", "--set", "extensions=[mine.py]"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "rspo: error: mine.py, line 7, in cell: KeyError: 'b'",
        '    mine.py, line 4: return cell({"a": 1})',
        '    mine.py, line 7: return row["b"]',
    ]


def test_an_error_of_this_package_keeps_its_traceback(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("rspo.status.display.table_text", fail)
    with pytest.raises(KeyError, match="ours"):
        main(["status"])


STEPS = "--set=models.small.scratch.steps=5000"  # which take a minute


def test_ctrl_c_exits_with_130_and_keeps_the_checkpoint(project: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rspo", "pretrain", "small", "--force", STEPS],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = project / "results" / "tiny" / "cells" / "small--base"
    wait_until((folder / "checkpoint" / "state.pt").exists)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 130
    command = f"`rspo pretrain small {STEPS}`"
    assert error == f"rspo: interrupted; {command} resumes it, without --force\n"
    assert sorted(item.name for item in folder.iterdir()) == [".lock", "checkpoint"]


def test_training_killed_before_its_provenance_is_completed_by_the_same_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(*_: object) -> None:
        raise SystemExit

    def is_shown(state: str) -> bool:
        assert main(["status"]) == 0
        return f"{CELL} {state} " in " ".join(capsys.readouterr().out.split())

    cell = project / "results" / "tiny" / "cells" / CELL
    for command in (["prepare", "train"], ["pretrain", "small"]):
        assert main(command) == 0
    with monkeypatch.context() as patch:
        patch.setattr("rspo.pipeline.run.write_provenance", kill)
        with pytest.raises(SystemExit):
            main(["train", CELL])
    assert is_shown("stopped")
    snapshot = read_progress(cell / "checkpoint")
    assert snapshot
    assert list(snapshot.metrics) == ["reward", "pass_at_4", "entropy"]
    assert main(["train", CELL]) == 0
    (cell / "checkpoint").mkdir()  # as by a process that was killed while it removed the folder
    (cell / "checkpoint" / "state.pt").touch()
    assert is_shown("trained")
    assert main(["train", CELL]) == 0
    assert {path.name for path in cell.iterdir()} == {
        ".lock",
        *("policy", "policy.provenance.json"),
        *("training.jsonl", "training.jsonl.provenance.json"),
    }
