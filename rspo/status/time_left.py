"""Estimates of the time that a run and its trainings still take."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean

Clock = Callable[[], float]  # returns seconds


class Pace:
    """The time left of what counts up steadily, from its pace since it was first seen."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._first: dict[str, tuple[float, int]] = {}  # time and count, by name

    def seconds_left(self, name: str, done: int, total: int) -> float | None:
        """The seconds until `done` is `total`; None until it was seen to grow."""
        now = self._clock()
        start, done_then = self._first.setdefault(name, (now, done))
        if done < done_then:  # it was started again
            self._first[name] = (now, done)
            return None
        if done == done_then:
            return None
        return (total - done) * (now - start) / (done - done_then)


class JobTimes:
    """The time left of a run of jobs, from the jobs of the same rule that are finished.

    A rule of which no job is finished is taken to need as long as all finished jobs on average,
    and at least as long as its oldest running job. Jobs are taken to run on as many at a time as
    now.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._left: Counter[str] = Counter()  # jobs that are not finished, by rule
        self._running: dict[int, tuple[str, float]] = {}  # rule and start, by job
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)  # of finished jobs

    def plan(self, jobs: Mapping[str, int]) -> None:
        """Begin a run with so many jobs of each rule."""
        self._left = Counter({rule: count for rule, count in jobs.items() if rule != "total"})

    def start(self, job: int, rule: str) -> None:
        """Note that a job starts, also if it is tried again."""
        self._running[job] = (rule, self._clock())

    def finish(self, job: int) -> None:
        """Note that a job is finished."""
        if job in self._running:
            rule, start = self._running.pop(job)
            self._seconds[rule].append(self._clock() - start)
            self._left[rule] -= 1

    def stop(self, job: int) -> None:
        """Note that a job has failed."""
        self._running.pop(job, None)

    def seconds_left(self) -> float | None:
        """The estimate; None before the first job is finished."""
        # Copies, because another thread notes the jobs.
        every = [seconds for times in list(self._seconds.values()) for seconds in times]
        if not every:
            return None
        now = self._clock()
        ages: defaultdict[str, list[float]] = defaultdict(list)
        for rule, start in list(self._running.values()):
            ages[rule].append(now - start)
        work = 0.0
        for rule, count in list(self._left.items()):
            if self._seconds[rule]:
                each = fmean(self._seconds[rule])
            else:
                each = max([fmean(every)] + ages[rule])
            work += max(0, count) * each
            work -= sum(min(age, each) for age in ages[rule])
        return work / max(1, len(self._running))


def left(seconds: float | None) -> str:
    """A time left as text, such as "3 min left"; empty if it is unknown."""
    return "" if seconds is None else f"{as_text(seconds)} left"


def as_text(seconds: float) -> str:
    """A duration as text, such as "3 min"."""
    if seconds < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{round(hours / 24)} days"
