"""No command replaces a result that was made with other settings, unless it is told to."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from rspo.core.replacement import differences

from rspo.cli import main
from rspo.core.files import fingerprint, write_text
from rspo.core.provenance import provenance_path, write_provenance
from rspo.training.checkpoint import save_checkpoint
from tests.support import ROOT, tiny_world

CELL = "small--rspo-pass--k4--n8--s0"
FOLDER = f"results/tiny/cells/{CELL}"
TRIAL = "--set=training.steps=2"
WAYS_OUT = "--results DIR writes to another folder, --force replaces it"

MORE = "{label: More, generated: {families: [divide], split: test, problems: 2}}"

# For each command that writes results: its arguments, another setting, one of its files, and how
# the refusal names the difference.
COMMANDS = {
    "prepare": (
        ["linear"],
        "data.suites.standard.linear.generated.problems=3",
        "results/tiny/problems/linear.parquet",
        "generated.problems: 6 -> 3",
    ),
    "contamination": (
        [],
        f"data.suites.standard.more={MORE}",
        "results/tiny/tables/contamination.csv",
        "sets: ",
    ),
    "pretrain": (
        ["small"],
        "models.small.scratch.steps=41",
        "results/tiny/cells/small--base/policy",
        "scratch.steps: 40 -> 41",
    ),
    "train": ([CELL], "training.steps=2", f"{FOLDER}/policy", "training.steps: 6 -> 2"),
    "sample": (
        [CELL, "standard"],
        "sampling.temperature=0.5",
        f"{FOLDER}/samples/linear/0.parquet",
        "temperature: 1.0 -> 0.5",
    ),
    "score": (
        [CELL, "standard"],
        "rewards.length_discount=0.25",
        f"{FOLDER}/scores/linear/0.parquet",
        "length_discount: 0.5 -> 0.25",
    ),
    "curves": (
        [CELL, "standard"],
        "evaluation.resamples=60",
        f"{FOLDER}/curves/standard.parquet",
        "resamples: 50 -> 60",
    ),
    "tables": (
        [],
        "evaluation.resamples=60",
        "results/tiny/tables/curves.csv",
        "resamples: 50 -> 60",
    ),
    "gradients": (
        ["small--base"],
        "gradients.seed=1",
        "results/tiny/cells/small--base/gradients.parquet",
        "gradients.seed: 2000 -> 1",
    ),
    "agreement": (
        [],
        "agreement.samples=3",
        "results/tiny/tables/agreement.csv",
        "samples: 2 -> 3",
    ),
    "claims": (
        [],
        "evaluation.equivalence_margin=0.3",
        "results/tiny/tables/claims.csv",
        "equivalence_margin: 0.02 -> 0.3",
    ),
    "figure": (
        ["fig_main"],
        "models.small.label=Little",
        "results/tiny/figures/fig_main.pdf",
        'models.small: "Small (0.1M)" -> "Little"',
    ),
    "report": ([], "models.small.label=Little", "results/tiny/report.html", '-> "Little"'),
    "answers": (
        [],
        "evaluation.k=[1, 2]",
        "results/tiny/tables/answers.csv",
        "k: [1, 2, 4] -> [1, 2]",
    ),
    "cost": ([], "seeds=2", "results/tiny/tables/cost.csv", "policies: 5 -> 9"),
}
# Without a scale's settings, or with downloads: each has a test of its own below; `study` has one
# in tests/studies.
OTHERS = {"verify", "pass-at-k", "results", "fetch-prompt", "fetch-judge", "study"}
SMALL = {
    "gradients": {"gradients": {"prompts": 2, "responses": 32, "policies": ["small--base"]}},
    "agreement": {"agreement": {"against": "rules", "samples": 2}},
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


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Digest and time of every file, without locks."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def settings_of(path: Path) -> str:
    note = json.loads(provenance_path(path).read_text())
    return json.dumps(note["settings"])


def test_every_command_that_writes_results_has_a_test_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--help"])
    commands = re.findall(r"^│ ([a-z][a-z-]*) ", capsys.readouterr().out, flags=re.MULTILINE)
    forced = set()
    for command in commands:
        main([command, "--help"])
        if "--force" in capsys.readouterr().out:
            forced.add(command)
    assert forced == {*COMMANDS} | OTHERS
    others = {"status", "trace", "plan", "doctor", "gpu-check", "compare"}
    others |= {"diagnose"}
    assert {*commands} - forced == others


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_of_other_settings_is_replaced_with_force_only(
    small_project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    arguments, setting, file, difference = COMMANDS[command]
    words = [command, *arguments, *tiny_world.options(**SMALL.get(command, {}))]
    path = Path(file)
    if command in (
        "claims",
        "cost",
        "answers",
        "contamination",
    ):  # the project's files were not made by the commands
        assert main([*words, "--force"]) == 0
    if command == "contamination":  # its other setting is a further set of problems
        assert main(["prepare", "more", f"--set={setting}"]) == 0
    assert main(words) == 0  # missing ones are made; others have these settings
    before, made_with = contents(small_project), settings_of(path)
    capsys.readouterr()

    assert main([*words, f"--set={setting}"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"rspo: error: {file} was made with other settings (")
    assert difference in output.err
    assert output.err.endswith(f": {WAYS_OUT}\n")
    assert output.err.count("\n") == 1
    assert contents(small_project) == before

    assert main([*words, f"--set={setting}", "--force"]) == 0
    assert settings_of(path) != made_with
    output = capsys.readouterr()
    assert re.search(r"^wrote .*results/tiny", output.out, flags=re.MULTILINE)


def test_a_trial_run_goes_to_a_folder_of_its_own(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(small_project)
    trial = [*tiny_world.options(), TRIAL, "--results", "trial"]
    assert main(["train", CELL, *trial]) == 2
    assert "`rspo pretrain small --results trial` makes it" in capsys.readouterr().err
    for words in (["prepare", "train"], ["pretrain", "small"], ["train", CELL]):
        assert main([*words, *trial]) == 0
    assert len(Path("trial/cells", CELL, "training.jsonl").read_text().splitlines()) == 2
    assert f"wrote trial/cells/{CELL}/policy, trial/cells/{CELL}/training.jsonl\n" in (
        capsys.readouterr().out
    )
    shutil.rmtree("trial")
    assert contents(small_project) == before


def test_force_trains_from_the_first_step_although_there_is_a_checkpoint(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed after a checkpoint: the same command without --force resumes, also then."""
    train = ["train", CELL, *tiny_world.options(), "--set=training.ppo_clip=0.1"]
    for _ in range(2):
        kill_after_a_checkpoint(*train, "--force")
        assert "resumes" not in capsys.readouterr().out
    # The policy of the earlier settings is still there.
    assert main(train) == 0
    assert f"{CELL} resumes from step 2 of 6" in capsys.readouterr().out
    assert '"ppo_clip": 0.1' in settings_of(Path(FOLDER, "policy"))


