"""Published base policies: from a mirror, or one clear error."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants
from transformers import AutoTokenizer

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.pipeline import tasks
from rspo.pipeline.run import record, require_current
from rspo.pipeline.tasks import judge_inputs
from rspo.rewards.configured import verifier_of
from rspo.rewards.xverify.download import fetch_judge
from rspo.training.pretraining import make_base_policy
from tests.support import hub_model, paper_scale
from tests.support.judge_prompt import commit

MODEL, ID = "qwen2.5-math-1.5b", "Qwen/Qwen2.5-Math-1.5B"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return paper_scale.load(tmp_path)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    hub_model.write(tmp_path / "mirror" / ID, hub_model.ANSWER)
    return tmp_path / "mirror"


def test_a_model_in_the_mirror_becomes_the_base_policy(
    experiment: Experiment, mirror: Path
) -> None:
    (mirror / ID / "README.md").write_text("not part of a policy")
    make_base_policy(experiment, MODEL, mirror)
    folder = experiment.files.policy(f"{MODEL}--base")
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (mirror / ID / name).read_bytes()
    ours, published = (AutoTokenizer.from_pretrained(path) for path in (folder, mirror / ID))
    text = "Let $x = \\frac{1}{2}$.\n<|im_end|>"
    assert ours.get_vocab() == published.get_vocab()
    assert ours.encode(text) == published.encode(text)
    assert not (folder / "README.md").exists()
    note = json.loads(folder.with_name("policy.provenance.json").read_text())
    revision = experiment.config.models[MODEL].hub.revision
    assert note["notes"] == {"sources": [f"{mirror / ID} @ {revision}"]}
    assert note["settings"]["hub"]["id"] == ID


def test_without_hub_and_mirror_the_error_names_both(
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
    assert not experiment.files.policy(f"{other}--base").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("config.json", '"model_type": "qwen2"', '"model_type": "qwen99"', "not a model folder"),
        ("config.json", '"vocab_size": 259', '"vocab_size": 200', "has 259 tokens, more than"),
        ("tokenizer.json", '"model"', '"modle"', "no readable tokenizer"),
    ],
)
def test_a_model_that_cannot_be_used_is_an_error_when_it_is_fetched(
    experiment: Experiment, mirror: Path, file: str, old: str, new: str, message: str
) -> None:
    path = mirror / ID / file
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(InputError, match=message) as error:
        make_base_policy(experiment, MODEL, mirror)
    assert "\n" not in str(error.value)
    assert not experiment.files.policy(f"{MODEL}--base").exists()


def test_a_judge_of_another_revision_is_kept(experiment: Experiment, mirror: Path) -> None:
    """A download is replaced with --force only."""
    task = tasks.fetch_judge(experiment)
    prompt, model = task.outputs
    hub_model.write(model, hub_model.ANSWER)
    write_text(prompt, "PROMPT = ''")
    record(replace(task, settings=task.settings | {"revision": "a" * 40}))
    before = (model / "model.safetensors").stat()
    with pytest.raises(InputError, match="was made with other settings"):
        fetch_judge(experiment, mirror)
    assert (model / "model.safetensors").stat() == before


def test_the_judge_is_fetched_before_a_server_needs_it(tmp_path: Path) -> None:
    pinned = commit(tmp_path / "upstream", "PROMPT = '{question} {output} {answer}'\n")
    prompt = {"repository": str(tmp_path / "upstream"), "commit": pinned}
    experiment = paper_scale.load(tmp_path, xverify={"prompt": prompt})
    settings = experiment.config.xverify
    assert settings is not None
    published = tmp_path / "mirror" / settings.model
    hub_model.write(published, hub_model.ANSWER)
    _, (model, step) = judge_inputs(experiment, "xverify")
    command = experiment.command("fetch-judge")
    expected = f"judge/model: no such file; `{command}` makes it"
    with pytest.raises(InputError, match=re.escape(expected)):
        require_current(step, model)
    fetch_judge(experiment, tmp_path / "mirror")
    folder = experiment.files.results / "judge" / "model"
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() == (published / weights).read_bytes()
    note = json.loads(folder.with_name("model.provenance.json").read_text())
    assert note["notes"]["sources"][1] == f"{published} @ {settings.revision}"
    require_current(step, model)
    with verifier_of(experiment, "xverify", tmp_path / "verdicts.jsonl"):
        pass
