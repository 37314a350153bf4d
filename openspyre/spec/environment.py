"""The environment switches of this layer: read once, at the edge, into frozen `Settings`. Each field is a row.

Which cards a process sees, in this order: the machine has OPENSPYRE_CARDS cards (with FLEX_DEVICE=MOCK: AIU_WORLD_SIZE);
SPYRE_DEVICES picks among them and renumbers them from 0 in the order given, indices of no card are dropped;
AIU_WORLD_SIZE keeps the first so many (more than there are: all of them).
The device used when none was set is LOCAL_RANK, or 0.
"""

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from openspyre.spec.errors import EnvironmentVariableError, InvalidDevice
from openspyre.spec.machine import GIB, KIB, MIB, SPYRE, Machine
from openspyre.spec.planning import LAYOUT_SOLVERS, PLANNERS, PLANNING, Planning
from openspyre.spec.switches import BOOL, INDICES, PATH, TEXT, Switch, choice, integer, number, switch

_LEVELS = choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _default_cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "openspyre"
    try:
        return Path.home() / ".cache" / "openspyre"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / f"openspyre-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every switch with its value. `Settings()` has the defaults; a new switch is a new line here."""

    cards: int = switch("OPENSPYRE_CARDS", 1, integer(0, SPYRE.max_cards), "cards in this machine")
    card: str = switch(
        "OPENSPYRE_CARD",
        "software",
        choice("software", "null"),
        "software: the card computes; null: it accepts programs, computes nothing, and reads as 0",
    )
    threads: int = switch("OPENSPYRE_THREADS", 0, integer(0, 1024), "host threads for the cores; 0: one per CPU")
    card_memory_gib: float = switch(
        "OPENSPYRE_CARD_MEMORY_GIB",
        SPYRE.usable_device_memory_bytes / GIB,
        number(1 / 64, 1024),
        "usable memory of each card in GiB",
    )
    host_reserve_mib: int = switch(
        "OPENSPYRE_HOST_RESERVE_MIB", 512, integer(0, 1 << 30), "MiB of the host's memory that cards never take"
    )
    cache_watermark: float = switch(
        "OPENSPYRE_CACHE_WATERMARK",
        0.5,
        number(0, 1),
        "fraction of the host's memory above which freed card memory goes back to the host at once",
    )
    sanitize: bool = switch(
        "OPENSPYRE_SANITIZE", False, BOOL, "sanitizer: memory is poisoned, every access checked and reported"
    )
    sanitize_strict: bool = switch(
        "OPENSPYRE_SANITIZE_STRICT", False, BOOL, "what the sanitizer only warns of is an error too"
    )
    core_span_mib: int = switch(
        "OPENSPYRE_CORE_SPAN_MIB",
        256,
        integer(1, 1 << 20),
        "MiB, less a page of 4096 bytes, of one tensor that one core may reach in one step",
    )
    isa: str = switch(
        "OPENSPYRE_ISA",
        "",
        choice("baseline", "avx2", "avx512"),
        "widest host instructions the cores may use; results do not depend on it; unset: all the host has",
    )
    fusion: bool = switch(
        "OPENSPYRE_FUSION", True, BOOL, "steps of a graph are fused; results do not depend on it, times do"
    )
    cache_dir: Path = switch(  # noqa: RUF009 (a field, as all of these)
        "OPENSPYRE_CACHE_DIR", _default_cache_dir, PATH, "directory of compiled programs, private to its user"
    )
    spyre_devices: tuple[int, ...] | None = switch("SPYRE_DEVICES", None, INDICES, "which cards are visible, in order")
    aiu_world_size: int | None = switch("AIU_WORLD_SIZE", None, integer(1), "at most this many cards are visible")
    flex_device: str | None = switch(
        "FLEX_DEVICE",
        None,
        choice("PF", "VF", "MOCK"),
        "how a real card is reached; all run on the software card, with MOCK the machine has AIU_WORLD_SIZE of them",
    )
    local_rank: int = switch("LOCAL_RANK", -1, integer(-1), "card used when none was set; -1: not distributed, card 0")
    fallback: str = switch(
        "TORCH_SPYRE_FALLBACK", "warn", choice("warn", "error", "silent"), "what an operator without a kernel does"
    )
    profiler_steps: bool = switch(
        "TORCH_SPYRE_PROFILER_STEPS", True, BOOL, "torch.profiler shows every step of a launch"
    )
    profiler_predicted: bool = switch(
        "TORCH_SPYRE_PROFILER_PREDICTED",
        True,
        BOOL,
        "torch.profiler shows what a real card would take, in a lane of its own",
    )
    downcast_warning: bool = switch("TORCH_SPYRE_DOWNCAST_WARN", True, BOOL, "warn when int64 becomes int32")
    progress: bool = switch(
        "TORCH_SPYRE_PROGRESS", True, BOOL, "compiling and loading that takes longer than two seconds is shown"
    )
    host_compute_streams: int = switch(
        "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", 4, integer(1, 8), "streams that prepare launches on the host"
    )
    sencores: int = switch("SENCORES", SPYRE.cores, integer(1, SPYRE.cores), "cores that work is planned for")
    planner: str = switch(
        "OPENSPYRE_PLANNER",
        PLANNING.strategy,
        choice(*PLANNERS),
        "timed: divisions and scratchpads as the clock says is fastest; documented: as the reference's front end plans them, and the pool",
    )
    lx_planning: bool = switch(
        "LX_PLANNING", PLANNING.scratchpads, BOOL, "tensors stay in the cores' scratchpads where they can"
    )
    lx_reserved: float = switch(
        "DXP_LX_FRAC_AVAIL",
        SPYRE.scratchpad_reserved_fraction,
        number(0, 1),
        "fraction of each scratchpad that the back end keeps for itself, in spite of the name",
    )
    layout_solver: str = switch(
        "LAYOUT_SOLVER", PLANNING.solver, choice(*LAYOUT_SOLVERS), "what finds places in the scratchpads"
    )
    lx_relayout: bool = switch(
        "SPYRE_LX_PLANNER_RELAYOUT",
        PLANNING.relayout,
        BOOL,
        "tensors go from core to core where a consumer divides them differently",
    )
    co_optimizing_lx_planning: bool = switch(
        "CO_OPTIMIZING_LX_PLANNING",
        PLANNING.co_optimise,
        BOOL,
        "the planner documented changes divisions so that more stays in the scratchpads; timed does so by itself",
    )
    hbm_pool_planning: bool = switch(
        "HBM_POOL_PLANNING", PLANNING.pool, BOOL, "temporaries that never live together share bytes of the pool"
    )
    dump_cost: bool = switch(
        "SPYRE_DUMP_COST", False, BOOL, "print what the published formula says of every graph that is compiled"
    )
    dump_cost_file: Path | None = switch(  # noqa: RUF009 (a field, as all of these)
        "SPYRE_DUMP_COST_FILE", None, PATH, "add it to this file, a line of JSON per graph"
    )
    core_id_k_fast_emission: bool = switch(
        "SPYRE_CORE_ID_K_FAST_EMISSION",
        True,
        BOOL,
        "cores next to each other have the parts of a product's sum that is divided",
    )
    ignore_hints: bool = switch(
        "SPYRE_INDUCTOR_IGNORE_HINTS", PLANNING.ignore_hints, BOOL, "names of dims and hints to the planner are ignored"
    )
    global_stick_optimizer: bool = switch(
        "GLOBAL_STICK_OPTIMIZER",
        PLANNING.whole_layouts,
        BOOL,
        "layouts are chosen for the whole program, so that little is moved; else each follows the first operand",
    )
    disable_copy_opt: bool = switch(
        "DISABLE_COPY_OPT", not PLANNING.drop_copies, BOOL, "copies that need not be are made all the same"
    )
    reduction_tiling: bool = switch(
        "SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING",
        PLANNING.reduction_tiling,
        BOOL,
        "hints may ask for tiles of a dim that is reduced; without it they are refused",
    )
    ignore_span_overflow_hints: bool = switch(
        "SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS",
        not PLANNING.span_tiling,
        BOOL,
        "0: ops of which one core would reach too far into a tensor are tiled without a hint; 1: they are cut into parts",
    )
    clock_tiling: bool = switch(
        "OPENSPYRE_CLOCK_TILING",
        PLANNING.clock_tiling,
        BOOL,
        "the planner timed tiles chains whose tensors do not fit into the scratchpads, where the clock says that it pays",
    )
    max_buckets: int = switch(
        "MAX_BUCKETS", 32, integer(1), "most sizes that a dim with a largest size (mark_dynamic's max) is padded to"
    )
    min_default_granularity: int = switch(
        "MIN_DEFAULT_GRANULARITY", 4, integer(1), "least step between those sizes where mark_dynamic's min is none"
    )
    save_failed: Path | None = switch(  # noqa: RUF009 (a field, as all of these)
        "OPENSPYRE_SAVE_FAILED",
        None,
        PATH,
        "directory that launches which fail are saved in, for openspyre run; every launch is waited for",
    )
    debug: bool = switch(
        "TORCH_SPYRE_DEBUG",
        False,
        BOOL,
        "deprecated: all spyre loggers at DEBUG; every copy between host and card is logged",
    )
    logs: str = switch("OPENSPYRE_LOGS", "", TEXT, "log levels, as in TORCH_LOGS, without torch")
    torch_logs: str = switch(
        "TORCH_LOGS", "", TEXT, "log levels: spyre[.part]:LEVEL, +spyre.part, -spyre.part, +torch_spyre.part"
    )
    log_passes: str = switch(
        "SPYRE_LOG_PASSES",
        "",
        TEXT,
        "passes of the compiler whose results spyre.compiler logs at DEBUG: names separated by commas, or all",
    )
    log_file: Path | None = switch("SPYRE_LOG_FILE", None, PATH, "file that spyre's log goes to")  # noqa: RUF009
    inductor_log: bool = switch("SPYRE_INDUCTOR_LOG", False, BOOL, "deprecated: log of graphs and their compilation")
    inductor_log_level: str = switch("SPYRE_INDUCTOR_LOG_LEVEL", "INFO", _LEVELS, "deprecated: its level")

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Settings of a mapping, the process's environment by default. An empty value counts as unset."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {"cache_dir": _default_cache_dir(environ)}
        for row in fields(cls):
            text = environ.get(switch_of(row).variable, "")
            if text.strip():
                values[row.name] = switch_of(row).parse(text)
        settings = cls(**values)
        _check_together(settings)
        return settings

    @property
    def card_memory_bytes(self) -> int:
        """Whole MiB, so that an odd fraction never splits a page."""
        return int(self.card_memory_gib * GIB) // MIB * MIB

    @property
    def machine(self) -> Machine:
        """The card that programs are planned for and checked against."""
        return replace(
            SPYRE,
            max_span_bytes_per_core_and_tensor=self.core_span_mib * MIB - 4 * KIB,
            scratchpad_reserved_fraction=self.lx_reserved,
        )

    @property
    def planning(self) -> Planning:
        return Planning(
            self.planner,
            self.lx_planning,
            self.layout_solver,
            self.lx_relayout,
            pool=self.hbm_pool_planning,
            co_optimise=self.co_optimizing_lx_planning,
            k_fast=self.core_id_k_fast_emission,
            ignore_hints=self.ignore_hints,
            whole_layouts=self.global_stick_optimizer,
            drop_copies=not self.disable_copy_opt,
            reduction_tiling=self.reduction_tiling,
            span_tiling=not (self.ignore_span_overflow_hints or self.ignore_hints),
            clock_tiling=self.clock_tiling,
        )

    def visible_cards(self) -> tuple[int, ...]:
        """Physical index of each visible card; its place in the tuple is the index programs use."""
        there = range(self.machine_cards)
        chosen = there if self.spyre_devices is None else [index for index in self.spyre_devices if index in there]
        return tuple(chosen)[: self.aiu_world_size]

    @property
    def machine_cards(self) -> int:
        """Cards in the machine, whether the process sees them or not."""
        return self.aiu_world_size or 0 if self.flex_device == "MOCK" else self.cards

    def missing_cards(self) -> tuple[int, ...]:
        """What SPYRE_DEVICES names and the machine does not have."""
        return tuple(index for index in self.spyre_devices or () if index >= self.machine_cards)

    @property
    def default_card(self) -> int:
        """Index of the card used when none was set; InvalidDevice if LOCAL_RANK names one the process does not see."""
        count = len(self.visible_cards())
        if 0 < count <= self.local_rank:
            raise InvalidDevice(
                f"LOCAL_RANK={self.local_rank} asks for card {self.local_rank}, but this process sees {count} "
                f"(OPENSPYRE_CARDS={self.cards}; SPYRE_DEVICES and AIU_WORLD_SIZE may hide some): "
                f"set OPENSPYRE_CARDS={self.local_rank + 1} or more, or start fewer processes"
            )
        return max(self.local_rank, 0) if count else 0


