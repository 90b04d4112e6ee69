"""`python -m benchmarks surface`: what it counts."""

from pydantic import BaseModel

from benchmarks import surface
from tests.support import ROOT


class Inner(BaseModel):
    steps: int
    rate: float = 0.1


class Outer(BaseModel):
    seeds: int
    one: Inner | None = None
    named: dict[str, tuple[Inner, ...]]


def test_a_section_counts_with_its_keys_in_each_place() -> None:
    assert set(surface.config_keys(Outer)) == {
        "seeds",
        "one.steps",
        "one.rate",
        "named.steps",
        "named.rate",
    }


def test_commands_and_options_are_those_of_the_help() -> None:
    assert {"train", "fetch-judge", "doctor"} < surface.commands().keys()
    assert {"--scale", "--set", "--k", "--print-config"} < surface.options()
    assert "--rule" not in surface.options()  # hidden, for Snakemake


def test_rules_are_those_of_every_file_of_the_workflow() -> None:
    assert {"all", "train", "fetch_judge", "report_in_another_folder"} < surface.rules()


def test_public_names_are_those_that_the_page_of_the_api_shows() -> None:
    names = surface.public_names()
    assert {"rspo.objectives.KRule", "rspo.estimators.pass_at_k", "rspo.passk.check"} < names
    assert not any(name.rpartition(".")[2].startswith("_") for name in names)
    assert "rspo.objectives.OBJECTIVES" not in names  # docs/api.md does not list its module


def test_pages_are_those_of_the_navigation() -> None:
    pages = surface.documentation_pages()
    assert {ROOT / "README.md", ROOT / "docs" / "api.md"} < set(pages)
    assert all(page.is_file() for page in pages)
