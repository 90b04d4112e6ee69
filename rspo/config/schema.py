"""The schema of a scale's config file: keys, types and allowed values.

config/tiny.yaml and config/paper.yaml explain the keys, and give the sources of the values. Each
class is a section of the file. Its validators check what the types cannot express.
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
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from rspo.config.merge import merge
from rspo.config.names import (
    BASE,
    BOX_ONLY,
    NAMES_OF_PLACES,
    TABLES,
    Family,
    GymTask,
    StudyColumn,
    TemplateName,
    places_of,
)
from rspo.config.registered import reward_names, verifier_names
from rspo.core.errors import allowed_names, errors_of
from rspo.core.gpus import GPUS
from rspo.objectives import OBJECTIVES, check_weights, unknown_objective

POOLED = "pooled"  # the name in tables for the problems of all benchmarks of a suite together
DEFAULT_VARIANT = "default"  # the variant of a cell that is trained with the config as it is
HUB_ID = r"^[\w.-]+/[\w.-]+$"  # OWNER/NAME on the Hugging Face hub
Integer = Annotated[int, Field(strict=True)]  # otherwise pydantic accepts true and "5" too
Positive = Annotated[Integer, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# Words of lower-case letters and digits, separated by single . _ or -. Names are parts of folder
# names, where "--" separates the parts.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]


def _one_of(names: Callable[[], Collection[str]]) -> AfterValidator:
    """A validator that accepts one of the names that `names` returns.

    `names` is a function and not a collection, because extensions may add names after this module
    is imported.
    """

    def check(name: str) -> str:
        if name not in names():
            raise ValueError(allowed_names(name, names()))
        return name

    return AfterValidator(check)


VerifierName = Annotated[str, _one_of(verifier_names)]
PlaceOfAnswer = Annotated[str, _one_of(lambda: NAMES_OF_PLACES)]
RewardName = Annotated[str, _one_of(reward_names)]


def _listed(value: Any) -> Any:
    """The value itself if it is a list, otherwise a list with this one value."""
    return value if isinstance(value, list | tuple) else [value]


def _places(value: Any) -> Any:
    """The places that a text or a list names; any other value as it is."""
    return places_of(value) if isinstance(value, str | list | tuple) else value


Integers = Annotated[tuple[Integer, ...], BeforeValidator(_listed), Field(min_length=1)]


def _require_one_of(key: str, name: str, names: Collection[str]) -> None:
    """Raises: ValueError that names the key, if `name` is none of the names."""
    if name not in names:
        raise ValueError(f"{key} = {name!r}; {allowed_names(name, names)}")


class Section(BaseModel):
    """A section of a config, in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, values: Any) -> Any:
        """Refuse unknown keys; pydantic's `extra="forbid"` would suggest no name in its message."""
        for key in values if isinstance(values, Mapping) else ():
            if key not in cls.model_fields:
                hint = allowed_names(str(key), cls.model_fields)
                raise ValueError(f"unknown key {key} = {values[key]!r}; {hint}")
        return values


class Generated(Section):
    """Problems that `rspo.datasets.generated` makes."""

    families: tuple[Family, ...] = Field(min_length=1)
    split: Literal["train", "validation", "test", "larger"]
    problems: Positive  # per family


class ReasoningGym(Section):
    """Problems of the package reasoning-gym (`rspo.datasets.reasoning_gym`)."""

    tasks: tuple[GymTask, ...] = Field(min_length=1)
    split: Literal["train", "validation", "test"]
    problems: Positive  # of each task
    # At most this fraction of the problems of a task has the same answer.
    answer_share: Rate = 0.05


class RowFilter(Section):
    """Keep the rows whose `column` contains a text."""

    column: str
    contains: str


class Columns(Section):
    """How the rows of a table become problems."""

    problem: str = "problem"  # the column with the problem's text
    context: str | None = None  # the column with a text to put before the problem
    answer: str = "answer"  # the column with the answer or answers
    # column: the column has the answer; box: the last \boxed{} in the column's text has it.
    answer_in: Literal["column", "box"] = "column"
    unit: str | None = None  # the column with the answer's unit, which responses may leave out
    filter: RowFilter | None = None
    exclude: Name | None = None  # a benchmark whose problems are excluded from this set


