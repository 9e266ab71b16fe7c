"""Rules about statements that raise, or that do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Observed, total
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3


def nonscalar_backward(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by PyTorch's error at the line; refuted by backwards from it that did not raise."""
    return _of_backward(claim, evidence, "can be implicitly created only for scalar outputs")


def second_backward(claim: Claim, evidence: Evidence) -> Verdict:
    """The same, for a freed graph."""
    return _of_backward(claim, evidence, "backward through the graph a second time")


def _of_backward(claim: Claim, evidence: Evidence, complaint: str) -> Verdict:
    seen = evidence.of_claim(claim.index)
    errors = {error: count for error, count in seen.errors.items() if complaint in error}
    if errors:
        return _raised(errors, "at this line", seen)
    if not seen["visits"]:
        return not_reached()
    numbers = {"visits": seen["visits"], "passed": seen["passed"]}
    if seen.errors:
        error = next(iter(seen.errors))
        return inconclusive(f"the line raised another error: {error}", numbers, READ, doubtful=True)
    sites = [[item.site, item.count] for item in evidence.backwards]
    backwards = total(item for item in sites if evidence.is_at(item[0], claim.file, (claim.statement,)))
    if seen["passed"] >= _ENOUGH and backwards >= _ENOUGH:
        reason = f"ran {times(seen['passed'], 'time')}, with {times(backwards, 'backward')} and no error"
        return refuted(reason, {**numbers, "backwards": backwards})
    reason = f"ran {times(seen['passed'], 'time')} without an error, with {times(backwards, 'backward')}: too few"
    return inconclusive(reason, numbers)


def _raised(errors: dict[str, int], where: str, seen: Observed) -> Verdict:
    count = sum(errors.values())
    message = next(iter(errors)).split(". ")[0]
    return confirmed(f"PyTorch raised {where}: {message}", {"errors": count, "visits": seen["visits"]}, 0)


