"""Lets verl's own trainer run on a CPU, with this package's platform, worker and sampler.

Every process of verl imports it (VERL_USE_EXTERNAL_MODULES).
"""

from verl.workers import engine_workers

import rspo.training.verl.cpu_platform  # noqa: F401
from rspo.training.verl.worker import PolicyWorker

engine_workers.ActorRolloutRefWorker = PolicyWorker
