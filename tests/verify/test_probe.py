"""The probe's parts by themselves: what they make of gradients, graphs and lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from tests.optional import optional

torch = optional("torch")
pytestmark = pytest.mark.needs("torch")

BOOT = Path(__file__).parent.parent.parent / "torchlint" / "verify" / "boot"


@pytest.fixture(autouse=True)
def probe_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is found as it is in a program: beside its `sitecustomize`."""
    monkeypatch.syspath_prepend(str(BOOT))


class Training:
    """A model, its optimizer, and a ledger that is told of what happens."""

    def __init__(self) -> None:
        from torchlint_probe.ledger import Ledger

        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(12)])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.ledger = Ledger(self.optimizer, "SGD")
        self.ledger.watch(list(self.model.parameters()))

    def backward(self, site: int = 1, **keywords: Any) -> None:
        loss = self.model(torch.randn(4, 3)).pow(2).mean()
        with torch.no_grad():
            self.ledger.before_backward(True)
        loss.backward(**keywords)  # torchlint: ignore[missing-zero-grad] - some tests want just that
        with torch.no_grad():
            self.ledger.after_backward(site, 1)

    def step(self) -> None:
        with torch.no_grad():
            self.ledger.before_step(2, 0, True, False)
        self.optimizer.step()
        with torch.no_grad():
            self.ledger.after_step()


def clear_by_none(training: Training) -> None:
    for parameter in training.model.parameters():
        parameter.grad = None


def clear_through_data(training: Training) -> None:
    for parameter in training.model.parameters():
        parameter.grad.data.zero_()


def clear_by_zeros(training: Training) -> None:
    training.optimizer.zero_grad(set_to_none=False)


def clear_by_multiplying(training: Training) -> None:
    for parameter in training.model.parameters():
        parameter.grad.mul_(0)


CLEARINGS = [clear_by_none, clear_through_data, clear_by_zeros, clear_by_multiplying]


@pytest.mark.parametrize("clear", CLEARINGS)
def test_every_way_to_clear_counts(clear: Callable[[Training], None]) -> None:
    training = Training()
    for _ in range(5):
        training.backward()
        training.step()
        clear(training)
    assert not training.ledger.stale
    assert training.ledger.clears == 4
    assert training.ledger.steps == {2: 5}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
def test_gradients_that_nobody_clears_are_stale(create_graph: bool) -> None:
    training = Training()
    for _ in range(5):
        training.backward(create_graph=create_graph)
        training.step()
    assert training.ledger.stale == {2: 4}
    assert training.ledger.added_stale == {1: 4}
    clear_by_none(training)


def test_clipping_and_scaling_are_no_clearing() -> None:
    training = Training()
    for _ in range(5):
        training.backward()
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)
        training.step()
        for parameter in training.model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(0.5)
    assert training.ledger.stale == {2: 4}


@pytest.mark.parametrize("clear", CLEARINGS)
def test_accumulating_over_micro_batches_is_not_stale(clear: Callable[[Training], None]) -> None:
    training = Training()
    for _ in range(4):
        for _ in range(3):
            training.backward()
        training.step()
        clear(training)
    assert not training.ledger.stale
    assert training.ledger.added == {1: 12}


@pytest.mark.parametrize("clear", CLEARINGS)
def test_clearing_between_backward_and_step_is_seen(clear: Callable[[Training], None]) -> None:
    training = Training()
    for _ in range(4):
        training.backward()
        clear(training)
        training.step()
    in_place_unseen = clear is clear_through_data  # neither identity nor version tells
    assert training.ledger.wiped == ({} if in_place_unseen else {2: 4})


def test_a_step_without_any_backward_is_hungry() -> None:
    training = Training()
    training.step()
    assert training.ledger.hungry == {2: 1}
    assert not training.ledger.wiped


def test_accumulated_and_fresh_norms() -> None:
    training = Training()
    for _ in range(3):
        training.backward()
        training.step()
    assert len(training.ledger.norms.ratios) == 2
    norms = training.ledger.norms.take()
    assert norms is not None
    assert norms[0] > 0
    assert training.ledger.norms.take() is None


def test_tensors_are_not_kept_alive() -> None:
    """Neither parameters nor gradients: the program's memory stays its own."""
    import weakref

    training = Training()
    training.backward()
    training.step()
    gradient = weakref.ref(next(training.model.parameters()).grad)
    training.optimizer.zero_grad()
    assert gradient() is None
    parameter = weakref.ref(next(training.model.parameters()))
    ledger = training.ledger
    del training
    assert parameter() is None
    assert not ledger.alive


def test_a_retained_graph_is_recognised() -> None:
    from torchlint_probe.retention import Retention

    retention = Retention()
    for _ in range(4):
        hidden = torch.randn(3, requires_grad=True).exp()
        first, second = hidden.sum(), hidden.prod()
        retention.meet([first], True, 1)
        retention.meet([second], False, 2)
        retention.meet([torch.randn(3, requires_grad=True).sum()], True, 3)
    assert (retention.sites[1].judged, retention.sites[1].reused) == (4, 4)
    assert retention.sites[3].reused == 0


def test_constant_paths_are_followed_without_running_code() -> None:
    from torchlint_probe.claim import values_of

    class Holder:
        def __init__(self) -> None:
            self.losses = {"train": [1, 2]}

        @property
        def trap(self) -> int:
            raise AssertionError("a property must not run")

    holder = Holder()
    frame = sys._getframe()
    assert holder.losses
    assert list(values_of((("holder", ".losses", "'train", "=1"), ("holder", ".trap"), ("nothing",)), frame)) == [2]


