"""The keys of a model card."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, cast, get_args

from pydantic import Field, Strict

from edgepipe.configs.kinds import (
    Kind,
    UnfitError,
    choice,
    file_path,
    identifier,
    or_null,
    real,
    switch,
    text,
    whole,
)
from edgepipe.configs.scalars import is_list
from edgepipe.configs.section import Section
from edgepipe.models.head_options import (
    Background,
    BoxFormat,
    PointFormat,
    Row,
    ScoreKind,
)

Precision = Literal["int8", "fp32"]
Color = Literal["bgr", "rgb"]
Order = Literal["nchw", "nhwc"]
Number = Literal["float32", "uint8"]
Alignment = Literal["center", "top_left", "stretch"]
Three = tuple[float, float, float]
ThreeWhole = tuple[int, int, int]
Several = tuple[int, ...]
Rows = tuple[Row, ...]


def several(kind: Kind, least: int, most: int) -> Kind:
    """A list of values of one kind."""

    def read(value: object) -> object:
        if not is_list(value) or not least <= len(value) <= most:
            raise UnfitError
        return tuple(kind.read(item) for item in value)

    number = f"{least}" if least == most else f"{least} to {most}"
    schema = {
        "type": "array",
        "items": dict(kind.schema),
        "minItems": least,
        "maxItems": most,
    }
    return Kind(f"a list of {number} values, each {kind.wanted}", read, schema)


def three(kind: Kind) -> Kind:
    """A list of three values of one kind, one for each channel."""
    return several(kind, 3, 3)


FOUR = several(real(-1e6, 1e6), 4, 4)


def one_of(words: object) -> Kind:
    """One of the words of a Literal."""
    return choice(get_args(words))


def inside() -> Kind:
    """A path below the folder of the card: a card and its files move together."""
    plain = file_path()

    def read(value: object) -> str:
        path = cast(str, plain.read(value))
        if path.startswith("/") or "\\" in path or ".." in PurePosixPath(path).parts:
            raise UnfitError("it must lie in the card's own folder or below")
        return path

    return Kind("a relative path", read, plain.schema)


def digest() -> Kind:
    """The sha256 of a file."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
            raise UnfitError
        return str(value)

    schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    return Kind("64 hexadecimal digits in lower case", read, schema)


class FileEntry(Section):
    """One ONNX file of the model."""

    precision: Annotated[Precision, choice(get_args(Precision))] = Field(
        description="What the network computes in."
    )
    path: Annotated[str, inside()] = Field(
        description="The file, relative to the card, in its folder or below."
    )
    sha256: Annotated[str | None, or_null(digest())] = Field(
        default=None, description="Hash of the file; null: any file will do."
    )


class InputEntry(Section):
    """What the network wants to be given."""

    name: Annotated[str, text()] = Field(description="Name of the input tensor.")
    height: Annotated[int, whole(8, 8192)] = Field(description="In pixels.")
    width: Annotated[int, whole(8, 8192)] = Field(description="In pixels.")
    color: Annotated[Color, choice(get_args(Color))] = Field(
        description="Order of the channels."
    )
    mean: Annotated[Three, three(real(-1000, 1000))] = Field(
        description="Subtracted from each channel, in the network's order, on the scale"
        " from 0 to 255."
    )
    std: Annotated[Three, three(real(0.001, 1000))] = Field(
        description="Each channel is divided by it afterwards."
    )
    layout: Annotated[Order, choice(get_args(Order))] = Field(
        default="nchw",
        description="Order of the tensor's dimensions: image, channel, height, width or"
        " image, height, width, channel.",
    )
    type: Annotated[Number, choice(get_args(Number))] = Field(
        default="float32",
        description="Numbers of the tensor. `uint8` is for a network that takes pixels"
        " as they are: `mean` is then 0 and `std` 1.",
    )
    align: Annotated[Alignment, choice(get_args(Alignment))] = Field(
        default="center",
        description="Where the image lies when its shape is another than the input's;"
        " `stretch` fills the input instead.",
    )
    pad_value: Annotated[ThreeWhole, three(whole(0, 255))] = Field(
        default=(114, 114, 114),
        description="Colour of what the image leaves free, in the network's order.",
    )


