"""Programs of any size, each long in one way: `PROGRAMS[name](n)` is the source of one of size n."""

from __future__ import annotations

from collections.abc import Callable

Program = Callable[[int], str]

PROGRAMS: dict[str, Program] = {}
"""By name; each imports torch and trains, so that no rule is left out for want of its trigger words."""

LOOP = """
for batch in loader:
    loss = net(batch)
    loss.backward()
    optimizer.step()
"""


def program(write: Program) -> Program:
    """Add a function that writes a program to those that there are."""
    PROGRAMS[write.__name__.replace("_", " ")] = lambda size: "import torch\nfrom torch import nn\n" + write(size)
    return write


def training(body: str, start: str = "    loss = net(batch)\n", loss: str = "loss") -> str:
    """A training loop with some lines between its forward and its backward pass."""
    return f"for batch in loader:\n{start}{body}    {loss}.backward()\n    optimizer.step()\n"


def repeat(count: int, template: str, start: int = 0) -> str:
    """A text so many times: `{i}` is the number of each, `{before}` and `{after}` those of its neighbours.

    `{next}` and `{far}` are other numbers below the count.
    """
    return "".join(
        template.format(i=i, before=i - 1, after=i + 1, next=(i + 1) % count, far=(5 * i + 2) % count)
        for i in range(start, count)
    )


def nest(count: int, opening: str, inner: str) -> str:
    """Blocks in each other, `{i}` the depth of each, around lines of code."""
    blocks = "".join(f"{' ' * i}{opening.format(i=i, after=i + 1)}\n" for i in range(count))
    return blocks + "".join(f"{' ' * count}{line}\n" for line in inner.splitlines())


# -- many of one statement in a training loop -----------------------------------------------------------


@program
def operators(n: int) -> str:
    body = repeat(n, "    part{i} = (total * {i}).exp()\n    total = total + part{i}\n")
    return training(body, "    total = net(batch)\n", "total")


@program
def sums_over_iterations(n: int) -> str:
    body = repeat(n, "    running{i} += loss\n")
    return training(body)


@program
def lists_of_losses(n: int) -> str:
    body = repeat(n, "    kept{i}.append(loss)\n")
    return f"{repeat(n, 'kept{i} = []' + chr(10))}for batch in loader:\n    loss = net(batch)\n{body}"


@program
def one_list_of_all_losses(n: int) -> str:
    body = repeat(n, "    kept.append(net{i}(batch))\n")
    return f"kept = []\nfor batch in loader:\n{body}    sum(kept).backward()\n    optimizer.step()\n"


@program
def changes_in_place(n: int) -> str:
    body = repeat(n, "    other = value.exp()\n    value.mul_(other)\n")
    return training(body, "    value = net(batch)\n", "value")


@program
def changes_of_one_saved_tensor(n: int) -> str:
    body = repeat(n, "    value.add_({i})\n")
    return f"for batch in loader:\n    value = net(batch)\n    saved = value.exp()\n{body}    saved.sum().backward()\n"


@program
def views_of_views(n: int) -> str:
    body = repeat(n, "    view{after} = view{i}[{i}:]\n    saved{i} = view{i}.exp()\n")
    return f"for batch in loader:\n    view0 = net(batch)\n{body}    view{n}.add_(1)\n    saved0.sum().backward()\n"


@program
def swapped_names(n: int) -> str:
    body = repeat(n, "    left, right = right, left\n    left.add_(right)\n")
    return f"for batch in loader:\n    left, right = net(batch), net(batch)\n{body}    left.backward()\n"


@program
def activations_in_place(n: int) -> str:
    body = repeat(n, "    hidden{after} = act(hidden{i})\n    skip{i} = hidden{i} + 1\n")
    return "act = nn.ReLU(inplace=True)\n" + training(body, "    hidden0 = net(batch)\n", f"hidden{n}")


@program
def backward_passes(n: int) -> str:
    body = repeat(n, "    loss{i} = net(batch)\n    loss{i}.backward(retain_graph=True)\n")
    return f"for batch in loader:\n{body}    optimizer.step()\n"


@program
def backward_passes_of_one_loss(n: int) -> str:
    body = repeat(n, "    loss.backward(retain_graph=True)\n")
    return f"for batch in loader:\n    loss = net(batch)\n{body}    optimizer.step()\n"


