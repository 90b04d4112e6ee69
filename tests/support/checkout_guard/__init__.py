"""No test uses what a finished run left in the checkout: results/, reports/ and trial/."""

import atexit
import os
import tempfile
from pathlib import Path

from tests.support.checkout_guard import sitecustomize

FOLDER = str(Path(__file__).parent)
Snapshot = dict[str, tuple[int, int]]  # path -> time of the last change in ns, size


class Guard:
    """Refuses and notes uses by this process and by the Python processes that it starts."""

    def __init__(self) -> None:
        number, name = tempfile.mkstemp(prefix="rspo-test-notes-")
        os.close(number)
        self._notes = Path(name)
        atexit.register(self._remove_notes, os.getpid())
        folders = [FOLDER, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
        self.stop()  # a test may run pytest, which has a guard of its own

    def _remove_notes(self, owner: int) -> None:
        if os.getpid() == owner:  # not a fork of this process
            self._notes.unlink(missing_ok=True)

    def start(self) -> None:
        os.environ[sitecustomize.NOTES] = str(self._notes)

    def stop(self) -> None:
        os.environ.pop(sitecustomize.NOTES, None)

    def take(self) -> list[str]:
        """What was refused since the last call: event and path."""
        found = self._notes.read_text().splitlines()
        self._notes.write_text("")
        return list(dict.fromkeys(found))


def snapshot() -> Snapshot:
    """Every file and folder of finished runs in the checkout."""
    found: Snapshot = {}
    for top in sitecustomize.FOLDERS:
        for folder, _, names in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                state = os.lstat(path)
                found[path] = (state.st_mtime_ns, state.st_size)
    return found


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """The paths that were added, removed or written between two snapshots."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
