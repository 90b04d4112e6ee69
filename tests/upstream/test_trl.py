"""docs/upstream/trl: the code of the entries trains with TRL, and its advantages are unbiased."""

import re
from pathlib import Path

import pytest

from tests.adapters import own_environment
from tests.adapters.test_trl import PACKAGES
from tests.support import ROOT

pytestmark = pytest.mark.long
(CODE,) = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/upstream/trl/paper_index.md").read_text(), re.DOTALL
)
# The names that the entry leaves to its readers, and settings of a tiny training.
BEFORE = """
import sys
from functools import partial

import numpy as np
import trl

sys.path.insert(0, "examples")
from trl_bandit import questions, small_model, tokenizer_of_words

small = {"max_completion_length": 2, "max_steps": 2, "per_device_train_batch_size": 32}
small |= {"use_cpu": True, "report_to": [], "output_dir": sys.argv[1], "save_strategy": "no"}
configure = trl.GRPOConfig
trl.GRPOConfig = lambda **given: configure(**(given | small))
tokenizer = tokenizer_of_words()
trl.GRPOTrainer = partial(trl.GRPOTrainer, processing_class=tokenizer)
model, dataset = small_model(tokenizer), questions(64)


def correct(completions, answer, **_):
    return [float(one.split()[:1] == [right]) for one, right in zip(completions, answer)]
"""
AFTER = """
from rspo.objectives import response_weights

n = training_args.num_generations
rng = np.random.default_rng(0)
for k in range(1, n):  # read by max_at_k
    for groups in (rng.integers(0, 2, (50, n)) * 1.0, rng.integers(-2, 3, (50, n)) / 2):
        made = max_at_k(lambda groups: groups.flatten().tolist())(groups=groups)
        made = np.array(made).reshape(groups.shape)
        centred = made - made.mean(axis=-1, keepdims=True)
        expected = n * response_weights(groups, "maxpo", k)
        np.testing.assert_allclose(centred, expected, atol=1e-9)
k = 4
before = [parameter.clone() for parameter in model.parameters()]
trainer.train()
assert trainer.state.global_step == 2
assert any((a != b).any() for a, b in zip(before, model.parameters()))
print("two steps")
"""


def test_the_entry_trains_two_steps_and_its_advantages_are_unbiased(tmp_path: Path) -> None:
    python = own_environment.make(tmp_path / "venv", PACKAGES)
    script = tmp_path / "entry.py"
    script.write_text(BEFORE + CODE + AFTER)
    assert "two steps" in own_environment.run(python, str(script), str(tmp_path / "out"))
