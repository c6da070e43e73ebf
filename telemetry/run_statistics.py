"""Gathers what the frames of one run went through, one record at a time."""

from collections import Counter
from collections.abc import Iterable, Mapping

from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.samples import DEFAULT_CAPACITY, Samples


class StageStatistics:
    """What one stage did in the measured part of the run."""

    __slots__ = ("_last_start_ns", "queue", "resources", "service")

    def __init__(self, capacity: int) -> None:
        self.queue = Samples(capacity)
        """Waiting time of each frame, ns."""
        self.service = Samples(capacity)
        """Working time of each frame, ns; a whole batch's for a frame of a batch."""
        self.resources: set[str] = set()
        """Where it ran."""
        self._last_start_ns: dict[int, int] = {}

    def first_of_batch(self, span: Span) -> bool:
        """Whether this span is not one that another frame of its batch showed."""
        seen = self._last_start_ns.get(span.worker) == span.start_ns
        self._last_start_ns[span.worker] = span.start_ns
        return not seen


class LatencyParts:
    """Where the latency of a stream's delivered frames went: sums in nanoseconds.

    ``total = capture + all queues + all services + other``, exactly.
    """

    __slots__ = ("capture_ns", "n", "other_ns", "queue_ns", "service_ns", "total_ns")

    def __init__(self) -> None:
        self.n = 0
        self.total_ns = 0
        self.capture_ns = 0
        """From the capture until the first stage could begin."""
        self.other_ns = 0
        """Between the stages and after the last one; negative if stages overlap."""
        self.queue_ns: dict[str, int] = {}
        self.service_ns: dict[str, int] = {}

    def add(self, record: FrameRecord) -> None:
        """Split the latency of one delivered frame."""
        latency_ns = left_ns = record.latency_ns
        if record.spans:
            capture_ns = record.spans[0].ready_ns - record.capture_ns
            self.capture_ns += capture_ns
            left_ns -= capture_ns
        queues, services = self.queue_ns, self.service_ns
        for stage, ready_ns, start_ns, ended_ns, _, _ in record.spans:
            # What sinks do with a result once they have it is no latency.
            end_ns = min(ended_ns, record.done_ns)
            queues[stage] = queues.get(stage, 0) + start_ns - ready_ns
            services[stage] = services.get(stage, 0) + end_ns - start_ns
            left_ns -= end_ns - ready_ns
        self.n += 1
        self.total_ns += latency_ns
        self.other_ns += left_ns


class ThrottleSplit:
    """Frames that left while the device was throttled, apart from all others."""

    def __init__(self, latency_before: Samples, capacity: int) -> None:
        """``latency_before``: of all frames so far, none of which was throttled."""
        self.fates: Counter[str] = Counter()
        """Of throttled frames only."""
        self.latency = Samples(capacity)
        """Of throttled frames that were delivered, ns."""
        self.clear_latency = latency_before.copy()
        """Of the others, ns."""


class StreamStatistics:
    """What became of one stream's frames."""

    def __init__(self, capacity: int) -> None:
        self.fates: Counter[str] = Counter()
        """Measured frames by fate: ``completed``, ``late``, ``dropped:stale``, ..."""
        self.warm_up_fates: Counter[str] = Counter()
        self.latency = Samples(capacity)
        """Capture to delivery of each delivered frame, ns."""
        self.peak_age = Samples(capacity)
        """Age of the newest result just before the next one replaced it, ns."""
        self.intervals = Samples(capacity)
        """From one delivery to the next, ns."""
        self.variants: Counter[str] = Counter()
        self.on_time: Counter[str] = Counter()
        """Measured frames that were delivered in time, by variant."""
        self.objects = 0
        self.truncated = 0
        self.parts = LatencyParts()
        self.last_done_ns: int | None = None
        self.split: ThrottleSplit | None = None
        """None while no frame met a throttled device."""
        self.newest_capture_ns: int | None = None
        """Capture time of the newest frame that was delivered."""

    @property
    def delivered(self) -> int:
        """Measured frames whose result reached the sinks."""
        return self.fates["completed"] + self.fates["late"]

    def add_condition(self, record: FrameRecord, fate: str, throttled: bool) -> None:
        """Count one measured frame by the state of the device when it left."""
        split = self.split
        if split is None:
            if not throttled:
                return
            split = self.split = ThrottleSplit(self.latency, self.latency.capacity)
        if throttled:
            split.fates[fate] += 1
        if record.delivered:
            kept = split.latency if throttled else split.clear_latency
            kept.append(record.latency_ns)

    def add_delivered(self, record: FrameRecord) -> None:
        """Take one measured frame whose result reached the sinks."""
        done_ns = record.done_ns
        self.latency.append(record.latency_ns)
        if self.last_done_ns is not None:
            self.intervals.append(done_ns - self.last_done_ns)
        newest_ns = self.newest_capture_ns
        if newest_ns is not None:
            self.peak_age.append(done_ns - newest_ns)
        if newest_ns is None or record.capture_ns > newest_ns:
            self.newest_capture_ns = record.capture_ns
        self.last_done_ns = done_ns
        self.parts.add(record)
        self.objects += record.objects


