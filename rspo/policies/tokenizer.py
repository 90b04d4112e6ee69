r"""Tokenizers with their chat templates: the tiny scale's own, and those of published models.

The tiny scale has one token per character, and `\boxed{` as one token. transformers builds a
byte-level BPE (byte pair encoding) for every qwen2 folder, whatever its tokenizer.json says. The
tiny tokenizer is therefore a byte-level BPE too, with the alphabet as its vocabulary and no merges.
transformers, vLLM and verl load its folder like any other.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from rspo.config.names import ALPHABET
from rspo.core.errors import InputError

PAD = "<pad>"
END = "<end>"
BOX = "\\boxed{"

Chat = Sequence[dict[str, str]]  # messages with the keys "role" and "content"


def build_tokenizer() -> Tokenizer:
    r"""Make the tiny tokenizer. Ids: 0 padding, 1 end, then the alphabet, then `\boxed{`."""
    alphabet = ALPHABET.replace(" ", "Ġ")  # byte-level BPE writes a space like this
    symbols = [PAD, END] + list(alphabet)
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, END])
    tokenizer.add_tokens([AddedToken(BOX, normalized=False)])
    return tokenizer


def chat_template(prompt_tokens: int) -> str:
    """The tiny scale's Jinja template: each message, padded with spaces on the left.

    A character is a token, so every prompt of one message has `prompt_tokens` tokens, unless the
    message is longer.
    """
    # For 24 tokens: {% for message in messages %}{{ '%24s' | format(...) }}{% endfor %}
    return (
        "{% for message in messages %}"
        f"{{{{ '%{prompt_tokens}s' | format(message['content']) }}}}"
        "{% endfor %}"
    )


def save_tokenizer(folder: Path, prompt_tokens: int, context: int) -> None:
    """Write the tiny tokenizer's files into a model folder.

    Args:
        folder: is created if it does not exist.
        prompt_tokens: length to which the chat template pads a message, in tokens.
        context: the model's maximum length, in tokens.
    """
    folder.mkdir(parents=True, exist_ok=True)
    build_tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "pad_token": PAD,
        "eos_token": END,
        "unk_token": None,
        "bos_token": None,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": chat_template(prompt_tokens),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


class ChatTokenizer:
    """The tokenizer and the chat template of a model folder.

    end: id of the end-of-response token.
    ends: ids of all tokens that end a response, `end` first. A published model may have further
        ones in its generation_config.json, where vLLM looks for them too.
    pad: id of the padding token.
    is_tiny: whether it is the tokenizer of the tiny scale.

    The folder of a tiny model is read without transformers, whose import takes seconds.
    """

    end: int
    ends: tuple[int, ...]
    pad: int
    _tokenizer: Tokenizer
    _render: Callable[[Chat], str]

    def __init__(self, folder: Path) -> None:
        width = _tiny_prompt_tokens(folder)
        self.is_tiny = width is not None
        if width is None:
            self._load_published(folder)
        else:
            self._load_tiny(folder, width)

    def _load_tiny(self, folder: Path, width: int) -> None:
        """Read a tiny model's tokenizer; its template pads each message to `width` tokens."""
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises no other type
            raise InputError(f"{folder}: no readable tokenizer: {error}") from None
        self.end = self._tokenizer.token_to_id(END)
        self.pad = self._tokenizer.token_to_id(PAD)
        self.ends = (self.end,)
        # What `chat_template` renders.
        self._render = lambda chat: "".join(turn["content"].rjust(width) for turn in chat)

    def _load_published(self, folder: Path) -> None:
        """Read a tokenizer with transformers, but use its fast back end directly."""
        published = load_published_tokenizer(folder)
        for attribute in ("chat_template", "eos_token"):
            if getattr(published, attribute) is None:
                raise InputError(f"{folder}: the tokenizer has no {attribute}")
        self._tokenizer = published.backend_tokenizer
        self.end = published.eos_token_id
        ends = [self.end] + generation_ends(folder)
        self.ends = tuple(dict.fromkeys(ends))  # each once, in this order
        # Masks exclude padding everywhere, so any token may pad. verl chooses the same one.
        self.pad = self.end if published.pad_token_id is None else published.pad_token_id
        self._render = lambda chat: published.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True
        )

    @property
    def size(self) -> int:
        """Number of token ids."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def prompts(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Token ids of each chat in the chat template, up to the start of the response."""
        return self.encode([self._render(chat) for chat in chats])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text.

        Raises: InputError for a character that the tiny tokenizer does not have.
        """
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        tokens: list[list[int]] = [encoding.ids for encoding in encoded]
        for text, decoded in zip(texts, self.decode(tokens), strict=True):
            if self.is_tiny and decoded != text:
                raise InputError(f"the tokenizer cannot write {text!r}; it gives {decoded!r}")
        return tokens

    def without_end(self, response: Sequence[int]) -> Sequence[int]:
        """The tokens of a response without its end token, if it has one.

        A response that reached the maximum length has none.
        """
        return response[:-1] if response and response[-1] in self.ends else response

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of token ids, including special tokens."""
        texts: list[str] = self._tokenizer.decode_batch(list(tokens), skip_special_tokens=False)
        return texts


def load_published_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a model folder with transformers.

    Raises: InputError if the folder has no tokenizer that transformers can read.
    """
    from transformers import AutoTokenizer

    try:
        if not (folder / "tokenizer_config.json").is_file():
            raise FileNotFoundError("tokenizer_config.json is missing")
        return AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # transformers and tokenizers raise many types
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}: no readable tokenizer: {reason}") from None


def generation_ends(folder: Path) -> list[int]:
    """Ids of the end tokens in a model folder's generation_config.json.

    Returns: an empty list if the folder has no such file, or the file has no end tokens.
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        return []
    try:
        ends = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        if ends is None:
            return []
        if not isinstance(ends, list):
            ends = [ends]
        return [int(end) for end in ends if end is not None]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no readable eos_token_id: {error}") from None


def _tiny_prompt_tokens(folder: Path) -> int | None:
    """Length to which a tiny model's template pads a message; None if the model is not tiny."""
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no readable tokenizer: {error}") from None
    template = str(config.get("chat_template"))
    # The 24 of '%24s', if the whole template is the one that `chat_template` returns for 24.
    number = re.search(r"'%(\d+)s'", template)
    if number is None or template != chat_template(int(number[1])):
        return None
    return int(number[1])
