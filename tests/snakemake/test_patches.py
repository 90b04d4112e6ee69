"""The patches of private parts of Snakemake; `test_workflow` and `test_grace` test the others."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.executor_plugin import alone
from tests.support import ROOT
from tests.support.processes import LONGEST_WAIT
from tests.support.snakemake_project import PROGRAMS

CELL = "small--rspo-pass--k4--n8--s0"


def test_a_new_version_of_snakemake_requires_a_look_at_the_patches() -> None:
    assert version("snakemake") == "9.27.1", (
        "Check for each function of rspo/snakemake/patches.py, for check_every_plan of "
        "rspo/snakemake/plan_check.py and for suggest_targets of rspo/snakemake/targets.py, that "
        "the problem in its docstring still exists, and that the private names in it still mean "
        "the same; then change this version."
    )


SETS = """\
import json
from rspo.config.given import Given
from rspo.snakemake.patches import config_as_typed
given = Given.read(config_as_typed(workflow, config))
rule settings:
    output: "settings.json"
    run:
        with open(output[0], "w") as file:
            json.dump([given.scale, given.overrides], file)
"""
PROMPT = """it's "$HOME" `id` \\n ! # {é}"""


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("training.steps=20 seeds=3", {"training": {"steps": 20}, "seeds": 3}),
        # Snakemake itself reads these as a mapping, and removes quotes at their ends.
        ("'training={steps: 2}'", {"training": {"steps": 2}}),
        ('training="{steps: 2}"', {"training": {"steps": 2}}),
        (
            "verl='{a: [1, 2.5e-3, null, true], b c: \"it''s\"}' device=cpu",
            {"verl": {"a": [1, 0.0025, None, True], "b c": "its"}, "device": "cpu"},
        ),
        (shlex.join([f"prompt={json.dumps(PROMPT)}", "k=[1, 2]"]), {"prompt": PROMPT, "k": [1, 2]}),
        (
            "\n  training='{steps: 2,\n    every: 1}'\n  label=\"a b\"\n",
            {"training": {"steps": 2, "every": 1}, "label": "a b"},
        ),
    ],
)
def test_a_job_reads_the_settings_that_were_typed(
    tmp_path: Path, text: str, overrides: dict[str, Any]
) -> None:
    """A rule with `run` has a Snakemake of its own, with `--mode subprocess`."""
    (tmp_path / "Snakefile").write_text(SETS)
    command = [sys.executable, "-m", "snakemake", "--cores=1", "--verbose"]
    done = subprocess.run(
        [*command, "--config", "scale=other", f"set={text}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "--mode 'subprocess'" in done.stderr
    assert json.loads((tmp_path / "settings.json").read_text()) == ["other", overrides]


@pytest.mark.parametrize(
    ("file", "words", "overrides"),
    [
        (
            {"training": {"steps": 9, "epochs": 2}},
            ["set=training.steps=8"],
            {"training": {"steps": 8, "epochs": 2}},
        ),
        (
            {"set": "training.steps=9 label=file"},
            ["set=seeds=2 label=typed"],
            {"training": {"steps": 9}, "label": "typed", "seeds": 2},
        ),
        (
            {"set": "seeds=9 k=1"},
            ["seeds=2", "set=label=typed"],
            {"seeds": 2, "k": 1, "label": "typed"},
        ),
    ],
)
def test_overrides_of_a_config_file_are_merged_and_the_command_line_wins(
    tmp_path: Path, file: dict[str, Any], words: list[str], overrides: dict[str, Any]
) -> None:
    (tmp_path / "Snakefile").write_text(SETS)
    (tmp_path / "file.yaml").write_text(json.dumps(file))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "snakemake",
            "--cores=1",
            "--configfile=file.yaml",
            "--config",
            *words,
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "settings.json").read_text()) == ["tiny", overrides]


def test_each_override_has_the_place_that_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "import json\n"
        "from rspo.snakemake.patches import config_as_typed, sources_of\n"
        "config_as_typed(workflow, config)\n"
        "print(json.dumps(sources_of(workflow)))\n"
        "rule all:\n"
    )
    (tmp_path / "file.yaml").write_text(json.dumps({"seeds": 2, "set": "training.epochs=3"}))
    words = ["--configfile=file.yaml", "--config", "scale=paper", "seeds=4", "set=training.steps=x"]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    sources = json.loads(done.stdout.splitlines()[0])
    (file,) = (place for place in sources if place.startswith("--configfile "))
    assert file.endswith("file.yaml")
    assert sources[file] == {"seeds": 2, "training": {"epochs": 3}}
    assert sources["--config"] == {"seeds": 4, "training": {"steps": "x"}}


PATCHED_TWICE = """\
import snakemake.cli
from snakemake.dag import DAG
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler
from rspo.snakemake import patches

def functions():
    of_results = [PersistenceBase.has_metadata, PersistenceBase.params_changed]
    return [DAG.update_needrun, JobScheduler._schedule_reevalutation, *of_results]

def patch():
    patches.plan_jobs_behind_ancient_inputs()
    patches.keep_one_timer()
    patches.compare_results_with_provenance()
    return functions()

stock, once, twice = functions(), patch(), patch()
assert once == twice
assert not {*stock} & {*once}
"""


def test_a_snakefile_that_is_read_twice_changes_snakemake_once() -> None:
    """As that of two modules."""
    subprocess.run([sys.executable, "-c", PATCHED_TWICE], cwd=ROOT, check=True)


FOREIGN = """\
import sys
print([config[key] for key in ("version", "rate", "flag", "tag")])
print("plugins:", *sorted(name for name in sys.modules if name in {plugins!r}))
rule all:
"""


def test_a_foreign_workflow_gets_the_config_of_stock_snakemake(tmp_path: Path) -> None:
    """Snakemake imports every plugin that it finds, in every run."""
    plugins = sorted(path.name for path in ROOT.glob("snakemake_*_plugin_*"))
    assert len(plugins) == 2
    (tmp_path / "Snakefile").write_text(FOREIGN.format(plugins=plugins))
    words = ["version=010", "rate=1e3", "flag=on", "tag=null"]
    seen = {}
    for environment in ("checkout", "stock"):
        (tmp_path / environment).mkdir()
        if environment == "stock":
            (tmp_path / environment / "sitecustomize.py").write_text(alone.SITE)
        done = subprocess.run(
            [PROGRAMS / "snakemake", "-n", "--config", *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / environment)},
            capture_output=True,
            text=True,
            check=True,
        )
        config, found = done.stdout.splitlines()[:2]
        seen[environment] = config
        assert found.split()[1:] == (plugins if environment == "checkout" else [])
    assert seen["checkout"] == seen["stock"] == "[10, 1000.0, 'on', 'null']"


# `target` needs `early` only through an `ancient` input of `middle`.
ANCIENT = """\
from rspo.snakemake.patches import plan_jobs_behind_ancient_inputs
plan_jobs_behind_ancient_inputs()
rule target:
    input: "middle"
    output: "target"
    shell: "touch {output}"
rule middle:
    input: ancient("early")
    output: "middle"
    params: config["middle"]
    shell: "touch {output}"
rule early:
    output: "early"
    params: config["early"]
    shell: "touch {output}"
"""


@pytest.mark.parametrize(
    ("made", "middle", "planned"),
    [
        ("early", 1, {"early", "middle", "target"}),
        ("target", 1, {"early"}),
        ("target", 2, {"early", "middle", "target"}),
    ],
    ids=["target missing", "only the ancient input changed", "settings changed too"],
)
def test_jobs_behind_a_changed_ancient_input_are_planned(
    tmp_path: Path, made: str, middle: int, planned: set[str]
) -> None:
    (tmp_path / "Snakefile").write_text(ANCIENT)

    def run(target: str, *config: str, options: tuple[str, ...] = ()) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores=1", *options, target]
        done = subprocess.run(
            [*command, "--config", *config],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout + done.stderr

    run(made, "early=1", "middle=1")
    output = run("target", "early=2", f"middle={middle}", options=("-n",))
    assert set(re.findall(r"^rule (\w+):", output, flags=re.M)) == planned


MANY = """\
import threading
from rspo.snakemake.patches import keep_one_timer
keep_one_timer()
rule target:
    input: [f"{number}.done" for number in range(12)]
rule one:
    output: "{number}.done"
    shell: "sleep 0.05; touch {output}"
onsuccess:
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    print("timers:", len(timers))
"""


def test_one_timer_starts_the_jobs_that_wait_for_the_rate_limit(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(MANY)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=1", "--max-jobs-per-timespan=6/1s"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_WAIT,
    )
    (count,) = re.findall(r"^timers: (\d+)$", done.stdout, flags=re.M)
    assert int(count) <= 1


TWO_DELAYS = """\
from snakemake.scheduling.job_scheduler import JobScheduler
from rspo.snakemake.patches import keep_one_timer

started = []
JobScheduler._schedule_reevalutation = lambda scheduler, seconds: started.append(seconds)
keep_one_timer()
for seconds in (10, 1, 10, 1):
    JobScheduler._schedule_reevalutation(None, seconds)
assert started == [10, 1], started
"""


def test_a_timer_with_another_delay_does_not_put_a_look_off() -> None:
    """As one for queue input, which has a longer delay than the rate limit."""
    subprocess.run([sys.executable, "-c", TWO_DELAYS], cwd=ROOT, check=True)
