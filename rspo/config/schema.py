"""The schema of a scale's config file: keys, types and allowed values.

config/tiny.yaml and config/paper.yaml explain the values and their sources.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from rspo.config.merge import merge
from rspo.config.names import TABLES, Family, StudyColumn, TemplateName
from rspo.config.registered import reward_names, verifier_names
from rspo.core.errors import allowed_names, errors_of
from rspo.core.gpus import GPUS
from rspo.objectives import OBJECTIVES, check_weights, unknown_objective

POOLED = "pooled"  # in tables: all problems of a suite's benchmarks
DEFAULT_VARIANT = "default"  # the variant of a cell that is trained with the config as it is
HUB_ID = r"^[\w.-]+/[\w.-]+$"
Integer = Annotated[int, Field(strict=True)]  # neither true nor text
Positive = Annotated[Integer, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# Names end up in folder names, where "--" separates the parts.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]


def _one_of(names: Callable[[], Collection[str]]) -> AfterValidator:
    """Accept one of some names, which extensions may extend."""

    def check(name: str) -> str:
        if name not in names():
            raise ValueError(allowed_names(name, names()))
        return name

    return AfterValidator(check)


VerifierName = Annotated[str, _one_of(verifier_names)]
RewardName = Annotated[str, _one_of(reward_names)]


def _listed(value: Any) -> Any:
    """A value, or a list of them, as a list."""
    return value if isinstance(value, list | tuple) else [value]


Integers = Annotated[tuple[Integer, ...], BeforeValidator(_listed), Field(min_length=1)]


def _require_one_of(key: str, name: str, names: Collection[str]) -> None:
    """Raises: ValueError that names the key, if `name` is none of the names."""
    if name not in names:
        raise ValueError(f"{key} = {name!r}; {allowed_names(name, names)}")


class Section(BaseModel):
    """A section of a config; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, values: Any) -> Any:
        for key in values if isinstance(values, Mapping) else ():
            if key not in cls.model_fields:
                hint = allowed_names(str(key), cls.model_fields)
                raise ValueError(f"unknown key {key} = {values[key]!r}; {hint}")
        return values


class Generated(Section):
    """Problems made by `rspo.datasets.generated`."""

    families: tuple[Family, ...] = Field(min_length=1)
    split: Literal["train", "validation", "test", "larger"]
    problems: Positive  # per family


class RowFilter(Section):
    """Keep the rows whose `column` contains a text."""

    column: str
    contains: str


class Columns(Section):
    """How the rows of a table become problems."""

    problem: str = "problem"  # column with the problem's text
    context: str | None = None  # column with text to put before the problem
    answer: str = "answer"  # column with the answer or answers
    answer_in: Literal["column", "box"] = "column"  # box: the last \boxed{} in that column
    unit: str | None = None  # column with the answer's unit, which is optional in responses
    filter: RowFilter | None = None
    exclude: Name | None = None  # a benchmark whose problems are excluded from this set


class Hub(Columns):
    """A data set on the Hugging Face hub, or in a mirror folder with the hub's names."""

    id: str = Field(pattern=HUB_ID)
    configs: tuple[str, ...] = ()  # read in this order; empty: the default config
    split: str
    revision: str  # commit of the hub's repository
    problem: str
    answer: str
    rows: Integers  # expected numbers of rows after filter and exclude
    without_answer: Integer = 0  # expected rows without an answer; they are dropped and listed
    content_sha256: dict[int, Sha256] = {}


class DataSet(Columns):
    """The source of a set of problems: exactly one of generated, hub and file.

    The columns of `file` are keys of this section; the columns of `hub` are keys of its section.
    """

    generated: Generated | None = None
    hub: Hub | None = None
    file: Annotated[str, Field(pattern=r"\.(jsonl|csv|parquet)$")] | None = None

    @property
    def columns(self) -> Columns:
        """How the rows of `hub` or `file` become problems."""
        return self if self.hub is None else self.hub

    @model_validator(mode="after")
    def _one_source(self) -> "DataSet":
        if [self.generated, self.hub, self.file].count(None) != 2:
            raise ValueError("needs exactly one of: generated, hub, file")
        columns = self.model_fields_set & Columns.model_fields.keys()
        if self.file is None and columns:
            place = "write it in hub" if self.hub is not None else "generated problems have none"
            raise ValueError(f"{min(columns)} is a key of file; {place}")
        return self


