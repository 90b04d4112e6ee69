"""What every command does first: it checks its inputs, and keeps results of other settings."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rspo.cli import main
from rspo.config.merge import merge
from rspo.core.errors import InputError
from rspo.core.files import digest, write_text
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.run import FORCE_HINT, record, run
from rspo.pipeline.task import Task
from rspo.training import pretraining
from rspo.training.checkpoint import save_checkpoint
from tests.support.processor_time import seconds_of

pytestmark = pytest.mark.usefixtures("small_project")  # in a copy of which each test runs
Output, ErrorOf = pytest.CaptureFixture[str], Callable[..., str]
CELL = "small--rspo-pass--k4--n8--s0"
CELLS = Path("results/tiny/cells")
BASE, FOLDER = CELLS / "small--base", CELLS / CELL

# For each command that writes results: its arguments, another setting, the first of its outputs,
# and how the refusal names the difference. Its inputs have the same settings with both.
COMMANDS = {
    "prepare": (
        *(["linear"], "data.suites.standard.linear.generated.problems=3"),
        *("results/tiny/problems/linear.parquet", "generated.problems: 6 -> 3"),
    ),
    "pretrain": (
        *(["small"], "models.small.scratch.steps=41"),
        *(f"{BASE}/policy", "scratch.steps: 40 -> 41"),
    ),
    "train": ([CELL], "training.steps=2", f"{FOLDER}/policy", "training.steps: 6 -> 2"),
    "sample": (
        *([CELL, "standard"], "evaluation.seed=7"),
        *(f"{FOLDER}/samples/standard/0.parquet", "seed: 1000 -> 7"),
    ),
    "score": (
        *([CELL, "standard"], "rewards.length_discount=0.25"),
        *(f"{FOLDER}/scores/standard/0.parquet", "length_discount: 0.5 -> 0.25"),
    ),
    "curves": (
        *([CELL, "standard"], "evaluation.resamples=60"),
        *(f"{FOLDER}/curves/standard.parquet", "resamples: 50 -> 60"),
    ),
    "claims": (
        *([], "evaluation.equivalence_margin=0.3"),
        *("reports/claims.csv", "equivalence_margin: 0.02 -> 0.3"),
    ),
    "figure": (
        *(["fig_main"], "models.small.label=Little"),
        *("reports/fig_main.pdf", 'models.small: "Small (0.1M)" -> "Little"'),
    ),
    "report": (
        *([], "training.checkpoint_every=3"),
        *("reports/report.html", "checkpoint_every: 2 -> 3"),
    ),
}


class Killed(BaseException):
    """Ends a training as a kill would."""


def kill_after_a_checkpoint(*words: str) -> None:
    """Run a command of training until it has saved its first checkpoint."""

    def save(*arguments: Any) -> None:
        save_checkpoint(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rspo.training.local_engine.save_checkpoint", save)
        with pytest.raises(Killed):
            main(words)


def set_in_config(**changes: Any) -> None:
    """Write settings into config/tiny.yaml."""
    file = Path("config/tiny.yaml")
    values = merge(yaml.safe_load(file.read_text()), changes)
    file.write_text(yaml.safe_dump(values, sort_keys=False))


def contents(folder: Path = Path()) -> dict[str, tuple[str, int]]:
    """Digest and time of every file, without locks."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def error_of(capsys: Output) -> ErrorOf:
    """Returns the one line of a command that ends with an error that the user can fix."""

    def error(*words: str) -> str:
        capsys.readouterr()
        assert main(words) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert re.fullmatch("rspo: error: .*\n", output.err)
        return output.err.removeprefix("rspo: error: ").rstrip("\n")

    return error


def run_command_in(message: str) -> None:
    """Run the `rspo` command that a message names."""
    named = re.search("`rspo (.*)` makes it", message)
    assert named
    assert main(shlex.split(named[1])) == 0