class Hub(Columns):
    """A data set on the Hugging Face hub, or in a mirror folder with the hub's names."""

    id: str = Field(pattern=HUB_ID)
    configs: tuple[str, ...] = ()  # the hub's configs, in this order; empty: the default config
    split: str
    revision: str  # the commit of the hub's repository
    problem: str
    answer: str
    rows: Integers  # the numbers of rows that may remain after filter and exclude
    without_answer: Integer = 0  # the expected number of rows without an answer, which are dropped
    # The expected SHA-256 of the problems and answers, by the number of rows.
    content_sha256: dict[int, Sha256] = {}


class DataSet(Columns):
    """The source of a set of problems: exactly one of generated, reasoning_gym, hub and file.

    The columns of `file` are keys of this section; the columns of `hub` are keys of its section.
    """

    generated: Generated | None = None
    reasoning_gym: ReasoningGym | None = None
    hub: Hub | None = None
    file: Annotated[str, Field(pattern=r"\.(jsonl|csv|parquet)$")] | None = None

    @property
    def columns(self) -> Columns:
        """How the rows of `hub` or `file` become problems."""
        return self if self.hub is None else self.hub

    @property
    def made_problems(self) -> int | None:
        """The number of problems that are made; None for a data set that is read."""
        if self.generated is not None:
            return len(self.generated.families) * self.generated.problems
        if self.reasoning_gym is not None:
            return len(self.reasoning_gym.tasks) * self.reasoning_gym.problems
        return None

    @model_validator(mode="after")
    def _one_source(self) -> "DataSet":
        """Require one source, and columns only where they have an effect."""
        if [self.generated, self.reasoning_gym, self.hub, self.file].count(None) != 3:
            raise ValueError("needs exactly one of: generated, reasoning_gym, hub, file")
        columns = self.model_fields_set & Columns.model_fields.keys()
        if self.file is None and columns:
            place = (
                "write it in hub" if self.hub is not None else "problems that are made have none"
            )
            raise ValueError(f"{min(columns)} is a key of file; {place}")
        return self


class Benchmark(DataSet):
    """A set of problems to evaluate on."""

    label: str  # the title of its panel in figures


class Data(Section):
    """The problems for training, validation and evaluation."""

    train: DataSet
    validation: DataSet
    # The benchmarks by the name of their suite and their own name.
    suites: dict[Name, Annotated[dict[Name, Benchmark], Field(min_length=1)]]

    @model_validator(mode="after")
    def _splits_and_names_differ(self) -> "Data":
        """Require disjoint splits, and a file name of its own for each data set."""
        for name, data_set in (("train", self.train), ("validation", self.validation)):
            if data_set.generated is not None and data_set.generated.split != name:
                raise ValueError(
                    f"{name}.generated.split = {data_set.generated.split!r}; allowed: {name!r}"
                )
            if data_set.reasoning_gym is not None and data_set.reasoning_gym.split != name:
                raise ValueError(
                    f"{name}.reasoning_gym.split = {data_set.reasoning_gym.split!r}; "
                    f"allowed: {name!r}"
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
        """Require heads of an even size: rotary position embeddings rotate pairs of numbers."""
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size = {self.hidden_size} must be a multiple of 2 * heads = "
                f"{2 * self.heads}"
            )
        return self


class WorkedExample(Section):
    """A problem and a response, which are two turns of the chat before the problem of a prompt."""

    problem: str
    response: str


class HubModel(Section):
    """A model on the Hugging Face hub, with its chat template."""

    id: str = Field(pattern=HUB_ID)
    revision: str
    template: TemplateName = "qwen_math"
    examples: tuple[WorkedExample, ...] = ()

    @model_validator(mode="after")
    def _turns_need_the_own_template(self) -> "HubModel":
        """Require a template for several turns if there are worked examples."""
        if self.examples and self.template != "own":
            raise ValueError(
                f"template = {self.template!r} is for one problem; examples need template: own"
            )
        return self


