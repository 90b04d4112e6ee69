"""For each step: the part of the config that determines its output, as plain data.

Snakemake reruns a step when this part changes, and only then.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
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
from rspo.config.schema import Columns
from rspo.config.verl_fingerprint import policy_settings
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.objectives import OBJECTIVES

Settings = dict[str, Any]


def settings(experiment: Experiment, step: str, name: str = "") -> Settings:
    """Settings of a step, a command of `rspo` that writes files.

    Args:
        name: the data set, model, cell or suite of the step, or the study of gradients.
    """
    return _OF_STEP[step](experiment, name)


def settings_hash(experiment: Experiment, step: str, name: str = "") -> str:
    """Fingerprint of `settings`, by which Snakemake recognizes outdated files."""
    return fingerprint(settings(experiment, step, name))


def verifier_settings(experiment: Experiment | None, verifier: str) -> Settings:
    """The settings that decide a verdict. The address and limits of a judge's server do not.

    Args:
        experiment: needed by the verifiers in `NEED_CONFIG`.
    """
    result: Settings = {"verifier": verifier}
    config = experiment.config if experiment else None
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


def _prepare(experiment: Experiment, name: str) -> Settings:
    result = _source(experiment, name)
    if (first := experiment.first_problems_of(name)) is not None:
        result["first"] = first
    return result


def _source(experiment: Experiment, name: str) -> Settings:
    """Settings of all problems of a data set."""
    data_set = experiment.data_set(name)
    # Expectations check the rows but do not change them. Only a file has columns of its own.
    unused: dict[str, Any] = {"label": True, "hub": {"rows", "without_answer", "content_sha256"}}
    if data_set.file is None:
        unused |= dict.fromkeys(Columns.model_fields, True)
    result = data_set.model_dump(mode="json", exclude=unused)
    if data_set.columns.exclude is not None:
        result["excluded"] = _source(experiment, data_set.columns.exclude)
    if data_set.file is not None:
        result["content"] = _content(experiment.root / data_set.file, experiment.key_of(name))
    if data_set.generated is not None:
        result["generator"] = GENERATOR_REVISION
    return result


def _content(path: Path, key: str) -> str:
    """Digest of a file of the user.

    Raises: InputError that names the file and its key in the config if it is missing.
    """
    try:
        return digest(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}; {key}.file)") from None


def _contamination(experiment: Experiment, _: str) -> Settings:
    return {"sets": list(experiment.data_sets)}


def _pretrain(experiment: Experiment, name: str) -> Settings:
    config = experiment.config
    model = config.models[name].model_dump(mode="json", include={"scratch", "hub"})
    limits = {"max_prompt_tokens", "max_response_tokens"}
    if config.models[name].scratch is not None:
        model["generator"] = GENERATOR_REVISION
    else:
        model["files"] = HUB_MODEL_REVISION
    return model | config.sampling.model_dump(mode="json", include=limits)


def _train(experiment: Experiment, name: str) -> Settings:
    cell, config = experiment.cell(name), experiment.of_cell(name).config
    result = asdict(cell) | verifier_settings(experiment, config.verifier)
    del result["variant"]  # its settings follow
    result.pop("rules", None)  # a new version of the rules must not rerun weeks of training
    result["learning_rate"] = config.models[cell.model].learning_rate
    result |= config.model_dump(mode="json", include={"engine", "sampling", "training"})
    # These do not change the policy, so changing them must not rerun the training.
    del result["training"]["checkpoint_every"], result["training"]["validation"]
    if config.engine == "verl" and config.verl is not None:
        result["verl"] = policy_settings(config.verl, config.models[cell.model].verl)
    if cell.reward != "binary":
        result["rewards"] = _reward(experiment, cell.reward)
    result |= config.rewards.wrong_verdicts
    if (version := OBJECTIVES[cell.objective].version) != 1:
        result["objective_version"] = version
    return result


def _reward(experiment: Experiment, name: str) -> Settings:
    """The settings of a reward other than "binary"."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    return {"length_discount": experiment.config.rewards.length_discount}


def _sample(experiment: Experiment, suite: str) -> Settings:
    config = experiment.config
    # Settings of one block; the number of blocks does not change a block.
    result = config.evaluation.model_dump(mode="json", include={"block", "seed"})
    result["benchmarks"] = experiment.benchmarks_of(suite)
    return result | config.sampling.model_dump(mode="json") | {"sampler": config.sampler}


