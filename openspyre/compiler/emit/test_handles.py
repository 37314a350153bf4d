"""`debug_handle_` says where an op came from, through files and back."""

from __future__ import annotations

from openspyre.artifact.provenance_reader import read_provenance
from openspyre.artifact.superdsc import SourcePlace
from openspyre.artifact.superdsc_writer import handle_json
from openspyre.compiler.emit.handles import provenance_of
from openspyre.spec.origin import NOWHERE, Origin

LINE = Origin("model.py", 7, "forward", "aten.addmm.default", ("linear", "addmm"), "layers.0.up (Linear)")
COPY = Origin("model.py", 8, "forward", "aten.clone.default", ("clone",))


def test_a_handle_has_line_operator_module_and_every_name_on_the_way() -> None:
    found = provenance_of("batchmatmul_3", "batchmatmul", LINE)
    assert found.source == SourcePlace("model.py", 7, "forward")
    assert (found.aten_op, found.module) == ("aten.addmm.default", "layers.0.up (Linear)")
    assert found.ir_chain == ("linear", "addmm", "batchmatmul_3")
    assert found.fused_from == ()


def test_an_op_that_does_several_calls_has_a_handle_for_each() -> None:
    found = provenance_of("add_0", "add", LINE.merged_with(COPY, "EliminateCopies", "it writes there"))
    assert [part.source for part in found.fused_from] == [
        SourcePlace("model.py", 7, "forward"),
        SourcePlace("model.py", 8, "forward"),
    ]
    assert [part.ir_chain for part in found.fused_from] == [("linear", "addmm"), ("clone",)]
    assert [change.kind for change in found.history] == ["fusion"]


def test_ids_are_63_bits_the_same_for_the_same_op_and_others_for_others() -> None:
    ids = [provenance_of(name, row, origin).id for name in "ab" for row in ("add", "mul") for origin in (LINE, COPY)]
    assert len(set(ids)) == len(ids) and all(0 <= int(one) < 1 << 63 for one in ids)
    assert provenance_of("a", "add", LINE).id == ids[0] == "1605214977911836671"


def test_handles_come_back_from_their_files() -> None:
    for origin in (LINE, COPY, NOWHERE, LINE.merged_with(COPY, "p", "r"), LINE.changed("clone", "p", "r")):
        found = provenance_of("add_0", "add", origin)
        assert read_provenance(handle_json(found)) == found