class Start(Section):
    """A short supervised training of a published model, before reinforcement learning.

    Its examples are problems of the package reasoning-gym, of a split of their own, with the answer
    as the whole response. AdamW has the settings of the pretraining from scratch.
    """

    tasks: tuple[GymTask, ...] = Field(min_length=1)
    problems: Positive  # of each task
    answer_share: Rate = 0.05  # as in reasoning_gym
    epochs: Positive = 1  # passes over the examples
    batch: Positive  # examples per update
    learning_rate: Rate  # the peak: a linear warm-up over a tenth of the updates, then a cosine
    seed: Integer = Field(ge=0)  # of the order of the examples


class Model(Section):
    """A base policy: exactly one of scratch and hub."""

    label: str
    learning_rate: Rate  # in reinforcement learning
    scratch: Scratch | None = None
    hub: HubModel | None = None
    start: Start | None = None  # only for a model of the hub
    # GPUs of a node that train a cell of this model, with verl.device: cuda; null: verl.ranks.
    gpus: Positive | None = None
    verl: dict[str, Any] = {}  # verl's own keys for this model; verl.overrides replace them
    parameters: Positive | None = None  # their number, for `rspo plan`, `rspo doctor` and the MFU

    @model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.scratch is None) == (self.hub is None):
            raise ValueError("needs exactly one of: scratch, hub")
        if self.start is not None and self.hub is None:
            raise ValueError("start is for a model of the hub")
        return self

    def for_training_seed(self, seed: int) -> "Model":
        """The model from which the cells of a training seed start, with `base_per_seed`.

        Its pretraining, or its supervised start, has the seed of the config plus `seed`.
        """
        if self.scratch is not None:
            scratch = self.scratch.model_copy(update={"seed": self.scratch.seed + seed})
            return self.model_copy(update={"scratch": scratch})
        if self.start is not None:
            start = self.start.model_copy(update={"seed": self.start.seed + seed})
            return self.model_copy(update={"start": start})
        return self


class Sampling(Section):
    """How responses are sampled, in training and in evaluation."""

    temperature: float = Field(gt=0)
    top_p: float = Field(gt=0, le=1)
    max_prompt_tokens: Positive
    max_response_tokens: Positive


class Optimizer(Section):
    """The settings of AdamW and the schedule of its learning rate."""

    # The learning rate after the warm-up. linear: it decreases to 0 at the end.
    schedule: Literal["constant", "linear"]
    warmup_ratio: Fraction  # the warm-up, as a fraction of all updates
    betas: tuple[Fraction, Fraction]
    weight_decay: float = Field(ge=0)
    gradient_clip: float | None = Field(default=None, gt=0)  # the largest norm; null: no clipping


class Validation(Section):
    """Evaluation on held-out problems during training."""

    every: Positive | None  # the number of steps from one validation to the next; null: never
    problems: Positive
    samples: Positive  # per problem


class Training(Section):
    """The settings of a training, whatever its objective."""

    steps: Positive
    prompts_per_step: Positive
    mini_batch_prompts: Positive  # prompts per update; a step has one or more updates
    loss_aggregation: Literal["seq-mean-token-sum-norm", "token-mean"]
    optimizer: Optimizer
    ppo_clip: float | None = Field(gt=0, lt=1)  # null: no clipping
    checkpoint_every: Positive  # in steps
    validation: Validation
    # Passes over the responses of a step. Only `engine: local` allows more than one.
    epochs: Positive = 1
    # Responses of weight 0 have a gradient of 0. false: compute it nevertheless, because claim C11
    # is about the time that this takes.
    drop_zero_weights: bool = True
    entropy_bonus: float = Field(default=0.0, ge=0)  # the coefficient of the entropy in the loss
    k_schedule: tuple[Positive, Positive] | None = None  # k at the first and at the last step
    # The step after which the training ends, with the schedules of `steps`: the policy is that of a
    # checkpoint at this step. null: all steps. Only `engine: local` has this.
    stop_after: Positive | None = None

    @property
    def last_step(self) -> int:
        """The number of steps that are trained."""
        return self.steps if self.stop_after is None else self.stop_after

    @property
    def prompts_per_update(self) -> int:
        """The number of prompts whose responses decide one update of the optimizer."""
        return min(self.mini_batch_prompts, self.prompts_per_step)

    def k_at(self, step: int, k: int) -> int:
        """The k of a training step: the cell's own k, unless there is a schedule.

        Args:
            step: counted from 0.
            k: the k of the cell.
        """
        if self.k_schedule is None:
            return k
        first, last = self.k_schedule
        done = step / max(1, self.steps - 1)
        # Linear, and rounded half up: `round` would round half to even.
        return math.floor(first + (last - first) * done + 0.5)

    @model_validator(mode="after")
    def _stops_within_the_steps(self) -> "Training":
        """Require that the step after which the training ends is one of its steps."""
        if self.last_step > self.steps:
            raise ValueError(f"stop_after = {self.stop_after}; allowed: up to steps = {self.steps}")
        return self

    @model_validator(mode="after")
    def _whole_mini_batches(self) -> "Training":
        """Require that all updates of a step have the same number of prompts."""
        if self.prompts_per_step % self.prompts_per_update:
            raise ValueError(
                f"mini_batch_prompts = {self.mini_batch_prompts} must divide prompts_per_step = "
                f"{self.prompts_per_step}, or exceed it for one update per step"
            )
        return self


class LocalSettings(Section):
    """Where `engine: local` and `sampler: torch` compute with published models.

    Models from scratch are always computed on the CPU in float32.
    """

    # auto: a CUDA GPU, or else Apple's MPS (untested), or else the CPU, as PyTorch finds them.
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    # The data type of the layers. auto: bfloat16 where the device multiplies matrices in it, or
    # else float32. Parameters, gradients and logits are float32 in any case.
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"


class VerlSettings(Section):
    """Settings that only `engine: verl` has."""

    device: Literal["cpu", "cuda"]
    # Processes that train a cell. On cuda, each has a GPU, and models.<model>.gpus comes first.
    ranks: Positive
    gpu: Annotated[str, _one_of(lambda: GPUS)] = "h800"  # the kind, for `rspo plan` only
    hang_seconds: float = Field(1800, gt=0)  # a step that takes longer ends the job, which resumes
    overrides: dict[str, Any] = {}  # verl's own keys; they override everything else


class Rewards(Section):
    """The reward `length`, and simulated errors of the verifier in training."""

    # The reward of a correct response is 1 - length_discount * tokens / max_response_tokens.
    length_discount: float = Field(ge=0, le=1)
    false_accepts: Fraction = 0.0  # the fraction of wrong responses that count as correct
    false_rejects: Fraction = 0.0  # the fraction of correct responses that count as wrong
    # The fraction of prompts that have a wrong answer which is always accepted.
    false_accepts_fixed: Fraction = 0.0

    @property
    def wrong_verdicts(self) -> dict[str, float]:
        """The rates of simulated errors by their keys; empty if there are none.

        Keys of value 0 are left out, so that the settings of trainings without errors did not
        change when the keys were added.
        """
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
    model: str  # the model's id on the hub, or a folder
    revision: str | None = None  # the revision of the hub's model; null: the newest
    # A running server, without a path. null: each job that verifies starts its own servers.
    url: Annotated[str, Field(pattern=r"^https?://[^/]+$")] | None = None
    server_arguments: tuple[str, ...] = ()  # command-line arguments of vLLM's server
    # The fraction of a GPU's memory for the judge's server, which shares the GPU with the training.
    # Less than the minimum cannot hold the smallest judge, even on a GPU with 141 GB.
    training_gpu_memory: float = Field(default=0.06, ge=0.02, lt=1)
    start_seconds: float = Field(gt=0)  # the longest wait until the servers answer
    concurrent_requests: Positive  # to each server
    request_seconds: float = Field(gt=0)  # the timeout of a request
    retry_seconds: float = Field(ge=0)  # for which a failed request is repeated

    @model_validator(mode="after")
    def _model_exists(self) -> "XVerifySettings":
        # For a folder that does not exist, vLLM would try for minutes to download a model of this
        # name from the hub.
        if not re.fullmatch(HUB_ID, self.model) and not Path(self.model).is_dir():
            raise ValueError(f"model = {self.model!r} is neither a hub id nor a folder")
        return self


