"""A softmax on the card, eager and compiled, against the CPU's in float64. Run: python examples/softmax.py"""

import torch

DEVICE = torch.device("spyre")


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 1024, dtype=torch.float16).to(DEVICE)
    exact = x.cpu().double().softmax(dim=1)

    eager = torch.softmax(x, dim=1)
    compiled = torch.compile(lambda tensor: torch.softmax(tensor, dim=1))(x)
    torch.spyre.synchronize()

    # Read as float32: the host's float16 has fewer bits for small numbers than the card's format.
    unit = 2.0**-9 * exact.amax(1, keepdim=True)
    error = ((eager.float().cpu() - exact).abs() / unit).max().item()
    print(
        f"largest error: {error:.2f} units of the card's 9 fraction bits at its row's scale: five ops, each of which rounds"
    )
    print("compiled gives the bits of eager:", torch.equal(eager.cpu(), compiled.cpu()))
    print("rows sum to one:", torch.allclose(eager.cpu().double().sum(1), torch.ones(512).double(), atol=2e-3))


if __name__ == "__main__":
    main()