# Commands that write results, and have tests of their own.
OTHERS = {"evidence", "verify", "fetch-judge", "study", "cost", "derive"}


def test_every_command_that_writes_results_has_a_test(capsys: Output) -> None:
    main(["--help"])
    commands = re.findall(r"^│ ([a-z][a-z-]*) ", capsys.readouterr().out, flags=re.MULTILINE)
    forced = set()
    for command in commands:
        main([command, "--help"])
        text = capsys.readouterr().out
        assert f"\n rspo {command}" in text  # an example
        if "--force" in text:
            forced.add(command)
    assert forced == {*COMMANDS} | OTHERS
    without = {"status", "trace", "plan", "trial", "doctor", "compare", "pass-at-k", "diagnose"}
    assert set(commands) - forced == without


@pytest.mark.parametrize("command", COMMANDS)
def test_settings_by_hand_that_change_a_result_need_force_or_another_folder(
    capsys: Output, command: str, error_of: ErrorOf
) -> None:
    arguments, setting, file, difference = COMMANDS[command]
    words = [command, *arguments]
    assert main([*words, "--force"]) == 0
    before = contents()
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"{file} is up to date\n")

    error = error_of(*words, f"--set={setting}")
    assert error.startswith(f"{file} would have other settings than the config (")
    assert difference in error
    assert error.endswith("): --results DIR writes to another folder, --force writes here")
    assert contents() == before

    assert main([*words, f"--set={setting}", "--force"]) == 0
    assert re.search(r"^wrote .*(results/tiny|reports)", capsys.readouterr().out, re.MULTILINE)
    error = error_of(*words)
    assert error.startswith(f"{file} was made with other settings (")
    assert error.endswith(f"): {FORCE_HINT}")

    provenance_path(Path(file)).unlink()  # as a file of somebody else
    before = contents()
    error = error_of(*words)
    assert error == f"{file} has no readable provenance, so its settings are unknown: {FORCE_HINT}"
    assert contents() == before


