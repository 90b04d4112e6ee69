"""The size of what users see: commands, options, config keys, rules, public names, documentation.

No count has a limit. CONTRIBUTING.md has the table, and no test compares it: words change with each
edit of a page, and branches that are developed at the same time would always conflict there.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import typer.main
from pydantic import BaseModel

from benchmarks import Row
from rspo.cli.run import app
from rspo.config.schema import Config
from rspo.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parent.parent
# A directive of mkdocstrings: its name, and the options in the line below it, if there are any.
DIRECTIVE = re.compile(r"^::: (\S+)\n(?: +options: \{(.*)\})?", re.MULTILINE)
# The first line of a rule of Snakemake, with its name.
RULE = re.compile(r"^ *(?:rule|checkpoint) (\w+):", re.MULTILINE)
# An entry of the navigation in mkdocs.yml, with or without a title: the path of its page.
PAGE = re.compile(r"^ +- (?:.+: )?(\S+\.md)$", re.MULTILINE)


def run() -> list[Row]:
    """A row for each count."""
    pages = documentation_pages()
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    counts = {
        "commands of `rspo`": len(commands()),
        "options of the commands": len(options()),
        "config keys": len(set(config_keys(Config))),
        "rules of the workflow": len(rules()),
        "public names in docs/api.md": len(public_names()),
        "objectives": len(OBJECTIVES),
        "pages of the documentation": len(pages),
        "words of these pages": words,
    }
    return [Row(what, f"{count:,}") for what, count in counts.items()]


def commands() -> dict[str, Any]:
    """The commands of `rspo` by their names."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def options() -> set[str]:
    """The options that the help of a command shows, such as --scale; each counts once."""
    names: set[str] = set()
    for command in commands().values():
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                names.add(parameter.opts[0])
    return names


def config_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys of a config file, such as training.steps, without names that users choose.

    A section is no key itself. If it may stand in several places, its keys count in each of them.
    """
    for name, field in model.model_fields.items():
        sections = list(_sections(field.annotation))
        if not sections:
            yield f"{prefix}{name}"
        for section in sections:
            yield from config_keys(section, f"{prefix}{name}.")


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, also within unions, lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def rules() -> set[str]:
    """The names of the rules of the workflow."""
    files = list((ROOT / "workflow").rglob("*.smk"))
    files.append(ROOT / "workflow" / "Snakefile")
    names: set[str] = set()
    for file in files:
        names.update(RULE.findall(file.read_text(encoding="utf-8")))
    return names


def public_names() -> set[str]:
    """The names that docs/api.md lists, as the site shows them: only those with a docstring."""
    names: set[str] = set()
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name, settings in DIRECTIVE.findall(page):
        if not _is_module(name):
            names.add(name)
        elif "members: false" not in settings:
            names.update(f"{name}.{member}" for member in _members(import_module(name)))
    return names


def _is_module(name: str) -> bool:
    """Whether a dotted name is that of a module, and not of a function or a class."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the part before the last dot is a module, but no package
        return False


def _members(module: ModuleType) -> list[str]:
    """The public names of a module: those in `__all__`, or else those that it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    members = []
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", None) == module.__name__
        if is_own and value.__doc__ and not name.startswith("_"):
            members.append(name)
    return members


def documentation_pages() -> list[Path]:
    """The pages in the navigation of the site (mkdocs.yml)."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    return [ROOT / path for path in PAGE.findall(navigation)]
