"""NVML itself and one of its GPUs: opened, lost, found again.

The only module that imports pynvml, and only when it is asked to.
"""

import contextlib
import importlib
import logging
import warnings
from typing import Any

log = logging.getLogger("edgepipe")

_NOT_HERE = frozenset({9, 12})
"""No driver, no library: what a machine without such a GPU says."""
_NEVER = frozenset({3, 4, 13, 24, 25, 26})
"""Not supported, forbidden, unknown to this driver: it will not change."""
_LOST = frozenset({1, 9, 15, 16, 28})
"""Lost, to be reset, driver unloaded: no call can succeed, but it may come back."""
_NOT_READY = 27
_REOPEN_NS = 5_000_000_000
_SILENT_NS = 3_000_000_000
"""After so long without any answer NVML is opened anew, whatever the error says."""


def code_of(error: Exception) -> int:
    """NVML's number of an error; -1 for an error of another kind."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else -1


def words_of(error: Exception) -> str:
    """What an error says; never empty."""
    return str(error) or type(error).__name__


def is_final(error: Exception) -> bool:
    """Whether the same call would fail for ever."""
    return isinstance(error, AttributeError) or code_of(error) in _NEVER


class Library:
    """pynvml or what stands for it, initialised, with one warning for each cause."""

    def __init__(self, api: Any) -> None:
        self.api = api
        # ValueError, TypeError: text that is no UTF-8, structures of other releases.
        self.errors: tuple[type[Exception], ...] = (
            api.NVMLError,
            # A call that the driver is too old for; in pynvml no NVMLError.
            getattr(api, "NVMLLibraryMismatchError", api.NVMLError),
            AttributeError,
            OSError,
            TypeError,
            ValueError,
        )
        self.generation = 0
        """Rises when handles become void."""
        self._users = 0
        self._warned = set[str]()
        self._reopened_ns: int | None = None
        self.api.nvmlInit()

    def warn(self, text: str) -> None:
        """Tell it, once."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("NVML: %s", text)

    def count(self) -> int:
        """How many GPUs there are; 0 if that cannot be had."""
        try:
            return int(self.api.nvmlDeviceGetCount())
        except self.errors as error:
            self.warn(f"the GPUs cannot be counted: {words_of(error)}")
            return 0

    def reopen(self, now_ns: int) -> None:
        """Initialise anew, if that was not tried a moment ago.

        A driver that was loaded again is not seen otherwise.
        """
        if self._reopened_ns is not None and now_ns - self._reopened_ns < _REOPEN_NS:
            return
        self._reopened_ns = now_ns
        self._shut_down()
        try:
            self.api.nvmlInit()
        except self.errors:
            return
        self.generation += 1

    def hold(self) -> None:
        """One more user."""
        self._users += 1

    def release(self) -> None:
        """One user less; after the last one nothing is held."""
        self._users -= 1
        if self._users <= 0:
            self._shut_down()

    def _shut_down(self) -> None:
        # If the driver is gone, so is what there was to give back.
        with contextlib.suppress(*self.errors):
            self.api.nvmlShutdown()


def open_library(api: Any = None) -> Library | None:
    """NVML, or None where there is none; anything else that is wrong is told.

    Args:
        api: An object with pynvml's functions; None imports pynvml.
    """
    api = _import() if api is None else api
    if api is None:
        return None
    try:
        return Library(api)
    except (api.NVMLError, OSError, AttributeError) as error:
        if code_of(error) not in _NOT_HERE:
            log.warning("NVML cannot be used: %s", words_of(error))
        return None


def _import() -> Any:
    try:
        with warnings.catch_warnings():
            # An older package of the same name warns of itself.
            warnings.simplefilter("ignore")
            return importlib.import_module("pynvml")
    except (ImportError, OSError):
        return None


class Device:
    """One GPU, its handle, and whether it is lost at present.

    Raises:
        Exception: One of ``library.errors``: there is no such GPU.
    """

    def __init__(self, library: Library, index: int) -> None:
        self.library = library
        self.index = index
        self.name = f"gpu{index}"
        self.handle: Any = library.api.nvmlDeviceGetHandleByIndex(index)
        self.lost = ""
        """Why nothing can be had of it in this sweep; empty while it answers."""
        self.may_come_back = False
        """A failure said that the GPU is there and cannot be used yet."""
        self.model = self._fact("nvmlDeviceGetName")
        self._uuid = self._fact("nvmlDeviceGetUUID")
        self._generation = library.generation
        self._failing = False
        self._failing_since_ns: int | None = None

    def _fact(self, name: str) -> str:
        try:
            told = getattr(self.library.api, name)(self.handle)
        except self.library.errors:
            return ""
        return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)

    @property
    def sliced(self) -> bool:
        """Whether it is cut into slices, whose power cannot be told apart."""
        try:
            return bool(self.library.api.nvmlDeviceGetMigMode(self.handle)[0])
        except self.library.errors:
            return False

    def begin(self, now_ns: int) -> None:
        """A sweep begins: what was lost is tried again."""
        if not self._failing:
            self._failing_since_ns = None
        elif self._failing_since_ns is None:
            self._failing_since_ns = now_ns
        if self.lost or self._silent(now_ns):
            self.library.reopen(now_ns)
        self.lost = ""
        if self._generation != self.library.generation:
            self._look_up()

    def _silent(self, now_ns: int) -> bool:
        since_ns = self._failing_since_ns
        return since_ns is not None and now_ns - since_ns >= _SILENT_NS

    def _look_up(self) -> None:
        """After a new start handles are void, and numbers may have moved."""
        api = self.library.api
        try:
            if self._uuid:
                self.handle = api.nvmlDeviceGetHandleByUUID(self._uuid)
            else:
                self.handle = api.nvmlDeviceGetHandleByIndex(self.index)
        except self.library.errors as error:
            self.lost = words_of(error)
        else:
            self._generation = self.library.generation

    def answered(self) -> None:
        """A call succeeded."""
        self._failing = False

    def failed(self, error: Exception) -> None:
        """A call failed that need not fail for ever."""
        self._failing = True
        code = code_of(error)
        self.may_come_back |= code == _NOT_READY or code in _LOST
        if code in _LOST:
            self.lost = words_of(error)
            self.library.warn(f"{self.name} does not answer: {self.lost}")
