"""Each template renders the published text, with this package and with transformers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.pretraining import make_base_policy
from tests.support import hub_model, paper_scale

MODEL = "qwen2.5-math-1.5b"
# Quotes, braces, backslashes, and text that Jinja or HTML could interpret.
QUESTION = "Let $\\frac{a}{b} = {{ 7*7 }} {% raw %} < \"x\" & 'é' \\n\n\nWhat is $a$? "

# As published (arXiv 2503.20783), with Q for the question.
PUBLISHED = {
    "qwen_math": r"""<|im_start|>system
Please reason step by step, and put your final answer within \boxed{}.<|im_end|>
<|im_start|>user
Q<|im_end|>
<|im_start|>assistant
""",
    "r1": (
        "A conversation between User and Assistant. The User asks a question, and the Assistant"
        " solves it. The Assistant first thinks about the reasoning process in the mind and then"
        " provides the User with the answer. The reasoning process is enclosed within <think>"
        " </think> and answer is enclosed within <answer> </answer> tags, respectively, i.e.,"
        " <think> reasoning process here </think> <answer> answer here </answer>."
        "\nUser: Q\nAssistant: <think>"
    ),
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
        return experiment.policy(f"{MODEL}--base")

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


def test_a_chat_template_cannot_reach_python(base_policy: Any) -> None:
    """A template comes with a downloaded model, so it is rendered in a sandbox."""
    folder = base_policy()
    escape = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "chat_template.jinja").write_text(escape)
    with pytest.raises(Exception, match="unsafe"):
        ChatTokenizer(folder).prompts([chat("1")])
