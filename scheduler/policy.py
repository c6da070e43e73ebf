"""Scheduling policies. A policy is a sort key: the smallest job runs first."""

from collections.abc import Callable, Mapping

from edgepipe.scheduler.job import Job

Policy = Callable[[Job], tuple[int, ...]]


def earliest_deadline_first(job: Job) -> tuple[int, ...]:
    """Criticality bands, inside a band the nearest deadline (Liu and Layland, 1973).

    Ties go to the frame that arrived first.
    """
    return (job.band, job.deadline_ns, job.arrival)


def first_in_first_out(job: Job) -> tuple[int, ...]:
    """The frame that arrived first; knows neither deadlines nor criticality."""
    return (job.arrival,)


BY_NAME: Mapping[str, Policy] = {
    "edf": earliest_deadline_first,
    "fifo": first_in_first_out,
}
