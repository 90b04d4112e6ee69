"""A cell whose sampler has old weights is reported, and one with the right weights is not.

The actor computes in bfloat16, as on GPUs. Three minutes: two short trainings with verl on a CPU.
"""

from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.training.logs import steps_above
from rspo.training.train import train
from rspo.training.verl import run
from rspo.training.verl.driver import __name__ as right
from tests.support import tiny_world
from tests.support.stale_sampler import __name__ as stale

pytestmark = pytest.mark.long
CELL = "small--rspo-pass--k4--n16--s0"
STEPS = 5
IN_BFLOAT16 = {"actor": {"fsdp_config": {"mixed_precision": {"param_dtype": "bf16"}}}}


def experiment_in(folder: Path) -> Experiment:
    """A base policy that solves some problems, so that steps change it."""
    scratch = {"examples": 2000, "batch": 16, "steps": 150}
    return tiny_world.load_prepared(
        folder,
        engine="verl",
        models={"small": {"scratch": scratch}},
        training={"steps": STEPS, "prompts_per_step": 10, "mini_batch_prompts": 5},
        verl={"overrides": {"actor_rollout_ref": IN_BFLOAT16}},
    )


@pytest.mark.parametrize(("driver", "above"), [(right, False), (stale, True)])
def test_only_weights_that_are_one_step_old_exceed_the_bound(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    above: bool,
) -> None:
    experiment = experiment_in(tmp_path)
    monkeypatch.setattr(run, "DRIVER", driver)
    train(experiment, CELL)
    records = read_json_lines(experiment.training_log(CELL))
    differences = [record["sampler"]["difference"] for record in records]
    assert differences[0] > 1e-4, "bfloat16 rounds"
    found = steps_above(records)
    assert found == ([2, 4] if above else []), differences  # new weights after steps 2 and 4 only
    warning = "The log-probabilities of the sampler and the actor differ by more than"
    shown = capfd.readouterr()  # of the driver, which is a process of its own
    assert (shown.out + shown.err).count(warning) == above
