"""What the op table promises of aten is what the dispatcher got: no row names an overload that torch does not have."""

import pytest
import torch

from openspyre.spec.ops import TABLE, Kind
from torch_spyre.ops import eager

SERVED = [
    (row.name, name) for row in TABLE.values() if row.kind in (Kind.POINTWISE, Kind.REDUCTION) for name in row.aten
]


def registered(name):
    torch.zeros(1).to("spyre")  # the device registers its operators when it is first used
    return {bound for bound in eager._bindings if bound == name or bound.startswith(name + ".")}


@pytest.mark.parametrize(("row", "name"), SERVED)
def test_every_name_of_a_row_is_served(row, name):
    base, _, overload = name.partition(".")
    assert hasattr(torch.ops.aten, base)
    assert not overload or overload in getattr(torch.ops.aten, base).overloads()
    assert registered(name), f"{row} names {name}, but its arguments are not what the row takes"


def test_rows_of_a_pointwise_name_serve_in_place_and_out_forms_too():
    torch.zeros(1).to("spyre")
    assert {"add.Tensor", "add_.Tensor", "add.out", "relu", "relu_", "clamp", "clamp.out", "clamp_min.Tensor"} <= set(
        eager._bindings
    )


def _kinds(overload):
    return [str(argument.type) for argument in overload._schema.arguments]


def test_an_overload_in_place_has_the_rows_of_the_one_that_is_not():
    """Else they round differently: `x.pow_(2)` once was a power, `x.pow(2)` a product."""
    torch.zeros(1).to("spyre")
    compared = 0
    for binding, _ in eager._bindings.values():
        base = binding.overload._schema.name.removeprefix("aten::")
        plain = getattr(torch.ops.aten, base.removesuffix("_"), None) if base.endswith("_") else None
        for name in plain.overloads() if plain is not None else ():
            bound = eager.binding_of(f"aten.{base.removesuffix('_')}.{name}")
            if bound is not None and _kinds(bound[0].overload) == _kinds(binding.overload):
                assert binding.rows == bound[0].rows, base
                compared += 1
    assert compared > 50
