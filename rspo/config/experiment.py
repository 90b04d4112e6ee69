"""A scale's experiment: its config, and the cells that follow from it.

A scale is a config file, such as config/tiny.yaml. Its grid and its studies list combinations of a
model, an objective, k, n and a variant. Each combination with each seed is a cell, which is one
training run. A policy is either the result of a cell, or the base policy with which the cells of a
model begin.
"""

import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from rspo.config.files import Files
from rspo.config.load import errors_at, load_config, read_files
from rspo.config.names import BASE as BASE
from rspo.config.places import Places, Sources
from rspo.config.schema import (
    DEFAULT_VARIANT,
    Config,
    DataSet,
    Derived,
    Evaluation,
    GridEntry,
    Model,
    Sampling,
    Training,
)
from rspo.core.errors import InputError, allowed_names, require_name
from rspo.objectives import OBJECTIVES, short_name


@dataclass(frozen=True)
class Cell:
    """One training run, named `model--objective--kK--nN[--reward][--variant]--sSEED`.

    The name leaves out a binary reward and the default variant, and writes the objective without
    "_at_k" and with hyphens: `small--rspo-pass--k4--n16--s0`,
    `small--rspo-max--k4--n16--length--s0`.

    k: the k of the objective; 1 for an objective without one.
    n: the number of responses to each prompt in a training step.
    """

    model: str
    objective: str
    k: int
    n: int
    reward: str
    seed: int
    variant: str = DEFAULT_VARIANT

    @property
    def name(self) -> str:
        """The name of the cell, which is also the name of its folder."""
        parts = [self.model, short_name(self.objective), f"k{self.k}", f"n{self.n}"]
        if self.reward != "binary":
            parts.append(self.reward)
        if self.variant != DEFAULT_VARIANT:
            parts.append(self.variant)
        parts.append(f"s{self.seed}")
        return "--".join(parts)


def base_name(model: str, seed: int = 0) -> str:
    """The name of a model's base policy, which is also the name of its folder.

    Args:
        seed: the training seed whose cells start from it, with `base_per_seed`; the base policy of
            seed 0 has the name that it has without this key.
    """
    return f"{pretrained_name(model, seed)}--{BASE}"


def pretrained_name(model: str, seed: int = 0) -> str:
    """The name by which `rspo pretrain` knows the base policy of a model for a training seed."""
    return f"{model}--s{seed}" if seed else model