class Benchmark(DataSet):
    """A set of problems to evaluate on."""

    label: str  # panel title


class Data(Section):
    train: DataSet
    validation: DataSet
    suites: dict[Name, Annotated[dict[Name, Benchmark], Field(min_length=1)]]  # by suite and name

    @model_validator(mode="after")
    def _splits_and_names_differ(self) -> "Data":
        for name, data_set in (("train", self.train), ("validation", self.validation)):
            if data_set.generated is not None and data_set.generated.split != name:
                raise ValueError(
                    f"{name}.generated.split = {data_set.generated.split!r}; allowed: {name!r}"
                )
        names = ["train", "validation", POOLED]
        for suite in self.suites.values():
            names.extend(suite)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two data sets have the same name: {', '.join(repeated)}")
        return self


class Scratch(Section):
    """A tiny Qwen2, and how its base model is trained from scratch."""

    hidden_size: Positive
    layers: Positive
    heads: Positive
    feed_forward: Positive
    examples: Positive
    batch: Positive
    steps: Positive
    learning_rate: Rate
    seed: Integer = Field(ge=0)

    @model_validator(mode="after")
    def _even_heads(self) -> "Scratch":
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size = {self.hidden_size} must be a multiple of 2 * heads = "
                f"{2 * self.heads}"
            )
        return self


class WorkedExample(Section):
    """A problem and a response, as two turns before the problem of each prompt."""

    problem: str
    response: str


class HubModel(Section):
    """A model on the Hugging Face hub, with its chat template."""

    id: str = Field(pattern=HUB_ID)
    revision: str
    template: TemplateName = "qwen_math"  # of `rspo.policies.templates`; own: the model's
    examples: tuple[WorkedExample, ...] = ()

    @model_validator(mode="after")
    def _turns_need_the_own_template(self) -> "HubModel":
        if self.examples and self.template != "own":
            raise ValueError(
                f"template = {self.template!r} is for one problem; examples need template: own"
            )
        return self


class Model(Section):
    """A base policy: exactly one of scratch and hub."""

    label: str
    learning_rate: Rate  # in reinforcement learning
    scratch: Scratch | None = None
    hub: HubModel | None = None
    verl: dict[str, Any] = {}  # verl's own keys, as in the section verl, for this model
    parameters: Positive | None = None  # for `rspo plan` and `rspo doctor` only

    @model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.scratch is None) == (self.hub is None):
            raise ValueError("needs exactly one of: scratch, hub")
        return self


class Sampling(Section):
    temperature: float = Field(gt=0)
    top_p: float = Field(gt=0, le=1)
    max_prompt_tokens: Positive
    max_response_tokens: Positive


class Optimizer(Section):
    schedule: Literal["constant", "linear"]  # after the warm-up; linear: down to 0
    warmup_ratio: Fraction  # fraction of all updates
    betas: tuple[Fraction, Fraction]
    weight_decay: float = Field(ge=0)
    gradient_clip: float | None = Field(default=None, gt=0)


class Validation(Section):
    """Evaluation on held-out problems during training."""

    every: Positive | None  # steps; null: never
    problems: Positive
    samples: Positive  # per problem


class Training(Section):
    steps: Positive
    prompts_per_step: Positive
    mini_batch_prompts: Positive
    loss_aggregation: Literal["seq-mean-token-sum-norm", "token-mean"]
    optimizer: Optimizer
    ppo_clip: float | None = Field(gt=0, lt=1)  # null: no clipping
    checkpoint_every: Positive
    validation: Validation
    epochs: Positive = 1  # passes over the responses of a step; only `engine: local` allows more
    # false: also compute the gradient of responses of weight 0, which is 0; claim C11 times this.
    drop_zero_weights: bool = True
    entropy_bonus: float = Field(default=0.0, ge=0)
    k_schedule: tuple[Positive, Positive] | None = None

    @property
    def prompts_per_update(self) -> int:
        return min(self.mini_batch_prompts, self.prompts_per_step)

    def k_at(self, step: int, k: int) -> int:
        """The k of a step, counted from 0, of a cell with this k."""
        if self.k_schedule is None:
            return k
        first, last = self.k_schedule
        done = step / max(1, self.steps - 1)
        return math.floor(first + (last - first) * done + 0.5)  # `round` prefers even numbers

    @model_validator(mode="after")
    def _whole_mini_batches(self) -> "Training":
        if self.prompts_per_step % self.prompts_per_update:
            raise ValueError(
                f"mini_batch_prompts = {self.mini_batch_prompts} must divide prompts_per_step = "
                f"{self.prompts_per_step}, or exceed it for one update per step"
            )
        return self