@program
def steps_of_one_optimizer(n: int) -> str:
    body = repeat(n, "    net(batch).backward()\n    optimizer.step()\n    optimizer.zero_grad()\n")
    return f"for batch in loader:\n{body}"


@program
def optimizers(n: int) -> str:
    made = repeat(n, "optimizer{i} = torch.optim.SGD(net{i}.parameters(), lr=1)\n")
    body = repeat(n, "    loss{i} = net{i}(batch).sum()\n    loss{i}.backward()\n    optimizer{i}.step()\n")
    return f"{made}for batch in loader:\n{body}"


@program
def optimizers_of_unknown_make(n: int) -> str:
    body = repeat(n, "    net{i}(batch).backward()\n    optimizer{i}.step()\n    optimizer{i}.zero_grad()\n")
    return f"for batch in loader:\n{body}"


@program
def emptied_caches(n: int) -> str:
    return f"{LOOP}{repeat(n, '    torch.cuda.empty_cache()' + chr(10))}"


@program
def unknown_calls(n: int) -> str:
    body = repeat(n, "    log{i}(loss, optimizer)\n")
    return training(body)


# -- branches ---------------------------------------------------------------------------------------------


@program
def independent_conditions(n: int) -> str:
    body = repeat(n, "    if flag{i}:\n        loss = loss + net{i}(batch)\n        optimizer.zero_grad()\n")
    return training(body)


@program
def alternatives(n: int) -> str:
    body = repeat(n, "    elif kind == {i}:\n        loss = net{i}(batch)\n        state.add_(loss)\n")
    first = "    if kind is None:\n        loss = net(batch)\n"
    return f"for batch in loader:\n{first}{body}    loss.backward()\n    optimizer.step()\n"


@program
def cases(n: int) -> str:
    body = repeat(n, "        case [{i}, *rest]:\n            loss = net(rest)\n            loss.add_(1)\n")
    return f"for batch in loader:\n    match batch:\n{body}    loss.backward()\n    optimizer.step()\n"


@program
def early_exits(n: int) -> str:
    leaving = "    if flag{i}:\n        optimizer.zero_grad()\n        continue\n"
    body = repeat(n, leaving + "    loss = loss + net{i}(batch)\n")
    return training(body)


@program
def nested_conditions(n: int) -> str:
    inner = nest(min(n, 90), "if flag{i}:", "loss = loss.exp()\nloss.add_(1)")
    body = "".join(f"    {line}\n" for line in inner.splitlines())
    return training(body)


@program
def nested_handlers(n: int) -> str:
    depth = min(n, 19)  # CPython nests no more blocks
    opened = "".join(f"{' ' * (i + 1)}try:\n" for i in range(depth))
    work = f"{' ' * (depth + 1)}loss.backward()\n"
    caught = "".join(
        f"{' ' * (i + 1)}except Error:\n{' ' * (i + 2)}loss = loss.exp()\n{' ' * (i + 1)}finally:\n"
        f"{' ' * (i + 2)}optimizer.step()\n"
        for i in reversed(range(depth))
    )
    return f"for batch in loader:\n loss = net(batch)\n{opened}{work}{caught}"


@program
def handlers_in_a_row(n: int) -> str:
    body = repeat(n, "    try:\n        net(batch).backward()\n    except Error{i}:\n        optimizer.zero_grad()\n")
    return f"for batch in loader:\n{body}    optimizer.step()\n"


@program
def context_managers(n: int) -> str:
    body = repeat(n, "    with torch.no_grad():\n        kept{i} = net{i}(batch)\n")
    return f"for batch in loader:\n{body}    net(batch).backward()\n    optimizer.step()\n"


# -- loops ------------------------------------------------------------------------------------------------


@program
def loops_in_a_row(n: int) -> str:
    return repeat(n, LOOP.strip().replace("batch", "batch{i}") + "\n    losses.append(loss)\n")


@program
def loops_in_a_function(n: int) -> str:
    body = "".join(f"    {line}\n" for line in loops_in_a_row(n).splitlines())
    return f"def train(net, optimizer, loader, losses):\n{body}"


@program
def nested_loops(n: int) -> str:
    return nest(min(n, 19), "for x{i} in data{i}:", "loss = net(x0)\nloss.backward()\noptimizer.step()")