class RunStatistics:
    """All statistics of one run. Warm-up frames are counted and kept apart.

    ``add`` is for one caller at a time; each sample store is bounded by ``capacity``
    and keeps the newest.
    """

    def __init__(
        self,
        capacity: int = DEFAULT_CAPACITY,
        streams: Iterable[str] = (),
        stages: Iterable[str] = (),
    ) -> None:
        """Take the memory for the named streams and stages now.

        Others are taken in when their first frame comes, and it waits for that.
        """
        self._capacity = capacity
        self._streams = {name: StreamStatistics(capacity) for name in streams}
        self._stages = {name: StageStatistics(capacity) for name in stages}
        self._busy_ns: dict[str, int] = {}
        self.warm_up_latency = Samples(capacity)
        """Latency of the frames delivered during the warm-up, ns."""

    @property
    def streams(self) -> Mapping[str, StreamStatistics]:
        """By stream id, in order of appearance."""
        return self._streams

    @property
    def stages(self) -> Mapping[str, StageStatistics]:
        """By stage name, in order of appearance."""
        return self._stages

    @property
    def busy_ns(self) -> Mapping[str, int]:
        """Working time by resource, summed over its slots; a batch counts once."""
        return self._busy_ns

    @property
    def delivered(self) -> int:
        """Measured frames of all streams whose results reached the sinks."""
        return sum(stream.delivered for stream in self._streams.values())

    def stream(self, name: str) -> StreamStatistics:
        """The statistics of one stream, empty ones if it had no frame yet."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = StreamStatistics(self._capacity)
        return found

    def add(self, record: FrameRecord, *, throttled: bool = False) -> None:
        """Count one frame that has left the pipeline.

        ``throttled``: whether something held the device's clocks down when it left.
        """
        stream = self.stream(record.stream)
        fate = f"{record.fate}:{record.reason}" if record.reason else record.fate
        if record.warm_up:
            stream.warm_up_fates[fate] += 1
            if record.delivered:
                self.warm_up_latency.append(record.latency_ns)
            return
        stream.add_condition(record, fate, throttled)
        stream.fates[fate] += 1
        stream.truncated += record.truncated
        if record.variant:
            stream.variants[record.variant] += 1
        if record.fate == "completed":
            stream.on_time[record.variant] += 1
        if record.delivered:
            stream.add_delivered(record)
        for span in record.spans:
            self._add_span(span, batched=record.batch > 1)

    def _add_span(self, span: Span, *, batched: bool) -> None:
        name, ready_ns, start_ns, end_ns, resource, _ = span
        stage = self._stages.get(name)
        if stage is None:
            stage = self._stages[name] = StageStatistics(self._capacity)
        stage.queue.append(start_ns - ready_ns)
        stage.service.append(end_ns - start_ns)
        stage.resources.add(resource)
        if not batched or stage.first_of_batch(span):
            busy_ns = self._busy_ns
            busy_ns[resource] = busy_ns.get(resource, 0) + end_ns - start_ns
