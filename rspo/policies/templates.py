r"""Chat templates: the published texts around a problem, by name.

A policy is trained and evaluated under one template. The template is written into the tokenizer of
the policy's folder, where transformers, vLLM, verl and this package read it.

Responses end with the policy's end token under every template; the publications that use r1 also
stop at </answer>. Verifiers that read the last box need a policy that writes one under r1 too.

With the template `own`, the model's own is kept, after worked examples as earlier turns. Its
responses end with the token that ends a turn in this template, which is not the end token of every
published tokenizer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config.schema import WorkedExample
from rspo.core.errors import InputError
from rspo.policies.tokenizer import Chat, load_published_tokenizer

OWN = "own"  # in the config: no template of this module


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
    _save(tokenizer, folder)


def keep_template(folder: Path, examples: Sequence[WorkedExample]) -> None:
    """Keep the chat template of a model folder's tokenizer, and put worked examples before a chat.

    The end token becomes the one that ends a turn in the template.

    Raises: InputError if the folder has no tokenizer, or its tokenizer no chat template.
    """
    tokenizer = load_published_tokenizer(folder)
    template = tokenizer.chat_template
    if isinstance(template, dict):  # several templates, by purpose
        template = template.get("default")
    if template is None:
        others = ", ".join(TEMPLATES)
        raise InputError(f"{folder}: the model has no chat template; allowed: template: {others}")
    tokenizer.chat_template = template
    tokenizer.eos_token = _end_of_turn(tokenizer) or tokenizer.eos_token
    if examples:
        # A JSON list is a valid Jinja list.
        turns = json.dumps([turn for one in examples for turn in _turns(one)], ensure_ascii=False)
        tokenizer.chat_template = f"{{% set messages = {turns} + messages %}}{template}"
    _save(tokenizer, folder)


def _turns(example: WorkedExample) -> Chat:
    return [
        {"role": "user", "content": example.problem},
        {"role": "assistant", "content": example.response},
    ]


def _end_of_turn(tokenizer: Any) -> str | None:
    """The special token that follows a response in the chat template, if there is one."""
    example = WorkedExample(problem="1+1?", response="Two, of course.")
    text = tokenizer.apply_chat_template(_turns(example), tokenize=False)
    following = text.rpartition(example.response)[2]
    ids = tokenizer.encode(following, add_special_tokens=False)
    special = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    if ids and ids[0] in special and special[ids[0]].special:
        return str(special[ids[0]].content)
    return None


def _save(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer with a padding token, which verl needs.

    Masks exclude padding everywhere, so the end token will do.
    """
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
