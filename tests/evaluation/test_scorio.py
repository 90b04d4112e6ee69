"""Pass@k, pass^k and their means against the package scorio, an independent implementation."""

import json
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest

from rspo.estimators import pass_at_k, pass_hat_k

pytestmark = pytest.mark.ci

SCORIO = "scorio==0.2.3"
PROGRAM = """
import json, sys
import numpy as np
from scorio.eval import pass_at_k, pass_hat_k
results = np.array(json.load(sys.stdin))
ks = range(1, results.shape[1] + 1)
print(json.dumps([[float(f(results, k)) for k in ks] for f in (pass_at_k, pass_hat_k)]))
"""


def test_the_means_over_problems_are_those_of_scorio(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", SCORIO], check=True)

    rates = np.random.default_rng(0).beta(0.5, 1.5, 200)
    results = np.random.default_rng(1).random((200, 16)) < rates[:, None]
    program = [python, "-c", PROGRAM]
    answer = subprocess.run(
        program,
        input=json.dumps(results.astype(int).tolist()),
        capture_output=True,
        text=True,
        check=True,
    )
    correct = results.sum(axis=1)
    for function, theirs in zip((pass_at_k, pass_hat_k), json.loads(answer.stdout), strict=True):
        ours = [function(16, correct, k).mean() for k in range(1, 17)]
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
