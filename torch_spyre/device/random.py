"""Random numbers on the card: one default generator per card, and torch.cuda's functions around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from torch_spyre import _torch
from torch_spyre.device.streams import DeviceLike, device_index
from torch_spyre.torch_seams import hide_from_dynamo


class _DefaultGenerators:
    """The cards' default generators, made when asked for: `torch.spyre.default_generators[0]`."""

    def __len__(self) -> int:
        return int(_torch.device_count())

    def __getitem__(self, index: int) -> torch.Generator:
        if index >= len(self):
            raise IndexError(f"there is no card {index}; {len(self)} visible")
        return _torch.default_generator(device_index(index))

    def __iter__(self) -> Iterator[torch.Generator]:
        return (self[index] for index in range(len(self)))


default_generators = _DefaultGenerators()


def manual_seed(seed: int) -> None:
    """Seed the current card's generator."""
    default_generators[device_index(None)].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all cards. torch.manual_seed calls this too, so it starts nothing: unmade generators get it later."""
    _torch.set_initial_seed(int(seed) % 2**64)
    if _torch.is_configured():
        for generator in default_generators:
            generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the current card's generator from the host's entropy."""
    default_generators[device_index(None)].seed()


def seed_all() -> None:
    """Seed all cards with one number from the host's entropy."""
    manual_seed_all(torch.Generator().seed())


def initial_seed(device: DeviceLike = None) -> int:
    """The seed a card's generator was given."""
    return default_generators[device_index(device)].initial_seed()


def get_rng_state(device: DeviceLike = "spyre") -> torch.Tensor:
    """The state of a card's generator, as a byte tensor on the host."""
    return default_generators[device_index(device)].get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "spyre") -> None:
    """Put a card's generator back into a state from get_rng_state."""
    default_generators[device_index(device)].set_state(new_state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all cards' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put all cards' generators back into states from get_rng_state_all."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# As torch.cuda's: after a graph break they run as they are. Dynamo cannot compile a generator's state.
for _function in (
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    get_rng_state,
    set_rng_state,
    get_rng_state_all,
    set_rng_state_all,
):
    hide_from_dynamo(_function, callees=True)
