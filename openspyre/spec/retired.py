"""Variables and planning options of the Spyre documents that are no switches here, each with the reason; whoever sets one is told.

Some are gone from the later documents as well, some steer what does not exist here, some ask for what is always so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retired:
    """`option` is its name in `config`, if it has one. `always`: the value that asks for what is done anyway; nobody is told then.

    `quiet`: other programs set it for themselves, so that nobody need be told.
    """

    variable: str
    reason: str
    option: str = ""
    always: str = ""
    quiet: bool = False

    @property
    def note(self) -> str:
        return f"it has no effect: {self.reason}"


_VENDOR = "it speaks to a library of the vendor's, which is not used"
_EXPORTS = "TORCH_COMPILE_DEBUG=1 keeps what was compiled, torch.spyre.save_launches what was launched"
RETIRED = (
    Retired("CHUNK_LARGE_TENSORS", "ops that reach too far are always cut into parts", "chunk_large_tensors", "1"),
    Retired("UNROLL_LOOPS", "loops are never unrolled", "unroll_loops", "0"),
    Retired(
        "LX_BOUNDARY_CLONES",
        "inputs and outputs are always copied to scratchpads where it pays",
        "lx_boundary_clones",
        "1",
    ),
    Retired("SPYRE_INDUCTOR_MEMORY_PLAN", "it is called HBM_POOL_PLANNING now", always="1"),
    Retired("SPYRE_INDUCTOR_ENABLE_FUSION", "a graph is always one launch where it can be", always="1"),
    Retired("DUMP_SPYRE_CODE", "every launch goes by a job plan; openspyre run executes the directory of a bundle"),
    Retired("BUNDLE_SYMBOLIC_ARGS", "addresses are always symbols", "bundle_symbolic_args", "1"),
    Retired("SPYRE_CONV2D_DIRECT", "a convolution is always one op", always="1"),
    Retired("SPYRE_INDUCTOR_DISABLE_CONV2D_SPATIAL_SPLIT", "a convolution is divided by the rules of all ops"),
    Retired("TORCH_SPYRE_NATIVE_PACKER", "there is one implementation of simulated annealing", always="0"),
    Retired("SPYRE_COST_MODEL_RECORDS", "python -m bench.clock reads measurements from the file it is given"),
    Retired("TORCH_SPYRE_KTIR", "programs are not given out as KTIR", always="0"),
    Retired("KTIR_DEVICE_MLIR", "programs are not given out as KTIR"),
    Retired(
        "TORCH_SPYRE_FFDC",
        "OPENSPYRE_SAVE_FAILED keeps launches that fail, torch.spyre.diagnostic_report() writes a report",
        always="0",
    ),
    Retired("SPYRE_VISIBLE_DEVICES", "it is called SPYRE_DEVICES"),
    Retired("IS_INDUCTOR_SPAWNED_SUBPROCESS", "no process starts a card before it uses one", quiet=True),
    Retired("DTCOMPILER_KEEP_EXPORT", _EXPORTS, quiet=True),
    Retired("DTCOMPILER_EXPORT_DIR", _EXPORTS, quiet=True),
    Retired("DEEPRT_EXPORT_DIR", _EXPORTS, quiet=True),
    Retired("SENLIB_DEVEL_CONFIG_FILE", _VENDOR, quiet=True),
    Retired("TORCH_SENDNN_LOG", _VENDOR, quiet=True),
    Retired("DT_DEEPRT_VERBOSE", _VENDOR, quiet=True),
    Retired("DTLOG_LEVEL", _VENDOR, quiet=True),
)
OPTIONS = {row.option: row for row in RETIRED if row.option}


def notes(environ: Mapping[str, str]) -> Iterator[str]:
    """What to tell whoever has set such variables."""
    for row in RETIRED:
        text = environ.get(row.variable, "").strip()
        if text and text != row.always and not row.quiet:
            yield f"{row.variable}={text}: {row.note}"
