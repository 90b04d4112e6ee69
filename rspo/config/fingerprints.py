"""The part of the config that decides data, policies and verdicts, as plain data.

Snakemake reruns a step when its settings change, and only then. `rspo.config.steps` has those of
the other steps.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import (
    CASCADE,
    GENERATOR_REVISION,
    HUB_MODEL_REVISION,
    JUDGE_SAMPLING,
    VERIFIER_VERSIONS,
)
from rspo.config.own import OWN_REWARDS
from rspo.config.schema import Columns, Config
from rspo.config.verl_fingerprint import policy_settings
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.step import Settings
from rspo.objectives import OBJECTIVES


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


def problem_settings(experiment: Experiment, name: str) -> Settings:
    """The settings of a table of problems."""
    result = _source(experiment, name)
    if (first := experiment.first_problems_of(name)) is not None:
        result["first"] = first
    return result


def _source(experiment: Experiment, name: str) -> Settings:
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
        result["excluded"] = _source(experiment, data_set.columns.exclude)
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


def base_settings(config: Config, model: str) -> Settings:
    """The settings of a base policy."""
    result = config.models[model].model_dump(mode="json", include={"scratch", "hub"})
    limits = {"max_prompt_tokens", "max_response_tokens"}
    if config.models[model].scratch is not None:
        result["generator"] = GENERATOR_REVISION
    else:
        result["files"] = HUB_MODEL_REVISION
    return result | config.sampling.model_dump(mode="json", include=limits)


def training_settings(experiment: Experiment, name: str) -> Settings:
    """The settings of a cell's policy and training log."""
    cell, config = experiment.cell(name), experiment.of_cell(name).config
    result = asdict(cell) | verifier_settings(config, config.verifier)
    del result["variant"]  # its settings follow
    result.pop("rules", None)  # a new version of the rules must not rerun weeks of training
    result["learning_rate"] = config.models[cell.model].learning_rate
    result |= config.model_dump(mode="json", include={"engine", "sampling", "training"})
    # These do not change the policy, so changing them must not rerun the training.
    del result["training"]["checkpoint_every"], result["training"]["validation"]
    if config.engine == "verl" and config.verl is not None:
        result["verl"] = policy_settings(config.verl, config.models[cell.model].verl)
    result |= {"rewards": _reward(config, cell.reward)}
    result |= config.rewards.wrong_verdicts
    result["objective_version"] = OBJECTIVES[cell.objective].version
    return result


def _reward(config: Config, name: str) -> Settings:
    """The settings of a reward."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    return {} if name == "binary" else {"length_discount": config.rewards.length_discount}


def score_settings(config: Config, benchmarks: list[str]) -> Settings:
    """The settings of a table of scores."""
    result = verifier_settings(config, config.verifier)
    result["benchmarks"] = benchmarks
    result["max_response_tokens"] = config.sampling.max_response_tokens
    name = config.evaluation.reward
    return result | {"reward": name} | _reward(config, name)


def gradient_settings(experiment: Experiment, study: str) -> Settings:
    """The settings of a table of gradients."""
    config = experiment.config
    result = verifier_settings(config, config.verifier)
    result |= config.sampling.model_dump(mode="json")
    if config.gradients is not None:
        unused = {"policies", "k"} if study else {"policies"}
        result["gradients"] = config.gradients.model_dump(mode="json", exclude=unused)
        # A new objective has no gradients yet.
        pairs = experiment.measured(study)
        result["objectives"] = {name: OBJECTIVES[name].version for name in dict(pairs)}
        if study:  # whose objectives may have different k
            result["k"] = [k for _, k in pairs]
    return result


def counted(what: str, names: Sequence[Any]) -> Settings:
    """A long list as its number and fingerprint, for the message about other settings."""
    return {what: len(names), "names": fingerprint(list(names))}
