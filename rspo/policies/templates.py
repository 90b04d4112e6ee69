r"""Chat templates: the published texts around a problem, by name.

A policy is trained and evaluated under one template. The template is written into the tokenizer of
the policy's folder, where transformers, vLLM, verl and this package read it.

Responses end with the policy's end token under every template; the publications that use r1 also
stop at </answer>. Verifiers that read the last box need a policy that writes one under r1 too.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rspo.policies.tokenizer import load_published_tokenizer


@dataclass(frozen=True)
class Template:
    """The text before and after a problem. The response follows directly."""

    before: str
    after: str

    def text(self, problem: str) -> str:
        """The prompt for a problem."""
        return self.before + problem + self.after

    @property
    def jinja(self) -> str:
        """The same as a Jinja chat template, for a chat of one user message."""
        # A JSON string is a valid Jinja string: both have the same quotes and escapes.
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
    """Replace the chat template of a model folder's tokenizer.

    Raises: InputError if the folder has no tokenizer.
    """
    tokenizer = load_published_tokenizer(folder)
    tokenizer.chat_template = template.jinja
    tokenizer.save_pretrained(folder)
