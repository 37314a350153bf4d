"""Whether what a tensor's elements are said to be agrees with the format its memory is in."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.artifact.fields import Problems
from openspyre.spec.formats import HELD_IN, TENSOR_DTYPES, DataFormats, formats_of
from openspyre.spec.ops import TABLE, Kind

_MATRIX_FORMATS = (DataFormats.SEN169_FP16, DataFormats.IEEE_FP32)
_WIDEST_LANE_BITS = 32


def check_formats(description: Description, problems: Problems) -> None:
    """Dtypes against formats, tensor by tensor."""
    for index, tensor in enumerate(description.tensors):
        _check_tensor(tensor, f"openspyre_.tensors[{index}]", problems)


def check_unit(description: Description, problems: Problems) -> None:
    """What the unit that serves an op can take, once its operands are the right ones."""
    kind = TABLE[description.row].kind
    if kind is Kind.CONTRACTION:
        _check_contraction(description, problems)
    elif kind in (Kind.SCAN, Kind.SORT):
        _check_ordered(description, problems)
    elif kind is Kind.INDEXED:
        _check_index(description, problems)
    elif kind is Kind.MOMENTS:
        _check_moments(description, problems)
    if kind not in (Kind.MOVEMENT, Kind.CONTRACTION):
        _check_lanes(description, problems)


def holds(dtype: str, form: DataFormats) -> bool:
    return form in HELD_IN.get(dtype, ())


def _read_as(dtype: str, buffer_dtype: str) -> DataFormats | None:
    """The format a tensor's bits are read in: none of its own where it has the buffer's dtype (D5)."""
    return None if dtype == buffer_dtype else formats_of(dtype).device


def _check_tensor(tensor: Tensor, field: str, problems: Problems) -> None:
    if tensor.dtype not in TENSOR_DTYPES:
        problems.add(f"{field}.dtype", tensor.dtype, f"one of {', '.join(TENSOR_DTYPES)}")
    elif not holds(tensor.dtype, tensor.format):
        expected = f"a format that holds {tensor.dtype}, by default {formats_of(tensor.dtype).device.name}"
        problems.say(f"{field}.format", tensor.format.name, expected)
    own = tensor.layout.device_dtype
    if tensor.bits_as is not None and tensor.bits_as.bits != own.bits:
        problems.say(f"{field}.bits_as", tensor.bits_as.name, f"a format of {own.bits} bits, as {own.name} is")
    if tensor.view is None:
        return
    if not holds(tensor.view.buffer_dtype, own):
        problems.say(f"{field}.view.buffer_dtype", tensor.view.buffer_dtype, f"a dtype that {own.name} holds")
    _check_reading(tensor, tensor.view.buffer_dtype, field, problems)


def _check_reading(tensor: Tensor, buffer_dtype: str, field: str, problems: Problems) -> None:
    """A tensor of another dtype than its buffer's says so, and reads the bits in its own dtype's format."""
    wanted = _read_as(tensor.dtype, buffer_dtype)
    if tensor.bits_as is not wanted:
        found = "null" if tensor.bits_as is None else tensor.bits_as.name
        expected = "null" if wanted is None else wanted.name
        problems.say(
            f"{field}.bits_as", found, f"{expected}, as {tensor.dtype} read from a buffer of {buffer_dtype} is"
        )


def _check_contraction(description: Description, problems: Problems) -> None:
    formats = [tensor.format for tensor in description.tensors]
    if any(form not in _MATRIX_FORMATS for form in formats) or len(set(formats[:2])) > 1:
        names = ", ".join(form.name for form in formats)
        expected = f"two operands in one of {' or '.join(form.name for form in _MATRIX_FORMATS)}, and the result in one"
        problems.say("openspyre_.format", names, expected)


def _check_ordered(description: Description, problems: Problems) -> None:
    source, values, *places = description.tensors
    if (source.dtype, source.format) != (values.dtype, values.format):
        found = f"{values.dtype} in {values.format.name}"
        problems.say("openspyre_.format", found, f"{source.dtype} in {source.format.name}, as values keep their format")
    for tensor in places:
        if tensor.dtype not in ("int32", "int64") or tensor.format is not DataFormats.IEEE_INT32:
            problems.say("openspyre_.format", f"{tensor.dtype} in {tensor.format.name}", "places in IEEE_INT32")


def _check_index(description: Description, problems: Problems) -> None:
    index = description.tensors[1]
    if "int" not in index.dtype:
        problems.say("openspyre_.tensors[1].dtype", index.dtype, "an integer dtype, as it is an index")


def _check_moments(description: Description, problems: Problems) -> None:
    for index, tensor in enumerate(description.tensors):
        if "float" not in tensor.dtype:
            problems.say(f"openspyre_.tensors[{index}].dtype", tensor.dtype, "a float: sums of a row are fp32")


def _check_lanes(description: Description, problems: Problems) -> None:
    for index, tensor in enumerate(description.tensors):
        if tensor.format.bits > _WIDEST_LANE_BITS:
            field = f"openspyre_.tensors[{index}].format"
            problems.say(field, tensor.format.name, f"at most {_WIDEST_LANE_BITS} bits, as a vector lane has")