def test_a_trial_run_does_not_take_the_place_of_an_unfinished_training(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its end it would remove the other checkpoint."""
    shutil.rmtree(Path(FOLDER, "policy"))
    train = ["train", CELL, *tiny_world.options()]
    kill_after_a_checkpoint(*train)
    before = contents(small_project)
    capsys.readouterr()
    assert main([*train, TRIAL]) == 2
    error = capsys.readouterr().err
    assert f"{FOLDER}/checkpoint is an unfinished training with other settings" in error
    assert "(training.steps: 6 -> 2)" in error
    assert error.count("\n") == 1
    assert contents(small_project) == before
    assert main(train) == 0
    assert "resumes from step 2 of 6" in capsys.readouterr().out


def test_a_checkpoint_of_an_earlier_version_is_resumed(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a fingerprint of its settings instead of the settings."""
    shutil.rmtree(Path(FOLDER, "policy"))
    train = ["train", CELL, *tiny_world.options()]
    kill_after_a_checkpoint(*train)
    note = Path(FOLDER, "checkpoint/origin.json")
    note.write_text(json.dumps(fingerprint(json.loads(note.read_text()))))
    assert main(train) == 0
    assert "resumes from step 2 of 6" in capsys.readouterr().out


def test_a_new_version_of_the_code_redraws_a_figure(small_project: Path) -> None:
    note = provenance_path(Path("results/tiny/figures/fig_main.pdf"))
    values = json.loads(note.read_text())
    values["settings"] |= {"code": "0" * 64, "caption": "as it was"}
    note.write_text(json.dumps(values))
    assert main(["figure", "fig_main", *tiny_world.options()]) == 0
    assert "as it was" not in note.read_text()


def test_an_option_of_an_earlier_version_names_the_present_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", CELL, "--anew"]) == 2
    assert "rspo train --anew is now `rspo train --force`" in capsys.readouterr().err


def test_a_result_whose_inputs_changed_is_made_again(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = Path(FOLDER, "scores/linear/0.parquet")
    shutil.copy(Path(FOLDER.replace("k4", "k2"), "scores/linear/0.parquet"), scores)
    assert main(["curves", CELL, "standard", *tiny_world.options()]) == 0
    assert capsys.readouterr().out == f"wrote {FOLDER}/curves/standard.parquet\n"


def test_a_file_that_the_user_names_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"problem": "1+1", "answer": "2", "response": rf"\boxed{{{n}}}"} for n in (2, 3, 2, 4)]
    Path("responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    verify, curve = ["verify", "responses.jsonl"], ["pass-at-k"]
    curve += ["responses.verdicts.jsonl", "curves.csv", "--k=1"]
    for words, other in ((verify, "--verifier=exact"), (curve, "--k=2")):
        assert main(words) == main(words) == 0
        before = contents(tmp_path)
        capsys.readouterr()
        assert main([*words, other]) == 2
        assert "was made with other settings" in capsys.readouterr().err
        assert contents(tmp_path) == before
        assert main([*words, other, "--force"]) == 0
    Path("mine.csv").write_text("mine")
    assert main(["pass-at-k", "responses.verdicts.jsonl", "mine.csv"]) == 2
    assert "mine.csv exists and is no result of this command" in capsys.readouterr().err
    assert Path("mine.csv").read_text() == "mine"


def test_a_page_of_results_does_not_replace_another_text(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("README.md").write_text("# Mine\n")
    words = ["results", "README.md", *tiny_world.options()]
    assert main(words) == 2
    assert "README.md does not have the results of this scale" in capsys.readouterr().err
    assert Path("README.md").read_text() == "# Mine\n"


@pytest.mark.parametrize(
    ("command", "name", "setting"),
    [
        ("fetch-prompt", "prompt.py", "xverify.prompt.commit=" + "a" * 40),
        ("fetch-judge", "model", "xverify.revision=" + "a" * 40),
    ],
)
def test_downloads_of_another_version_are_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    setting: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", "config")
    xverify = yaml.safe_load(Path("config/paper.yaml").read_text())["xverify"]
    path = Path("results/paper/judge", name)
    write_text(path, "")
    of_model = {key: xverify[key] for key in ("model", "revision")}
    write_provenance(path, xverify["prompt"] if command == "fetch-prompt" else of_model)
    assert main([command, "--scale=paper", f"--set={setting}"]) == 2
    assert f"{path} was made with other settings" in capsys.readouterr().err


def test_differences_name_nested_keys_and_absent_ones() -> None:
    old = {"a": {"b": 1, "c": [1, 2]}, "d": None, "code": "x"}
    new = {"a": {"b": 2, "c": [1, 2]}, "e": "long " * 20, "code": "y"}
    assert list(differences(old, new, ["code"])) == [
        "a.b: 1 -> 2",
        'e: none -> "long long long long long long long l...',
        "d: null -> none",
    ]
    assert list(differences(old, old)) == []
