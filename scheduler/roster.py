"""The streams and resources that there are, and what joining them takes."""

from collections.abc import Iterable
from dataclasses import replace

from edgepipe.scheduler.admission import admit
from edgepipe.scheduler.budget import StepCost
from edgepipe.scheduler.events import Admitted, Refused
from edgepipe.scheduler.job import PERMILLE, Resource, Rung, Step, StreamSpec
from edgepipe.scheduler.policy import Policy
from edgepipe.scheduler.state import ResourceState, StreamState


class Roster:
    """Streams by id and resources by name. Steps with one batch key share their costs.

    Raises:
        ValueError: From :meth:`join`: the id is taken, or a resource does not exist.
    """

    def __init__(self, resources: Iterable[Resource], policy: Policy) -> None:
        self._policy = policy
        self.streams: dict[str, StreamState] = {}
        self.resources = {
            resource.name: ResourceState(resource, policy.plan and resource.planned)
            for resource in resources
        }
        self._shared: dict[tuple[str, int], StepCost] = {}
        """By batch key and thousandths of the cost on rung 0."""
        self._joined = 0

    def join(self, spec: StreamSpec) -> StreamState:
        """Take a stream in."""
        if spec.id in self.streams:
            raise ValueError(f"there is a stream {spec.id!r} already")
        for step in spec.steps:
            if step.resource not in self.resources:
                raise ValueError(
                    f"step {step.name!r} needs resource {step.resource!r}, "
                    f"which does not exist"
                )
        places = [self.resources[step.resource] for step in spec.steps]
        stream = StreamState(spec, self._joined, places, self._costs(spec))
        self._joined += 1
        self.streams[spec.id] = stream
        for place in dict.fromkeys(places):
            place.add_user(stream)
        return stream

    def retire(self, stream: StreamState) -> None:
        """The stream asks for nothing any more, but some of it may still run."""
        stream.is_leaving = True
        for place in dict.fromkeys(stream.places):
            place.remove_user(stream)

    def leave(self, stream: StreamState) -> bool:
        """Forget a stream; False if that was done before."""
        if self.streams.get(stream.spec.id) is not stream:
            return False
        del self.streams[stream.spec.id]
        return True

    def set_clock(self, name: str, permille: int) -> ResourceState:
        """A resource runs at so many thousandths of full clock from now on."""
        resource = self.resources[name]
        resource.clock_permille = permille = max(1, permille)
        for stream in self.streams.values():
            for row in stream.costs:
                for place, cost in zip(stream.places, row, strict=True):
                    if place is resource:
                        cost.set_clock(permille)
        return resource

    def judge(self, spec: StreamSpec) -> Admitted | Refused:
        """Whether a stream may join without breaking the promises made so far.

        Policies that do not plan make no promises and take everybody who is new.
        """
        if spec.id in self.streams:
            return Refused(spec.id, "", 0, spec.id)
        for step in spec.steps:
            if step.resource not in self.resources:
                return Refused(spec.id, step.resource, 0, "")
        if not self._policy.plan:
            return Admitted(spec.id)
        return admit(
            self._promised(spec),
            [
                self._promised(stream.spec)
                for stream in self.streams.values()
                if not stream.is_leaving
            ],
            [Resource(r.name, r.slots) for r in self.resources.values()],
            self._work_ns,
            {r.name: r.clock_permille for r in self.resources.values()},
            batched=self._policy.batch,
        )

    def _promised(self, spec: StreamSpec) -> StreamSpec:
        """The stream with the rungs that the policy may use."""
        return spec if self._policy.ladder else replace(spec, ladder=spec.ladder[:1])

    def _work_ns(self, spec: StreamSpec, step: int) -> int:
        """What the step takes alone on the cheapest rung, at full clock."""
        scale = _scale(spec.ladder[-1], step)
        stream = self.streams.get(spec.id)
        if stream is not None:
            cost = stream.costs[len(spec.ladder) - 1][step]
        else:
            known = self._shared.get((spec.steps[step].batch_key, scale))
            cost = known or StepCost(0, ())
        if not cost.alone.measured:
            return spec.steps[step].cost_ns * scale // PERMILLE
        return cost.alone.mean_ns * cost.alone.clock_permille // PERMILLE

    def _costs(self, spec: StreamSpec) -> list[list[StepCost]]:
        """The stream's costs by rung and step."""
        costs: list[list[StepCost]] = []
        for number, rung in enumerate(spec.ladder):
            row: list[StepCost] = []
            for index, step in enumerate(spec.steps):
                scale = _scale(rung, index)
                same_as_full = number and scale == PERMILLE
                row.append(costs[0][index] if same_as_full else self._cost(step, scale))
            costs.append(row)
        return costs

    def _cost(self, step: Step, scale: int) -> StepCost:
        clock = self.resources[step.resource].clock_permille
        expected_ns = step.cost_ns * scale // PERMILLE
        if not step.batch_key:
            return StepCost(expected_ns, (), clock)
        key = (step.batch_key, scale)
        if key not in self._shared:
            self._shared[key] = StepCost(expected_ns, step.batch_curve, clock)
        # Nobody told it of changes while no stream used it.
        self._shared[key].set_clock(clock)
        return self._shared[key]


def _scale(rung: Rung, step: int) -> int:
    """Cost of a step on a rung in thousandths of its cost on rung 0."""
    return rung.cost_permille[step] if rung.cost_permille else PERMILLE