@program
def nested_loops_over_state(n: int) -> str:
    depth = min(n, 19)
    loops = "".join(f"{' ' * i}for x{i} in data:\n{' ' * (i + 1)}y{i} = net(x{i})\n" for i in range(depth))
    inner = "".join(f"{' ' * depth}{line}\n" for line in ("total = total + y0", "total.backward()", "optimizer.step()"))
    return f"total = 0\n{loops}{inner}"


@program
def loops_that_feed_the_next(n: int) -> str:
    return "state = 0\n" + repeat(n, "for batch in loader:\n    state = net(batch, state)\nstate.backward()\n")


@program
def comprehensions(n: int) -> str:
    body = repeat(n, "    parts{i} = [net(x) for x in batch if x > {i}]\n    sum(parts{i}).backward()\n")
    return f"for batch in loader:\n{body}    optimizer.step()\n"


@program
def nested_comprehensions(n: int) -> str:
    depth = min(n, 60)
    return f"y = {'[' * depth}net(x0){''.join(f' for x{i} in data]' for i in range(depth))}\n{LOOP}"


# -- functions --------------------------------------------------------------------------------------------


@program
def functions_that_train(n: int) -> str:
    body = "".join(f"    {line}\n" for line in LOOP.strip().splitlines())
    return repeat(n, "def train{i}(net, optimizer, loader):\n" + body)


@program
def functions_that_call_each_other(n: int) -> str:
    return (
        repeat(
            n,
            "def step{i}(x, optimizer):\n    x = step{next}(x, optimizer)\n    y = step{far}(x, optimizer)\n"
            "    x.add_(y)\n    optimizer.step()\n    return x\n",
        )
        + LOOP
    )


@program
def functions_that_call_the_one_before(n: int) -> str:
    first = "def layer0(x):\n    x.add_(1)\n    return x\n"
    others = repeat(n, "def layer{i}(x):\n    y = layer{before}(x.exp())\n    return layer{before}(y)\n", 1)
    return f"{first}{others}for batch in loader:\n    layer{n - 1}(batch).backward()\n    optimizer.step()\n"


@program
def functions_that_call_the_one_before_thrice(n: int) -> str:
    first = "def step0(x, optimizer):\n    x.backward()\n    optimizer.step()\n"
    others = repeat(n, "def step{i}(x, optimizer):\n" + "    step{before}(x, optimizer)\n" * 3, 1)
    return f"{first}{others}for batch in loader:\n    step{n - 1}(batch, optimizer)\n"


@program
def functions_that_mix_their_arguments(n: int) -> str:
    first = "def mix0(x, y):\n    x.add_(y)\n    return x\n"
    mixing = "    a = mix{before}(x, y)\n    b = mix{before}(y, a)\n    return mix{before}(a.exp(), b)\n"
    others = repeat(n, "def mix{i}(x, y):\n" + mixing, 1)
    return first + others + training("", f"    loss = mix{n - 1}(net(batch), batch)\n")


@program
def calls_of_one_function(n: int) -> str:
    made = "def step(x, optimizer):\n    x.backward()\n    optimizer.step()\n    x.add_(1)\n    return x\n"
    return f"{made}for batch in loader:\n{repeat(n, '    step(net{i}(batch), optimizer{i})' + chr(10))}"


@program
def calls_that_compute(n: int) -> str:
    made = "def twice(x):\n    y = x * 2\n    return y.exp()\n"
    body = repeat(n, "    value{i} = twice(value)\n    value = value + value{i}\n")
    return made + training(body, "    value = net(batch)\n", "value")


@program
def nested_functions(n: int) -> str:
    depth = min(n, 60)
    opened = "".join(f"{' ' * i}def inner{i}(x, optimizer):\n" for i in range(depth))
    calls = "".join(
        f"{' ' * (i + 1)}inner{i + 1}(x.exp(), optimizer)\n{' ' * (i + 1)}inner{i + 1}(x, optimizer)\n"
        for i in reversed(range(depth - 1))
    )
    return f"{opened}{' ' * depth}x.add_(1)\n{' ' * depth}x.backward()\n{calls}{LOOP}"


@program
def closures(n: int) -> str:
    inner = repeat(
        n, "    def inner{i}(y):\n        nonlocal x\n        x = inner{next}(y)\n        x.add_(y)\n        return x\n"
    )
    return f"def outer(x):\n{inner}    return inner0\n{LOOP}"