class Evaluation(Section):
    """How policies are evaluated on the suites."""

    samples: Positive  # N, per problem
    block: Positive  # samples per problem in one table
    k: tuple[Positive, ...] = Field(min_length=1)
    seed: Integer = Field(ge=0)
    resamples: Positive  # bootstrap resamples of the problems for each interval
    problems: Positive | None = None  # the first of each benchmark, for trial runs; null: all
    reward: RewardName = "length"  # the reward in Max@k, for all policies
    # Of the sampling of responses; null: that of `sampling`, which is that of the training.
    temperature: float | None = Field(default=None, gt=0)
    # Two policies tie if their difference is significantly smaller than this fraction. 0.02 is 2
    # percentage points.
    equivalence_margin: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _enough_samples(self) -> "Evaluation":
        """Require samples that fill whole blocks and allow the estimates at every k."""
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
    """Training cells: one for each combination of the listed k, n and variants, and each seed."""

    model: Name
    objective: str
    k: Integers = (1,)  # 1 for an objective without a k: the names of its cells have k1
    n: Integers
    reward: RewardName = "binary"
    variant: Annotated[tuple[Name, ...], BeforeValidator(_listed)] = (DEFAULT_VARIANT,)

    @model_validator(mode="after")
    def _objective_accepts(self) -> "CellSpec":
        """Require an objective that can be trained with each k and n, and with the reward."""
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
            # Call an objective of an extension: wrong weights would otherwise fail only in a
            # training. The check does not apply to weights that depend on the order of responses.
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
        """All combinations of a k and an n, as (k, n)."""
        return [(k, n) for k in self.k for n in self.n]


class GridEntry(Section):
    """The cells that one figure compares: on a suite, or by their training logs if it has none."""

    suite: str = ""
    cells: tuple[CellSpec, ...] = Field(min_length=1)
    seeds: Positive = 1


class Subtrahend(Section):
    """The method that a contrast subtracts, by its objective, its k and its variant."""

    objective: Name
    # The k of its training. same: that of the method from which it is subtracted, if both have one.
    # own: the k of evaluation, where policy gradient is RSPO with k = 1.
    k: Literal["same", "own"] | Positive = "same"
    variant: Name | None = None  # null: that of the method from which it is subtracted, or the only

    @model_validator(mode="after")
    def _objective_exists(self) -> "Subtrahend":
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown_objective(self.objective))
        return self


def _kind_of_minus(value: Any) -> str:
    """Whether `minus` is a name, the description of a method, or pairs of variants."""
    if isinstance(value, Subtrahend) or (isinstance(value, Mapping) and "objective" in value):
        return "method"
    return "pairs" if isinstance(value, Mapping) else "name"


Minus = Annotated[
    Annotated[Name, Tag("name")]
    | Annotated[Subtrahend, Tag("method")]
    | Annotated[dict[Name, Name], Tag("pairs")],
    Discriminator(_kind_of_minus),
]


class Contrast(Section):
    """Paired differences of a study's methods. docs/add/study.md describes the keys."""

    family: str = Field(min_length=1)  # p-values are adjusted over the differences of a family
    minus: Minus  # what is subtracted: base, an objective, a variant, or the method described
    method: Name | None = None  # only methods with this objective are compared; null: all
    less: Name | None = None  # an objective whose own difference is subtracted from each difference
    claims: tuple[Literal["C1", "C3", "C10"], ...] = ()
    # null: the k of the study. own: each method at the k that it is trained for, policy gradient
    # at 1; other methods without a k are not compared.
    k: tuple[Positive, ...] | Literal["own"] | None = None
    mean: bool = False  # whether the differences are averaged over k
    each_variant: bool = False  # whether all variants are compared despite `choose_by_pass_at`
    benchmarks: tuple[Name, ...] = ()  # those of the suite that count; empty: all

    @property
    def named_ks(self) -> tuple[int, ...]:
        """The k that it names; none if its k are those of the study or of the methods."""
        return self.k if isinstance(self.k, tuple) else ()


