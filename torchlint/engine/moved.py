"""The new places of names that plugins of torchlint 0.1 use."""

from __future__ import annotations

from torchlint.addresses import SITE
from torchlint.lazy_pattern import LazyPattern

_MODULES = dict(
    line.split()
    for line in """
    baseline       adoption.baseline
    cache          run.cache
    changes        adoption.since
    collector      syntax.gc_pause
    config         project.config
    depth          syntax.nesting
    discovery      project.discovery
    dispatch       run.scheduler
    docs           engine.documentation
    edits          syntax.edits
    fixes          engine.fixer
    git            adoption.git
    hints          pytorch.naming
    ignorefiles    project.gitignore
    ignores        adoption.add_ignores
    knowledge      pytorch.api
    late           lazy_import
    magics         files.ipython
    markers        testing.markers
    notebook       files.notebook
    operators      pytorch.autograd_table
    pieces         syntax.incremental
    pools          run.process_pool
    prefilter      index
    problems       engine.diagnostics
    progress       run.progress
    python         files.python
    registry       engine.registry
    remote         run.dask
    runner         run.runner
    settings       project.settings
    source         files.source
    suppress       engine.suppressions
    text           files.lines
    triage         index
    walk           engine.run_rules
    writing        files.atomic_write
    model.events.Flow model.dataflow.Flow
    model.flow     model.interpret.control.statements
    model.machine  model.state
    model.protocol model.ownership
    model.retention model.queries.retained_graphs
    model.summaries model.interpret.control.functions
    """.strip().splitlines()
)
_OWN_QUESTIONS = frozenset("model.clearing model.gradmode model.keeping model.mutation model.upkeep".split())
"""Modules that are questions of single rules now."""
_OWN_QUESTION = "asked by the rule that needs it"
_ATTRIBUTES = {
    "node": "`site`; `self.written(site)` gives LibCST's node",
    **dict.fromkeys("clearing_words grad_modes keeping mutation upkeep".split(), _OWN_QUESTION),
    "protocol": "`ownership`; the rest is asked by the rules that need it",
    "retention": "`retained_graphs`",
    "clearings": "`torchlint.repairs.missing_clear`",
    "detachings": "`torchlint.repairs.detach`",
    "out_of_place": "`torchlint.repairs.out_of_place`",
}
_NOT_IN_PACKAGE = LazyPattern(r"cannot import name '(\w+)' from 'torchlint(?:\.([\w.]+))?'")
_PAGE = f"{SITE}/plugins-from-0.1/"


def hint(error: BaseException) -> str:
    """The hint for an error of a rule that was written for torchlint 0.1; empty for others."""
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("torchlint."):
        new = _ATTRIBUTES.get(error.name or "")
        return f"; since torchlint 0.1 this is {new} ({_PAGE})" if new else ""
    old = _imported(error) if isinstance(error, ImportError) else ""
    new = _OWN_QUESTION if old in _OWN_QUESTIONS else f"`torchlint.{_MODULES[old]}`" if old in _MODULES else ""
    return f"; since torchlint 0.1 this is {new} ({_PAGE})" if new else ""


def _imported(error: ImportError) -> str:
    """The module below `torchlint` that was not found."""
    found = _NOT_IN_PACKAGE.search(str(error))
    if found:
        return ".".join(filter(None, (found[2], found[1])))
    return (error.name or "").removeprefix("torchlint.")
