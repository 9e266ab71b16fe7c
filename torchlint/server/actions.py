"""What an editor offers for findings: their fixes, all safe fixes at once, and to ignore them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsprotocol import types

from torchlint.adoption.add_ignores import excused
from torchlint.engine.fixer import fix, is_applicable
from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Safety
from torchlint.server.analysis import Analysis, Shown
from torchlint.server.rewriting import workspace_edit

FIX_ALL = "source.fixAll.torchlint"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


@dataclass(frozen=True)
class Offer:
    """What may be offered: fixes that may change what is computed, edits that name a version."""

    unsafe_fixes: bool
    versioned: bool


def quick_fixes(analysis: Analysis, found: Sequence[Shown], offer: Offer) -> Iterator[types.CodeAction]:
    """An action for the fix of each finding; equal fixes are one."""
    seen = set()
    for item in found:
        fix = item.finding.fix
        if fix is None or fix in seen or not is_applicable(item.finding, offer.unsafe_fixes):
            continue
        seen.add(fix)
        try:
            better = analysis.source.edited(fix.edits)
        except SourceError:
            continue
        safe = fix.safety is Safety.SAFE
        title = fix.message if safe else f"{fix.message} (unsafe)"
        yield _action(title, types.CodeActionKind.QuickFix, analysis, better, offer, [item], preferred=safe)


def ignores(analysis: Analysis, found: Sequence[Shown], offer: Offer) -> Iterator[types.CodeAction]:
    """An action for each finding of a rule that writes a comment which suppresses it."""
    for item in found:
        added, better = excused(analysis.source, [item.finding], analysis.selection)
        if added:
            title = f"Ignore here: {item.finding.name}"
            yield _action(title, types.CodeActionKind.QuickFix, analysis, better, offer, [item])


def fix_all(analysis: Analysis, offer: Offer) -> types.CodeAction | None:
    """The action that makes all safe fixes of a document until it is stable; None if that changes nothing."""
    if not any(is_applicable(finding, False) for finding in analysis.findings):
        return None
    fixed = fix(analysis.source, analysis.selection)
    if fixed.source.data == analysis.source.data:
        return None
    return _action("Fix all that is safe to fix (torchlint)", FIX_ALL, analysis, fixed.source, offer)


def _action(
    title: str,
    kind: str,
    analysis: Analysis,
    better: SourceFile,
    offer: Offer,
    found: Sequence[Shown] = (),
    *,
    preferred: bool = False,
) -> types.CodeAction:
    return types.CodeAction(
        title,
        kind,
        [item.diagnostic for item in found] or None,
        preferred or None,
        edit=workspace_edit(analysis, better, offer.versioned),
    )


def is_wanted(kind: str, context: types.CodeActionContext) -> bool:
    """Whether a client asks for actions of a kind, or of a kind that it belongs to; without a wish, for all."""
    return not context.only or any(f"{kind}.".startswith(f"{wanted}.") for wanted in map(_text, context.only))


def _text(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind
