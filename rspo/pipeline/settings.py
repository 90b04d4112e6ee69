"""The settings of tasks that several tasks share: of a data set, a verifier and a reward.

What is in the settings of a task makes Snakemake run it again when it changes. So they have what
decides the content of its files, and nothing else.
"""

from collections.abc import Sequence
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import GENERATOR_REVISION, JUDGE_SAMPLING, VERIFIER_VERSIONS
from rspo.config.registered import OWN_REWARDS
from rspo.config.schema import Columns, Config
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.settings import Settings


def source_settings(experiment: Experiment, name: str) -> Settings:
    """Settings of all problems of a data set.

    Raises: InputError for a file of the user that cannot be read.
    """
    data_set = experiment.data_set(name)
    # Expectations check the rows but do not change them. Only a file has columns of its own.
    unused: dict[str, Any] = {"label": True, "hub": {"rows", "without_answer", "content_sha256"}}
    if data_set.file is None:
        unused |= dict.fromkeys(Columns.model_fields, True)
    settings = data_set.model_dump(mode="json", exclude=unused)
    if data_set.columns.exclude is not None:
        settings["excluded"] = source_settings(experiment, data_set.columns.exclude)
    if data_set.file is not None:
        path = experiment.root / data_set.file
        try:
            settings["content"] = digest(path)
        except OSError as error:
            key = f"{experiment.key_of(name)}.file"
            raise InputError(f"{path}: cannot be read ({error.strerror}; {key})") from None
    if data_set.generated is not None:
        settings["generator"] = GENERATOR_REVISION
    return settings


def verifier_settings(config: Config | None, verifier: str) -> Settings:
    """The settings that decide a verdict. The address and limits of a judge's server do not."""
    settings: Settings = {"verifier": verifier}
    if verifier in VERIFIER_VERSIONS:
        settings["rules"] = VERIFIER_VERSIONS[verifier]
    if verifier == "xverify" and config and config.xverify:
        judge = config.xverify.model_dump(mode="json", include={"prompt", "model", "revision"})
        settings["xverify"] = judge | {"sampling": JUDGE_SAMPLING}
    return settings


def reward_settings(config: Config, name: str) -> Settings:
    """The settings of a reward."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    if name == "binary":
        return {}
    return {"length_discount": config.rewards.length_discount}


def counted(what: str, names: Sequence[Any]) -> Settings:
    """A long list as its number and fingerprint, for the message about other settings."""
    return {what: len(names), "names": fingerprint(list(names))}
