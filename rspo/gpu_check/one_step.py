"""The process of a step of `rspo gpu-check`.

    python -m rspo.gpu_check.one_step CHECK SETTINGS FILE

CHECK is MODULE:FUNCTION, SETTINGS are the fields of `Settings` as JSON. Writes the outcome and the
note to FILE as JSON.
"""

import importlib
import json
import sys
import traceback
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.gpu_check.settings import Check, CheckFailed, NotHere, Settings
from rspo.gpu_check.table import Outcome


def outcome_of(check: Check, settings: Settings) -> tuple[Outcome, str]:
    """Call a check; any exception is a failure."""
    try:
        return Outcome.PASSED, check(settings)
    except NotHere as reason:
        return Outcome.NOT_HERE, str(reason)
    except (CheckFailed, InputError) as reason:
        return Outcome.FAILED, str(reason)
    except Exception as error:  # of any library
        traceback.print_exc()
        return Outcome.FAILED, f"{type(error).__name__}: {error}"


def main(check: str, settings: str, file: Path) -> None:
    module, _, function = check.partition(":")
    result = outcome_of(
        lambda known: getattr(importlib.import_module(module), function)(known),
        Settings(**json.loads(settings)),
    )
    write_text(file, json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
