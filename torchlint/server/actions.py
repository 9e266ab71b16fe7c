"""Code actions for findings: their fixes, all safe fixes at once, and suppressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from torchlint.adoption.add_ignores import excused
from torchlint.engine.fixer import fix
from torchlint.engine.registry import ABOUT_FILES
from torchlint.files.source import SourceError
from torchlint.finding import Fix, Safety
from torchlint.server.analysis import Analysis, Shown
from torchlint.server.rewriting import workspace_edit

FIX_ALL = "source.fixAll.torchlint"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


@dataclass(frozen=True)
class Offer:
    """Allowed actions: fixes that may change results, edits that name a version, edits that come later."""

    unsafe_fixes: bool
    versioned: bool
    deferred: bool
    """Whether the client asks for the edits of an action when it is chosen: for those that take linting."""

    def allows(self, fix: Fix) -> bool:
        return self.unsafe_fixes or fix.safety is Safety.SAFE


def quick_fixes(analysis: Analysis, found: Sequence[Shown], offer: Offer) -> Iterator[types.CodeAction]:
    """An action for the fix of each finding; equal fixes are one."""
    seen = set()
    for item in found:
        fix = analysis.fixes.get(item.finding)
        if fix is None or fix in seen or not offer.allows(fix):
            continue
        seen.add(fix)
        try:
            better = analysis.source.edited(fix.edits)
        except SourceError:
            continue
        safe = fix.safety is Safety.SAFE
        title = fix.message if safe else f"{fix.message} (unsafe)"
        edit = workspace_edit(analysis, better, offer.versioned)
        yield types.CodeAction(title, types.CodeActionKind.QuickFix, [item.diagnostic], safe or None, edit=edit)


def ignores(analysis: Analysis, found: Sequence[Shown], offer: Offer) -> Iterator[types.CodeAction]:
    """An action for each finding of a rule that writes a comment which suppresses it."""
    for item in found:
        if item.finding.name not in ABOUT_FILES:
            title = f"Ignore here: {item.finding.name}"
            data = {"uri": analysis.document.uri, "fingerprint": item.finding.fingerprint}
            action = types.CodeAction(title, types.CodeActionKind.QuickFix, [item.diagnostic], data=data)
            yield from _offered(action, analysis, offer)


def fix_all(analysis: Analysis, offer: Offer) -> Iterator[types.CodeAction]:
    """The action that makes all safe fixes of a document until it is stable."""
    if any(fix.safety is Safety.SAFE for fix in analysis.fixes.values()):
        title, data = "Fix all that is safe to fix (torchlint)", {"uri": analysis.document.uri}
        yield from _offered(types.CodeAction(title, FIX_ALL, data=data), analysis, offer)


def _offered(action: types.CodeAction, analysis: Analysis, offer: Offer) -> Iterator[types.CodeAction]:
    """An action whose edits come later, or with them if there are any."""
    if offer.deferred:
        yield action
    elif edit := edit_of(action, analysis, offer):
        action.edit, action.data = edit, None
        yield action


def document_of(action: types.CodeAction) -> str | None:
    """The document of an action whose edits come later; None of any other action."""
    data: Any = action.data
    uri = data.get("uri") if isinstance(data, dict) else None
    return uri if isinstance(uri, str) else None


def edit_of(action: types.CodeAction, analysis: Analysis, offer: Offer) -> types.WorkspaceEdit | None:
    """The edits of an action that came without, in the present form of its document; None if nothing changes."""
    data: Any = action.data
    if action.kind == FIX_ALL:
        better = fix(analysis.source, analysis.selection).source
    else:
        found = [finding for finding in analysis.findings if finding.fingerprint == data.get("fingerprint")]
        _, better = excused(analysis.source, found, analysis.selection)
    if better.data == analysis.source.data:
        return None
    return workspace_edit(analysis, better, offer.versioned)


def is_wanted(kind: str, context: types.CodeActionContext) -> bool:
    """Whether a client asks for actions of a kind, or of a kind that it belongs to.

    Without `only` it asks for all kinds; an automatic request without it asks for quick fixes.
    """
    if not context.only:
        is_look = context.trigger_kind is types.CodeActionTriggerKind.Automatic
        return not is_look or kind == types.CodeActionKind.QuickFix.value
    return any(f"{kind}.".startswith(f"{wanted}.") for wanted in map(_text, context.only))


def _text(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind
