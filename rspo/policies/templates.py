r"""Chat templates: the published texts around a problem, by name.

A policy is trained and evaluated under one template. The template is written into the tokenizer of
the policy's folder, where transformers, vLLM, verl and this package read it.

Several tokens may end a response: the token that ends a turn in the template, the tokenizer's end
token, and those of the model's generation_config.json. Base models such as Qwen2.5-Math write
either of the first two. All of them are written into the policy's generation_config.json.

With the template `own`, the model keeps the template that it was published with, and worked
examples precede a chat as earlier turns.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer

from rspo.config.schema import WorkedExample
from rspo.core.errors import InputError
from rspo.policies.tokenizer import Chat, generation_ends, load_published_tokenizer

OWN = "own"  # name in the config: keep the template of the model
_CLOCK = "strftime_now"  # function of transformers that some templates call
_DATE = "01 Jan 2025"  # the date that such templates print instead of the current one
# A text that shows whether a tokenizer keeps spaces, newlines, digits and letters beyond ASCII.
_PROBE = "What is  $x + 12$?\n\n\\frac{1}{234} é"


@dataclass(frozen=True)
class Template:
    """The text before and after a problem. The response follows directly.

    end_of_turn: the token after a response, if the template has one.
    """

    before: str
    after: str
    end_of_turn: str | None = None

    def text(self, problem: str) -> str:
        """The prompt for a problem."""
        return self.before + problem + self.after

    @property
    def jinja(self) -> str:
        """The template in Jinja, for a chat of one user message."""
        # A JSON string is a valid Jinja string: both have the same quotes and escapes.
        before = json.dumps(self.before)
        after = json.dumps(self.after)
        return f"{{{{ {before} + messages[0]['content'] + {after} }}}}"


TEMPLATES = {
    # The system message and markup of the chat template of Qwen/Qwen2.5-Math-1.5B.
    "qwen_math": Template(
        "<|im_start|>system\nPlease reason step by step, and put your final answer within "
        "\\boxed{}.<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>",
    ),
    "none": Template("", ""),
}


def set_template(folder: Path, template: Template) -> None:
    """Replace the chat template of a model folder's tokenizer."""
    tokenizer = _load(folder)
    tokenizer.chat_template = template.jinja
    _save(tokenizer, folder, _special_token(tokenizer, template.end_of_turn or ""))


def keep_template(folder: Path, examples: Sequence[WorkedExample]) -> None:
    """Keep the tokenizer's own chat template, and put worked examples before a chat.

    Raises: InputError if the tokenizer has no chat template, or one that cannot render text.
    """
    tokenizer = _load(folder)
    template = tokenizer.chat_template
    if isinstance(template, dict):  # several templates, by purpose
        template = template.get("default")
    if template is None:
        names = ", ".join(TEMPLATES)
        raise InputError(f"{folder}: the model has no chat template; allowed: template: {names}")
    if _CLOCK in template:
        # Prompts must be the same on every day. A macro of this name hides the function.
        template = f"{{% macro {_CLOCK}(format) %}}{_DATE}{{% endmacro %}}{template}"
    tokenizer.chat_template = template
    end_of_turn = _end_of_turn(tokenizer)
    if examples:
        turns = [turn for example in examples for turn in _turns(example)]
        literal = json.dumps(turns, ensure_ascii=False)  # a JSON list is a valid Jinja list
        # The template then reads `messages`, which begin with the examples.
        tokenizer.chat_template = f"{{% set messages = {literal} + messages %}}{template}"
    _save(tokenizer, folder, end_of_turn)


def _load(folder: Path) -> Any:
    """Load the tokenizer of a model folder, and make sure that it encodes as tokenizer.json says.

    transformers 5 builds the tokenizers of some classes itself. For models with byte-level tokens
    under the class of Llama, such as DeepSeek-R1-Distill, it then drops all spaces (transformers
    issue 45488). PreTrainedTokenizerFast takes tokenizer.json as it is.
    """
    tokenizer = load_published_tokenizer(folder)
    file = folder / "tokenizer.json"
    if not file.is_file():
        return tokenizer
    expected = Tokenizer.from_file(str(file)).encode(_PROBE, add_special_tokens=False).ids
    if tokenizer.encode(_PROBE, add_special_tokens=False) == expected:
        return tokenizer
    # The class of tokenizer_config.json encodes differently: replace it.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    return load_published_tokenizer(folder)


def _turns(example: WorkedExample) -> Chat:
    """A worked example as two messages of a chat."""
    return [
        {"role": "user", "content": example.problem},
        {"role": "assistant", "content": example.response},
    ]


def _end_of_turn(tokenizer: Any) -> str | None:
    """The special token that follows a response in the tokenizer's chat template; None without one.

    Raises: InputError if the template cannot render a chat of two text messages.
    """
    example = WorkedExample(problem="1+1?", response="Two, of course.")
    try:
        text = tokenizer.apply_chat_template(_turns(example), tokenize=False)
    except TemplateError as error:
        raise InputError(
            f"the model's chat template does not take messages of text, as template: own requires: "
            f"{error}"
        ) from None
    # `printed` is empty if the template does not contain the response.
    _, printed, following = text.rpartition(example.response)
    return _special_token(tokenizer, following) if printed else None


def _special_token(tokenizer: Any, text: str) -> str | None:
    """The special token with which a text begins, spaces and newlines aside; None without one."""
    ids = tokenizer.encode(text.lstrip(), add_special_tokens=False)
    special = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    if ids and ids[0] in special and special[ids[0]].special:
        return str(special[ids[0]].content)
    return None


def _save(tokenizer: Any, folder: Path, end_of_turn: str | None) -> None:
    """Save a tokenizer with its end and padding tokens, and all end tokens in the model's config.

    If the template has a token that ends a turn, it becomes the tokenizer's end token. verl needs a
    padding token. If the tokenizer has none, the end token also pads; masks exclude padding
    everywhere.

    Raises: InputError if the model has no end token at all.
    """
    names = [end_of_turn, tokenizer.eos_token]
    ends = [tokenizer.convert_tokens_to_ids(name) for name in names if name is not None]
    ends += generation_ends(folder)
    ends = list(dict.fromkeys(ends))  # each once, in this order
    if not ends:
        raise InputError(
            f"{folder}: the model has no end token: tokenizer_config.json needs eos_token, or "
            "generation_config.json eos_token_id"
        )
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(ends[0])
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    path = folder / "generation_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(config | {"eos_token_id": ends}, indent=2) + "\n")
