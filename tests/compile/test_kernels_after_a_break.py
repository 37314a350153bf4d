"""An operator that runs eagerly after a graph break is a call like any other: Dynamo does not compile its Python kernel."""

import pytest
import torch

from torch_spyre.ops.composed import table

# torch's own entries, which are no frames of Python themselves, and what follows the tensor
CALLS = {
    "rrelu_with_noise": (torch.rrelu, 0.1, 0.3, True),  # writes noise, which the gradient reads
    "glu": (torch._C._nn.glu, -1),
    "native_group_norm": (torch.group_norm, 2),
    "nan_to_num": (torch.nan_to_num,),
    "log_sigmoid_forward": (torch._C._nn.log_sigmoid,),
}


@pytest.mark.filterwarnings("ignore")  # Dynamo's own, of the break
@pytest.mark.parametrize("name", CALLS)
def test_no_kernel_is_compiled(name):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    call, *arguments = CALLS[name]

    def broken(x):
        with torch.random.fork_rng(devices=[]):
            torch.spyre.manual_seed(3)
            return call(x, *arguments)

    torch._dynamo.reset()
    host = torch.linspace(-3, 3, 240).reshape(2, 4, 30)
    found = []
    for function in (broken, torch.compile(broken, backend=backend)):
        x = host.to("spyre").requires_grad_()
        result = function(x)
        result.sum().backward()
        found.append((result.detach().cpu(), x.grad.cpu()))
    assert not graphs
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_the_calls_are_compositions():
    assert set(CALLS) <= {overload.overloadpacket.__name__ for overload in table()}
