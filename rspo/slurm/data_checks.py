"""Checks of problems and base policies against the config, as soon as both exist.

They call what the jobs call, so that a message is that of the job.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from rspo.config.experiment import Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_table
from rspo.slurm.launch import Finding, Kind, Launch


def own_files(launch: Launch) -> Iterator[Finding]:
    """Whether the files with problems of the user can be prepared."""
    from rspo.datasets.prepare import require_own_files

    try:
        require_own_files(launch.experiment)
    except InputError as error:
        yield Finding(Kind.STOPS, str(error))


def prompts(launch: Launch) -> Iterator[Finding]:
    """Whether each model can be trained and evaluated on the problems that exist.

    No finding stops a run, because `Executor.run_job` refuses only the jobs that it concerns.
    """
    experiment = launch.experiment
    pairs = [
        (experiment.model_of(policy), data_set)
        for policy, suite in experiment.evaluations
        for data_set in ("train", "validation", *experiment.benchmarks_of(suite))
    ]
    check = PromptCheck(experiment)
    for model, data_set in dict.fromkeys(pairs):
        if line := check.problem(model, data_set):
            yield Finding(Kind.CHANGE, line)


class PromptCheck:
    """Whether a model can use the problems of a data set; remembers each answer."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        # Snakemake submits jobs from several threads, and transformers cannot be imported in two.
        self._lock = Lock()
        self._cached = cache(self._problem)

    def problem_of(self, job: Any) -> str:
        """Why a job of Snakemake would fail at its start; empty if this is not known."""
        if job.is_group():
            return ""
        wildcards, results = job.wildcards_dict, self.experiment.problems("train").parent
        policy = wildcards.get("cell") or wildcards.get("policy")
        if policy is None or job.rule.name.split("_")[0] not in ("train", "sample"):
            return ""  # these rules tokenize problems
        model = self.experiment.model_of(policy)
        data_sets = [path.stem for path in map(Path, job.input) if path.parent == results]
        return "; ".join(filter(None, (self.problem(model, name) for name in data_sets)))

    def problem(self, model: str, data_set: str) -> str:
        """Why a job with both fails at its start; empty if it does not, or if one is missing."""
        with self._lock:
            return self._cached(model, data_set)

    def _problem(self, model: str, data_set: str) -> str:
        folder = self.experiment.policy(base_name(model))
        if not folder.is_dir() or not self.experiment.problems(data_set).is_file():
            return ""
        try:
            self._use(model, data_set)
        except InputError as error:
            return f"{model} on {data_set}: {error}"
        return ""

    def _use(self, model: str, data_set: str) -> None:
        """Do what the job does with both. Raises: InputError."""
        # Imported here, because `snakemake -n` imports this module.
        from rspo.policies.prompt_limit import response_tokens
        from rspo.policies.published import require_context
        from rspo.policies.tokenizer import ChatTokenizer
        from rspo.training.prompts import prompts_of_step, read_prompts
        from rspo.training.validation import held_out_prompts

        config, data = self.experiment.config, self.experiment.problems(data_set)
        folder = self.experiment.policy(base_name(model))
        require_context(folder, config.sampling)
        tokenizer = ChatTokenizer(folder)
        if data_set == "train":
            prompts, _ = read_prompts(data, tokenizer, config.sampling)
            prompts_of_step(prompts.families, config.training, seed=0, step=0)
        elif data_set == "validation":
            held_out_prompts(self.experiment, tokenizer)
        else:
            chats = [problem["prompt"] for problem in read_table(data, PROBLEMS)]
            for tokens in tokenizer.prompts(chats):
                response_tokens(len(tokens), config.sampling)
