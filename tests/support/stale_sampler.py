"""verl's driver, with a sampler that gets new weights after every second step only.

    python -m tests.support.stale_sampler CONFIG FOLDER

In the steps in between, its weights are one step old.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rspo.training.verl import driver


def _train(config: Any) -> None:
    from rspo.training.verl import trainer

    class StaleTrainer(trainer.Trainer):
        def _send_weights(self, send: Callable[[], None]) -> None:
            late = self.global_steps % 2 == 1
            super()._send_weights((lambda: None) if late and self.records else send)

    trainer.Trainer = StaleTrainer
    trainer.train(config)


if __name__ == "__main__":
    driver.train = _train
    driver.main(Path(sys.argv[1]), Path(sys.argv[2]))