class Visits:
    """Counts how often a line was entered, and what it left behind."""

    def __init__(self) -> None:
        self.entered = 0
        self.left: list[tuple[int, BaseException | None]] = []

    def enter(self, frame: FrameType) -> bool:
        self.entered += 1
        return True

    def leave(self, frame: FrameType, error: BaseException | None) -> bool:
        self.left.append((frame.f_locals.get("total", -1), error))
        return True


@pytest.fixture
def watched() -> Iterator[Callable[[Callable[[], Any], int], Visits]]:
    """Watches the line so many lines below the head of a function of this file, and calls the function."""
    from torchlint_probe.lines import Lines, Watch
    from torchlint_probe.sites import Sites

    if sys.gettrace() is not None and sys.version_info < (3, 12):
        pytest.skip("something else traces")

    def watch(function: Callable[[], Any], below: int) -> Visits:
        line = function.__code__.co_firstlineno + below
        visits = Visits()
        lines = Lines(Sites(str(Path(__file__).parent), [__file__], "/"))
        lines.watch([Watch(0, (line, line), visits)])
        try:
            function()
        except ZeroDivisionError:
            pass
        finally:
            lines.watch([])
        return visits

    return watch  # type: ignore[return-value]


def test_a_line_is_entered_and_left_each_time(watched: Callable[..., Visits]) -> None:
    def loop() -> None:
        total = 0
        for number in range(4):
            total += number
        assert total == 6

    visits = watched(loop, 3)
    assert visits.entered == 4
    assert [total for total, _ in visits.left] == [0, 1, 3, 6]


def test_an_error_at_a_line_is_handed_over(watched: Callable[..., Visits]) -> None:
    def fail() -> None:
        total = 1.0
        total /= 0

    visits = watched(fail, 2)
    assert isinstance(visits.left[0][1], ZeroDivisionError)


def test_an_error_that_is_caught_in_the_function_is_handed_over(watched: Callable[..., Visits]) -> None:
    def fail() -> None:
        total = 1.0
        try:
            total /= 0
        except ZeroDivisionError:
            total = 7

    visits = watched(fail, 3)
    assert isinstance(visits.left[0][1], ZeroDivisionError)


class FromC(dict[str, int]):
    """Has a class method of C in its own namespace, as `torch.autograd.Function` has since PyTorch 2.15."""

    fromkeys = dict.__dict__["fromkeys"]


class FromPython:
    @classmethod
    def fromkeys(cls, keys: Any, value: Any) -> Any:
        return dict.fromkeys(keys, value)


@pytest.mark.parametrize("owner", [FromC, FromPython])
def test_a_class_method_is_listened_to(owner: Any) -> None:
    from torchlint_probe.hooks import Hooks

    heard = []

    def hook(original: Any, cls: Any, *args: Any) -> Any:
        heard.append(cls)
        return original(*args)

    Hooks().listen_to_class(owner, "fromkeys", hook)
    child: Any = type("Child", (owner,), {})
    assert child.fromkeys("ab", 1) == {"a": 1, "b": 1}
    assert isinstance(child.fromkeys("ab", 1), child) == (owner is FromC)
    assert heard == [child, child]


def test_a_check_that_cannot_be_put_in_place_is_left_out(tmp_path: Path) -> None:
    from torchlint_probe.checks import Checks
    from torchlint_probe.checks.check import Check
    from torchlint_probe.hooks import Hooks

    class Broken(Check):
        @classmethod
        def tap(cls, hooks: Any, probe: Any) -> None:
            raise AttributeError("no such function")

    class Whole(Check):
        pass

    probe = type("Probe", (), {"trouble": ""})()
    checks = Checks(probe, [])
    checks.all = [Broken(probe), Whole(probe)]
    checks.tap(Hooks())
    assert [type(check) for check in checks.all] == [Whole]
    assert probe.trouble == "AttributeError in _tap: no such function"


def test_graphs_are_walked_only_while_an_optimizer_may_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows of an optimizer that comes when those of another are known are counted all the same."""
    from torchlint_probe import graphs
    from torchlint_probe import windows as module
    from torchlint_probe.claim import Claim
    from torchlint_probe.ledgers import Ledgers

    walks = 0

    def nodes(roots: Any) -> Any:
        nonlocal walks
        walks += 1
        return graphs.nodes(roots)

    monkeypatch.setattr(module, "nodes", nodes)
    line = ((7, 7),)
    probe: Any = SimpleNamespace(
        ledgers=Ledgers(True), sites=SimpleNamespace(here=lambda: 1, stacks=[(), ((0, 7),)]), trouble=""
    )
    windows = module.Windows(Claim(0, "lopsided-accumulation", 0, (7, 7), (7, 7), line, (), (), ()), probe)

    def train(first: int) -> None:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        probe.ledgers.add(optimizer)
        for backward in range(1, 31):
            windows.before_backward([model(torch.ones(1, 2)).sum()])
            if backward % 2 == first:
                windows.after_step(optimizer)
        held.append(optimizer)

    held: list[Any] = []
    train(first=0)
    assert walks == 10
    assert windows.counts == {f"0.{step}": 2 for step in range(5)}
    train(first=1)
    assert walks == 10 + 9
    assert [windows.counts[f"1.{step}"] for step in range(5)] == [1, 2, 2, 2, 2]


def test_what_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    from torchlint_probe.log import Log

    seen: dict[str, int] = {"steps": 1}

    def snapshot() -> dict[str, int]:
        for name in seen:
            if len(seen) < 3:
                seen[f"after {name}"] = 2  # as another thread may
        return dict(seen)

    Log(str(tmp_path), b"k" * 32, float("inf"), snapshot, lambda: 1, lambda: None).write()
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text().splitlines()[1]) == seen
