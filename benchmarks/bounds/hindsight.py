"""A good schedule in hindsight: how far above what is possible may a bound be?

For frames that count alike, need one batched step on a resource with one slot and have
windows of the same length, a best schedule may serve them in order of their due times,
in batches of neighbours, if they also take the same time: two frames of a schedule that
stand in the wrong order can change places. So the earliest moment at which m of the
first i frames can be done follows from the same for fewer frames. With times that
differ by a few percent the schedule is still a schedule, and hardly worse.

Other resources are counted by their least times only: take it as a guide.
"""

from collections import deque

import numpy as np

from bounds.problem import Batching, Problem

ALONE = Batching(1, (), 0)


def hindsight(problem: Problem, resource: str) -> int:
    """Frames that a schedule known to exist completes in time."""
    parts = sorted(
        (part for f in problem.frames for part in f.choices[0].parts),
        key=lambda part: part.due_ns,
    )
    parts = [part for part in parts if part.resource == resource]
    if not parts:
        return 0
    batching = problem.batching.get(parts[0].key, ALONE)
    clock = problem.clocks[resource]
    nothing = np.full(len(parts) + 1, np.inf)
    nothing[0] = -np.inf
    done = deque([nothing], maxlen=batching.most)
    """Of the last few prefixes, by the number of frames done: when."""
    for last, part in enumerate(parts):
        best = done[-1].copy()
        for size in range(1, min(batching.most, last + 1) + 1):
            batch = parts[last + 1 - size : last + 1]
            work = batching.share(size) * sum(member.work_ns for member in batch)
            before = done[-size][: len(best) - size]
            start = np.maximum(before, max(member.ready_ns for member in batch))
            end = start + clock.shortest_ns(int(work), part.ready_ns, part.due_ns)
            end[end > min(member.due_ns for member in batch)] = np.inf
            end[np.isinf(before) & (before > 0)] = np.inf
            best[size:] = np.minimum(best[size:], end)
        done.append(best)
    return int(np.flatnonzero(done[-1] < np.inf).max())