def test_a_command_that_fails_changes_no_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a file that was removed for its space."""

    def fail(*_: object) -> None:
        raise InputError("no")

    file = Path("results/tiny/problems/linear.parquet")
    before = contents()
    content = file.read_bytes()
    file.unlink()
    monkeypatch.setattr("rspo.datasets.prepare.write_table", fail)
    assert main(["prepare", "linear"]) == 2
    assert set(before) - set(contents()) == {str(file)}
    file.write_bytes(content)
    assert main(["sample", CELL, "standard"]) == 0


def test_a_setting_by_hand_that_a_step_does_not_read_changes_nothing(
    capsys: Output, error_of: ErrorOf
) -> None:
    """As in the hint for a seed that the config lacks; studies have five seeds of this cell."""
    sixth = CELL.replace("--s0", "--s5")
    assert "--set seeds=6 adds seeds" in error_of("train", sixth)
    assert main(["train", sixth, "--set=seeds=7"]) == 0
    assert main(["curves", CELL, "standard", "--set=training.checkpoint_every=3"]) == 0
    assert f"{FOLDER}/curves/standard.parquet is up to date" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "difference", "reader"),
    [
        ("pretrain", "scratch.steps: 41 -> 40", ["train", CELL]),
        ("train", "training.steps: 2 -> 6", ["sample", CELL, "standard"]),
        ("score", "length_discount: 0.25 -> 0.5", ["curves", CELL, "standard"]),
    ],
)
def test_an_input_of_other_settings_is_refused_with_the_command_that_makes_it(
    command: str, difference: str, reader: list[str], error_of: ErrorOf
) -> None:
    arguments, setting, path, _ = COMMANDS[command]
    assert main([command, *arguments, f"--set={setting}", "--force"]) == 0
    for words in (reader, [*reader, "--force"]):
        error = error_of(*words)
        assert error.startswith(f"{path} was made with other settings ({difference}); `rspo ")
        assert error.endswith(" --force` makes it again")
    run_command_in(error)
    assert main([*reader, "--force"]) == 0


@pytest.mark.parametrize(
    ("file", "of", "reader"),
    [
        ("results/tiny/problems/train.parquet", "", ["train", CELL]),
        ("results/tiny/problems/linear.parquet", "", ["sample", CELL, "standard"]),
        (f"{BASE}/policy", "model.safetensors", ["train", CELL]),
        (f"{FOLDER}/policy", "model.safetensors", ["sample", CELL, "standard"]),
        (f"{FOLDER}/samples/standard/0.parquet", "", ["score", CELL, "standard"]),
        (f"{FOLDER}/scores/standard/0.parquet", "", ["curves", CELL, "standard"]),
    ],
)
@pytest.mark.parametrize("part", [0, 0.9])
def test_a_damaged_input_is_named_with_the_command_that_makes_it(
    capsys: Output, file: str, of: str, reader: list[str], part: float, error_of: ErrorOf
) -> None:
    """Empty, or cut off."""
    cut(Path(file, of), part)
    assert main(["status"]) == 0
    status = capsys.readouterr().out
    if of:
        assert f"{Path(file).parent.name} stale" in " ".join(status.split())
    error = error_of(*reader)
    named = rf" \(bytes of {re.escape(of)}: \d+ -> \d+\)" if of else ""
    begin = f"{re.escape(file)} was damaged or changed after it was written{named}; `rspo "
    assert re.match(begin, error)
    assert error.endswith(" --force` makes it again")
    assert error in status.splitlines()
    run_command_in(error)
    assert main(reader) == 0  # the same content


def cut(file: Path, part: float) -> None:
    file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])


@pytest.mark.parametrize("part", [0, 0.9])
def test_a_damaged_checkpoint_is_named_with_the_command_that_starts_again(
    capsys: Output, part: float, error_of: ErrorOf
) -> None:
    shutil.rmtree(FOLDER / "policy")
    kill_after_a_checkpoint("train", CELL)
    state = FOLDER / "checkpoint" / "state.pt"
    cut(state, part)
    assert main(["status"]) == 0
    status = capsys.readouterr().out
    assert f"{CELL} stale" in " ".join(status.split())
    error = error_of("train", CELL)
    assert error in status.splitlines()
    assert error == f"{state} is damaged; `rspo train {CELL} --force` starts from step 1"
    assert "`rspo train " in error_of("sample", CELL, "standard", "--force")
    assert main(["train", CELL, "--force"]) == 0
    assert not state.parent.exists()


def test_the_cost_is_always_made_again(error_of: ErrorOf) -> None:
    """The time that was used is no setting."""
    table = Path("results/tiny/tables/cost.csv")
    for _ in range(2):
        write_text(table, "old")
        assert main(["cost"]) == 0
        assert table.read_text().startswith("policy,")
    error = error_of("cost", "--set=seeds=2")
    assert error.startswith(
        f"{table} would have other settings than the config (policies: 6 -> 11, "
    )


def test_a_result_of_other_inputs_is_refused(error_of: ErrorOf) -> None:
    """As after new scores: Snakemake makes the curves again, and by hand `--force` does."""
    curves, scores = (FOLDER / name for name in ("curves/standard.parquet", "scores/standard/0"))
    note = provenance_path(curves)
    values = json.loads(note.read_text())
    values["inputs"][f"{scores}.parquet"] = "0" * 64
    note.write_text(json.dumps(values))
    expected = f"{curves} was made from another version of {scores}.parquet"
    assert error_of("curves", CELL, "standard").startswith(f"{expected}: --results DIR ")
    run_command_in(error_of("figure", "fig_main"))
    assert main(["figure", "fig_main"]) == 0


@pytest.mark.parametrize(
    ("samples", "fault"),
    [("16", "was made without {FOLDER}/scores"), ("8", "was made from {FOLDER}/scores")],
)
def test_a_result_of_more_or_fewer_blocks_is_refused(
    samples: str, fault: str, error_of: ErrorOf
) -> None:
    """N = 8 was one block: with N = 16, block 1 is new; back again, it is no longer read."""
    larger = [CELL, "standard", "1"]
    set_in_config(evaluation={"samples": 16})
    assert main(["sample", *larger]) == main(["score", *larger]) == 0
    words = ["curves", CELL, "standard"]
    if samples == "8":
        assert main([*words, "--force"]) == 0
        set_in_config(evaluation={"samples": 8})
    error = error_of(*words)
    assert error.startswith(f"{FOLDER}/curves/standard.parquet {fault.format(FOLDER=FOLDER)}")


@pytest.mark.parametrize("name", ["trial", "{folder}/trial", "{folder}/results/tiny"])
def test_results_can_be_renamed_and_named_by_an_absolute_path(capsys: Output, name: str) -> None:
    shutil.copytree("results/tiny", "trial")
    words = ["curves", CELL, "standard", "--results", name.format(folder=Path().absolute())]
    assert main(words) == 0
    assert capsys.readouterr().out.endswith("/curves/standard.parquet is up to date\n")


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_an_input_without_provenance_is_refused(text: str | None, error_of: ErrorOf) -> None:
    """As a copied file or one made by hand: nothing tells which settings it was made with."""
    scores = FOLDER / "scores/standard/0.parquet"
    if text is None:
        provenance_path(scores).unlink()
    else:
        provenance_path(scores).write_text(text)
    for words in (
        ["curves", CELL, "standard"],
        ["figure", "fig_main"],
    ):  # reads it, or curves made from it
        error = error_of(*words)
        assert error.startswith(
            f"{scores} has no readable provenance, so its settings are unknown; `rspo "
        )
        assert error.endswith(f"score {CELL} standard 0 --force` makes it again")
    run_command_in(error)
    assert main(["figure", "fig_main"]) == 0


def test_an_input_is_refused_for_a_fault_of_what_it_was_made_from(
    capsys: Output, error_of: ErrorOf
) -> None:
    """A policy put back, as from a backup, after another one was evaluated."""
    backup = Path(shutil.copytree(FOLDER, "backup"))
    other = ["--set=training.steps=2", "--force"]
    for words in (["train"], ["sample"], ["score"], ["curves"]):
        assert main([*words, CELL, *(["standard"] if words != ["train"] else []), *other]) == 0
    for name in ("policy", "policy.provenance.json", "training.jsonl"):
        path = FOLDER / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(backup / "policy", FOLDER / "policy")
    for name in ("policy.provenance.json", "training.jsonl", "training.jsonl.provenance.json"):
        shutil.copy2(backup / name, FOLDER / name)
    expected = (
        f"{FOLDER}/samples/standard/0.parquet was made from another version of {FOLDER}/policy"
    )
    for words in (["curves", CELL, "standard"], ["figure", "fig_main", "--force"]):
        assert error_of(*words).startswith(f"{expected}; `rspo sample {CELL} standard 0 ")
    assert main(["status"]) == 0
    assert f"{CELL} trained" in " ".join(capsys.readouterr().out.split())


def test_a_trial_run_has_a_folder_of_its_own_and_its_messages_the_settings_of_the_command_line(
    capsys: Output,
) -> None:
    before = contents()
    trial = ["--set=evaluation.seed=7", "--set=models.small.label=a b", "--results=trial"]
    made = list[str]()

    def make(*words: str) -> None:
        while main(words) != 0:
            command = re.search("`rspo (.*)` makes it", capsys.readouterr().err)
            assert command
            assert len(made) < 20
            make(*shlex.split(command[1]))
        made.append(words[0])

    make("curves", CELL, "standard", *trial)
    ordered = [name for name in made if name != "prepare"]
    assert ordered == ["pretrain", "train", "sample", "score", "curves"]
    assert f"wrote trial/cells/{CELL}/curves/standard.parquet\n" in capsys.readouterr().out
    shutil.rmtree("trial")
    assert contents() == before


def test_a_trial_run_pretrains_only_a_model_of_other_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it copies the base policy of the scale, unless that is damaged."""

    def train(*arguments: Any) -> None:
        trained.append(arguments[2].parents[2].name)
        pretrain(*arguments)

    pretrain, trained = pretraining._train, list[str]()
    monkeypatch.setattr(pretraining, "_train", train)
    words = ["pretrain", "small", "--set=training.steps=2"]
    assert main([*words, "--results=same"]) == 0
    assert digest(Path("same/cells/small--base/policy")) == digest(BASE / "policy")
    assert main([*words, "--set=models.small.scratch.steps=41", "--results=other"]) == 0
    cut(BASE / "policy" / "model.safetensors", 0.9)
    assert main([*words, "--results=damaged"]) == 0
    assert trained == ["other", "damaged"]
    notes = [
        json.loads(Path(name, "cells/small--base/policy.provenance.json").read_text())
        for name in ("same", "damaged")
    ]
    assert notes[0]["digest"] == notes[1]["digest"]
    assert notes[0]["notes"].pop("copied")["from"] == str(BASE / "policy")
    assert notes[0]["notes"] == notes[1]["notes"]


