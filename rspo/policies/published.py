"""A model as its publisher wrote it, from the Hugging Face hub or a mirror folder.

A mirror holds the files of the model ID in the folder ID, beside the data sets
(`rspo.datasets.hub`); models that it does not have come from the hub.
"""

from pathlib import Path

from rspo.config.schema import HubModel
from rspo.core.hub import fetch_files
from rspo.policies.templates import TEMPLATES, set_template
from rspo.policies.tokenizer import ChatTokenizer


def fetch_model(source: HubModel, folder: Path, mirror: Path | None = None) -> str:
    """Write a model's files to `folder`, with the config's template in its tokenizer.

    Returns: where it came from, with its revision, for the provenance.

    Raises: InputError if the model cannot be had, or is not whole.
    """
    origin = fetch_files(source.id, source.revision, folder, mirror)
    set_template(folder, TEMPLATES[source.template])
    ChatTokenizer(folder)  # what would fail an hour later fails here
    return origin
