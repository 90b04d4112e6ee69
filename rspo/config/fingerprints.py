"""The part of a config that decides what one file holds, as plain data, step by step.

A change of it remakes the file; a change of anything else does not.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import NEED_JUDGE, VERIFIER_VERSIONS
from rspo.config.verl_fingerprint import deciding
from rspo.core.files import fingerprint

Settings = dict[str, Any]


def settings(experiment: Experiment, step: str, name: str = "") -> Settings:
    """Settings of a step: a command of `rspo` that makes files.

    Args:
        name: the data set, model, or cell that the step is about.
    """
    return _OF_STEP[step](experiment, name)


def settings_hash(experiment: Experiment, step: str, name: str = "") -> str:
    """Fingerprint of `settings`: tells Snakemake whether a file is out of date."""
    return fingerprint(settings(experiment, step, name))


def verifier_settings(experiment: Experiment | None, verifier: str) -> Settings:
    """What decides a verdict; how a judge is served, reached and waited for does not.

    Args:
        experiment: says which judge, to the verifiers that need one.
    """
    found: Settings = {"verifier": verifier}
    if verifier in VERIFIER_VERSIONS:
        found["rules"] = VERIFIER_VERSIONS[verifier]
    xverify = experiment.config.xverify if experiment else None
    if verifier in NEED_JUDGE and xverify is not None:
        judge = {"prompt", "model", "revision"}
        found["xverify"] = xverify.model_dump(mode="json", include=judge)
    return found


def _prepare(experiment: Experiment, name: str) -> Settings:
    data_set = experiment.data_set(name)
    # What is expected of the rows is a check, which makes no other rows.
    expected = {"rows", "without_answer", "content_sha256"}
    found = data_set.model_dump(mode="json", exclude={"label": True, "hub": expected})
    if data_set.hub is not None and data_set.hub.exclude is not None:
        found["excluded"] = _prepare(experiment, data_set.hub.exclude)
    return found


def _contamination(experiment: Experiment, _: str) -> Settings:
    return {"sets": list(experiment.data_sets)}


def _pretrain(experiment: Experiment, name: str) -> Settings:
    config = experiment.config
    model = config.models[name].model_dump(mode="json", include={"scratch", "hub"})
    limits = {"max_prompt_tokens", "max_response_tokens"}
    return model | config.sampling.model_dump(mode="json", include=limits)


def _train(experiment: Experiment, name: str) -> Settings:
    cell, config = experiment.cell(name), experiment.config
    found = asdict(cell) | verifier_settings(experiment, config.verifier)
    found.pop("rules", None)  # better rules make better scores; they do not undo weeks of training
    found["learning_rate"] = config.models[cell.model].learning_rate
    found |= config.model_dump(mode="json", include={"engine", "sampling", "training"})
    # Neither decides anything about the policy; a log that lacks a validation is no reason to
    # train for hours again. The log's provenance says which one it has.
    del found["training"]["checkpoint_every"], found["training"]["validation"]
    if config.engine == "verl" and config.verl is not None:
        found["verl"] = deciding(config.verl, config.models[cell.model].verl)
    if cell.reward == "length":
        found["rewards"] = config.rewards.model_dump(mode="json")
    return found


def _sample(experiment: Experiment, _: str) -> Settings:
    config = experiment.config
    # Of one block: how many blocks there are decides about none of them.
    found = config.evaluation.model_dump(mode="json", include={"block", "seed"})
    return found | config.sampling.model_dump(mode="json") | {"sampler": config.sampler}


def _fetch_prompt(experiment: Experiment, _: str) -> Settings:
    xverify = experiment.config.xverify
    return {} if xverify is None else xverify.prompt.model_dump(mode="json")


def _fetch_judge(experiment: Experiment, _: str) -> Settings:
    xverify = experiment.config.xverify
    return {} if xverify is None else xverify.model_dump(include={"model", "revision"})


def _score(experiment: Experiment, _: str) -> Settings:
    config = experiment.config
    limit = {"max_response_tokens": config.sampling.max_response_tokens}
    found = verifier_settings(experiment, config.verifier) | limit
    return found | config.rewards.model_dump(mode="json")


def _agreement(experiment: Experiment, _: str) -> Settings:
    config = experiment.config
    against = verifier_settings(experiment, config.agreement.against)
    found = verifier_settings(experiment, config.verifier)
    return found | {"against": against, "samples": config.agreement.samples}


def _gradients(experiment: Experiment, _: str) -> Settings:
    config = experiment.config
    found = verifier_settings(experiment, config.verifier)
    found |= config.sampling.model_dump(mode="json")
    if config.gradients is not None:
        found["gradients"] = config.gradients.model_dump(mode="json", exclude={"policies"})
    return found


def _curves(experiment: Experiment, _: str) -> Settings:
    return experiment.config.evaluation.model_dump(mode="json", include={"k", "resamples", "seed"})


def _claims(experiment: Experiment, _: str) -> Settings:
    """The grid with its seeds says which cells are compared, and `k` at which k."""
    config = experiment.config
    found = config.model_dump(mode="json", include={"grid", "seeds"})
    found["suites"] = {suite: list(names) for suite, names in config.data.suites.items()}
    return found | config.evaluation.model_dump(mode="json", include={"k", "equivalence_margin"})


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
    "claims": _claims,
    "report": _report,
    "gradients": _gradients,
}
