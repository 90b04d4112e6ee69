"""A folder for PYTHONPATH with a package `vllm` that has only a server, without a model."""

import os
from pathlib import Path

from tests.support import ROOT

PATH = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
