"""Each template renders the published text, with this package and with transformers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rspo.core.errors import InputError
from rspo.pipeline import tasks
from rspo.policies.templates import TEMPLATES
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.pretraining import make_base_policy
from tests.support import hub_model, llama_model, paper_scale

MODEL = "qwen2.5-math-1.5b"
# Quotes, braces, backslashes, and text that Jinja or HTML could interpret.
QUESTION = "Let $\\frac{a}{b} = {{ 7*7 }} {% raw %} < \"x\" & 'é' \\n\n\nWhat is $a$? "

# As published, with Q for the question.
PUBLISHED = {
    "qwen_math": r"""<|im_start|>system
Please reason step by step, and put your final answer within \boxed{}.<|im_end|>
<|im_start|>user
Q<|im_end|>
<|im_start|>assistant
""",
    "none": "Q",
}


def chat(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]


@pytest.fixture
def base_policy(tmp_path: Path) -> Any:
    """Makes the base policy of the paper scale with a template (or the default one)."""
    mirror = tmp_path / "mirror"
    hub_model.write(mirror / "Qwen" / "Qwen2.5-Math-1.5B", hub_model.ANSWER)

    def make(template: str | None = None) -> Path:
        hub = {"template": template} if template else {}
        experiment = paper_scale.load(tmp_path, models={MODEL: {"hub": hub}})
        make_base_policy(experiment, MODEL, mirror)
        return experiment.files.policy(f"{MODEL}--base")

    return make


@pytest.mark.parametrize("name", [*PUBLISHED, None])
def test_transformers_renders_the_same_prompt(base_policy: Any, name: str | None) -> None:
    """Without a template in the config, it is qwen_math."""
    folder = base_policy(name)
    theirs = AutoTokenizer.from_pretrained(folder)
    text = theirs.apply_chat_template(chat(QUESTION), tokenize=False, add_generation_prompt=True)
    assert text == PUBLISHED[name or "qwen_math"].replace("Q", QUESTION, 1)
    ids = theirs.apply_chat_template(
        chat(QUESTION), tokenize=True, add_generation_prompt=True, return_dict=False
    )
    assert ChatTokenizer(folder).prompts([chat(QUESTION)]) == [ids]


def test_saving_a_trained_policy_keeps_its_template(base_policy: Any, tmp_path: Path) -> None:
    """Trainers save the tokenizer again."""
    base, trained = base_policy("qwen_math"), tmp_path / "trained"
    AutoTokenizer.from_pretrained(base).save_pretrained(trained)
    theirs = AutoTokenizer.from_pretrained(trained)
    text = theirs.apply_chat_template(chat("1+1?"), tokenize=False, add_generation_prompt=True)
    assert text == PUBLISHED["qwen_math"].replace("Q", "1+1?")
    assert (trained / "chat_template.jinja").is_file()
    ours = ChatTokenizer(trained).prompts([chat("1+1?")])
    assert ours == ChatTokenizer(base).prompts([chat("1+1?")])


def test_a_chat_template_cannot_reach_python(base_policy: Any) -> None:
    """A template comes with a downloaded model, so it is rendered in a sandbox."""
    folder = base_policy()
    escape = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "chat_template.jinja").write_text(escape)
    with pytest.raises(Exception, match="unsafe"):
        ChatTokenizer(folder).prompts([chat("1")])


OWN_MODEL = {
    "template": "own",
    "examples": [{"problem": "What is 'é' + {{1}}?", "response": '\\boxed{7}\n"ok" 🙂'}],
}


def test_the_own_template_is_kept_with_worked_examples_as_earlier_turns(tmp_path: Path) -> None:
    """test_model_families.py has the own templates of several families, without examples."""
    llama_model.write(tmp_path / "mirror" / "Qwen" / "Qwen2.5-Math-1.5B")
    lengths = {"max_prompt_tokens": 128, "max_response_tokens": 16}
    experiment = paper_scale.load(tmp_path, models={MODEL: {"hub": OWN_MODEL}}, sampling=lengths)
    make_base_policy(experiment, MODEL, tmp_path / "mirror")
    folder = experiment.files.policy(f"{MODEL}--base")
    turns = [
        f"<|im_start|>system\n{llama_model.SYSTEM}<|im_end|>\n",
        "<|im_start|>user\nWhat is 'é' + {{1}}?<|im_end|>\n",
        '<|im_start|>assistant\n\\boxed{7}\n"ok" 🙂<|im_end|>\n',
        f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n",
    ]
    tokenizer = ChatTokenizer(folder)
    (ids,) = tokenizer.prompts([chat(QUESTION)])
    assert tokenizer.decode([ids]) == ["".join(turns)]
    theirs = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        chat(QUESTION), add_generation_prompt=True, return_dict=False
    )
    assert theirs == ids


@pytest.mark.parametrize(
    ("hub", "message"),
    [
        (
            OWN_MODEL | {"template": "none"},
            "template = 'none' is for one problem; examples need template: own",
        ),
        ({"template": "qwen"}, "template = 'qwen': .*'qwen_math', 'none' or 'own'"),
    ],
)
def test_a_template_that_does_not_fit_is_named(
    tmp_path: Path, hub: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        paper_scale.load(tmp_path, models={MODEL: {"hub": hub}})


def test_another_template_or_examples_make_another_base_policy(tmp_path: Path) -> None:
    def settings_hash(hub: dict[str, Any]) -> str:
        experiment = paper_scale.load(tmp_path, models={MODEL: {"hub": hub}})
        return tasks.pretrain(experiment, MODEL).settings_hash

    hubs = [OWN_MODEL, {"template": "own"}, *({"template": name} for name in TEMPLATES)]
    assert len({settings_hash(hub) for hub in hubs}) == len(hubs)