class Study(GridEntry):
    """A comparison of methods beyond the paper's, made on request (docs/add/study.md)."""

    title: str
    contrasts: tuple[Contrast, ...] = Field(min_length=1)
    # Compare only one variant of each method, chosen by its Pass@k in validation at this k. each:
    # at the k of each comparison. all: by the largest regret over all k of the validation, which
    # is what a variant lacks to the best variant of any method.
    choose_by_pass_at: Positive | Literal["each", "all"] | None = None
    # The variants among which it is chosen; others are compared too. Empty: all variants.
    choose_within: tuple[Name, ...] = ()
    # Of the variants that are at most so much below the best one, the one with the lowest learning
    # rate is chosen.
    choose_margin: Fraction = 0.0
    # The study whose trainings decide instead, all its seeds among its own variants with its own
    # margin; null: this study.
    choose_in: Name | None = None
    columns: tuple[StudyColumn, ...] = ()
    page: str | None = None  # the template of the page, a file in the project's folder
    samples: Positive | None = None  # these two replace those of `evaluation`
    k: tuple[Positive, ...] | None = None
    # The study's figure also plots Pass@k at the second k against Pass@k at the first.
    frontier: tuple[Positive, Positive] | None = None

    @property
    def several_models(self) -> bool:
        """Whether each model has a row, and the differences are averaged over the models."""
        return len({spec.model for spec in self.cells}) > 1

    @model_validator(mode="after")
    def _cells_are_comparable(self) -> "Study":
        """Require cells whose differences can be formed, and averaged over several models."""
        if {spec.reward for spec in self.cells} != {"binary"}:
            raise ValueError("cells: allowed: reward: binary")
        # The differences of several models are averaged, so each model must have the same ones.
        if self.several_models:
            variants = {variant for spec in self.cells for variant in spec.variant}
            subtrahends = [contrast.minus for contrast in self.contrasts]
            are_objectives = all(
                isinstance(minus, str) and minus in OBJECTIVES for minus in subtrahends
            )
            if self.choose_by_pass_at == "each" or {"regret", "crossing"} & set(self.columns):
                are_objectives = False
            if variants != {DEFAULT_VARIANT} or not are_objectives:
                models = ", ".join(dict.fromkeys(spec.model for spec in self.cells))
                raise ValueError(
                    f"cells: of models {models}; allowed with several models: no variants, and "
                    "contrasts with minus: an objective; no regret, crossing and "
                    "choose_by_pass_at: each"
                )
        return self

    @model_validator(mode="after")
    def _chooses_by_something(self) -> "Study":
        """Require that a study which says how to choose says by what."""
        if self.choose_by_pass_at is None:
            for key in ("choose_within", "choose_margin", "choose_in"):
                if getattr(self, key):
                    raise ValueError(f"{key} is for a study with choose_by_pass_at")
        if self.choose_in and (self.choose_within or self.choose_margin):
            raise ValueError("choose_within and choose_margin are those of the study in choose_in")
        return self

    @model_validator(mode="after")
    def _contrasts_differ(self) -> "Study":
        """Check the contrasts against each other.

        `rspo.analysis.studies` checks that each contrast compares something.
        """
        families = [contrast.family for contrast in self.contrasts]
        for contrast in self.contrasts:
            place = f"contrasts, {contrast.family!r}"
            self._require_names(contrast, place)
            if families.count(contrast.family) > 1:
                raise ValueError(f"{place}: two have this family; name one differently")
            if contrast.claims and (
                contrast.less or contrast.k or contrast.mean or contrast.benchmarks
            ):
                raise ValueError(
                    f"{place}: claims are compared without less, k, mean and benchmarks"
                )
            if contrast.mean and (contrast.k == "own" or self.choose_by_pass_at == "each"):
                raise ValueError(f"{place}: no mean over k with k: own or choose_by_pass_at: each")
        if sum(bool(contrast.claims) for contrast in self.contrasts) > 1:
            raise ValueError("contrasts: at most one may have claims")
        return self

    def _require_names(self, contrast: Contrast, place: str) -> None:
        """Raises: ValueError if a contrast names what is neither an objective nor in this study."""
        variants = list(dict.fromkeys(variant for spec in self.cells for variant in spec.variant))
        objectives = list(dict.fromkeys(spec.objective for spec in self.cells))
        minus = contrast.minus
        # An objective that the study lacks compares nothing, which `rspo.analysis.studies` says.
        if isinstance(minus, str) and minus not in OBJECTIVES:
            _require_one_of(f"{place}, minus", minus, [BASE] + objectives + variants)
        elif isinstance(minus, Mapping):
            for variant in list(minus) + list(minus.values()):
                _require_one_of(f"{place}, minus", variant, variants)
        if contrast.less is not None and contrast.less not in OBJECTIVES:
            _require_one_of(f"{place}, less", contrast.less, objectives)


