"""A way through every kind of step the card has: calls of one operator each, on inputs that many threads share."""

import torch

ROWS, COLUMNS = 258, 1030


def inputs():
    """Host tensors by name, the same in every process."""
    generator = torch.Generator().manual_seed(7)

    def uniform(*size):
        return torch.rand(size, generator=generator).half()

    return {
        "x": uniform(ROWS, COLUMNS),
        "y": uniform(ROWS, COLUMNS),
        "turned": uniform(COLUMNS, ROWS),
        "wide": torch.rand(ROWS, COLUMNS, generator=generator),
        "rows": torch.randint(0, ROWS, (ROWS,), generator=generator),
        "heads": uniform(2, 3, 130, 64),
    }


STEPS = {
    "map": lambda t: torch.add(t["x"], t["y"], alpha=0.5),
    "map_functions": lambda t: torch.nn.functional.gelu(t["wide"]),
    "map_broadcast": lambda t: torch.maximum(t["x"][3], t["y"]),
    "reduce_rows": lambda t: t["wide"].sum(0),
    "reduce_sticks": lambda t: t["x"].sum(1),
    "reduce_places": lambda t: t["x"].argmax(1),
    "rows": lambda t: torch.softmax(t["x"], -1),
    "contract": lambda t: t["x"] @ t["turned"],
    "contract_wide": lambda t: t["wide"] @ t["wide"].t(),
    "attention": lambda t: torch.nn.functional.scaled_dot_product_attention(t["heads"], t["heads"], t["heads"]),
    "relayout": lambda t: torch.mul(t["x"], t["turned"].t()),
    "gather": lambda t: t["x"].index_select(0, t["rows"]),
    "scatter": lambda t: t["wide"].index_add(0, t["rows"], t["wide"]),
    "scan": lambda t: t["wide"].cumsum(1),
    "sort": lambda t: t["x"].sort(stable=True, dim=1),
    "create": lambda t: t["x"].tril(-3),
}


def results(step, tensors):
    """What a step returns, always as a tuple."""
    returned = STEPS[step](tensors)
    return (returned,) if isinstance(returned, torch.Tensor) else tuple(returned)
