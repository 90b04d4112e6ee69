r"""How a policy is asked: the text around a problem, as published, by name.

A template belongs to a policy, because a policy is trained and evaluated under one: it is written
into the tokenizer of the policy's folder, from where transformers, vLLM, verl and the local engine
all take it. Problems stay plain chat messages, `[{"role": "user", "content": problem}]`.

| name      | text                                                                            |
|-----------|---------------------------------------------------------------------------------|
| qwen_math | Qwen's chat markup, with Qwen2.5-Math's system message that asks for a \boxed{}   |
| r1        | a conversation whose answer stands in <answer> tags; the response begins inside   |
|           | <think>. Verifiers that read the last box find one only if the policy writes it   |
| none      | the problem alone                                                               |

The template alone moves a base model's accuracy by tens of points, so it is named in the config.
Responses end with the policy's end token under each of them; the publications that use r1 also
stop at </answer>.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError


@dataclass(frozen=True)
class Template:
    """The text before and after a problem; the response follows directly."""

    before: str
    after: str

    def text(self, problem: str) -> str:
        """The whole prompt."""
        return self.before + problem + self.after

    @property
    def jinja(self) -> str:
        """The same as a chat template of transformers, for a chat of one user message."""
        # A JSON text is a Jinja text: the same quotes and escapes.
        before, after = json.dumps(self.before), json.dumps(self.after)
        return f"{{{{ {before} + messages[0]['content'] + {after} }}}}"


TEMPLATES = {
    # The system message and markup of the chat template of Qwen/Qwen2.5-Math-1.5B.
    "qwen_math": Template(
        "<|im_start|>system\nPlease reason step by step, and put your final answer within "
        "\\boxed{}.<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
    ),
    # DeepSeek-R1-Zero's (arXiv 2501.12948, table 1), in the wording of "Understanding R1-Zero-Like
    # Training" (arXiv 2503.20783; github.com/sail-sg/understand-r1-zero, train_zero_math.py).
    "r1": Template(
        "A conversation between User and Assistant. The User asks a question, and the Assistant "
        "solves it. The Assistant first thinks about the reasoning process in the mind and then "
        "provides the User with the answer. The reasoning process is enclosed within <think> "
        "</think> and answer is enclosed within <answer> </answer> tags, respectively, i.e., "
        "<think> reasoning process here </think> <answer> answer here </answer>.\nUser: ",
        "\nAssistant: <think>",
    ),
    "none": Template("", ""),
}


def set_template(folder: Path, template: Template) -> None:
    """Make a model folder's tokenizer use a template, whatever it used before.

    Raises: InputError if the folder has no tokenizer.
    """
    path = folder / "tokenizer_config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: no readable tokenizer: {error}") from None
    path.write_text(json.dumps(config | {"chat_template": template.jinja}, indent=1) + "\n")
    (folder / "chat_template.jinja").unlink(missing_ok=True)  # where there is one, it wins