TrialCheck = Literal["seconds", "sampler", "clipping", "reward", "finished", "full_length", "judge"]


class Trial(GridEntry):
    """Trainings before those of the grid, and what they must show (docs/first_hour.md).

    Their policies are evaluated if there is a suite, and are in no figure.
    """

    checks: tuple[TrialCheck, ...] = Field(min_length=1)
    step_seconds: Annotated[float, Field(gt=0)] | None = None  # the most of the check `seconds`

    @model_validator(mode="after")
    def _limit_exists(self) -> "Trial":
        if ("seconds" in self.checks) != (self.step_seconds is not None):
            raise ValueError("step_seconds: needed with the check seconds, and only with it")
        return self


class Derived(Section):
    """How a policy is made from a trained one without training (`rspo derive`).

    Its weights are (1 - base_share) times those of the cell with the variant `variant`, plus
    base_share times those of the base policy with which that cell began.
    """

    base_share: float = Field(default=0.0, ge=0, le=1)
    variant: Name = DEFAULT_VARIANT  # of the trained cell, which differs in nothing else


# A variant's changes, by the sections of the config that decide a training, or by those that decide
# a policy without a training of its own (`WITHOUT_TRAINING`).
Changes = dict[
    Literal["models", "sampling", "training", "rewards", "derived", "evaluation"], dict[str, Any]
]
# The sections in a variant whose policies are made from trained ones. Of `evaluation`, a variant
# may change the temperature.
WITHOUT_TRAINING = {"derived", "evaluation"}


