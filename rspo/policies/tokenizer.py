r"""The tiny scale's tokenizer: one token a character, `\boxed{` one token, in a real folder.

transformers builds its own byte-level BPE for every qwen2 folder, whatever the file says, so this
is one: byte-level BPE whose vocabulary is the alphabet and whose merges are none. transformers,
vLLM and verl load the folder as any other.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from rspo.core.errors import InputError

ALPHABET = "0123456789+-*/=?,()%xABCDEFGH} "
PAD, END, BOX = "<pad>", "<end>", "\\boxed{"


def build_tokenizer() -> Tokenizer:
    """Ids: 0 padding, 1 end, then the alphabet, then the box."""
    byte_level = {" ": "Ġ"}  # how byte-level BPE writes a space
    symbols = [PAD, END, *(byte_level.get(character, character) for character in ALPHABET)]
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, END])
    tokenizer.add_tokens([AddedToken(BOX, normalized=False)])
    return tokenizer


def chat_template(prompt_tokens: int) -> str:
    """Jinja template: the message, padded with spaces on the left to a fixed length."""
    return (
        "{% for message in messages %}"
        f"{{{{ '%{prompt_tokens}s' | format(message['content']) }}}}"
        "{% endfor %}"
    )


def save_tokenizer(folder: Path, prompt_tokens: int, context: int) -> None:
    """Write the tokenizer's files into a model folder."""
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
    """A model folder's tokenizer and chat template, without importing transformers (3 seconds)."""

    def __init__(self, folder: Path) -> None:
        """Raises: InputError if the folder has no tokenizer with a chat template."""
        import jinja2.sandbox

        try:
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            config = json.loads((folder / "tokenizer_config.json").read_text())
            own_file = folder / "chat_template.jinja"  # where transformers saves it by now
            template = own_file.read_text() if own_file.is_file() else config.get("chat_template")
        except Exception as error:  # tokenizers raises bare Exceptions
            raise InputError(f"{folder}: no readable tokenizer: {error}") from None
        if not template:
            raise InputError(f"{folder}/tokenizer_config.json: has no chat_template")
        # A template comes with a model from anywhere: it is rendered in a sandbox.
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True
        )
        self.template = environment.from_string(template)
        self.end_text: str = config["eos_token"]
        self.end = self.tokenizer.token_to_id(self.end_text)
        self.pad = self.tokenizer.token_to_id(config["pad_token"])

    @property
    def size(self) -> int:
        """Number of token ids."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    def prompts(self, chats: Sequence[Sequence[dict[str, str]]]) -> list[list[int]]:
        """Token ids of each chat, ready for the response."""
        render = self.template.render
        return self.encode([render(messages=chat, add_generation_prompt=True) for chat in chats])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text.

        Raises: InputError if a text has a character that the tokenizer cannot write.
        """
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        found: list[list[int]] = [encoding.ids for encoding in encoded]
        for text, back in zip(texts, self.decode(found), strict=True):
            if back != text:
                raise InputError(f"the tokenizer cannot write {text!r}; it gives {back!r}")
        return found

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of token ids, special tokens included."""
        found: list[str] = self.tokenizer.decode_batch(list(tokens), skip_special_tokens=False)
        return found
