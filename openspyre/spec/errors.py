"""The catalogue of errors: one class per mistake, each also of the builtin kind its user would catch.

The card's C++ half raises the same classes: its enumeration of faults is generated from `by_fault`.
"""


class SpyreError(RuntimeError):
    """Anything that went wrong in this stack; catch this to catch them all."""


class InvalidArgument(SpyreError, ValueError):
    """A call whose arguments make no sense together."""


class InvalidDevice(SpyreError, ValueError):
    """There is no such card, or no such stream on it."""


# No TypeError: Python takes one in `x + y` for a hint to try y's operator, and the text would be lost.
class UnsupportedFormat(SpyreError):
    """An element type, or a conversion between two, that the card does not have."""


class InvalidLayout(SpyreError, ValueError):
    """A layout that contradicts itself or does not fit its tensor."""


class UnsupportedRank(InvalidLayout):
    """More dimensions than a tiled layout can have."""

    def __init__(self, rank: int, limit: int) -> None:
        super().__init__(
            f"Unsupported tensor rank: {rank} (a tiled layout has at most {limit} dimensions, "
            "the -1 of a sparse dim_order included; reshape the tensor to fewer dimensions)"
        )
        self.rank = rank
        self.limit = limit

    def __reduce__(self) -> tuple[type["UnsupportedRank"], tuple[int, int]]:
        return type(self), (self.rank, self.limit)


class ValueOutOfRange(SpyreError, OverflowError):
    """A value the device format cannot hold, such as an int64 beyond int32."""


class IndexOutOfRange(SpyreError, IndexError):
    """An index tensor points outside the tensor it indexes; found by the card, told when the host next waits for it."""


class SanitizerFinding(SpyreError):
    """The sanitizer saw memory used wrongly; it says what, where, on which core, and which line launched it."""


class MissingPackage(SpyreError, ImportError):
    """Something that is not installed with openspyre, because few need it."""


class CacheWarning(UserWarning):
    """Compiled programs cannot be kept on disk: results are the same, starts take longer."""


class SaveWarning(UserWarning):
    """A launch that was to be saved is not: no room on disk, or no memory. The launch itself goes on."""


class OptionWarning(UserWarning):
    """An environment variable or a planning option that has no effect here."""


class HintWarning(UserWarning):
    """A name of a dim, or a hint to the planner, that has no effect, or less than was asked for."""


class MonitorWarning(UserWarning):
    """The counters of this process cannot be shown to others: `openspyre smi` does not see it."""


class SanitizerWarning(UserWarning):
    """What the sanitizer finds questionable but torch allows: reading what nobody wrote, int64 that wraps."""


class OutOfMemory(SpyreError, MemoryError):
    """The card, or the host under it, has no room for an allocation."""


class CardLost(SpyreError):
    """The card fell off the bus; it refuses all work until it is reset."""


class BadFork(SpyreError):
    """A card was used in a forked child of a process that had already started it."""


class EnvironmentVariableError(SpyreError, ValueError):
    """An environment variable has a value nobody can act on."""

    def __init__(self, variable: str, value: str, accepted: str) -> None:
        super().__init__(f"{variable}={value!r} is not valid: {accepted}")
        self.variable = variable
        self.value = value
        self.accepted = accepted

    def __reduce__(self) -> tuple[type["EnvironmentVariableError"], tuple[str, str, str]]:
        return type(self), (self.variable, self.value, self.accepted)


class InternalError(SpyreError):
    """A bug of ours, not a mistake of the user's."""

    _PLEA = "\nThis is a bug in openspyre, not in your program: please report it with the output of `openspyre doctor`."

    def __init__(self, message: str) -> None:
        super().__init__(message if message.endswith(self._PLEA) else message + self._PLEA)


by_fault: dict[str, type[SpyreError]] = {
    "InvalidArgument": InvalidArgument,
    "InvalidDevice": InvalidDevice,
    "UnsupportedFormat": UnsupportedFormat,
    "InvalidLayout": InvalidLayout,
    "ValueOutOfRange": ValueOutOfRange,
    "OutOfMemory": OutOfMemory,
    "CardLost": CardLost,
    "BadFork": BadFork,
    "Internal": InternalError,
    "IndexOutOfRange": IndexOutOfRange,
    "SanitizerFinding": SanitizerFinding,
}
