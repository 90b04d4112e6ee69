"""What Snakemake's SLURM plugin (snakemake-executor-plugin-slurm 2.8.0) does not do by itself."""

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

# For a controller that is away: as long as slurm/config.yaml lets the plugin go on asking.
SECONDS_AWAY = 1800
SECONDS_BETWEEN_QUESTIONS = 5

Answer = tuple[dict[str, str] | None, float | None]  # states by number of job, and seconds it took


def adapt(plugin: Any, executor: Any, answers: Callable[[], bool]) -> None:
    """Change the plugin of this process, once, before it submits the first job.

    Args:
        plugin: its module, of which `check_active_jobs` takes the names that are replaced here.
        executor: the one of this run.
        answers: whether SLURM's controller does.
    """
    # The plugin asks at every look; where the controller is away it would hear nothing and turn to
    # sacct for half an hour, which knows nothing where there is no accounting.
    age = plugin.get_min_job_age()
    plugin.get_min_job_age = lambda: age
    plugin.query_job_status = with_plain_states(plugin.query_job_status)
    submit_when_it_answers(executor, answers)


def with_plain_states(
    query: Callable[..., Awaitable[Answer]],
) -> Callable[..., Awaitable[Answer]]:
    """The plugin's `query_job_status`, with states as it compares them.

    Its own keeps sacct's `CANCELLED by 1000`, which is no state it knows: the job would be waited
    for without end.
    """

    async def plain(*arguments: Any, **named: Any) -> Answer:
        states, seconds = await query(*arguments, **named)
        if states is not None:
            states = {number: state.partition(" ")[0] for number, state in states.items()}
        return states, seconds

    return plain


def submit_when_it_answers(executor: Any, answers: Callable[[], bool]) -> None:
    """Let each job wait for SLURM's controller before it is submitted, half an hour at most.

    `sbatch` itself gives up after SLURM's MessageTimeout, 10 seconds: a controller that starts anew
    would cost a job that is ready meanwhile all of its tries.

    Depends on the executor's submitting jobs by its `run_job`, in threads of their own. Once it
    ends (Ctrl-C), nobody waits and nothing is submitted.
    """
    submit, ending = executor.run_job, threading.Event()

    def submit_later(job: Any) -> None:
        deadline = time.monotonic() + SECONDS_AWAY
        while not ending.is_set() and not answers() and time.monotonic() < deadline:
            ending.wait(SECONDS_BETWEEN_QUESTIONS)
        if not ending.is_set():
            submit(job)

    executor.run_job = submit_later
    executor.cancel = _after(ending.set, executor.cancel)
    executor.shutdown = _after(ending.set, executor.shutdown)


def _after(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        then()

    return both