class VerlSettings(Section):
    """Settings of `engine: verl` only."""

    device: Literal["cpu", "cuda"]
    ranks: Positive  # processes per policy; on cuda, one GPU each
    gpu: Annotated[str, _one_of(lambda: GPUS)] = "h800"  # for `rspo plan` only
    hang_seconds: float = Field(1800, gt=0)
    overrides: dict[str, Any] = {}  # verl's own keys; they override everything else


class Rewards(Section):
    length_discount: float = Field(ge=0, le=1)
    false_accepts: Fraction = 0.0
    false_rejects: Fraction = 0.0
    false_accepts_fixed: Fraction = 0.0

    @property
    def wrong_verdicts(self) -> dict[str, float]:
        """The rates of wrong verdicts; empty if there are none."""
        rates: dict[str, float] = {}
        if self.false_accepts or self.false_rejects:
            rates["false_accepts"] = self.false_accepts
            rates["false_rejects"] = self.false_rejects
        if self.false_accepts_fixed:
            rates["false_accepts_fixed"] = self.false_accepts_fixed
        return rates


class Upstream(Section):
    """A commit of a git repository."""

    repository: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")


class XVerifySettings(Section):
    """The judge model of the verifier xverify, and its server."""

    prompt: Upstream
    model: str  # hub id, or a folder
    revision: str | None = None  # the revision of the hub's model
    url: Annotated[str, Field(pattern=r"^https?://[^/]+$")] | None = None
    server_arguments: tuple[str, ...] = ()  # command-line arguments of vLLM's server
    # A smaller fraction than the minimum cannot hold the smallest judge, even of 141 GB.
    training_gpu_memory: float = Field(default=0.06, ge=0.02, lt=1)
    start_seconds: float = Field(gt=0)
    concurrent_requests: Positive  # to each server
    request_seconds: float = Field(gt=0)
    retry_seconds: float = Field(ge=0)

    @model_validator(mode="after")
    def _model_exists(self) -> "XVerifySettings":
        # vLLM would try for minutes to download a folder that does not exist from the hub.
        if not re.fullmatch(HUB_ID, self.model) and not Path(self.model).is_dir():
            raise ValueError(f"model = {self.model!r} is neither a hub id nor a folder")
        return self


class Evaluation(Section):
    samples: Positive  # N, per problem
    block: Positive  # samples per problem in one table
    k: tuple[Positive, ...] = Field(min_length=1)
    seed: Integer = Field(ge=0)
    resamples: Positive
    problems: Positive | None = None  # the first of each benchmark, for trial runs; null: all
    reward: RewardName = "length"  # the reward in Max@k, for all policies
    equivalence_margin: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _enough_samples(self) -> "Evaluation":
        if len(set(self.k)) < len(self.k):
            raise ValueError(f"k = {list(self.k)} contains a duplicate")
        if self.samples < 2 * max(self.k):
            raise ValueError(
                f"samples = {self.samples} must be at least twice the largest k = {max(self.k)}, "
                "or the standard error within a problem has no unbiased estimate"
            )
        if self.samples % self.block:
            raise ValueError(f"block = {self.block} must divide samples = {self.samples}")
        return self


