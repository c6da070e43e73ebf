"""The kinds of sinks and their keys."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag

from edgepipe.configs.kinds import choice, file_path, switch
from edgepipe.configs.scalars import is_mapping
from edgepipe.configs.section import Section

Codec = Literal["vp9", "mpeg4"]

IN_RUN_FOLDER = "A relative path is relative to the run folder."
PER_STREAM = (
    f"{IN_RUN_FOLDER} `{{stream}}` stands for the id of the stream and is required"
    " when there are several."
)


class JsonlSink(Section):
    """One JSON object a line for every frame."""

    kind: Annotated[Literal["jsonl"], choice(("jsonl",))] = Field(description="`jsonl`")
    path: Annotated[str, file_path()] = Field(
        description=f"File to write. {IN_RUN_FOLDER}"
    )


class MotSink(Section):
    """Tracks as MOTChallenge text."""

    kind: Annotated[Literal["mot"], choice(("mot",))] = Field(description="`mot`")
    path: Annotated[str, file_path()] = Field(
        description=f"File to write. {PER_STREAM}"
    )


class CocoSink(Section):
    """Detections as COCO results."""

    kind: Annotated[Literal["coco"], choice(("coco",))] = Field(description="`coco`")
    path: Annotated[str, file_path()] = Field(
        description=f"File to write. {PER_STREAM}"
    )


class VideoSink(Section):
    """The frames with boxes drawn on them, as a video."""

    kind: Annotated[Literal["video"], choice(("video",))] = Field(description="`video`")
    path: Annotated[str, file_path()] = Field(
        description=f"File to write. {PER_STREAM}"
    )
    codec: Annotated[Codec, choice(get_args(Codec))] = Field(
        default="vp9", description="How the video is compressed."
    )


class McapSink(Section):
    """Boxes, and pictures if wanted, as MCAP for Foxglove (extra `robot`)."""

    kind: Annotated[Literal["mcap"], choice(("mcap",))] = Field(description="`mcap`")
    path: Annotated[str, file_path()] = Field(
        description=f"File to write. {IN_RUN_FOLDER}"
    )
    pictures: Annotated[bool, switch()] = Field(
        default=True,
        description="Write the pictures, too, as JPEG. Without them the file is opened"
        " beside the recording that was played.",
    )


class NullSink(Section):
    """Takes the results and keeps nothing."""

    kind: Annotated[Literal["null"], choice(("null",))] = Field(description="`null`")


def _sink_kind(value: Any) -> str | None:
    kind = value.get("kind") if is_mapping(value) else getattr(value, "kind", "")
    return str(kind) if isinstance(kind, str) else None


SinkConfig = Annotated[
    Annotated[JsonlSink, Tag("jsonl")]
    | Annotated[MotSink, Tag("mot")]
    | Annotated[CocoSink, Tag("coco")]
    | Annotated[VideoSink, Tag("video")]
    | Annotated[McapSink, Tag("mcap")]
    | Annotated[NullSink, Tag("null")],
    Discriminator(_sink_kind),
]
"""Where results go."""