@program
def nested_lambdas(n: int) -> str:
    depth = min(n, 60)
    return f"f = {''.join(f'lambda x{i}: ' for i in range(depth))}x0.add_(x1)\n{LOOP}"


@program
def global_names(n: int) -> str:
    made = "def count{i}(x):\n    global total{i}, loss\n    total{i} = total{next}\n    loss = total{i}.exp()\n"
    return repeat(n, made + "    total{i} += x\n") + LOOP


@program
def parameters(n: int) -> str:
    named, body = ", ".join(f"p{i}" for i in range(n)), repeat(n, "    p{i}.add_(p{next})\n")
    handed = ", ".join("net(batch)" for _ in range(n))
    return f"def mix({named}):\n{body}{training(f'    mix({handed}){chr(10)}')}"


# -- classes and objects ----------------------------------------------------------------------------------


@program
def methods(n: int) -> str:
    made = repeat(
        n,
        "    def part{i}(self, x):\n        self.a{i} = self.part{next}(self.a{far})\n        self.a{i}.add_(x)\n"
        "        self.optimizer.step()\n",
    )
    fit = "    def fit(self):\n        for x in xs:\n            self.part0(x).backward()\n"
    return f"class Trainer:\n{made}{fit}            self.optimizer.step()\n"


@program
def subclasses(n: int) -> str:
    first = "class Net0(nn.Module):\n    def forward(self, x):\n        x.add_(1)\n        return x\n"
    others = (
        "class Net{i}(Net{before}):\n    def forward(self, x):\n        return self.part{i}(super().forward(x))\n"
        "    def part{i}(self, x):\n        self.total += x\n        return x.exp()\n"
    )
    return first + repeat(n, others, 1) + LOOP


@program
def modules(n: int) -> str:
    made = repeat(n, "        self.fc{i} = nn.Linear(8, 8)\n")
    used = repeat(n, "        x = self.fc{i}(x).sigmoid()\n        x += 1\n")
    start = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    return f"{start}{made}    def forward(self, x):\n{used}        return x\nnet = Net()\n{LOOP}"


@program
def calls_of_modules(n: int) -> str:
    made = "class Net(nn.Module):\n    def forward(self, x):\n        y = x * 2\n        return y.exp()\nnet = Net()\n"
    return f"{made}for batch in loader:\n{repeat(n, '    net(batch).backward()' + chr(10))}    optimizer.step()\n"


@program
def attributes_of_themselves(n: int) -> str:
    body = repeat(n, "    node = node.next\n    node.other = node\n    node.other.net = net\n")
    return training(body, "    node = net(batch)\n", "node")


@program
def lists_of_themselves(n: int) -> str:
    body = repeat(n, "    held = [held, value, held]\n    held.append(value)\n")
    return "held = []\n" + training(body, "    value = net(batch)\n", "value")


@program
def tuples_of_themselves(n: int) -> str:
    body = repeat(n, "    pair = (pair, pair)\n    value = pair[0]\n    value.add_(1)\n")
    return training(body, "    pair = net(batch)\n", "value")


@program
def entries_of_a_dictionary(n: int) -> str:
    made = "parts = {" + ", ".join(f"'k{i}': [nn.Linear(1, 1), nn.ReLU(inplace=True)]" for i in range(n)) + "}\n"
    body = repeat(n, "    batch = parts['k{i}'][0](batch)\n    batch.relu_()\n")
    return f"{made}for batch in loader:\n{body}    batch.backward()\n    optimizer.step()\n"


# -- the text ---------------------------------------------------------------------------------------------


@program
def long_expression(n: int) -> str:
    terms = " + ".join(f"net{i}(batch).exp_()" for i in range(n))
    return training("", f"    loss = {terms}\n")


@program
def suppressions(n: int) -> str:
    body = repeat(n, "    loss.backward()  # torchlint: ignore[missing-zero-grad]\n")
    return f"for batch in loader:\n{body}    optimizer.step()\n"


@program
def comments(n: int) -> str:
    return f"{repeat(n, '# {i}' + chr(10) * 2)}{LOOP}"


@program
def statements_of_one_line(n: int) -> str:
    return f"{'x = 1; ' * n}\n{LOOP}"


@program
def list_of_one_line(n: int) -> str:
    return f"x = [{'1, ' * n}]\n{LOOP}"


@program
def string_of_one_line(n: int) -> str:
    return f"x = '{'x' * n}'\n{LOOP}"