@dataclass(frozen=True)
class Experiment:
    """A scale's config, and the cells that follow from it.

    files: the names of the files of results and reports.
    root: the folder that has config/; paths of files in the config are relative to it.
    as_configured: the experiment without the settings of the command line, if there are any and the
        command would write into the folder of the config's own results; otherwise None.
    overrides: the settings of the command line, nested as in the config. A command in a message
        repeats them (`command`).
    option: the option with which the user overrides a key, for messages.
    places: where the values of the config come from, for messages; none in a process that has no
        config file.
    """

    scale: str
    config: Config
    files: Files
    root: Path = Path()
    as_configured: "Experiment | None" = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    option: str = "--set"
    places: Places = field(default_factory=Places, compare=False, repr=False)

    @classmethod
    def load(
        cls,
        scale: str = "tiny",
        overrides: Mapping[str, Any] | None = None,
        root: Path | None = None,
        results: Path | None = None,
        sources: Sources | None = None,
    ) -> "Experiment":
        """Read `config/<scale>.yaml` below `root` (default: the current folder).

        Args:
            scale: the name of the config file, without its suffix.
            overrides: settings that replace those of the file, nested as in the config.
            results: the folder of the results; default: `results/<scale>` below `root`. Another
                folder gets the reports too, because `reports/` belongs to the default folder.
            sources: where the overrides come from, for messages about them, such as an option; by
                default, messages name the file.

        Raises: InputError if a value in the config is wrong, and if `results` names neither a
            folder of results nor a new folder.
        """
        root = root or Path()
        # Snakemake reads `--config scale=1` as a number, and a path would leave the folder config/.
        if not isinstance(scale, str) or not scale or Path(scale).name != scale:
            raise InputError(f"scale = {scale!r}: expected the name of a file in config/")
        path = root / "config" / f"{scale}.yaml"
        places = Places(read_files(path), sources or {})
        config = load_config(path, overrides or {}, places)
        files = Files.of_scale(scale, root, results)
        option = "--config" if sources and "--config" in sources else "--set"
        return cls(
            scale, config, files, root, overrides=overrides or {}, option=option, places=places
        )

    def replacing(self) -> "Experiment":
        """The experiment without the limit `replace_above`: a run may replace any result."""
        return replace(self, config=self.config.model_copy(update={"replace_above": None}))

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The training cells of the grid by name, in the grid's order, without duplicates.

        Several figures may compare the same cell, so entries of the grid may share cells.
        """
        return {cell.name: cell for grid in self.config.grid for cell in self.cells_of(grid)}

    @cached_property
    def every_cell(self) -> dict[str, Cell]:
        """The training cells of the grid, the studies and the trials by name, each once."""
        config = self.config
        names = list(config.grid) + list(config.studies) + list(config.trials)
        return {cell.name: cell for name in names for cell in self.cells_of(name)}

    def cells_of(self, grid: str) -> list[Cell]:
        """The cells of an entry of the grid, or of a study.

        Each has at least as many seeds as the config demands of all cells.
        """
        entry = self.grid_entry(grid)
        # The order of cells is that of the tables and of the jobs: seeds of a method are adjacent.
        return [
            Cell(spec.model, spec.objective, k, n, spec.reward, seed, variant)
            for spec in entry.cells
            for k, n in spec.pairs
            for variant in spec.variant
            for seed in range(max(self.config.seeds, entry.seeds))
        ]

    def by_method(self, policies: Iterable[str]) -> dict[Cell, list[str]]:
        """Group cells by their method. The cells of a method differ only in their seed.

        Base policies are left out.

        Returns: the names of the cells of each method. The key is its cell with seed 0, even if
            that is not among the policies.
        """
        methods: dict[Cell, list[str]] = defaultdict(list)
        for name in dict.fromkeys(policies):
            if not self.is_base(name):
                methods[replace(self.cell(name), seed=0)].append(name)
        return methods

    def seeds_of(self, policies: Iterable[str]) -> str:
        """Words for the numbers of seeds of the methods of some policies, such as "1 to 3 seeds".

        Returns: an empty text if all policies are base policies.
        """
        counts = [len(names) for names in self.by_method(policies).values()]
        if not counts:
            return ""
        fewest = min(counts)
        most = max(counts)
        number = str(most) if fewest == most else f"{fewest} to {most}"
        return f"{number} seed{'s' if most > 1 else ''}"

    def grid_entry(self, grid: str) -> GridEntry:
        """The entry of the grid, the study or the trial with a name.

        Raises: InputError if the config has none.
        """
        entries = self.config.grid | self.config.studies | self.config.trials
        self.require_name("entry of grid", grid, entries)
        return entries[grid]

    def for_cell(self, name: str) -> "Experiment":
        """The experiment with the settings of a cell's variant, with which the cell is trained.

        Its `verl.ranks` is the number of GPUs of the cell's model.

        Raises: InputError if the settings of the variant make the config invalid, or do not suit
            the cell.
        """
        cell = self.cell(name)
        experiment = self._for_variant(cell.variant)
        self._require_k_schedule(cell, experiment.config.training)
        return experiment._for_model(cell.model)

    def _for_model(self, model: str) -> "Experiment":
        """The experiment in which `verl.ranks` is the number of GPUs of a model."""
        gpus = self.config.models[model].gpus
        verl = self.config.verl
        if verl is None or gpus is None or not self.trains_on_gpus or gpus == verl.ranks:
            return self
        changed = verl.model_copy(update={"ranks": gpus})
        return replace(self, config=self.config.model_copy(update={"verl": changed}))

    def gpus_of(self, cell: str) -> int:
        """The number of GPUs that train a cell; 0 if it is trained on CPUs."""
        verl = self.for_cell(cell).config.verl
        if verl is None or not self.trains_on_gpus:
            return 0
        return verl.ranks

    def ranks_key(self, cell: str) -> str:
        """The key of the config that has the number of ranks that train a cell with verl."""
        model = self.cell(cell).model
        if self.trains_on_gpus and self.config.models[model].gpus is not None:
            return f"models.{model}.gpus"
        return "verl.ranks"

    def _for_variant(self, variant: str) -> "Experiment":
        """The experiment in which the settings of a variant replace those of the config."""
        if variant == DEFAULT_VARIANT:
            return self
        if variant not in self._by_variant:
            with errors_at(self.place("variants", variant)):
                config = self.config.for_variant(variant)
            self._by_variant[variant] = replace(self, config=config)
        return self._by_variant[variant]

    @cached_property
    def _by_variant(self) -> "dict[str, Experiment]":
        """The results of `_for_variant`, which is slow: it validates the config again."""
        return {}

    def _require_k_schedule(self, cell: Cell, training: Training) -> None:
        """Raises: InputError if the config has a schedule of k that a cell cannot follow.

        The schedule must begin with the cell's own k, and the objective must allow all k on the way
        from its first k to its last.
        """
        schedule = training.k_schedule
        if schedule is None:
            return
        objective = OBJECTIVES[cell.objective]
        ks = range(min(schedule), max(schedule) + 1)
        if schedule[0] != cell.k or not all(objective.allows(k, cell.n) for k in ks):
            location: tuple[str, ...] = ("training", "k_schedule")
            of_variant = ("variants", cell.variant, "training", "k_schedule")
            if self.places.has(of_variant):
                location = of_variant
            raise InputError(
                f"{self.place(*location)} = {list(schedule)}: {cell.name} needs "
                f"one that begins with k = {cell.k}; each k: {objective.k_rule.value}, n = {cell.n}"
            )

    def of_study(self, name: str) -> "Experiment":
        """The experiment with the number of samples and the values of k of a study's evaluation."""
        # Validated again, because the study's k may need more samples than the config's.
        own = self.config.studies[name].model_dump(include={"samples", "k"}, exclude_none=True)
        with errors_at(self.place("studies", name)):
            evaluation = Evaluation.model_validate(self.config.evaluation.model_dump() | own)
        return replace(self, config=self.config.model_copy(update={"evaluation": evaluation}))

    def choosing_study(self, study: str) -> str | None:
        """The other study that decides which variants a study compares; None without `choose_in`.

        Raises: InputError if there is no such study.
        """
        other = self.config.studies[study].choose_in
        if other is not None:
            self.require_value(("studies", study, "choose_in"), other, "study", self.config.studies)
        return other

    def deciding_cells(self, study: str) -> list[Cell]:
        """The cells of another study that decide which variants a study compares.

        They are those of its methods that the study itself does not have; none without `choose_in`.

        Raises: InputError if there is no such study.
        """
        other = self.choosing_study(study)
        if other is None:
            return []
        own = self.cells_of(study)
        known = {cell.name for cell in own}
        methods = {(cell.objective, cell.k, cell.n) for cell in own}
        candidates = self.config.studies[other].choose_within
        found = []
        for cell in self.cells_of(other):
            is_candidate = not candidates or cell.variant in candidates
            is_of_method = (cell.objective, cell.k, cell.n) in methods
            if is_candidate and is_of_method and cell.name not in known:
                found.append(cell)
        return found

    def require_evaluated(self, study: str) -> None:
        """Check the k of a study.

        Raises: InputError for a k that needs more samples, and for one that is not evaluated.
        """
        entry = self.config.studies[study]
        evaluated = self.of_study(study).config.evaluation.k
        named_ks: list[tuple[str, tuple[int, ...]]] = [("frontier", entry.frontier or ())]
        if isinstance(entry.choose_by_pass_at, int):
            named_ks.append(("choose_by_pass_at", (entry.choose_by_pass_at,)))
        for contrast in entry.contrasts:
            named_ks.append((f"contrasts, {contrast.family!r}: k", contrast.named_ks))
        for key, ks in named_ks:
            if unknown := set(ks) - set(evaluated):
                raise InputError(
                    f"{self.place('studies', study)}.{key} = {max(unknown)}; allowed: "
                    f"evaluation.k, which is {', '.join(map(str, evaluated))}"
                )

    def bases_of(self, grid: str) -> list[str]:
        """The base policies of the cells of an entry of the grid, or of a study, model by model."""
        bases: dict[str, dict[str, None]] = {}
        for cell in self.cells_of(grid):
            bases.setdefault(cell.model, {})[self.base_of(cell)] = None
        return [base for of_model in bases.values() for base in of_model]

    def base_of(self, cell: Cell) -> str:
        """The base policy with which the training of a cell begins."""
        return base_name(cell.model, cell.seed if self._has_base_per_seed(cell.model) else 0)

    def _has_base_per_seed(self, model: str) -> bool:
        """Whether each training seed of a model has a base policy of its own.

        A published model has one base policy unless it has a supervised start, and every model has
        one with `engine: verl`.
        """
        if not self.config.base_per_seed or self.config.engine != "local":
            return False
        section = self.config.models[model]
        return section.scratch is not None or section.start is not None

    @property
    def has_base_per_seed(self) -> bool:
        """Whether each training seed has a base policy of its own, of every model with cells."""
        models = {model for model, _ in self.bases.values()}
        return all(map(self._has_base_per_seed, models))

    @property
    def varied_by_seed(self) -> str:
        """What of the base policies differs between training seeds, in words; empty if nothing.

        It is the "base model", or only the "supervised start" if any of them is a published model.
        """
        if not self.has_base_per_seed:
            return ""
        is_published = any(self.config.models[model].start for model, _ in self.bases.values())
        return "supervised start" if is_published else "base model"

    @cached_property
    def bases(self) -> dict[str, tuple[str, int]]:
        """The base policies of all cells by name: the model, and the training seed."""
        bases = {}
        for cell in self.every_cell.values():
            seed = cell.seed if self._has_base_per_seed(cell.model) else 0
            bases[base_name(cell.model, seed)] = (cell.model, seed)
        return bases

    def is_derived(self, policy: str) -> bool:
        """Whether a policy is made from a trained one, without a training of its own."""
        return not self.is_base(policy) and self.config.is_derived(self.cell(policy).variant)

    @cached_property
    def derived(self) -> list[str]:
        """The cells whose policies are made from trained ones (`rspo derive`)."""
        is_derived = self.config.is_derived
        return [name for name, cell in self.every_cell.items() if is_derived(cell.variant)]

    def source_of(self, cell: Cell) -> Cell:
        """The trained cell from which the policy of a derived cell is made.

        Raises: InputError if the config has no such cell, or it is derived, too.
        """
        variant = self.derivation_of(cell).variant
        source = replace(cell, variant=variant)
        if source.name not in self.every_cell or self.config.is_derived(variant):
            raise InputError(
                f"{self.place('variants', cell.variant)}: {cell.name} is made from "
                f"{source.name}, which must be a trained cell of the grid or of a study"
            )
        return source

    def derivation_of(self, cell: Cell) -> Derived:
        """How the policy of a derived cell is made."""
        return self.config.derivation_of(cell.variant)

    def sampling_of(self, policy: str) -> Sampling:
        """How responses are sampled to evaluate a policy.

        The temperature may be that of the cell's variant; all else is the same for all policies.
        """
        experiment = self.for_cell(policy) if self.is_derived(policy) else self
        temperature = experiment.config.evaluation.temperature
        if temperature is None:
            return self.config.sampling
        return self.config.sampling.model_copy(update={"temperature": temperature})

    def bases_by_model(self, policies: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The base policies among some policies, by their model."""
        by_model: dict[str, tuple[str, ...]] = {}
        for policy in policies:
            if self.is_base(policy):
                model = self.model_of(policy)
                by_model[model] = by_model.get(model, ()) + (policy,)
        return by_model

    def pretrained(self, name: str) -> tuple[str, Model]:
        """The model that `rspo pretrain NAME` makes: its name in the config, and its section.

        The model of training seed s has the seed of its pretraining, or of its supervised start,
        plus s.

        Raises: InputError if the config has no such model, or no base policy for the seed.
        """
        model, _, seed = name.partition("--s")
        allowed = list(self.config.models)
        if model in self.config.models and self._has_base_per_seed(model):
            allowed += [base.removesuffix(f"--{BASE}") for base in self.bases]
            # A base policy may be made for more seeds than the cells have.
            if seed.isdecimal() and pretrained_name(model, int(seed)) == name:
                allowed.append(name)
        self.require_name("model", name, dict.fromkeys(allowed))
        section = self.config.models[model]
        return model, section.for_training_seed(int(seed)) if seed else section

    def seed_of(self, policy: str) -> int:
        """The training seed of a cell, or of the cells that begin with a base policy."""
        if self.is_base(policy):
            return self.bases[policy][1]
        return self.cell(policy).seed

    def policies_of(self, grid: str) -> list[str]:
        """The base policies and the cells of an entry of the grid, or of a study."""
        return self.bases_of(grid) + [cell.name for cell in self.cells_of(grid)]

    @cached_property
    def policies(self) -> list[str]:
        """The names of all policies of the grid: the base policies, then the cells."""
        bases = dict.fromkeys(base for grid in self.config.grid for base in self.bases_of(grid))
        return list(bases) + list(self.cells)

    @cached_property
    def evaluations(self) -> list[tuple[str, str]]:
        """The pairs of a policy and a suite on which the grid compares it, without duplicates."""
        pairs: list[tuple[str, str]] = []
        for grid, entry in self.config.grid.items():
            if entry.suite:  # other entries compare training logs
                pairs.extend((policy, entry.suite) for policy in self.policies_of(grid))
        return list(dict.fromkeys(pairs))

    def is_base(self, policy: str) -> bool:
        """Whether a policy is a base policy, by its name."""
        return policy.endswith(f"--{BASE}")

    def cell(self, name: str) -> Cell:
        """The cell with a name, of the grid, a study or a trial.

        Raises: InputError if there is none. It suggests more seeds, or similar names.
        """
        if name in self.every_cell:
            return self.every_cell[name]
        if name in self.bases:
            command = self.command("pretrain", name.removesuffix(f"--{BASE}"))
            raise InputError(f"{name} is a base policy; `{command}` makes it")
        raise self._no_cell(name, self.every_cell)

    def _no_cell(self, name: str, names: Iterable[str]) -> InputError:
        """The error for a name that is not among some names of cells, and perhaps of bases."""
        # Perhaps only the seed in the name is wrong.
        method, _, seed = name.rpartition("--s")
        if f"{method}--s0" in self.every_cell and seed.isdecimal():
            meant = f"{method}--s{int(seed)}"  # without the zeros in front of s00
            if meant in self.every_cell:
                return InputError(f"no cell {name!r}: did you mean {meant}?")
            return InputError(
                f"no cell {name!r}: config/{self.scale}.yaml has fewer seeds; "
                f"{self.option} seeds={int(seed) + 1} adds seeds to every cell"
            )
        close = get_close_matches(name, names, cutoff=0.3)
        return InputError(
            f"no cell {name!r} in config/{self.scale}.yaml; `rspo status` lists all; "
            f"similar: {', '.join(close) or 'none'}"
        )

    def model_of(self, policy: str) -> str:
        """The model of a policy.

        Raises: InputError for a name of neither a base policy nor a cell.
        """
        if policy in self.bases:
            return self.bases[policy][0]
        if policy not in self.every_cell:
            raise self._no_cell(policy, list(self.bases) + list(self.every_cell))
        return self.cell(policy).model

    @property
    def trains_on_gpus(self) -> bool:
        """Whether cells are trained by verl on GPUs."""
        config = self.config
        return config.engine == "verl" and config.verl is not None and config.verl.device == "cuda"

    @cached_property
    def data_sets(self) -> dict[str, DataSet]:
        """The sets of problems by name: train, validation and all benchmarks."""
        data = self.config.data
        sets: dict[str, DataSet] = {"train": data.train, "validation": data.validation}
        for suite in data.suites.values():
            sets.update(suite)
        return sets

    def data_set(self, name: str) -> DataSet:
        """The set of problems with a name.

        Raises: InputError if the config has none.
        """
        self.require_name("data set", name, self.data_sets)
        return self.data_sets[name]

    def require_name(self, kind: str, name: str, allowed: Collection[str]) -> None:
        """Raises: InputError if a name is not allowed, with those that the config has."""
        require_name(f"{kind} {name!r} in config/{self.scale}.yaml", name, allowed)

    def require_value(
        self, location: Sequence[str], value: str, kind: str, allowed: Collection[str]
    ) -> None:
        """Raises: InputError if a key has a name that is not allowed, with those that are.

        Args:
            location: the key and those around it, as in `place`.
            kind: what the name is of, such as "study".
        """
        if value not in allowed:
            names = allowed_names(value, allowed)
            raise InputError(f"{self.place(*location)} = {value!r}: no such {kind}; {names}")

    def place(self, *location: str) -> str:
        """The config file or the option that decides a key, and the key, for messages.

        Args:
            location: the key and those around it: `("studies", "rates")` for `studies.rates`.
        """
        place = self.places.of(location) or f"config/{self.scale}.yaml"
        if place in self.places.files:
            place = os.path.relpath(place, self.root)
        return f"{place}: {'.'.join(location)}"

    def key_of(self, data_set: str) -> str:
        """The file and the key that define a data set, for messages."""
        key = data_set  # train and validation are not in a suite
        for suite, benchmarks in self.config.data.suites.items():
            if data_set in benchmarks:
                key = f"suites.{suite}.{data_set}"
        return f"config/{self.scale}.yaml: data.{key}"

    def benchmarks_of(self, suite: str) -> list[str]:
        """The names of the benchmarks of a suite.

        Raises: InputError if the config has no such suite.
        """
        self.require_name("suite", suite, self.config.data.suites)
        return list(self.config.data.suites[suite])

    def suite_of(self, benchmark: str) -> str:
        """The suite that has a benchmark. Only one has it: names of data sets are unique."""
        suites = self.config.data.suites
        return next(suite for suite in suites if benchmark in suites[suite])

    def blocks(self) -> range:
        """The numbers of the blocks into which the samples of an evaluation are divided."""
        return range(self.config.evaluation.samples // self.config.evaluation.block)

    def require_block(self, policy: str, suite: str, block: int) -> None:
        """Raises: InputError if no evaluation of a policy on a suite has this block."""
        evaluation = self.config.evaluation
        samples = evaluation.samples
        # A study may have more samples than the grid.
        for name, study in self.config.studies.items():
            if study.samples and study.suite == suite and policy in self.policies_of(name):
                samples = max(samples, study.samples)
        blocks = samples // evaluation.block
        if not 0 <= block < blocks:
            numbers = "block 0" if blocks == 1 else f"the blocks 0 to {blocks - 1}"
            raise InputError(
                f"no block {block}: config/{self.scale}.yaml evaluates {policy} on {suite} with "
                f"{samples} samples, which are {numbers}"
            )

    def command(self, *words: str) -> str:
        """The command line `rspo WORDS` with the options that select this experiment."""
        command = ["rspo"]
        command.extend(words)
        if self.scale != "tiny":  # the default
            command += ["--scale", self.scale]
        if self.files.are_elsewhere:
            command += ["--results", str(self.files.results)]
        command.extend(_options(self.overrides))
        return shlex.join(command)

    def sample_files(self, policy: str, suite: str) -> list[Path]:
        """The tables with the samples of a policy on a suite, one for each block."""
        return [self.files.samples(policy, suite, block) for block in self.blocks()]

    def score_files(self, policy: str, suite: str) -> list[Path]:
        """The tables with the scores of `sample_files`, in the same order."""
        return [self.files.scores(policy, suite, block) for block in self.blocks()]

    def scales_with(self, section: str) -> list[str]:
        """The names of the scales whose config files have a section."""
        files = sorted((self.root / "config").glob("*.yaml"))
        begins = re.compile(rf"^{section}:", flags=re.MULTILINE)
        return [file.stem for file in files if begins.search(file.read_text(errors="replace"))]

    @property
    def judge_model(self) -> Path | None:
        """The folder for the download of the judge's model; None if nothing is downloaded.

        There is no download if the config has no judge, or if it names a running server or a local
        folder of the model.
        """
        settings = self.config.xverify
        if settings is None or settings.url is not None or Path(settings.model).is_dir():
            return None
        return self.files.judge_model


def _options(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield `--set=KEY=VALUE` for each override, with nested keys joined by dots.

    A mapping with a dot in one of its keys becomes a value, because `--set` would split that key.
    """
    for key, value in overrides.items():
        if isinstance(value, Mapping) and value and not any("." in str(name) for name in value):
            yield from _options(value, f"{prefix}{key}.")
        else:
            yield f"--set={prefix}{key}={json.dumps(value)}"
