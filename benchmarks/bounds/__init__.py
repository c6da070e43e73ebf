"""Upper bounds on what any scheduler could achieve on a trace that it knows in advance.

Two sets of rules, named by ``bound_kind``:

- ``unbatched``: every job runs alone;
- ``batch-aware``: jobs of one batch key may run together, up to the step's batch_max,
  in the time that the step's curve says.

Both let the scheduler see the future, start any job at any moment (idling included),
forget the order of a stream's frames and run each step on any free slot. What they
keep: a frame exists from its arrival, takes its steps in order, each on its resource
for its drawn time at the clock of that moment, without interruption, and counts when
its last step has ended by its deadline. Refusals, credits, failures and contracts only
take away from that, so what a policy achieves is never more.

Three methods, each valid alone; the least of them counts:

- :mod:`bounds.flow`: work as a liquid, preemptive and divisible. Cheap; tight where
  capacity is what lacks;
- :mod:`bounds.starts`: when jobs and batches start, to a bucket of time. Sees that a
  job keeps its resource until it is done, and what a batch must wait for;
- :mod:`bounds.exact`: the integer optimum, for a second or so, if OR-Tools is there.
"""
