"""Published models, from the Hugging Face hub or from a mirror.

A mirror is a folder that holds the files of each model in the subfolder with the model's name on
the hub, such as Qwen/Qwen2.5-Math-1.5B, beside data sets (`rspo.datasets.hub`). Models that are not
in the mirror are downloaded from the hub.
"""

from pathlib import Path
from typing import Any

from rspo.config.schema import HubModel, Sampling
from rspo.core.errors import InputError
from rspo.core.hub import fetch_files
from rspo.policies.templates import OWN, TEMPLATES, keep_template, set_template
from rspo.policies.tokenizer import ChatTokenizer

# A problem that a faulty template or tokenizer would change: it has TeX, a newline and Jinja's
# braces.
_PROBE = "What is $1+1$?\n\\frac{1}{2} {{ 3 }}"


def fetch_model(source: HubModel, folder: Path, mirror: Path | None = None) -> str:
    """Write a model's files to `folder`, with the config's template in the tokenizer's files.

    Returns: the origin and revision of the model, for the provenance.

    Raises: InputError if the files cannot be read, or if the model or its template does not work.
    """
    origin = fetch_files(source.id, source.revision, folder, mirror)
    if source.template == OWN:
        keep_template(folder, source.examples)
    else:
        set_template(folder, TEMPLATES[source.template])
    _check(folder, source.template)
    return origin


def read_model_config(folder: Path) -> Any:
    """Read the config of a model folder with transformers.

    Raises: InputError if the folder has no config that transformers can read.
    """
    from transformers import AutoConfig

    try:
        # Without the file, transformers would look the path up on the hub.
        (folder / "config.json").read_text()
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}: not a model folder: {reason}") from None


def require_context(folder: Path, sampling: Sampling) -> Any:
    """Read the config of a model folder as `read_model_config` does.

    Raises: InputError if the context of the model is shorter than the longest prompt and the
        longest response together.
    """
    config = read_model_config(folder)
    context = sampling.max_prompt_tokens + sampling.max_response_tokens
    longest = getattr(config, "max_position_embeddings", context)
    if longest < context:
        raise InputError(
            f"{folder}/config.json: max_position_embeddings = {longest}, fewer than "
            f"sampling.max_prompt_tokens + sampling.max_response_tokens = {context}"
        )
    return config


def _check(folder: Path, template: str) -> None:
    """Load what sampling will load, so that a bad model fails now and not an hour later."""
    config = read_model_config(folder)
    tokenizer = ChatTokenizer(folder)
    if tokenizer.size > config.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {tokenizer.size} tokens, more than config.json's "
            f"vocab_size = {config.vocab_size}"
        )
    chat = [{"role": "user", "content": _PROBE}]
    # A template of this package must render exactly its text. A template that the model was
    # published with must at least render the problem.
    prompt = tokenizer.decode(tokenizer.prompts([chat]))[0]
    renders = _PROBE in prompt
    if template != OWN:
        renders = prompt == TEMPLATES[template].text(_PROBE)
    if not renders:
        raise InputError(f"{folder}: the chat template renders {prompt!r}")
