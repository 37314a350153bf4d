"""SpyreCode on disk: what a back end leaves in a kernel's directory for the runtime, and how it is read again.

`spyreCodeDir/spyrecode.json` has the two plans, `spyreCodeDir/init.bin` the program's image. The same image, as hex rows of a
stick, stands in `loadprogram_to_device/<kernel>-SenProgSend/init.txt`.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from openspyre.backend.job_plan import IMAGE_FILE, Allocate, InitTransfer, JobPlan, image, job_plan, spyre_code
from openspyre.program.model import Program
from openspyre.program.text import InvalidProgram, parse_program
from openspyre.program.verify import problems
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.machine import SPYRE, Machine

FOLDER, PLAN_FILE = "spyreCodeDir", "spyrecode.json"
MAX_IMAGE_BYTES = 1 << 30


def write_spyre_code(directory: Path, program: Program) -> list[Path]:
    """All files of a compiled kernel; each appears whole or not at all."""
    plan = job_plan(program)
    padded = image(program).ljust(_image_bytes(plan), b"\n")
    folder = directory / FOLDER
    rows = directory / "loadprogram_to_device" / f"{directory.resolve().name}-SenProgSend"
    for path in (folder, rows):
        path.mkdir(parents=True, exist_ok=True)
    files = {
        folder / IMAGE_FILE: padded,
        folder / PLAN_FILE: (json.dumps(spyre_code(plan), indent=2) + "\n").encode(),
        rows / "init.txt": hex_rows(padded).encode(),
    }
    for path, content in files.items():
        _write(path, content)
    return list(files)


def _image_bytes(plan: JobPlan) -> int:
    return next(step.size for step in plan.preparation if isinstance(step, InitTransfer))


def _write(path: Path, content: bytes) -> None:
    handle, building = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(building).chmod(0o644)
        Path(building).replace(path)
    except BaseException:
        Path(building).unlink(missing_ok=True)
        raise


def hex_rows(content: bytes) -> str:
    """A line per stick, its first byte at the line's end."""
    rows = (content[at : at + STICK_BYTES] for at in range(0, len(content), STICK_BYTES))
    return "# one stick per line, first byte last\n" + "".join(f"{row[::-1].hex()}\n" for row in rows)


def read_spyre_code(directory: Path, machine: Machine = SPYRE) -> tuple[JobPlan, Program]:
    """The plans and the program of a compiled kernel; InvalidArgument says what is malformed."""
    folder = directory / FOLDER
    plan = _checked_plan(folder / PLAN_FILE, machine)
    transfer = plan["InitTransfer"]
    name = transfer.get("init_bin_file", transfer.get("file_path"))
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        raise InvalidArgument(
            f"{folder / PLAN_FILE}: InitTransfer needs init_bin_file, a file beside it, found {name!r}"
        )
    path = folder / name
    size = _number(folder / PLAN_FILE, transfer, "size")
    if not path.is_file() or path.is_symlink() or not size <= path.stat().st_size <= MAX_IMAGE_BYTES:
        raise InvalidArgument(f"{path}: a file of at least {size} bytes is wanted (InitTransfer's size)")
    try:
        program = parse_program(path.read_bytes()[:size].decode())
    except (InvalidProgram, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} holds no program of this card: {error}") from None
    if found := problems(program):
        raise InvalidArgument(f"{path}: program {program.name!r} cannot run: " + "; ".join(found[:10]))
    return job_plan(program, machine), program


def _checked_plan(path: Path, machine: Machine) -> dict[str, dict[str, object]]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(
            f"{path}: {(error.strerror or 'cannot be read').lower()}; `openspyre compile` writes it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is no JSON: {error}") from None
    match tree:
        case {"JobPreparationPlan": list(preparation), "JobExecPlan": list(execution)}:
            pass
        case _:
            raise InvalidArgument(f"{path}: JobPreparationPlan and JobExecPlan are wanted, both lists")
    commands = [_command(path, entry) for entry in preparation]
    if len(commands) < 2 or commands[0][0] != Allocate.__name__:
        raise InvalidArgument(f"{path}: JobPreparationPlan must have at least 2 commands, Allocate first")
    executed = [name for name, _ in (_command(path, entry) for entry in execution)]
    if executed[:1] == ["ComputeOnHost"] and executed != ["ComputeOnHost", "DataTransfer", "ComputeOnDevice"]:
        raise InvalidArgument(f"{path}: after ComputeOnHost come DataTransfer and ComputeOnDevice, found {executed}")
    if "ComputeOnDevice" not in executed:
        raise InvalidArgument(f"{path}: JobExecPlan never computes on the device")
    found = dict(commands)
    if InitTransfer.__name__ not in found:
        raise InvalidArgument(f"{path}: JobPreparationPlan has no InitTransfer")
    pointer = _number(path, found["InitTransfer"], "dev_ptr")
    base = machine.segment_base(machine.program_segment)
    if not base <= pointer < base + machine.segment_bytes or pointer % STICK_BYTES:
        raise InvalidArgument(
            f"{path}: dev_ptr {pointer:#x} is no stick of the program's segment, which begins at {base:#x}"
        )
    return found


def _command(path: Path, entry: object) -> tuple[str, dict[str, object]]:
    match entry:
        case {"command": str(name), "properties": dict(properties)}:
            return name, properties
    raise InvalidArgument(f"{path}: a command has `command` and `properties`, found {str(entry)[:80]}")


def _number(path: Path, properties: dict[str, object], name: str) -> int:
    value = properties.get(name)
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 19:
        raise InvalidArgument(f"{path}: {name} is a decimal number as text, found {value!r}")
    return int(value)