class CellSpec(Section):
    """Training cells, one per combination of the values of k, n and variant."""

    model: Name
    objective: str
    k: Integers = (1,)  # 1 for an objective without k, which is in the names of its cells
    n: Integers
    reward: RewardName = "binary"
    variant: Annotated[tuple[Name, ...], BeforeValidator(_listed)] = (DEFAULT_VARIANT,)

    @model_validator(mode="after")
    def _objective_accepts(self) -> "CellSpec":
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown_objective(self.objective))
        objective = OBJECTIVES[self.objective]
        if objective.has_k and "k" not in self.model_fields_set:
            raise ValueError(f"k is missing; {objective.name} needs it ({objective.k_rule.value})")
        for k, n in self.pairs:
            if not objective.allows(k, n):
                raise ValueError(
                    f"{self.objective} cannot use k = {k} with n = {n}; "
                    f"allowed: {objective.k_rule.value}, n >= {objective.least_n}"
                )
            if not objective.has_k and k != 1:
                raise ValueError(f"{self.objective} has no k; leave it out (found k = {k})")
            if not objective.built_in and not objective.ordered:
                with errors_of(self.objective):
                    check_weights(objective.function, k, n, objective.binary)
        if objective.binary and self.reward != "binary":
            raise ValueError(
                f"{self.objective} needs reward: binary (found {self.reward}); "
                "rspo_max_at_k takes any reward"
            )
        return self

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(k, n) for k in self.k for n in self.n]


class GridEntry(Section):
    """Cells that one figure compares: on a suite, or if it names none, by their training logs."""

    suite: str = ""
    cells: tuple[CellSpec, ...] = Field(min_length=1)
    seeds: Positive = 1


class Contrast(Section):
    """Paired differences of a study's methods. docs/add/study.md describes the keys."""

    family: str = Field(min_length=1)
    minus: Name | dict[Name, Name]
    less: Name | None = None
    claims: tuple[Literal["C1", "C3", "C10"], ...] = ()
    k: tuple[Positive, ...] | None = None
    mean: bool = False
    each_variant: bool = False


class Study(GridEntry):
    """A comparison beyond the paper's, made on request (docs/add/study.md)."""

    title: str
    contrasts: tuple[Contrast, ...] = Field(min_length=1)
    choose_by_pass_at: Positive | None = None
    columns: tuple[StudyColumn, ...] = ()
    page: str | None = None
    samples: Positive | None = None
    k: tuple[Positive, ...] | None = None
    frontier: tuple[Positive, Positive] | None = None

    @property
    def several_models(self) -> bool:
        """Whether each model has a row, and the differences are averaged over the models."""
        return len({spec.model for spec in self.cells}) > 1

    @model_validator(mode="after")
    def _cells_are_comparable(self) -> "Study":
        if {spec.reward for spec in self.cells} != {"binary"}:
            raise ValueError("cells: allowed: reward: binary")
        if self.several_models:
            variants = {variant for spec in self.cells for variant in spec.variant}
            subtrahends = [contrast.minus for contrast in self.contrasts]
            are_objectives = all(
                isinstance(minus, str) and minus in OBJECTIVES for minus in subtrahends
            )
            if variants != {DEFAULT_VARIANT} or not are_objectives:
                raise ValueError(
                    "cells: allowed with several models: no variants, and contrasts with minus: an "
                    "objective"
                )
        return self

    @model_validator(mode="after")
    def _contrasts_differ(self) -> "Study":
        """Check the contrasts against each other.

        `rspo.analysis.studies` checks that each contrast compares something.
        """
        families = [contrast.family for contrast in self.contrasts]
        for contrast in self.contrasts:
            place = f"contrasts, {contrast.family!r}"
            if families.count(contrast.family) > 1:
                raise ValueError(f"{place}: two have this family; name one differently")
            if contrast.claims and (contrast.less or contrast.k or contrast.mean):
                raise ValueError(f"{place}: claims are compared without less, k and mean")
        if sum(bool(contrast.claims) for contrast in self.contrasts) > 1:
            raise ValueError("contrasts: at most one may have claims")
        return self


# A variant's changes, by the sections of the config that decide a training.
Changes = dict[Literal["models", "sampling", "training", "rewards"], dict[str, Any]]


