"""What holds for every test, and the fixtures that several folders use."""

import contextlib
import os
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rspo.core.signals import REQUEST
from rspo.pipeline import usage
from tests.support import ROOT, checkout_guard, processes, slurm_cluster
from tests.support.made_once import made_once

# A process that was started with `nohup` or `&` ignores SIGINT, and so would its child processes.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As the `rspo` command does; with more threads, small tensors are slower and sums differ.
torch.set_num_threads(1)


# These tests need only what `make setup` installs, and take about two minutes on two CPUs. Those of
# them with one of the other markers are not light.
LIGHT = (
    "config",
    "evaluation",
    "objectives",
    "pipeline",
    "test_check_pass_at_k.py",
    "test_estimators.py",
    "test_passk.py",
    "test_vectors.py",
)
NOT_LIGHT = ("acceptance", "ci", "long", "slurm")

GUARD = checkout_guard.Guard()
BEFORE = pytest.StashKey[checkout_guard.Snapshot]()


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # once, not in each process of xdist
        session.config.stash[BEFORE] = checkout_guard.snapshot()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if the files of a finished run changed, also by a process that is not Python's."""
    if BEFORE not in session.config.stash:
        return
    after = checkout_guard.snapshot()
    if found := checkout_guard.changed(session.config.stash[BEFORE], after):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\nFAILED: the tests, or a run at the same time, changed", *found[:10], sep="\n    ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Only tests with the marker `acceptance` may use what a run left in the checkout.

    Results that a test makes in this process have the wall-clock time of the test: that of the
    process would soon exceed `replace_above`, so that Snakemake would not replace them.
    """
    usage._STARTED = time.time()
    if not item.get_closest_marker("acceptance"):
        GUARD.start()
    try:
        return (yield)
    finally:
        GUARD.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that used such a file, also where its code ignored that this was refused."""
    result = yield
    if found := GUARD.take():
        pytest.fail("used what a run left in the checkout:\n" + "\n".join(found))
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many processes as CPUs that this one may use, which are not all in a SLURM job."""
    return len(os.sched_getaffinity(0))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m light`, import no other test, because its packages may not be installed."""
    if config.option.markexpr != "light" or is_light(collection_path):
        return None
    leads_to_light = any(collection_path in light.parents for light in light_paths())
    return None if leads_to_light else True


def light_paths() -> list[Path]:
    return [ROOT / "tests" / name for name in LIGHT]


def is_light(path: Path) -> bool:
    return any(path.is_relative_to(light) for light in light_paths())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the light tests, and start with the folders of the longest files.

    So processes end at about the same time.
    """
    for item in items:
        has_other_marker = any(item.get_closest_marker(name) for name in NOT_LIGHT)
        if is_light(item.path) and not has_other_marker:
            item.add_marker("light")
    folders = ("rewards", "policies", "slurm", "training", "workflow")
    order = {ROOT / "tests" / folder: index for index, folder in enumerate(folders)}
    items.sort(
        key=lambda item: max(order.get(folder, -1) for folder in item.path.parents), reverse=True
    )


@pytest.fixture(autouse=True)
def blocked_signals_end_with_a_test() -> Iterator[None]:
    """`rspo train`, called in this process, blocks a signal, and processes inherit the block."""
    mask, handler = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(REQUEST)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(REQUEST, handler)


@pytest.fixture(scope="module", autouse=True)
def no_process_outlives_its_module() -> Iterator[None]:
    with processes.none_left():
        yield


@pytest.fixture(autouse=True)
def no_process_outlives_its_test() -> Iterator[None]:
    """Except in a module whose fixtures run processes, which may start others."""
    with contextlib.nullcontext() if processes.descendants() else processes.none_left():
        yield


@pytest.fixture
def promised(request: pytest.FixtureRequest) -> list[str]:
    """The words of the command in the test's marker `promise`, without the program."""
    (text,) = request.node.get_closest_marker("promise").args
    return shlex.split(text)[1:]


@pytest.fixture(scope="session")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which a paper of five cells was made, to copy; half a minute once a run."""
    from tests.support import small_paper  # here: it imports every step

    def make(root: Path) -> None:
        with contextlib.chdir(root):
            small_paper.make()

    return made_once(tmp_path_factory, "small_results", make)


@pytest.fixture
def small_project(small_results: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of `small_results` that a test can change, as the current folder."""
    root = tmp_path / "project"
    shutil.copytree(small_results, root)
    with contextlib.chdir(root):
        yield root


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[slurm_cluster.Cluster]:
    """A real SLURM, with as many nodes as the test's module says in NODES."""
    slurm_cluster.require_slurm()
    with slurm_cluster.started(nodes=request.module.NODES) as running:
        yield running


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the checkout with real benchmark rows and labelled answers.

    Without it the tests that need it are skipped on a user's machine and fail in CI.
    """
    folder = ROOT.parent / "shared"
    if not (folder / "mirror").is_dir():
        message = f"{folder} is not here: real rows cannot be tested"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder
