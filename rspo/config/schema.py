"""The keys of a scale's config file, each with what it is and what it may be.

Values and their sources stand in config/tiny.yaml and config/paper.yaml.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rspo.config.names import (
    LARGER,
    LARGER_FAMILIES,
    NEED_JUDGE,
    Family,
    TemplateName,
    VerifierName,
)
from rspo.core.errors import InputError, did_you_mean
from rspo.objectives import OBJECTIVES, unknown_objective

POOLED = "pooled"  # in tables, every problem of a suite's benchmarks together
PROBLEM = "{problem}"  # in a prompt, the problem's text
HUB_ID = r"^[\w.-]+/[\w.-]+$"
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# Names end up in folder names, where "--" separates the parts.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]


class Section(BaseModel):
    """A part of a config; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Generated(Section):
    """Problems made by `rspo.datasets.generated`."""

    families: tuple[Family, ...] = Field(min_length=1)
    split: Literal["train", "validation", "test", "larger"]
    problems: Positive  # of each family

    @model_validator(mode="after")
    def _families_have_the_split(self) -> "Generated":
        lacking = [family for family in self.families if family not in LARGER_FAMILIES]
        if self.split == LARGER and lacking:
            raise ValueError(
                f"split = {LARGER!r}: {', '.join(lacking)} has none; "
                f"allowed families: {', '.join(LARGER_FAMILIES)}"
            )
        return self


class RowFilter(Section):
    """Keep the rows whose `column` contains a text."""

    column: str
    contains: str


class Hub(Section):
    """Rows of a data set on the Hugging Face hub, or in a mirror folder under the hub's names."""

    id: str = Field(pattern=HUB_ID)
    configs: tuple[str, ...] = ()  # read one after the other; none: the default one
    split: str
    revision: str  # commit of the hub's repository
    problem: str  # column with the problem's text
    context: str | None = None  # column with text that belongs in front of it, in some rows
    prompt: str = PROBLEM  # the user's message; {problem} stands for the problem's text
    answer: str  # column with the answer, or answers
    answer_in: Literal["column", "box"] = "column"  # box: the last \boxed{} of that column
    unit: str | None = None  # column with the answer's unit; accepted with it and without
    filter: RowFilter | None = None
    exclude: Name | None = None  # a benchmark whose problems are left out of this set
    rows: int | tuple[int, ...]  # expected, of those that filter and exclude leave
    without_answer: int = 0  # rows expected to have no answer; dropped and listed
    # By number of rows, what they must mean (`rspo.datasets.content`); not checked where absent.
    content_sha256: dict[int, Sha256] = {}

    @property
    def accepted_rows(self) -> tuple[int, ...]:
        return (self.rows,) if isinstance(self.rows, int) else self.rows

    @field_validator("prompt")
    @classmethod
    def _prompt_holds_the_problem(cls, prompt: str) -> str:
        if prompt.count(PROBLEM) != 1:
            raise ValueError(f"must have {PROBLEM} once, for the problem's text")
        return prompt

    @field_validator("content_sha256", mode="before")
    @classmethod
    def _of_the_only_row_count(cls, value: Any, info: ValidationInfo) -> Any:
        """One hash is that of the one number of rows."""
        if not isinstance(value, str) or "rows" not in info.data:
            return value
        if not isinstance(info.data["rows"], int):
            raise ValueError("rows has several numbers; allowed: {ROWS: SHA256}, for some of them")
        return {info.data["rows"]: value}


class DataSet(Section):
    """Where a set of problems comes from: exactly one of the two."""

    generated: Generated | None = None
    hub: Hub | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "DataSet":
        if (self.generated is None) == (self.hub is None):
            raise ValueError("needs exactly one of: generated, hub")
        return self


class Benchmark(DataSet):
    """A set of problems to evaluate on."""

    label: str  # panel title


class Data(Section):
    train: DataSet
    validation: DataSet
    suites: dict[Name, Annotated[dict[Name, Benchmark], Field(min_length=1)]]  # by suite and name

    @model_validator(mode="after")
    def _no_training_on_held_out_problems(self) -> "Data":
        for name, data_set in (("train", self.train), ("validation", self.validation)):
            if data_set.generated is not None and data_set.generated.split != name:
                raise ValueError(
                    f"{name}.generated.split = {data_set.generated.split!r}; allowed: {name!r}"
                )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> "Data":
        reserved = ["train", "validation", POOLED]
        names = [*reserved, *(name for suite in self.suites.values() for name in suite)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two data sets have the same name: {', '.join(repeated)}")
        return self


class Scratch(Section):
    """A Qwen2 of the tiny scale and how its base model is trained from nothing."""

    hidden_size: Positive
    layers: Positive
    heads: Positive
    feed_forward: Positive
    examples: Positive
    batch: Positive
    steps: Positive
    learning_rate: Rate
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _even_heads(self) -> "Scratch":
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size = {self.hidden_size} must be a multiple of 2 * heads = "
                f"{2 * self.heads}"
            )
        return self


class HubModel(Section):
    """A model on the Hugging Face hub, and how it is asked."""

    id: str = Field(pattern=HUB_ID)
    revision: str
    template: TemplateName = "qwen_math"  # of `rspo.policies.templates`


class Expected(Section):
    """What a model's cells should take; for `rspo plan` and `rspo doctor`, and decides nothing."""

    parameters: float = Field(gt=0)
    step_seconds: float = Field(gt=0)  # of training a cell, on one node
    tokens_per_second: float = Field(gt=0)  # sampled on one GPU


class Model(Section):
    """A base policy: exactly one of scratch and hub."""

    label: str
    learning_rate: Rate  # of reinforcement learning
    scratch: Scratch | None = None
    hub: HubModel | None = None
    verl: dict[str, Any] = {}  # verl's own keys, as in the section verl, for this model
    expected: Expected | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.scratch is None) == (self.hub is None):
            raise ValueError("needs exactly one of: scratch, hub")
        return self


class Sampling(Section):
    temperature: float = Field(gt=0, allow_inf_nan=False)
    top_p: float = Field(gt=0, le=1)
    max_prompt_tokens: Positive
    max_response_tokens: Positive


class Optimizer(Section):
    schedule: Literal["constant", "linear"]  # after the warm-up; linear: down to 0
    warmup_ratio: Share  # share of all updates
    betas: tuple[Share, Share]
    weight_decay: float = Field(ge=0)
    gradient_clip: float | None = Field(default=None, gt=0)


class Validation(Section):
    """When and on what a policy is measured while it trains."""

    every: Positive | None  # steps; null: never
    problems: Positive
    samples: Positive  # of each problem


class Training(Section):
    steps: Positive
    prompts_per_step: Positive
    mini_batch_prompts: Positive
    optimizer: Optimizer
    ppo_clip: float = Field(gt=0, lt=1)
    checkpoint_every: Positive
    validation: Validation

    @model_validator(mode="after")
    def _whole_mini_batches(self) -> "Training":
        if self.prompts_per_step % self.mini_batch_prompts:
            raise ValueError(
                f"mini_batch_prompts = {self.mini_batch_prompts} must divide "
                f"prompts_per_step = {self.prompts_per_step}"
            )
        return self


class VerlSettings(Section):
    """How `engine: verl` runs, besides what the rest of the config says."""

    device: Literal["cpu", "cuda"]
    nodes: Positive
    ranks_per_node: Positive  # processes that share a policy; on cuda, one GPU each
    loss_aggregation: Literal["seq-mean-token-sum", "token-mean"]
    loggers: tuple[Literal["console", "tensorboard", "wandb", "trackio"], ...]  # verl's own
    overrides: dict[str, Any] = {}  # verl's own keys, laid over everything else

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


class Rewards(Section):
    length_discount: float = Field(ge=0, le=1)


class Upstream(Section):
    """A commit of a git repository."""

    repository: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")


class XVerifySettings(Section):
    """The judge model of the verifiers xverify and cascade, and the server that it runs in."""

    prompt: Upstream
    model: str  # hub id, or a folder
    revision: str | None = None  # of the hub's model
    # Of a server that runs, without /v1; none: one of our own.
    url: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = None
    server_arguments: tuple[str, ...] = ()  # of vLLM's server
    start_seconds: float = Field(gt=0)
    concurrent_requests: Positive
    request_seconds: float = Field(gt=0)
    retry_seconds: float = Field(ge=0)

    @model_validator(mode="after")
    def _model_exists(self) -> "XVerifySettings":
        # vLLM takes a folder that is not there for a model of the hub, and downloads for minutes.
        if not re.fullmatch(HUB_ID, self.model) and not Path(self.model).is_dir():
            raise ValueError(f"model = {self.model!r} is neither a hub id nor a folder")
        return self


class Agreement(Section):
    """What the config's verifier is compared with, on the base policies' samples."""

    against: VerifierName
    samples: Positive  # the first ones of each problem