class Config(Section):
    """The config of a scale."""

    seeds: Positive
    engine: Literal["local", "verl"]
    sampler: Literal["torch", "vllm"]
    verifier: VerifierName
    xverify: XVerifySettings | None = None
    data: Data
    models: dict[Name, Model]
    sampling: Sampling
    training: Training
    verl: VerlSettings | None = None
    rewards: Rewards
    evaluation: Evaluation
    grid: Annotated[dict[Name, GridEntry], Field(min_length=1)]
    studies: dict[Name, Study] = {}
    variants: dict[Name, Changes] = {}
    extensions: tuple[str, ...] = ()  # relative to the folder that has config/
    # In minutes. A run of Snakemake replaces a result that took longer only with `replace=true`.
    replace_above: Annotated[float, Field(ge=0)] | None = 10

    def for_variant(self, name: str) -> "Config":
        """The config that the cells of a variant are trained with.

        Raises: ValidationError if the variant makes the config invalid.
        """
        if name == DEFAULT_VARIANT:
            return self
        return Config.model_validate(
            merge(self.model_dump(exclude_unset=True), self.variants[name])
        )

    @property
    def starts_judge(self) -> bool:
        """Whether jobs that verify start their own servers of the judge model."""
        if self.verifier != "xverify" or self.xverify is None:
            return False
        return self.xverify.url is None

    @model_validator(mode="after")
    def _references_exist(self) -> "Config":
        for name, entry in self.grid.items():
            self._require_references(f"grid.{name}", entry, needs_suite=False)
            variants = {variant for spec in entry.cells for variant in spec.variant}
            if entry.suite and variants != {DEFAULT_VARIANT}:
                raise ValueError(
                    f"grid.{name}: only studies, and entries without a suite, have variants"
                )
        for name, study in self.studies.items():
            self._require_references(f"studies.{name}", study, needs_suite=True)
        if self.verifier == "xverify" and self.xverify is None:
            raise ValueError("verifier = 'xverify' needs the section xverify")
        if self.engine == "verl":
            self._require_verl()
        if self.sampling.top_p != 1 and (self.engine == "local" or self.sampler == "torch"):
            raise ValueError(
                f"sampling.top_p = {self.sampling.top_p}: engine local and sampler torch sample "
                "from the full distribution; allowed: 1.0"
            )
        published = [name for name, model in self.models.items() if model.hub is not None]
        if self.sampler == "torch" and published:
            raise ValueError(
                f"sampler = 'torch' is for models from scratch; models.{published[0]} is one of "
                "the hub: sampler = 'vllm'"
            )
        return self

    def _require_references(self, key: str, entry: GridEntry, needs_suite: bool) -> None:
        """Raises: ValueError if an entry names a suite, model or variant that the config lacks."""
        if entry.suite or needs_suite:
            _require_one_of(f"{key}.suite", entry.suite, self.data.suites)
        variants = [DEFAULT_VARIANT]
        variants.extend(self.variants)
        for spec in entry.cells:
            _require_one_of(f"{key}: model", spec.model, self.models)
            for variant in spec.variant:
                _require_one_of(f"{key}: variant", variant, variants)

    def _require_verl(self) -> None:
        """Raises: ValueError for settings that engine verl needs or lacks."""
        if self.verl is None:
            raise ValueError("engine = 'verl' needs the section verl")
        if self.training.epochs > 1 or self.rewards.wrong_verdicts:
            raise ValueError("training.epochs and rewards.false_*: only engine: local has these")
        if self.training.entropy_bonus and self.training.loss_aggregation != "token-mean":
            raise ValueError(
                "training.entropy_bonus: engine verl has it with loss_aggregation: token-mean only"
            )

    @model_validator(mode="after")
    def _names_are_free(self) -> "Config":
        reserved = set(reward_names())
        reserved.add(DEFAULT_VARIANT)
        taken = reserved & self.variants.keys()
        if taken:
            raise ValueError(f"variants.{min(taken)}: this name has another meaning in cells")
        for name in self.studies:
            if name in TABLES or name.endswith("_methods"):
                raise ValueError(f"studies.{name}: the name of another table; choose another one")
        shared = self.grid.keys() & self.studies.keys()
        if shared:
            raise ValueError(f"{min(shared)} is in grid and in studies; allowed: one of them")
        return self

    @model_validator(mode="after")
    def _enough_problems(self) -> "Config":
        training = self.training
        self._require_problems("prompts_per_step", training.prompts_per_step, "train")
        if training.validation.every:
            problems = training.validation.problems
            self._require_problems("validation.problems", problems, "validation")
        return self

    def _require_problems(
        self, key: str, number: int, name: Literal["train", "validation"]
    ) -> None:
        """Raises: ValueError if fewer problems are generated than a key of `training` needs."""
        data_set = self.data.train if name == "train" else self.data.validation
        generated = data_set.generated
        if generated is None:
            return
        available = len(generated.families) * generated.problems
        if available < number:
            raise ValueError(
                f"training.{key} = {number} is more than the {available} problems of data.{name}"
            )