def test_force_trains_from_the_first_step_although_there_is_a_checkpoint(capsys: Output) -> None:
    """Killed after a checkpoint: the same command without --force resumes, also then."""
    train = ["train", CELL, "--set=training.ppo_clip=0.1"]
    for _ in range(2):
        kill_after_a_checkpoint(*train, "--force")
        assert "resumes" not in capsys.readouterr().out
    # The policy of the earlier settings is still there.
    assert main(train) == 0
    assert f"{CELL} resumes from step 2 of 6" in capsys.readouterr().out


def test_a_file_that_the_user_names_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"problem": "1+1", "answer": "2", "response": rf"\boxed{{{n}}}"} for n in (2, 3, 2, 4)]
    Path("responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words, other = ["verify", "responses.jsonl"], "--verifier=exact"
    assert main(words) == main(words) == 0
    before = contents(tmp_path)
    capsys.readouterr()
    assert main([*words, other]) == 2
    assert "was not made by this command with these settings" in capsys.readouterr().err
    assert contents(tmp_path) == before
    assert main([*words, other, "--force"]) == 0


def test_provenance_has_the_inputs_as_they_were_before_the_work(tmp_path: Path) -> None:
    source, output = tmp_path / "source.txt", tmp_path / "output.txt"
    source.write_text("before")
    maker = Task((source,), {"a": 1})
    record(maker)
    before = digest(source)

    def work() -> None:
        output.write_text("made from the source before the change")
        source.write_text("changed meanwhile")

    run(Task((output,), {"b": 2}, lambda: [(source, maker)]), work)
    assert read_provenance(output)["inputs"] == {str(source): before}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_results_are_complete_does_not_fail_the_command(number: int) -> None:
    words = [sys.executable, "-m", "rspo", "prepare", "linear", "--force"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("wrote ")
        process.send_signal(number)
    assert process.returncode == 0


# --- finished results -----------------------------------------------------------------------------

EVERY_STEP = [name for name in COMMANDS if name not in ("figure", "report", "claims")]


@pytest.mark.parametrize("command", EVERY_STEP)
def test_a_command_with_finished_results_reads_no_contents(
    monkeypatch: pytest.MonkeyPatch, capsys: Output, command: str
) -> None:
    """Neither of its outputs nor of its inputs: these may be hundreds of gigabytes."""

    def read(*_: object) -> str:
        raise AssertionError("reads the content of a result")

    arguments, _, file, _ = COMMANDS[command]
    for module in ("core.files", "pipeline.provenance", "pipeline.state", "pipeline.run"):
        monkeypatch.setattr(f"rspo.{module}.digest", read)
    before = contents()
    assert main([command, *arguments]) == 0
    assert capsys.readouterr().out == f"{file} is up to date\n"
    assert contents() == before


def test_a_finished_result_of_many_gigabytes_costs_a_look(tmp_path: Path) -> None:
    """Of 64 GB, of which nothing is stored; reading them would take a minute."""
    source, output = tmp_path / "source", tmp_path / "output"
    for path in (source, output):
        path.touch()
    maker = Task((source,), {"a": 1})
    step = Task((output,), {"b": 2}, lambda: [(source, maker)])
    record(maker)
    record(step)
    for path in (source, output):
        os.truncate(path, 64 * 10**9)
        note = json.loads(provenance_path(path).read_text()) | {"bytes": 64 * 10**9}
        provenance_path(path).write_text(json.dumps(note))
    before = bytes_read()
    seconds = seconds_of(lambda: run(step, lambda: pytest.fail("works")))
    assert bytes_read() - before < 100_000
    assert seconds < 1


def bytes_read() -> int:
    """By this process, from files and the cache of the system."""
    (count,) = re.findall(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    return int(count)


def test_contents_are_read_when_work_starts(error_of: ErrorOf) -> None:
    """A table of the same size with another content is no input of a new result."""
    problems = Path("results/tiny/problems/linear.parquet")
    problems.write_bytes(problems.read_bytes()[:-4] + b"\0\0\0\0")
    words = ["sample", CELL, "standard"]
    assert main(words) == 0
    assert error_of(*words, "--force").startswith(f"{problems} was damaged or changed after it was")


def test_a_finished_result_needs_no_right_to_write() -> None:
    """The command of a user who may only read, who is root without root's rights."""
    for path in [Path("results"), *Path("results").rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        is_root = os.geteuid() == 0
        words = [sys.executable, "-m", "rspo", "train", CELL]
        done = subprocess.run(
            [*(without_rights if is_root else []), *words], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, f"{FOLDER}/policy is up to date\n")
        done = subprocess.run(
            [*(without_rights if is_root else []), *words, "--force"],
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert "Permission denied" in done.stderr
    finally:
        for path in [Path("results"), *Path("results").rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)


def test_a_checkpoint_that_a_killed_removal_left_trains_nothing_again(capsys: Output) -> None:
    """Killed after the provenance of all outputs was written."""
    shutil.rmtree(FOLDER / "policy")
    kill_after_a_checkpoint("train", CELL)
    shutil.copytree(FOLDER / "checkpoint", "left")
    assert main(["train", CELL]) == 0
    before = contents(FOLDER)
    shutil.copytree("left", FOLDER / "checkpoint")
    capsys.readouterr()
    assert main(["status"]) == 0
    assert f"{CELL} evaluated" in " ".join(capsys.readouterr().out.split())
    assert main(["train", CELL]) == 0
    assert capsys.readouterr().out == f"{FOLDER}/policy is up to date\n"
    assert contents(FOLDER) == before
    assert not (FOLDER / "checkpoint").exists()


def test_a_training_that_was_killed_before_its_last_provenance_is_resumed(capsys: Output) -> None:
    shutil.rmtree(FOLDER / "policy")
    kill_after_a_checkpoint("train", CELL)
    shutil.copytree(FOLDER / "checkpoint", "left")
    assert main(["train", CELL]) == 0
    policy = digest(FOLDER / "policy")
    shutil.copytree("left", FOLDER / "checkpoint")
    provenance_path(FOLDER / "training.jsonl").unlink()
    capsys.readouterr()
    assert main(["train", CELL]) == 0
    assert f"{CELL} resumes from step 2 of 6" in capsys.readouterr().out
    assert digest(FOLDER / "policy") == policy
