"""tinygrad: training loops. `tinygrad_train.py HIDDEN STEPS`, then memory to the limit."""
import sys

from tinygrad import Device, Tensor, TinyJit, nn
from tinygrad.helpers import Context

from report import BLOCK, fill, report


class Model:
    def __init__(self, hidden):
        self.layers = [nn.Linear(64, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 10)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


def train(hidden, steps):
    """A captured training step, so that launches go through the client's graphs as well."""
    model = Model(hidden)
    optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01, momentum=0.9)
    x, y = Tensor.randn(32, 64).realize(), Tensor.randint(32, high=10).realize()

    @TinyJit
    def step():
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = model(x).sparse_categorical_crossentropy(y).backward()
            optimizer.step()
            return loss.realize()

    for _ in range(steps):
        step().item()
    return steps


def attempt(hidden, steps):
    try:
        return {"steps": train(hidden, steps), "error": ""}
    except MemoryError as e:
        return {"steps": 0, "error": f"MemoryError: {e}"[:200]}


hidden, steps = int(sys.argv[1]), int(sys.argv[2])
small = attempt(128, steps)
large = attempt(hidden, steps)
after = attempt(128, steps)  # an error leaves a client that still works
filled = fill(lambda: Tensor.zeros(BLOCK, dtype="uchar").contiguous().realize(), MemoryError)
report(device=Device.DEFAULT, compiler=type(Device["CUDA"].renderer).__name__, small=small, large=large, after=after, **filled)
