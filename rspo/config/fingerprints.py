"""The settings of several steps: those that decide verdicts, rewards and problems.

They are plain data. Snakemake reruns a step when its settings change, and only then.
"""

from collections.abc import Sequence
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import (
    CASCADE,
    GENERATOR_REVISION,
    JUDGE_SAMPLING,
    VERIFIER_VERSIONS,
)
from rspo.config.own import OWN_REWARDS
from rspo.config.schema import Columns, Config
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.step import Settings


def verifier_settings(config: Config | None, verifier: str) -> Settings:
    """The settings that decide a verdict. The address and limits of a judge's server do not.

    Args:
        config: needed by the verifiers in `NEED_CONFIG`.
    """
    result: Settings = {"verifier": verifier}
    members: tuple[str, ...] = (verifier,)
    if verifier == "cascade":
        members = config.cascade if config else CASCADE
        result["cascade"] = list(members)
        versions = {name: VERIFIER_VERSIONS[name] for name in members if name in VERIFIER_VERSIONS}
        result["rules"] = versions
    elif verifier in VERIFIER_VERSIONS:
        result["rules"] = VERIFIER_VERSIONS[verifier]
    if "xverify" in members and config and config.xverify:
        judge = {"prompt", "model", "revision"}
        result["xverify"] = config.xverify.model_dump(mode="json", include=judge)
        result["xverify"] |= {"sampling": JUDGE_SAMPLING}
    return result


def source_settings(experiment: Experiment, name: str) -> Settings:
    """Settings of all problems of a data set.

    Raises: InputError for a file of the user that cannot be read.
    """
    data_set = experiment.data_set(name)
    # Expectations check the rows but do not change them. Only a file has columns of its own.
    unused: dict[str, Any] = {"label": True, "hub": {"rows", "without_answer", "content_sha256"}}
    if data_set.file is None:
        unused |= dict.fromkeys(Columns.model_fields, True)
    result = data_set.model_dump(mode="json", exclude=unused)
    if data_set.columns.exclude is not None:
        result["excluded"] = source_settings(experiment, data_set.columns.exclude)
    if data_set.file is not None:
        path = experiment.root / data_set.file
        try:
            result["content"] = digest(path)
        except OSError as error:
            key = f"{experiment.key_of(name)}.file"
            raise InputError(f"{path}: cannot be read ({error.strerror}; {key})") from None
    if data_set.generated is not None:
        result["generator"] = GENERATOR_REVISION
    return result


def reward_settings(config: Config, name: str) -> Settings:
    """The settings of a reward."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    return {} if name == "binary" else {"length_discount": config.rewards.length_discount}


def counted(what: str, names: Sequence[Any]) -> Settings:
    """A long list as its number and fingerprint, for the message about other settings."""
    return {what: len(names), "names": fingerprint(list(names))}
