"""From what was found at a source to sentences for its owner. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from edgepipe.stages.sources.examine import Container, Examination
from edgepipe.stages.sources.vitals import Structure


class Remark(NamedTuple):
    """Something that was found, and what edgepipe does about it."""

    found: str
    does: str
    is_trouble: bool = False
    """Whether frames are lost or cannot be had by it."""


def remarks(found: Examination) -> list[Remark]:
    """Everything worth saying, the troubles first."""
    every = [*_time(found), *_events(found), *_pictures(found)]
    if found.structure is not None:
        every += _of_structure(found, found.structure)
    if found.container is not None:
        every += _of_container(found, found.container)
    return sorted(every, key=lambda each: not each.is_trouble)


def _time(found: Examination) -> Iterator[Remark]:
    rhythm = found.rhythm
    if not rhythm.frames:
        yield Remark("no frame came", "there is nothing to work on", is_trouble=True)
        return
    if not rhythm.is_regular:
        yield Remark(
            f"frames do not come regularly: {rhythm.shortest_ms:.1f} to"
            f" {rhythm.longest_ms:.1f} ms apart",
            "each is played at its own time; plans use the usual distance",
        )
    decoding, usual_ms = found.decode_ms, rhythm.usual_ms
    if decoding is not None and usual_ms is not None and decoding.p90 > usual_ms:
        yield Remark(
            f"decoding takes {decoding.p90:.1f} ms here, and frames come each"
            f" {usual_ms:.1f} ms",
            "this machine cannot decode every frame: some are left out",
            is_trouble=True,
        )
    state, detail = found.end
    if state == "truncated":
        words = f"it ends too early: {detail}" if detail else "it ends too early"
        yield Remark(words, "what is there is used; the run says so", is_trouble=True)
    if found.info.held_ns:
        held_ms = found.info.held_ns / 1e6
        yield Remark(
            f"a frame is handed over when the next one begins, {held_ms:.0f} ms later",
            f"with a deadline of {held_ms:.0f} ms or less none would be in time",
        )
    for warning in found.warnings:
        yield Remark(warning, "said at the start of each run")


_SENTENCES = {
    "gap": ("{n} gap{s}, the longest {gap:.3f} s", "told to the tracker; times stay"),
    "discontinuity": (
        "{n} time{s} what follows does not continue what was before",
        "times go on without a gap; tracks end there",
    ),
    "wrap": ("the counter of the stamps ran over {n} time{s}", "times go on"),
    "duplicate": (
        "{n} stamp{s} came twice or were none",
        "they are moved up by half of what is left of a frame",
    ),
    "regression": ("{n} stamp{s} went back", "they are moved up behind the one before"),
    "stalled": ("the camera stalled {n} time{s}", "it is waited for, then opened anew"),
    "frozen": ("the camera froze {n} time{s}", "it is told and counted"),
    "backing off": ("the camera was lost {n} time{s}", "it is opened again"),
}
_TROUBLES = frozenset({"stalled", "frozen", "backing off", "gone"})


def _events(found: Examination) -> Iterator[Remark]:
    for kind, n in sorted(found.events.items()):
        if kind in _SENTENCES:
            words, does = _SENTENCES[kind]
            text = words.format(n=n, s="" if n == 1 else "s", gap=found.longest_gap_s)
            yield Remark(text, does, is_trouble=kind in _TROUBLES)


def _pictures(found: Examination) -> Iterator[Remark]:
    if found.damaged:
        yield Remark(
            f"{found.damaged} of {found.looked_at} frames have no usable picture",
            "they are dropped as damaged, never shown",
            is_trouble=True,
        )
    if len(found.sizes) > 1:
        sizes = ", ".join(f"{width} x {height}" for width, height in found.sizes[:5])
        yield Remark(f"the size changes: {sizes}", "each is fitted; tracks end there")
    if found.rotation:
        yield Remark(
            f"pictures lie on their side by {abs(found.rotation)} degrees",
            "they are turned upright",
        )


def _of_structure(found: Examination, structure: Structure) -> Iterator[Remark]:
    usual_ms = found.rhythm.usual_ms
    if structure.reorder_depth:
        held = ""
        if usual_ms is not None:
            held = f", {structure.reorder_depth * usual_ms:.0f} ms of a camera's time"
        yield Remark(
            f"B-frames: up to {structure.reorder_depth} frames are decoded before one"
            " that is shown before them",
            f"the decoder holds back as many{held}; a recording loses nothing by it",
        )
    if structure.key_distance is not None and structure.key_distance[2] > 1:
        low, usual, high = structure.key_distance
        yield Remark(
            f"a key frame each {usual:g} frames ({low} to {high})",
            f"after damage up to {high} frames are lost",
        )
    elif structure.key_frames < 2 < structure.packets:
        yield Remark(
            f"{structure.key_frames} key frame in {structure.packets} frames",
            "after damage everything up to the end is lost",
        )


def _of_container(found: Examination, container: Container) -> Iterator[Remark]:
    fps, header = found.rhythm.fps, container.header_fps
    if fps is not None and header is not None and abs(fps - header) > 0.02 * header:
        yield Remark(
            f"the header says {header:g} fps, the stamps {fps:.3f}",
            "the stamps are used",
        )
    seconds, real = container.header_duration_s, found.rhythm.duration_s
    over = found.end[0] != "stopped"
    if over and seconds is not None and abs(seconds - real) > max(0.1, 0.02 * seconds):
        yield Remark(
            f"the header says {seconds:.2f} s, the frames last {real:.2f} s",
            "the frames are used",
        )
    if container.matrix == "not said" and not (container.pixel_format or "").startswith(
        ("rgb", "bgr", "gbr", "gray", "pal")
    ):
        yield Remark("no colour matrix is named", "BT.601 is used, as FFmpeg does")
    if container.videos > 1:
        yield Remark(f"{container.videos} videos are in it", "the first is used")