class Evaluation(Section):
    samples: Positive  # N, of each problem
    block: Positive  # of those, in one table
    k: tuple[Positive, ...] = Field(min_length=1)
    seed: int = Field(ge=0)
    resamples: Positive
    # Largest difference in Pass@k at which two methods count as alike (claim C9).
    equivalence_margin: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _enough_samples(self) -> "Evaluation":
        if len(set(self.k)) < len(self.k):
            raise ValueError(f"k = {list(self.k)} names a k twice")
        if self.samples < 2 * max(self.k):
            raise ValueError(
                f"samples = {self.samples} must be at least twice the largest k = {max(self.k)}, "
                "or the error within a problem has no unbiased estimate"
            )
        if self.samples % self.block:
            raise ValueError(f"block = {self.block} must divide samples = {self.samples}")
        return self


class Gradients(Section):
    """What `rspo gradients` measures on tiny policies (`rspo.evaluation.gradients`)."""

    policies: tuple[str, ...] = Field(min_length=1)  # names of cells or base policies
    prompts: int = Field(ge=2)  # the first ones of the training set
    responses: Positive  # to each prompt
    n: Positive  # responses of a group
    k: tuple[Annotated[int, Field(ge=2)], ...] = Field(min_length=1)
    groupings: Positive  # ways to cut the responses into groups
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _whole_groups(self) -> "Gradients":
        if self.responses % self.n or self.responses < 2 * self.n:
            raise ValueError(
                f"responses = {self.responses} must be a multiple of n = {self.n}, at least twice"
            )
        wrong = [k for k in self.k if self.n % k]
        if wrong:
            raise ValueError(f"k = {wrong[0]} must divide n = {self.n}, as hitchhiking needs")
        return self


class CellSpec(Section):
    """Training cells: one for each combination of the values of k and n."""

    model: Name
    objective: str
    k: int | tuple[int, ...] = 1
    n: int | tuple[int, ...]
    reward: Literal["binary", "length"] = "binary"

    @model_validator(mode="after")
    def _objective_accepts(self) -> "CellSpec":
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown_objective(self.objective))
        objective = OBJECTIVES[self.objective]
        for k, n in self.pairs:
            if n < objective.least_n or not objective.k_rule.allows(k, n):
                raise ValueError(
                    f"{self.objective} cannot use k = {k} with n = {n}; "
                    f"allowed: {objective.k_rule.value}, n >= {objective.least_n}"
                )
            if objective.k_rule.name == "NONE" and k != 1:
                raise ValueError(f"{self.objective} has no k; leave it out (found k = {k})")
        if objective.binary and self.reward != "binary":
            raise ValueError(
                f"{self.objective} needs reward: binary (found {self.reward}); "
                "rspo_max_at_k takes any reward"
            )
        return self

    @property
    def pairs(self) -> list[tuple[int, int]]:
        ks = (self.k,) if isinstance(self.k, int) else self.k
        ns = (self.n,) if isinstance(self.n, int) else self.n
        return [(k, n) for k in ks for n in ns]


class Comparison(Section):
    """Cells that a figure draws together, and the suite they are evaluated on."""

    suite: Name
    cells: tuple[CellSpec, ...] = Field(min_length=1)


