"""Pages of the card in host memory, byte for byte: a pool of slots that processes of one user share by its name.

The documented way to keep caches of keys and values outside the card: a page goes into a slot and comes back as it was. A copy that
converts would round float16 on the way.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import re
import struct
from pathlib import Path
from typing import Any

import torch

from openspyre.spec.errors import InvalidArgument
from torch_spyre import _torch
from torch_spyre.device.layouts import get_spyre_tensor_layout

_HEAD = struct.Struct("<8sQQ")  # what it is, slots, bytes of each
_MAGIC = b"SPYPOOL1"
_MARK = 8  # bytes behind the head for each slot: which layout lies in it, 0 if no tensor was copied there
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SharedHostPool:
    """`create_or_attach` makes one; it stays until `unlink`, whoever made it."""

    def __init__(self, path: Path, slots: int, slot_bytes: int, memory: mmap.mmap) -> None:
        self._path, self._slots, self._slot_bytes = path, slots, slot_bytes
        self._memory = memory
        self._bytes = torch.frombuffer(memory, dtype=torch.uint8, offset=_begin(slots))

    @classmethod
    def create_or_attach(cls, stream: Any, name: str, num_slots: int, slot_bytes: int) -> SharedHostPool:
        """The pool of that name; made if there is none. `stream` is taken for the documents' sake: no memory has to be pinned here."""
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"a pool's name is letters, digits, '.', '_' and '-', at most 100 of them, not {name!r}"
            )
        if num_slots < 1 or slot_bytes < 1:
            raise InvalidArgument(f"a pool has at least one slot of one byte, not {num_slots} of {slot_bytes}")
        path = _directory() / name
        # Nobody attaches to what is half made: the lock is held until the head is written.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fresh = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = _begin(num_slots) + num_slots * slot_bytes
            fresh = os.fstat(handle).st_size == 0
            if fresh:
                os.posix_fallocate(handle, 0, size)
                os.pwrite(handle, _HEAD.pack(_MAGIC, num_slots, slot_bytes), 0)
            magic, slots, each = _HEAD.unpack(os.pread(handle, _HEAD.size, 0).ljust(_HEAD.size, b"\0"))
            if magic != _MAGIC or (slots, each) != (num_slots, slot_bytes) or os.fstat(handle).st_size < size:
                told = f"{slots} slots of {each} bytes" if magic == _MAGIC else "something else"
                raise InvalidArgument(
                    f"the pool {name!r} has {told}, not {num_slots} slots of {slot_bytes} bytes: give another name, or unlink it"
                )
            memory = mmap.mmap(handle, size)
        except OSError as problem:
            if fresh:
                path.unlink(missing_ok=True)
            raise InvalidArgument(
                f"no room for the pool {name!r}: {num_slots} slots of {slot_bytes} bytes ({problem.strerror})"
            ) from problem
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # the mapping has a handle of its own, which would keep the lock
            os.close(handle)
        return cls(path, num_slots, slot_bytes, memory)

    def slot_count(self) -> int:
        return self._slots

    def slot_bytes(self) -> int:
        return self._slot_bytes

    def slot(self, slot_id: int) -> torch.Tensor:
        """The bytes of a slot, as a tensor on the CPU over the pool's own memory."""
        if not 0 <= slot_id < self._slots:
            raise InvalidArgument(f"the pool {self._path.name!r} has slots 0 to {self._slots - 1}, no slot {slot_id}")
        return self._bytes[slot_id * self._slot_bytes : (slot_id + 1) * self._slot_bytes]

    def settle_layout(self, slot_id: int, layout: str, to_device: bool) -> None:
        """Bytes mean something in one layout alone: what was copied in tells which, and nothing else may come out."""
        place = _HEAD.size + _MARK * slot_id
        mark = hashlib.sha256(layout.encode()).digest()[:_MARK]
        if not to_device:
            self._memory[place : place + _MARK] = mark
        elif self._memory[place : place + _MARK] not in (mark, bytes(_MARK)):
            raise InvalidArgument(
                f"slot {slot_id} of the pool {self._path.name!r} has the bytes of another layout than {layout}: "
                "copy them into a tensor with the layout they came from (torch.empty(..., device_layout=...))"
            )

    def unlink(self) -> None:
        """Takes the name away; the memory goes when nobody is attached any more."""
        self._path.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"SharedHostPool({self._path.name!r}, {self._slots} slots of {self._slot_bytes} bytes)"


def copy_tensor_raw(
    dev_tensor: torch.Tensor, pool: SharedHostPool, slot_id: int, to_device: bool, non_blocking: bool = False
) -> None:
    """A tensor's bytes from the card into a slot or, with `to_device`, from there to the card: all of its buffer, nothing converted."""
    if dev_tensor.device.type != "spyre":
        raise InvalidArgument(f"copy_tensor_raw takes a tensor on the card, not one on {dev_tensor.device}")
    found = _torch.buffer_of(dev_tensor)
    if dev_tensor.storage_offset() or dev_tensor.numel() * dev_tensor.element_size() < found["host_bytes"]:
        raise InvalidArgument(
            f"copy_tensor_raw moves whole buffers, and this tensor of sizes {tuple(dev_tensor.shape)} is a part of one: "
            "give each page a tensor of its own, or use torch.spyre.copy_blocks"
        )
    slot, needed = pool.slot(slot_id), int(found["device_bytes"])
    if needed > pool.slot_bytes():
        raise InvalidArgument(
            f"a tensor of sizes {tuple(dev_tensor.shape)} has {needed} bytes on the card, and {pool!r} has no room for them"
        )
    pool.settle_layout(slot_id, f"{found['dtype']} {get_spyre_tensor_layout(dev_tensor)}", to_device)
    _torch.copy_raw(dev_tensor, slot, to_device, non_blocking)


def _begin(slots: int) -> int:
    """Where the first slot begins: on a page of its own."""
    return -(-(_HEAD.size + _MARK * slots) // mmap.PAGESIZE) * mmap.PAGESIZE


def _directory() -> Path:
    """Private to the user, in memory where the system has a place for that."""
    shared = Path("/dev/shm")
    base = shared if shared.is_dir() else Path(os.environ.get("TMPDIR", "/tmp"))
    found = base / f"openspyre-{os.getuid()}"
    found.mkdir(mode=0o700, exist_ok=True)
    state = found.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or found.is_symlink():
        raise InvalidArgument(f"{found} belongs to somebody else, or others may look into it: remove it")
    return found
