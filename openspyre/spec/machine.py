"""A card in numbers. Every limit and rate the compiler, the card and the tools go by is a field here.

A "what if" card is `dataclasses.replace(SPYRE, cores=16)`.
"""

from dataclasses import dataclass, field

from openspyre.spec.rates import Rates

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Machine:
    """A card: what it has, what it can address, how fast it is at best. Rates are per card unless named otherwise."""

    # Compute
    cores: int = 32
    corelets_per_core: int = 2
    matrix_rows_per_corelet: int = 8
    matrix_columns_per_corelet: int = 8
    core_clock_hz: float = 1.5e9
    # fp16 : fp8 : int8 : int4 = 1 : 2 : 4 : 8; all but fp16 are inferred from the vendor's published ratios.
    fp16_macs_per_cycle_per_core: int = 1024
    fp8_macs_per_cycle_per_core: int = 2048
    int8_macs_per_cycle_per_core: int = 4096

    # Memory
    stick_bytes: int = 128
    scratchpad_bytes_per_core: int = 2 * MIB
    # The back end keeps this part of each scratchpad for itself; the planner gets the rest.
    scratchpad_reserved_fraction: float = 0.2
    scratchpad_program_bytes: int = 64 * KIB  # of each scratchpad, before that part is reckoned
    device_memory_bytes: int = 128 * GIB
    device_memory_ecc_bytes: int = 16 * GIB
    device_memory_bytes_per_second: float = 204.8e9
    # One core can reach this much of one tensor, counted from the first to the last byte it touches: 256 MiB less a page.
    max_span_bytes_per_core_and_tensor: int = 65535 * 4 * KIB
    # Loops of one op: the passes of each, and the points of all together.
    max_loop_passes: int = (1 << 40) - 1
    max_points_per_op: int = (1 << 44) - 1
    # Loops around ops: how many in each other, and how often all of them together run an op.
    max_loop_depth: int = 16
    max_iterations_per_op: int = 1 << 24
    segments: int = 8
    segment_bytes: int = 16 * GIB
    program_segment: int = 7

    # Links
    host_link_bytes_per_second: float = 64e9  # PCIe 5 x16: 32 GT/s on each of 16 lanes

    # Cluster
    max_cards: int = 8

    # What the clock goes by; the rates above are peaks on paper.
    rates: Rates = field(default_factory=Rates)

    @property
    def usable_device_memory_bytes(self) -> int:
        """What is left for tensors once error correction has taken its share."""
        return self.device_memory_bytes - self.device_memory_ecc_bytes

    @property
    def scratchpad_planned_bytes_per_core(self) -> int:
        """Up to where tensors may lie: what neither programs nor the back end have, in whole sticks."""
        bytes_ = self.scratchpad_bytes_per_core - self.scratchpad_program_bytes
        return -(-int(bytes_ * (1 - self.scratchpad_reserved_fraction)) // self.stick_bytes) * self.stick_bytes

    @property
    def fp16_flops_per_second(self) -> float:
        """A multiply-accumulate counts as two."""
        return 2 * self.cores * self.fp16_macs_per_cycle_per_core * self.core_clock_hz

    def segment_base(self, segment: int) -> int:
        """Virtual address at which a segment of a job begins."""
        if not 0 <= segment < self.segments:
            raise ValueError(f"segment {segment}: a job has the segments 0 to {self.segments - 1}")
        return segment * self.segment_bytes


SPYRE = Machine()