class HeadEntry(Section):
    """How the outputs become boxes, classes or keypoints.

    docs/models.md says which keys a head uses; any other is an error.
    """

    kind: Annotated[str, text()] = Field(description="Name of the decoder.")
    outputs: Annotated[tuple[Annotated[str, text()], ...], Strict(False)] = Field(
        min_length=1, description="Names of the outputs in the decoder's order."
    )
    strides: Annotated[Several | None, or_null(several(whole(1, 1024), 1, 8))] = Field(
        default=None,
        description="Pixels of the input for each cell of a level, in the output's"
        " order.",
    )
    anchors: Annotated[Rows | None, or_null(several(FOUR, 1, 1_000_000))] = Field(
        default=None, description="cx, cy, w, h of each anchor, in the output's order."
    )
    anchors_file: Annotated[str | None, or_null(inside())] = Field(
        default=None,
        description="The same from a file, relative to the card: `.npy`, or text with"
        " one anchor a line.",
    )
    anchors_per_cell: Annotated[
        Several | None, or_null(several(whole(1, 64), 1, 8))
    ] = Field(default=None, description="Anchors on each cell of a level.")
    variances: Annotated[Row | None, or_null(several(real(1e-6, 1e6), 4, 4))] = Field(
        default=None, description="Factors of the offsets of cx, cy, w, h."
    )
    box_format: Annotated[BoxFormat | None, or_null(one_of(BoxFormat))] = Field(
        default=None, description="Order of a box's values."
    )
    normalized: Annotated[bool | None, or_null(switch())] = Field(
        default=None,
        description="Whether lengths are shares of the input's sides, not pixels.",
    )
    decoded: Annotated[bool | None, or_null(switch())] = Field(
        default=None, description="Whether the graph itself makes boxes of its offsets."
    )
    scores: Annotated[ScoreKind | None, or_null(one_of(ScoreKind))] = Field(
        default=None,
        description="What is still to be done to the scores: nothing (probabilities), a"
        " sigmoid of each, or a softmax.",
    )
    background: Annotated[Background | None, or_null(one_of(Background))] = Field(
        default=None, description="Which column of the scores is no class."
    )
    keypoints: Annotated[PointFormat | None, or_null(one_of(PointFormat))] = Field(
        default=None,
        description="Values of a keypoint; s is its score, z is left out.",
    )


class ClassesEntry(Section):
    """What the classes are called: one of the two keys."""

    names: Annotated[tuple[Annotated[str, text()], ...] | None, Strict(False)] = Field(
        default=None, min_length=1, description="The names in class order."
    )
    file: Annotated[str | None, or_null(inside())] = Field(
        default=None,
        description="A text file with one name a line, relative to the card.",
    )


class CardEntry(Section):
    """A model's card."""

    name: Annotated[str, identifier()] = Field(description="Name of the model.")
    files: Annotated[tuple[FileEntry, ...], Strict(False)] = Field(
        min_length=1, description="The model's files, one for each precision."
    )
    input: InputEntry = Field(description="What goes in.")
    head: HeadEntry = Field(description="What comes out.")
    classes: ClassesEntry = Field(description="What the classes are called.")
    score_threshold: Annotated[float | None, or_null(real(0, 1))] = Field(
        default=None,
        description="Lowest score of a detection or of a keypoint; a detector's card"
        " must say it.",
    )
    iou_threshold: Annotated[float | None, or_null(real(0, 1))] = Field(
        default=None,
        description="Overlap above which the weaker of two detections is removed; the"
        " card of a detector that needs NMS must say it.",
    )
    max_detections: Annotated[int, whole(1, 10_000)] = Field(
        default=100, description="Most detections kept in a frame."
    )
    class_agnostic: Annotated[bool, switch()] = Field(
        default=False,
        description="Whether detections of different classes remove each other.",
    )
    licence: Annotated[str, text(longest=10_000, lines=True)] = Field(
        default="not stated", description="Terms of the weights."
    )
    provenance: Annotated[str, text(longest=10_000, lines=True)] = Field(
        default="not stated", description="Where the files came from."
    )
