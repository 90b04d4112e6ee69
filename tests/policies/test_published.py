"""A base policy as its publisher wrote it: from a mirror, or a clear word on why not."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.rewards.configured import verifier_of
from rspo.rewards.xverify.model import fetch_judge
from rspo.training.pretraining import make_base_policy
from tests.support import hub_model, paper_scale

MODEL, ID = "qwen2.5-math-1.5b", "Qwen/Qwen2.5-Math-1.5B"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return paper_scale.load(tmp_path)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    hub_model.write(tmp_path / "mirror" / ID, hub_model.ANSWER)
    return tmp_path / "mirror"


def test_a_mirrors_model_is_the_base_policy(experiment: Experiment, mirror: Path) -> None:
    (mirror / ID / "README.md").write_text("no part of a policy")
    make_base_policy(experiment, MODEL, mirror)
    folder = experiment.policy(f"{MODEL}--base")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (mirror / ID / name).read_bytes()
    assert not (folder / "README.md").exists()
    note = json.loads(folder.with_name("policy.provenance.json").read_text())
    revision = experiment.config.models[MODEL].hub.revision
    assert note["notes"] == {"sources": [f"{mirror / ID} @ {revision}"]}
    assert note["settings"]["hub"]["id"] == ID


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_model_that_is_not_whole_is_refused(
    experiment: Experiment, mirror: Path, missing: str
) -> None:
    (mirror / ID / missing).unlink()
    expected = rf"{mirror / ID}: has no .*{missing.removeprefix('model')}; expected the files of"
    with pytest.raises(InputError, match=expected):
        make_base_policy(experiment, MODEL, mirror)
    assert not experiment.policy(f"{MODEL}--base").exists()


def test_without_hub_and_mirror_both_ways_are_named(
    experiment: Experiment, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(mirror / "no-cache"))
    other = "qwen2.5-math-7b"
    place = mirror / "Qwen" / "Qwen2.5-Math-7B"
    expected = rf"^Qwen/Qwen2.5-Math-7B could not be downloaded .*a mirror may have {place}/"
    with pytest.raises(InputError, match=expected):
        make_base_policy(experiment, other, mirror)
    with pytest.raises(InputError, match=r"no/where: no such folder"):
        make_base_policy(experiment, MODEL, Path("no/where"))
    assert not experiment.policy(f"{other}--base").exists()


# --- the judge's model ----------------------------------------------------------------------------


def test_the_judges_model_is_fetched_before_a_server_needs_it(
    experiment: Experiment, tmp_path: Path
) -> None:
    settings = experiment.config.xverify
    published = tmp_path / "mirror" / settings.model
    hub_model.write(published, hub_model.ANSWER)
    write_text(experiment.judge_prompt, "PROMPT = '{question} {output} {answer}'")
    expected = r"judge/model: no such folder; `rspo fetch-judge --scale paper` makes it"
    verdicts = tmp_path / "verdicts.jsonl"
    with pytest.raises(InputError, match=expected), verifier_of(experiment, "xverify", verdicts):
        pass
    fetch_judge(experiment, tmp_path / "mirror")
    folder = experiment.results / "judge" / "model"
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() == (published / weights).read_bytes()
    note = json.loads(folder.with_name("model.provenance.json").read_text())
    assert note["notes"] == {"sources": [f"{published} @ {settings.revision}"]}
    with verifier_of(experiment, "xverify", verdicts):
        pass


@pytest.mark.parametrize("changes", [{"url": "http://judge:8000"}, {"model": "."}], ids=str)
def test_a_server_that_runs_or_a_folder_needs_no_fetching(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    experiment = paper_scale.load(tmp_path, xverify=changes)
    with pytest.raises(InputError, match=r"config/paper.yaml: nothing to fetch; expected"):
        fetch_judge(experiment)
