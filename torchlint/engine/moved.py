"""What plugins of torchlint 0.1 call by names that are gone: where it is now (docs/plugins-from-0.1.md)."""

from __future__ import annotations

import re

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
    triage         prefilter
    walk           engine.run_rules
    writing        files.atomic_write
    model.clearing model.queries.clearing_words
    model.flow     model.evaluate.statements
    model.gradmode model.queries.grad_mode
    model.keeping  model.queries.keeping
    model.machine  model.state
    model.mutation model.queries.mutation
    model.protocol model.queries.protocol
    model.retention model.queries.retention
    model.summaries model.evaluate.functions
    model.upkeep   model.queries.anomaly_detection
    """.strip().splitlines()
)
_ATTRIBUTES = {
    "node": "`site`; `self.nodes.at(site)` gives LibCST's node",
    "upkeep": "`cache_emptying` and `anomaly_detection`",
    "clearings": "`torchlint.repairs.missing_clear`",
    "detachings": "`torchlint.repairs.detach`",
    "out_of_place": "`torchlint.repairs.out_of_place`",
}
_NOT_IN_PACKAGE = re.compile(r"cannot import name '(\w+)' from 'torchlint(?:\.(\w+))?'")
_PAGE = "docs/plugins-from-0.1.md"


def hint(error: BaseException) -> str:
    """What to add to an error of a rule that was written for torchlint 0.1; empty for all others."""
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("torchlint."):
        new = _ATTRIBUTES.get(error.name or "")
        return f"; after torchlint 0.1 that is {new} ({_PAGE})" if new else ""
    old = _imported(error) if isinstance(error, ImportError) else ""
    new = _MODULES.get(old)
    return f"; after torchlint 0.1 that is `torchlint.{new}` ({_PAGE})" if new else ""


def _imported(error: ImportError) -> str:
    """The module below `torchlint` that was not found."""
    found = _NOT_IN_PACKAGE.search(str(error))
    if found:
        return ".".join(filter(None, (found[2], found[1])))
    return (error.name or "").removeprefix("torchlint.")
