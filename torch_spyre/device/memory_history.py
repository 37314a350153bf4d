"""Who allocated what on the cards, and when: torch.cuda.memory's functions, in the format that torch's memory viewer reads."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, Literal

from openspyre.spec.errors import InvalidArgument
from openspyre.tools.whole_file import whole_file
from torch_spyre import _torch, torch_seams
from torch_spyre.device import module_paths

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "oom", "snapshot")
_STACKS = {None: 0, "state": 1, "alloc": 2, "all": 3}


def _record_memory_history(
    enabled: Literal["state", "all"] | bool | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "python",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Record who allocates memory on the cards, with stacks; None ends it and drops the trace, so take the snapshot before.

    `enabled`: "state" keeps who holds what now and at the peak, "all" also a trace of every allocation and free.
    `context`: None for no stacks, "state" for those of blocks that are held, "alloc" also in the trace, "all" also of frees.
    `stacks`: "python", or "all" for frames of C++ too (naming them takes seconds). `max_entries`: how many last entries of
    the trace are kept for each card. `skip_actions`: actions that are not recorded.
    """
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, tuple(_STACKS))
    _check("stacks", stacks, ("python", "all"))
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or max_entries < 0:
        raise InvalidArgument(f"max_entries is {max_entries!r}, accepted is a number of entries, 0 or more")
    for action in skip_actions or ():
        # segment_alloc and segment_free are actions of torch.cuda that no card here takes.
        _check("an entry of skip_actions", action, (*ACTIONS, "segment_alloc", "segment_free"))
    _torch.ensure_configured()
    module_paths.forget()
    _torch.name_modules(module_paths.CALL, module_paths.path_of)
    _torch.record_memory(
        enabled is not None,
        enabled == "all",
        0 if enabled is None else _STACKS[context],
        stacks == "all",
        min(max_entries, sys.maxsize),
        list(skip_actions or ()),
        clear_history,
    )


def _check(what: str, value: object, accepted: tuple[object, ...]) -> None:
    if value not in accepted:
        raise InvalidArgument(f"{what} is {value!r}, accepted is {', '.join(map(repr, accepted))}")


def memory_snapshot(mempool_id: object = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The memory of all cards as it is now: segments of memory that the host backs, and their blocks.

    There are no memory pools, and segments hold no traces: both arguments are those of torch.cuda's function.
    """
    return list(_read(with_traces=False)["segments"])


def _snapshot(device: object = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The memory of all cards and, while it is recorded, what happened to it: torch.cuda.memory._snapshot tells the format.

    As with torch.cuda's expandable segments, memory comes and goes in parts of a segment: "segment_map", "segment_unmap".
    """
    snapshot = _read(with_traces=True)
    return torch_seams.with_fx_traces(snapshot) if augment_with_fx_traces else snapshot


def _read(*, with_traces: bool) -> dict[str, Any]:
    _torch.ensure_configured()
    return _torch.memory_snapshot(with_traces)


def _dump_snapshot(
    filename: str | os.PathLike[str] = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Write _snapshot() to a file that pytorch.org/memory_viz and `python -m torch.cuda._memory_viz` read.

    A file that cannot be written whole is not left behind, and one that was there stays as it was.
    """
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    try:
        with whole_file(filename) as file:
            pickle.dump(snapshot, file, protocol=4)  # the viewer reads no newer one
    except OSError as error:
        text = f"cannot write the memory snapshot: {error.strerror}; nothing is left of it. Choose another place, or record less (max_entries, stacks)"
        raise OSError(error.errno, text, os.fspath(filename)) from error


def _attach_out_of_memory_observer(observer: Callable[[int, int, int, int], None]) -> None:
    """From now on call the observer when a card is out of memory, before the error is raised, until the process ends.

    It gets the card, the bytes asked for, those allocated and those free; it may take a snapshot, and must not compute on the card.
    """
    if not callable(observer):
        raise InvalidArgument(f"the observer is {observer!r}, which cannot be called")
    _torch.ensure_configured()
    _torch.attach_out_of_memory_observer(observer)
