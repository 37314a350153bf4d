"""The device: registration with torch, and what stands under `torch.spyre`."""
