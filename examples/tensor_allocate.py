"""Tensors on the card: made there, moved there, in the default layout and in one of your choice. Run: python examples/tensor_allocate.py"""

import torch

from torch_spyre._C import DataFormats, SpyreTensorLayout, get_spyre_tensor_layout, spyre_empty_with_layout

DEVICE = torch.device("spyre")


def show(what: str, tensor: torch.Tensor) -> None:
    layout = get_spyre_tensor_layout(tensor)
    print(f"{what:<22} {tensor.dtype} {list(tensor.shape)}: {layout.device_size}, {layout.device_bytes} bytes")


def main() -> None:
    x = torch.tensor([[1, -2], [3, 4]], dtype=torch.float16, device=DEVICE)
    show("made on the card", x)
    host = torch.arange(48 * 100, dtype=torch.float32).reshape(48, 100).half()
    moved = host.to(DEVICE)
    show("moved there", moved)

    rows_on_sticks = SpyreTensorLayout([48, 100], [100, 1], torch.float16, [1, 0])
    turned = host.to(device_layout=rows_on_sticks)  # a layout implies the card
    show("sticks along dim 0", turned)
    explicit = SpyreTensorLayout(
        device_size=[48, 2, 64], stride_map=[100, 64, 1], device_dtype=DataFormats.SEN169_FP16
    )  # each row in one piece
    by_rows = spyre_empty_with_layout([48, 100], [100, 1], torch.float16, explicit)
    show("row by row", by_rows.copy_(host))
    same = turned.new_empty(48, 100, device_layout=explicit).copy_(turned)

    stick = DataFormats.SEN169_FP16.elems_per_stick()
    print(f"a stick holds {stick} elements; the card holds {torch.spyre.memory_allocated()} bytes")
    equal = all(torch.equal(tensor.cpu(), moved.cpu()) for tensor in (turned, by_rows, same))
    print("the same values in every layout:", equal)


if __name__ == "__main__":
    main()
