"""The keys that Snakemake's `--config` gives, and the command of a rule that follows from them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rspo.config.given import Given
from rspo.core.errors import InputError


def test_the_default_command_is_short() -> None:
    given = Given.read({})
    assert (given.scale, given.overrides, given.results) == ("tiny", {}, None)
    assert (given.mirror, given.replace) == (None, False)
    assert given.command == "rspo"


@pytest.mark.parametrize(("key", "meant"), [("result", "results"), ("sets", "set")])
def test_a_misspelled_key_of_the_workflow_is_named_with_the_right_one(key: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"--config {key}=a: .* did you mean {meant}"):
        Given.read({key: "a"})
    Given.read({"seed": 3})  # resembles a key of the config file, whose error names it


def test_set_and_plain_keys_are_merged() -> None:
    config = {
        "scale": "paper",
        "results": "trial",
        "mirror": "copies",
        "replace": "true",
        "seeds": 3,
        "training": {"steps": 20},
        "set": "training.epochs=2 grid.main.cells='[{k: 4, n: [8, 16]}]'",
    }
    given = Given.read(config)
    assert (given.scale, given.results) == ("paper", Path("trial"))
    assert (given.mirror, given.replace) == (Path("copies"), True)
    assert given.overrides == {
        "seeds": 3,
        "training": {"steps": 20, "epochs": 2},
        "grid": {"main": {"cells": [{"k": 4, "n": [8, 16]}]}},
    }


@pytest.mark.parametrize(
    "overrides",
    [
        {"training": {"steps": 3}},
        {"label": 'it\'s "quoted" $HOME `id` \\n {x} {{y}}', "k": [1, None, True, 2.5e-3]},
    ],
)
def test_a_shell_passes_the_experiment_of_a_command_on(
    overrides: dict[str, Any], tmp_path: Path
) -> None:
    """After Snakemake has formatted it."""
    (tmp_path / "rspo").write_text('#!/bin/sh\nprintf "%s %s" "$1" "$RSPO_EXPERIMENT"\n')
    (tmp_path / "rspo").chmod(0o755)
    given = Given("paper", overrides, Path("own results"), None, False)
    command = (given.command + " {word}").format(word="train")
    done = subprocess.run(
        ["sh", "-c", f"PATH={tmp_path}:$PATH; {command}"], capture_output=True, text=True
    )
    word, _, text = done.stdout.partition(" ")
    assert word == "train"
    assert json.loads(text) == {"scale": "paper", "set": overrides, "results": "own results"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"set": "training.steps"}, "--config set training.steps: expected KEY=VALUE, such as"),
        ({"set": "a=1 'b"}, '--config set="a=1 \'b": No closing quotation'),
        ({"set": "k=[1, 2]"}, "'[1,' is not YAML; put quotes around a value with spaces"),
        ({"set": 3}, "--config set=3: expected text, such as set='training.steps=50 seeds=3'"),
        ({"set": "seeds=3", "seeds": 4}, "--config set='seeds=3': seeds is also given outside"),
        ({"set": "a.b.c=1", "a": {"b": {"c": 1}}}, "a.b.c is also given outside of `set`"),
        ({"set": "grid.main=null", "grid": {"main": {"k": 1}}}, "grid.main is also given outside"),
        ({"results": ""}, "results is empty; expected a folder, such as results=trial"),
        ({"scale": None}, "scale is empty; leave it out for the default"),
        ({"mirror": ""}, "mirror is empty; leave it out for the default"),
        ({"replace": "ture"}, "replace = 'ture': expected true or false"),
    ],
)
def test_a_wrong_value_is_one_error_with_the_key_and_the_value(
    config: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as error:
        Given.read(config)
    assert message in str(error.value)
