"""Names that do not exist -> the one that was probably meant."""

from __future__ import annotations

from collections.abc import Collection

from torchlint.finding import Category, Meta

_PART = 4
"""So many letters of a name say which one is meant, whatever stands around them."""


def nearest(word: str, names: Collection[str], cutoff: float = 0.6) -> str:
    """The most similar of some names; of equals the one that begins alike; empty if none is similar enough."""
    scores = {name: _similarity(_plain(word), _plain(name)) for name in names}
    best = max(scores, key=lambda name: scores[name], default="")
    return best if best and scores[best][0] >= cutoff else ""


def hint(word: str, names: Collection[str], cutoff: float = 0.6) -> str:
    """The hint for a message about an unknown name."""
    name = nearest(word, names, cutoff)
    return f"; did you mean `{name}`?" if name else ""


def hint_of_selector(word: str, rules: Collection[Meta]) -> str:
    """The same where a rule or several may be named: by name, code or category."""
    return hint(word, [rule.name for rule in rules] + [rule.code for rule in rules] + [item.value for item in Category])


def hint_of_rule(word: str, rules: Collection[Meta]) -> str:
    """The same where a rule has to be named, and neither a category nor the beginning of some codes will do."""
    is_beginning = word.isalnum() and any(rule.code.startswith(word.upper()) for rule in rules)
    if is_beginning or word.lower() in ("all", *(category.value for category in Category)):
        return ": it matches several rules; name each of them"
    return hint(word, [rule.name for rule in rules] + [rule.code for rule in rules])


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _similarity(word: str, name: str) -> tuple[float, int]:
    from difflib import SequenceMatcher  # not worth its time in a run without mistakes

    ratio = SequenceMatcher(None, word, name).ratio()
    is_part = min(len(word), len(name)) >= _PART and (word in name or name in word)
    alike = sum(word[:length] == name[:length] for length in range(1, len(name) + 1))
    return (0.8 + 0.2 * ratio if is_part else ratio), alike