class Config(Section):
    """The config of a scale: all sections, and what must hold between them."""

    seeds: Positive
    # Training seed s starts from a base policy of its own, whose pretraining or supervised start
    # has the seed of the model's plus s, so that intervals over seeds cover base policies. A
    # published model without a start has one base policy, and so has every model with
    # `engine: verl`.
    base_per_seed: bool = False
    engine: Literal["local", "verl"]
    sampler: Literal["torch", "vllm"]
    verifier: VerifierName
    # Where the answer may stand in a response, in the order in which the places are tried
    # (docs/verification.md). exact, rules and math_verify read it.
    extract: Annotated[tuple[PlaceOfAnswer, ...], BeforeValidator(_places), Field(min_length=1)] = (
        BOX_ONLY
    )
    xverify: XVerifySettings | None = None
    data: Data
    models: dict[Name, Model]
    # A folder of results, relative to the folder that has config/. A base policy there is copied
    # instead of being trained if it was made with the same settings.
    base_policies: str | None = None
    sampling: Sampling
    training: Training
    local: LocalSettings = LocalSettings()
    verl: VerlSettings | None = None
    rewards: Rewards
    evaluation: Evaluation
    grid: Annotated[dict[Name, GridEntry], Field(min_length=1)]
    studies: dict[Name, Study] = {}
    trials: dict[Name, Trial] = {}
    variants: dict[Name, Changes] = {}
    extensions: tuple[str, ...] = ()  # relative to the folder that has config/
    # In minutes; null: no limit. Snakemake replaces a result that took longer only with
    # `--config replace=true`.
    replace_above: Annotated[float, Field(ge=0)] | None = 10

    def for_variant(self, name: str) -> "Config":
        """The config with which the cells of a variant are trained.

        Raises: ValidationError if the variant makes the config invalid.
        """
        if name == DEFAULT_VARIANT:
            return self
        changes = {key: value for key, value in self.variants[name].items() if key != "derived"}
        return Config.model_validate(merge(self.model_dump(exclude_unset=True), changes))

    @property
    def starts_judge(self) -> bool:
        """Whether jobs that verify start their own servers of the judge model."""
        if self.verifier != "xverify" or self.xverify is None:
            return False
        return self.xverify.url is None

    @model_validator(mode="after")
    def _references_exist(self) -> "Config":
        """Require that what a section names exists, and suits the engine and the sampler."""
        for name, entry in self.grid.items():
            self._require_references(f"grid.{name}", entry, needs_suite=False)
            variants = {variant for spec in entry.cells for variant in spec.variant}
            # Figures on a suite name methods without their variant.
            if entry.suite and variants - {DEFAULT_VARIANT}:
                raise ValueError(
                    f"grid.{name}: only studies, and entries without a suite, have variants"
                )
        for name, study in self.studies.items():
            self._require_references(f"studies.{name}", study, needs_suite=True)
        for name, trial in self.trials.items():
            self._require_references(f"trials.{name}", trial, needs_suite=False)
        if self.verifier == "xverify" and self.xverify is None:
            raise ValueError("verifier = 'xverify' needs the section xverify")
        if self.engine == "verl":
            self._require_verl()
        if self.sampling.top_p != 1 and (self.engine == "local" or self.sampler == "torch"):
            raise ValueError(
                f"sampling.top_p = {self.sampling.top_p}: engine local and sampler torch sample "
                "from the full distribution; allowed: 1.0"
            )
        return self

    def is_derived(self, variant: str) -> bool:
        """Whether the policies of a variant are made from trained ones, without a training."""
        return bool(WITHOUT_TRAINING & self.variants.get(variant, {}).keys())

    def derivation_of(self, variant: str) -> Derived:
        """How the policies of a derived variant are made.

        Raises: ValueError for a wrong key or value.
        """
        try:
            return Derived.model_validate(self.variants[variant].get("derived", {}))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, ("variants", variant, "derived") + first["loc"]))
            raise ValueError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None

    def _require_changes(self, variant: str) -> None:
        """Raises: ValueError if a variant changes what it must not."""
        changes = self.variants[variant]
        if not self.is_derived(variant):
            return
        self.derivation_of(variant)
        others = [section for section in changes if section not in WITHOUT_TRAINING]
        if others:
            raise ValueError(
                f"variants.{variant}: a variant with derived or evaluation has no training, which "
                f"{others[0]} would change; derived.variant may name a variant that does"
            )
        for key in changes.get("evaluation", {}):
            if key != "temperature":
                place = f"variants.{variant}.evaluation.{key}"
                raise ValueError(f"{place}: a variant may change the temperature only")

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
                if not needs_suite and self.is_derived(variant):
                    raise ValueError(f"{key}: variant {variant} has no training; only studies have")

    def _require_verl(self) -> None:
        """Raises: ValueError if the section verl is missing, or verl lacks what a setting needs."""
        if self.verl is None:
            raise ValueError("engine = 'verl' needs the section verl")
        if self.training.epochs > 1 or self.rewards.wrong_verdicts:
            raise ValueError("training.epochs and rewards.false_*: only engine: local has these")
        if self.training.stop_after is not None:
            raise ValueError("training.stop_after: only engine: local has this")
        if self.training.entropy_bonus and self.training.loss_aggregation != "token-mean":
            raise ValueError(
                "training.entropy_bonus: engine verl has it with loss_aggregation: token-mean only"
            )

    @model_validator(mode="after")
    def _names_are_free(self) -> "Config":
        """Require names that the files and cells of this scale do not have already."""
        # A cell's name contains its reward and its variant. The name of a reward, or of the default
        # variant, would be ambiguous as the name of another variant.
        reserved = set(reward_names())
        reserved.add(DEFAULT_VARIANT)
        for variant in self.variants:
            self._require_changes(variant)
        taken = reserved & self.variants.keys()
        if taken:
            raise ValueError(f"variants.{min(taken)}: this name has another meaning in cells")
        for name in self.studies:
            if name in TABLES or name.endswith("_methods"):
                raise ValueError(f"studies.{name}: the name of another table; choose another one")
        shared = self.grid.keys() & self.studies.keys()
        if shared:
            raise ValueError(f"{min(shared)} is in grid and in studies; allowed: one of them")
        shared = self.trials.keys() & (self.grid.keys() | self.studies.keys())
        if shared:
            raise ValueError(f"trials.{min(shared)}: the grid or the studies have this name too")
        return self

    @model_validator(mode="after")
    def _enough_problems(self) -> "Config":
        """Require that a step and a validation find as many generated problems as they use."""
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
        available = data_set.made_problems
        if available is None:
            return
        if available < number:
            raise ValueError(
                f"training.{key} = {number} is more than the {available} problems of data.{name}"
            )