def switch_of(settings_field: Any) -> Switch:
    row: Switch = settings_field.metadata["switch"]
    return row


def _check_together(settings: Settings) -> None:
    if settings.flex_device == "MOCK" and settings.aiu_world_size is None:
        raise EnvironmentVariableError("FLEX_DEVICE", "MOCK", "MOCK also needs AIU_WORLD_SIZE, 1 or more")
    if settings.machine_cards > SPYRE.max_cards:
        raise EnvironmentVariableError(
            "AIU_WORLD_SIZE", str(settings.aiu_world_size), f"FLEX_DEVICE=MOCK shows 1 to {SPYRE.max_cards} cards"
        )


@dataclass(frozen=True, slots=True)
class SwitchInForce:
    """One switch as it stands: for reports."""

    switch: Switch
    value: object
    from_environment: bool


def switches_in_force(environ: Mapping[str, str] | None = None) -> list[SwitchInForce]:
    environ = os.environ if environ is None else environ
    settings = Settings.read(environ)
    return [
        SwitchInForce(row, getattr(settings, f.name), bool(environ.get(row.variable, "").strip()))
        for f in fields(Settings)
        for row in [switch_of(f)]
    ]


def make_private_directory(path: Path) -> Path:
    """Creates a directory only its user can enter; refuses one that somebody else owns or may write to."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EnvironmentVariableError(
            "OPENSPYRE_CACHE_DIR", str(path), "a directory of your own that nobody else may write to (chmod 700)"
        )
    return path