class Config(Section):
    """A whole scale."""

    seeds: Positive
    engine: Literal["local", "verl"]
    sampler: Literal["torch", "vllm"]
    verifier: VerifierName
    xverify: XVerifySettings | None = None
    agreement: Agreement
    data: Data
    models: dict[Name, Model]
    sampling: Sampling
    training: Training
    verl: VerlSettings | None = None
    rewards: Rewards
    evaluation: Evaluation
    gradients: Gradients | None = None
    grid: Annotated[dict[Name, Comparison], Field(min_length=1)]

    @field_validator("grid", mode="before")
    @classmethod
    def _leave_out(cls, grid: Any) -> Any:
        """A comparison that is null is left out: `--config grid='{model_size: null}'`."""
        if not isinstance(grid, Mapping):
            return grid
        return {name: comparison for name, comparison in grid.items() if comparison is not None}

    @model_validator(mode="after")
    def _references_exist(self) -> "Config":
        for name, comparison in self.grid.items():
            if comparison.suite not in self.data.suites:
                raise ValueError(
                    f"grid.{name}.suite = {comparison.suite!r} is not one of data.suites: "
                    f"{', '.join(self.data.suites)}"
                )
            for spec in comparison.cells:
                if spec.model not in self.models:
                    raise ValueError(
                        f"grid.{name}: model {spec.model!r} is not one of models: "
                        f"{', '.join(self.models)}"
                    )
        for key, verifier in (
            ("verifier", self.verifier),
            ("agreement.against", self.agreement.against),
        ):
            if verifier in NEED_JUDGE and self.xverify is None:
                raise ValueError(f"{key} = {verifier!r} needs the section xverify")
        train = self.data.train.generated
        if train and len(train.families) * train.problems < self.training.prompts_per_step:
            raise ValueError(
                f"training.prompts_per_step = {self.training.prompts_per_step} is more than the "
                f"{len(train.families) * train.problems} problems of data.train"
            )
        held_out, validation = self.data.validation.generated, self.training.validation
        if held_out and validation.every:
            problems = len(held_out.families) * held_out.problems
            if problems < validation.problems:
                raise ValueError(
                    f"training.validation.problems = {validation.problems} is more than the "
                    f"{problems} problems of data.validation"
                )
        if self.engine == "verl" and self.verl is None:
            raise ValueError("engine = 'verl' needs the section verl")
        if self.engine == "local" and self.sampling.top_p != 1:
            raise ValueError(
                f"sampling.top_p = {self.sampling.top_p}: the local engine samples the whole "
                "distribution; allowed: 1.0"
            )
        return self

    @model_validator(mode="after")
    def _sampler_fits(self) -> "Config":
        if self.sampler == "torch":
            if self.sampling.top_p != 1:
                raise ValueError(
                    f"sampling.top_p = {self.sampling.top_p}: the sampler torch samples the whole "
                    "distribution; allowed: 1.0, or sampler = 'vllm'"
                )
            large = [name for name, model in self.models.items() if model.hub is not None]
            if large:
                raise ValueError(
                    f"sampler = 'torch' is for models from scratch; models.{large[0]} is one of "
                    "the hub: sampler = 'vllm'"
                )
        return self


def load_config(path: Path, overrides: Mapping[str, Any]) -> Config:
    """Read a config file, lay overrides (a nested mapping) over it, and check every key.

    Raises: InputError that names the file, the key, the value and what is allowed.
    """
    try:
        values = yaml.load(path.read_text(), _Loader)
    except FileNotFoundError:
        scales = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        found = f"scales here: {scales}" if scales else "run this in the project's folder"
        raise InputError(f"{path}: no such config file; {found}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, got {type(values).__name__}")
    try:
        return Config.model_validate(merge(values, overrides))
    except ValidationError as error:
        lines = [_explain(problem, overrides) for problem in _deepest(error.errors())]
        raise InputError("\n".join(f"{path}: {line}" for line in lines)) from None


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error, not the last one's."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: the key {key.value} stands there again")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings laid one over the other; what is no mapping replaces what was there."""
    merged = dict(values)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged


def _deepest(problems: list[Any]) -> list[Any]:
    """Leave out findings about a section that only follow from a finding inside it."""
    places = [problem["loc"] for problem in problems]
    return [
        problem
        for problem in problems
        if not any(
            len(place) > len(problem["loc"]) and place[: len(problem["loc"])] == problem["loc"]
            for place in places
        )
    ]


def _explain(problem: Any, overrides: Mapping[str, Any]) -> str:
    """One line for one of pydantic's findings: key, value, and what is allowed."""
    location = [part for part in problem["loc"] if part not in ("int", "tuple[int, ...]")]
    key = ".".join(str(part) for part in location) or "the config"
    origin = " (given on the command line)" if location and location[0] in overrides else ""
    if problem["type"] == "extra_forbidden":
        allowed = _keys_at(location[:-1])
        hints = [did_you_mean(str(location[-1]), allowed), f"allowed: {', '.join(allowed)}"]
        found = f"unknown key {key} = {problem['input']!r}{origin}"
        return "; ".join([found, *filter(None, hints)])
    if problem["type"] == "missing":
        return f"{key} is missing{origin}"
    message = problem["msg"].removeprefix("Value error, ")
    found = "" if isinstance(problem["input"], (dict, Section)) else f" = {problem['input']!r}"
    return f"{key}{found}{origin}: {message}"


def _keys_at(location: list[Any]) -> list[str]:
    """The keys that the section at a place of the config may have."""
    kind: Any = Config
    for part in location:
        if hasattr(kind, "__metadata__"):  # Annotated[dict[Name, Section], ...]
            (kind, *_) = get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Section):
            kind = kind.model_fields[part].annotation
        elif get_args(kind):  # dict[Name, Section] or tuple[Section, ...]
            kind = get_args(kind)[0 if isinstance(part, int) else -1]
        choices = [a for a in get_args(kind) if isinstance(a, type) and issubclass(a, Section)]
        if type(None) in get_args(kind) and choices:  # Section | None
            kind = choices[0]
    return list(kind.model_fields)
