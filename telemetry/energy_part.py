"""Sums over a stretch of time, from which the energy of any window is put together."""

from dataclasses import dataclass


@dataclass(slots=True)
class Part:
    """What was seen between two marks that follow each other.

    Parts of adjacent stretches join to the part of the whole.
    """

    start_ns: int
    end_ns: int
    joules: float = 0.0
    covered_ns: int = 0
    samples: int = 0
    doubtful: int = 0
    """Of these, how many the sensor itself doubts."""
    rise_w: float = 0.0
    """Power at the ends less power at the beginnings of its covered stretches."""
    level_rise_w: float = 0.0
    """The same of power smoothed over half a second."""
    step_square: float = 0.0
    """Sum of the squared differences between readings that follow each other."""
    steps: int = 0
    stepped_ns: int = 0
    """Sum of the times between those readings."""
    largest_step: float = 0.0
    """The largest of those differences."""
    cell_square: float = 0.0
    """Sum of the squared differences between means of seconds that follow each
    other."""
    cells: int = 0
    leads: tuple[tuple[int, float], ...] = ()
    """When the earlier second began, and the squared difference, where that was before
    this part: what was before does not scatter within it."""
    changes: int = 0
    """How often a counter was seen to change."""
    resets: int = 0
    """How often a counter went back."""
    first_ns: int | None = None
    """First and last reading with a value."""
    last_ns: int | None = None
    inner_gap_ns: int = 0
    """The longest time between two readings that both lie in it."""

    @property
    def longest_gap_ns(self) -> int:
        """The longest time without a value, edges included."""
        return max(self.inner_gap_ns, self._lead_ns, self._tail_ns)

    @property
    def _lead_ns(self) -> int:
        first_ns = self.end_ns if self.first_ns is None else self.first_ns
        return first_ns - self.start_ns

    @property
    def _tail_ns(self) -> int:
        last_ns = self.start_ns if self.last_ns is None else self.last_ns
        return self.end_ns - last_ns

    def see(self, at_ns: int, doubtful: bool) -> None:
        """Count a reading that has a value."""
        self.doubtful += doubtful
        if self.last_ns is None:
            self.first_ns = at_ns
        else:
            self.inner_gap_ns = max(self.inner_gap_ns, at_ns - self.last_ns)
        self.last_ns = at_ns
        self.samples += 1

    def compare(self, earlier_ns: int, difference: float) -> None:
        """Take in how the means of two seconds differ."""
        square = difference * difference
        if earlier_ns >= self.start_ns:
            self.cell_square += square
            self.cells += 1
        else:
            self.leads = (*self.leads, (earlier_ns, square))

    def joined(self, after: "Part") -> "Part":
        """This part and the one that begins where it ends."""
        first_ns = after.first_ns if self.first_ns is None else self.first_ns
        last_ns = self.last_ns if after.last_ns is None else after.last_ns
        inner = [self.inner_gap_ns, after.inner_gap_ns]
        if self.last_ns is not None and after.first_ns is not None:
            inner.append(after.first_ns - self.last_ns)
        own = [square for at_ns, square in after.leads if at_ns >= self.start_ns]
        foreign = tuple(lead for lead in after.leads if lead[0] < self.start_ns)
        return Part(
            start_ns=self.start_ns,
            end_ns=after.end_ns,
            joules=self.joules + after.joules,
            covered_ns=self.covered_ns + after.covered_ns,
            samples=self.samples + after.samples,
            doubtful=self.doubtful + after.doubtful,
            rise_w=self.rise_w + after.rise_w,
            level_rise_w=self.level_rise_w + after.level_rise_w,
            step_square=self.step_square + after.step_square,
            steps=self.steps + after.steps,
            stepped_ns=self.stepped_ns + after.stepped_ns,
            largest_step=max(self.largest_step, after.largest_step),
            cell_square=self.cell_square + after.cell_square + sum(own),
            cells=self.cells + after.cells + len(own),
            leads=self.leads + foreign,
            changes=self.changes + after.changes,
            resets=self.resets + after.resets,
            first_ns=first_ns,
            last_ns=last_ns,
            inner_gap_ns=max(inner),
        )
