"""Networks that were exported for one image, made fit for several."""

from typing import Any

import numpy as np

from edgepipe.models.openvino_library import import_openvino

ov: Any = import_openvino()


def keep_images_apart(model: Any, size: int) -> None:
    """Let each Reshape that says "one image" say ``size`` images, in place.

    Exporters write the batch of one into the target of a Reshape, such as (1, -1, 80).
    Given more images, it would put the rows of all of them behind each other as those
    of one.

    Args:
        model: A network whose input has been reshaped to ``size`` images.
        size: More than one.
    """
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Reshape":
            continue
        target = node.input_value(1).get_node()
        if target.get_type_name() != "Constant" or not _holds(node, size):
            continue
        wanted = np.array(target.data).astype(np.int64)
        if len(wanted) and wanted[0] == 1:
            wanted[0] = size
            node.input(1).replace_source_output(ov.opset13.constant(wanted).output(0))
    model.validate_nodes_and_infer_types()


def _holds(node: Any, size: int) -> bool:
    """Whether what the node reshapes has a row for each image."""
    shape = node.input_value(0).get_partial_shape()
    return (
        not shape.rank.is_dynamic
        and len(shape) > 0
        and not shape[0].is_dynamic
        and shape[0].get_length() == size
    )
