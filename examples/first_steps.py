"""A first walk over the card: move a tensor, look at its tiles, compute, train, and see what fell back to the CPU.

Run it with `python examples/first_steps.py`; there is nothing to import but torch.
"""

import warnings

import torch

warnings.filterwarnings("ignore", category=torch.spyre.FallbackWarning)

print(f"{torch.spyre.device_count()} card: {torch.spyre.get_device_name()}")
free, total = torch.spyre.mem_get_info()
print(f"memory: {total / 2**30:.0f} GiB, {free / 2**30:.0f} free\n")

x = torch.randn(33, 70, dtype=torch.float16)
y = x.to("spyre")
print("a (33, 70) tensor of float16 lies on the card as")
print(f"  {y.device_tensor_layout()}")
print(f"  rounded to 9 mantissa bits on the way: largest relative error {((y.cpu() - x).abs() / x.abs()).max():.5f}\n")

column = y[:, 3]
column += 1
print(f"a view is a view: y[0, 3] went from {x[0, 3]:.3f} to {y[0, 3].item():.3f}\n")

model = torch.nn.Sequential(torch.nn.Linear(70, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to("spyre")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = y.float()
for step in range(3):
    loss = model(inputs).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")

fell_back = torch.spyre.fallback_stats()
print(f"\noperators without a kernel on the card (they ran on the CPU): {len(fell_back) or 'none'}")
for operator, row in list(fell_back.items())[:5]:
    moved = (row["bytes_to_host"] + row["bytes_to_device"]) / 1024
    print(f"  {operator:32} {row['calls']:4} calls, {moved:8.1f} KiB moved")
print(f"\n{torch.spyre.memory_summary()}")