def backward_arity(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by an error about the class of the function; refuted by backwards that ran through it."""
    seen = evidence.of_claim(claim.index)
    errors = {error: count for error, count in _errors(evidence) if seen.shown and _is_about(seen.shown, error)}
    if errors:
        return _raised(errors, f"about `{seen.shown}`", seen)
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached("its backward did not run")
    numbers = {"visits": seen["visits"]}
    passed = sum(item.count for item in evidence.backwards)
    if seen["visits"] >= _ENOUGH and passed >= _ENOUGH:
        return refuted(
            f"`backward` of `{seen.shown}` ran {times(seen['visits'], 'time')}, and PyTorch accepted its results",
            numbers,
        )
    return inconclusive(f"its backward ran {times(seen['visits'], 'time')}: too few", numbers)


def _errors(evidence: Evidence) -> Iterator[tuple[str, int]]:
    for item in evidence.backwards:
        yield from item.errors.items()
    if evidence.error:
        yield evidence.error, 1


def _is_about(name: str, error: str) -> bool:
    """Whether PyTorch complains about what goes in and out of a Function of this name."""
    is_count = f"function {name}Backward returned an incorrect number" in error
    is_call = f"{name}.backward() takes" in error or f"{name}.backward() missing" in error
    is_call |= f"{name}.forward() takes" in error or f"{name}.forward() missing" in error
    return is_count or is_call or "Legacy autograd function with non-static forward" in error


def uncalled_method(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if the line ran: an uncalled method never does anything."""
    seen = evidence.of_claim(claim.index)
    if seen.errors:
        return _raised(dict(seen.errors), "at this line", seen)
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    visits = max(seen["visits"], 1)
    return confirmed(f"the line ran {times(visits, 'time')} without calling the method", {"visits": visits}, 0)


def discarded_result(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if it ran, unless its object is not a tensor, or did change."""
    seen = evidence.of_claim(claim.index)
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    numbers = {"visits": seen["visits"]}
    if seen.errors or not seen["passed"]:
        return inconclusive("the line did not finish", numbers, READ)
    if seen["changed"] or seen["others"]:
        what = f"a {seen.shown}, which may change in place" if seen["others"] else "a tensor that did change"
        return inconclusive(f"its object is {what}", numbers, READ, doubtful=True)
    if seen["modules"] and not seen["tensors"]:
        if seen["modules"] < _ENOUGH:
            return inconclusive("its object is a module, but the line ran too rarely", numbers, MORE_STEPS)
        return refuted(f"its object is a {seen.shown}, and modules change in place", numbers)
    what = "the tensor did not change" if seen["tensors"] else "its result is unused"
    return confirmed(f"the line ran {times(seen['passed'], 'time')}, and {what}", numbers, 0)


_COMPLAINTS = {
    "absent-class-weights": ("weight tensor should be defined",),
    "dtype-mismatch": ("dtype", "type"),
    "grad-outside-graph": ("not have been used in the graph", "does not require grad"),
    "loss-target-dtype": ("dtype", "type", "not implemented for", "Expected floating"),
    "removed-api": ("no attribute", "removed", "no longer", "unexpected keyword", "cannot import", "deprecated"),
    "shape-mismatch": ("shape", "size", "dimension", "channels", "features", "expected"),
    "super-init-order": ("before Module.__init__() call", "super().__init__()", "no attribute"),
}
"""By rule that predicts an error, parts of PyTorch's messages."""
_SILENT = {"removed-api"}
"""Rules whose lines may also be wrong without an error."""


def at_line(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by the predicted error at the line; refuted if it ran three times without any error."""
    seen = evidence.of_claim(claim.index)
    errors = {error: count for error, count in seen.errors.items() if _fits(claim.rule, error)}
    if errors:
        return _raised(errors, "at this line", seen)
    if not seen["visits"]:
        return not_reached()
    numbers = seen.numbers("visits", "passed")
    if seen.errors:
        error = next(iter(seen.errors))
        return inconclusive(f"the line raised another error: {error}", numbers, READ, doubtful=True)
    if seen["passed"] == seen["visits"] >= _ENOUGH and claim.rule not in _SILENT:
        return refuted(f"the line ran {times(seen['passed'], 'time')} without an error", numbers)
    return inconclusive(f"the line ran {times(seen['passed'], 'time')} without an error", numbers)


def _fits(rule: str, error: str) -> bool:
    return any(part.lower() in error.lower() for part in _COMPLAINTS[rule])


def absent_class_weights(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a loss that refuses the weights. One set of weights that losses accept is long enough."""
    seen = evidence.of_claim(claim.index)
    found = {error: count for error, count in _errors(evidence) if _fits(claim.rule, error)}
    if not seen["visits"]:
        return not_reached()
    if found:
        return _raised(found, "at the loss that gets these weights", seen)
    passed = sum(item.count for item in evidence.backwards)
    numbers = {"visits": seen["visits"], "backwards": passed}
    if seen["passed"] == seen["visits"] == 1 and passed >= _ENOUGH:
        return refuted(f"the line counted once, and {times(passed, 'backward')} raised no error", numbers)
    return inconclusive("so far each batch had the last class", numbers)


def hidden_state(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by PyTorch's error after the line; refuted by backwards in its function that keep no graph."""
    seen = evidence.of_claim(claim.index)
    text = "backward through the graph a second time"
    found = {error: count for error, count in _errors(evidence) if text in error}
    if not seen["visits"]:
        return not_reached()
    near = [item for item in evidence.backwards if evidence.is_at(item.site, claim.file, (claim.scope,))]
    if found and any(item.errors for item in near):
        return _raised(found, "in the backward after this line", seen)
    backwards = sum(item.count for item in near)
    numbers = {"visits": seen["visits"], "backwards": backwards}
    if found:
        return inconclusive("a backward raised elsewhere", numbers, READ, doubtful=True)
    if seen["passed"] >= _ENOUGH and backwards >= _ENOUGH and not any(item.retained for item in evidence.backwards):
        reason = f"{times(backwards, 'backward')} in this function freed their graphs, and none met a freed one"
        return refuted(reason, numbers)
    return inconclusive("too few backwards in this function, or they retain their graphs", numbers)
