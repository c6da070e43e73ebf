"""Whether the clocks that ``jetson_clocks`` pinned would last."""

import re

from edgepipe.telemetry.sensors.tree import Tree

_UNIT = "nvpmodel.service"
_PLACES = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system")


def is_undone_by_systemd(tree: Tree) -> bool | None:
    """Whether ``systemctl isolate`` sets the mode again and so loses pinned clocks.

    The service runs once and is then forgotten, unless ``RemainAfterExit`` is set.
    None when there is no such service.
    """
    units = [text for place in _PLACES if (text := tree.text(f"{place}/{_UNIT}"))]
    if not units:
        return None
    # The first place wins; drop-ins of all places are added to it.
    texts = [units[0]] + [
        tree.text(path) or ""
        for place in reversed(_PLACES)
        for path in tree.glob(f"{place}/{_UNIT}.d/*.conf")
    ]
    said = re.findall(r"^\s*RemainAfterExit\s*=\s*(\w+)", "\n".join(texts), re.M)
    return not (said and said[-1].lower() in ("yes", "true", "1", "on"))