def _fetch_prompt(experiment: Experiment, _: str) -> Settings:
    xverify = experiment.config.xverify
    return {} if xverify is None else xverify.prompt.model_dump(mode="json")


def _fetch_judge(experiment: Experiment, _: str) -> Settings:
    xverify = experiment.config.xverify
    return {} if xverify is None else xverify.model_dump(include={"model", "revision"})


def _score(experiment: Experiment, suite: str) -> Settings:
    config = experiment.config
    result = verifier_settings(experiment, config.verifier)
    result["benchmarks"] = experiment.benchmarks_of(suite)
    result["max_response_tokens"] = config.sampling.max_response_tokens
    name = config.evaluation.reward
    if name == "length":
        return result | _reward(experiment, name)
    return result | {"reward": name} | _reward(experiment, name)


def _agreement(experiment: Experiment, _: str) -> Settings:
    config = experiment.config
    against = verifier_settings(experiment, config.agreement.against)
    result = verifier_settings(experiment, config.verifier)
    return result | {"against": against, "samples": config.agreement.samples}


def _gradients(experiment: Experiment, study: str) -> Settings:
    config = experiment.config
    result = verifier_settings(experiment, config.verifier)
    result |= config.sampling.model_dump(mode="json")
    if config.gradients is not None:
        unused = {"policies", "k"} if study else {"policies"}
        result["gradients"] = config.gradients.model_dump(mode="json", exclude=unused)
        # A new objective has no gradients yet.
        pairs = experiment.measured(study)
        result["objectives"] = [_with_version(name) for name in dict(pairs)]
        if study:  # whose objectives may have different k
            result["k"] = [k for _, k in pairs]
    return result


def _with_version(objective: str) -> str:
    version = OBJECTIVES[objective].version
    return objective if version == 1 else f"{objective} {version}"


def _curves(experiment: Experiment, _: str) -> Settings:
    return experiment.config.evaluation.model_dump(mode="json", include={"k", "resamples", "seed"})


def _tables(experiment: Experiment, _: str) -> Settings:
    return _curves(experiment, "") | _counted("evaluations", experiment.evaluations)


def _answers(experiment: Experiment, _: str) -> Settings:
    result = verifier_settings(experiment, experiment.config.verifier)
    result["k"] = sorted(experiment.config.evaluation.k)
    return result | _counted("evaluations", experiment.evaluations)


def _cost(experiment: Experiment, _: str) -> Settings:
    return _counted("policies", experiment.policies)


def _counted(what: str, names: Sequence[Any]) -> Settings:
    """A long list as its number and fingerprint, for the message about other settings."""
    return {what: len(names), "names": fingerprint(list(names))}


def _study(experiment: Experiment, name: str) -> Settings:
    policies = experiment.policies_of(name)
    suite = experiment.grid_entry(name).suite
    result = {"scale": experiment.scale, "suite": suite, "k": list(experiment.config.evaluation.k)}
    return result | _counted("policies", policies)


def _claims(experiment: Experiment, _: str) -> Settings:
    """The grid and its seeds determine the compared cells; `k` the values of k."""
    config = experiment.config
    result = config.model_dump(mode="json", include={"grid", "seeds"})
    result["scale"] = experiment.scale
    result["suites"] = {suite: list(names) for suite, names in config.data.suites.items()}
    if config.extensions:  # which may have claims
        result["extensions"] = {file: digest(experiment.root / file) for file in config.extensions}
    return result | config.evaluation.model_dump(mode="json", include={"k", "equivalence_margin"})


def _report(experiment: Experiment, _: str) -> Settings:
    return {"scale": experiment.scale} | experiment.config.model_dump(mode="json")


_OF_STEP: dict[str, Callable[[Experiment, str], Settings]] = {
    "prepare": _prepare,
    "contamination": _contamination,
    "pretrain": _pretrain,
    "train": _train,
    "sample": _sample,
    "fetch-prompt": _fetch_prompt,
    "fetch-judge": _fetch_judge,
    "score": _score,
    "agreement": _agreement,
    "curves": _curves,
    "tables": _tables,
    "answers": _answers,
    "cost": _cost,
    "study": _study,
    "claims": _claims,
    "report": _report,
    "gradients": _gradients,
}
