"""Reports: the JSON matches its schema, SARIF ranks and suppresses, the page is escaped and shows its plots."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

from torchlint.files.source import SourceFile
from torchlint.finding import Confidence, Finding, Position, Severity, Span
from torchlint.verify.evidence import Evidence
from torchlint.verify.evidence_file import from_json
from torchlint.verify.launch import Ended
from torchlint.verify.reports import FORMATS, render
from torchlint.verify.reports import html as page
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import NO_JUDGE, Verdict, confirmed, inconclusive, not_reached, refuted
from torchlint.verify.watch.candidates import finding_at

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "verify-report.schema.json").read_text("utf-8"))
EVIL = "<script>alert('&')</script>"
SOURCE = SourceFile("dir/tr\u00e4in <x>.py", f"import torch\nloss.backward()  # {EVIL}\nopt.step()\n".encode())


def finding(name: str, code: str) -> Finding:
    span = Span(Position(2, 0), Position(2, 15))
    return Finding(SOURCE.path, name, code, f"{EVIL} is bad", span, Severity.ERROR, Confidence.HIGH, (), "", "abc")


def evidence(device: str = "cpu") -> Evidence:
    series: list[dict[str, float]] = []
    for step in range(1, 31):
        wobble = step % 3 + step % 2  # or straight lines would be drawn with two points
        memory = 1e8 + 1e6 * (step + wobble)
        norms = {"norm": 0.5 * step + wobble, "fresh": 0.5 + wobble}
        series.append({"step": step, "ms": 2.0 + wobble, "memory": memory, "graphs": step + wobble, **norms})
    series = [{**record, "anomaly": record["step"] % 2} for record in series]
    process = {"pid": 7, "rank": "", "python": "3.12.1", "torch": "2.13.0", "device": device, "compiled": 0}
    anomaly = {
        "on_sites": [],
        "off_sites": [],
        "library_sites": [],
        "steps_on": 15,
        "steps_off": 15,
        "on_ms": [],
        "off_ms": [],
    }
    names = [field.name for field in dataclasses.fields(Evidence)]
    empty: dict[str, Any] = {name: [] for name in names}
    texts = {"status": "finished", "stopped": "30 steps", "error": EVIL, "trouble": "", "unwatched": ""}
    numbers = {"format": 1, "seconds": 1.0, "steps": 30, "stride": 1, "error_site": 0, "idle": 0.0}
    data = {**empty, **texts, **numbers, "process": process, "anomaly": anomaly, "series": series, "stacks": [[]]}
    return from_json(data, "test")


def verification() -> Verification:
    verdicts: list[tuple[str, str, Verdict]] = [
        ("retain-graph-in-loop", "TL202", refuted("used again", {"reused": 9})),
        ("missing-zero-grad", "TL101", confirmed(f"stale {EVIL}", {"steps": 30, "norm_ratio": 4.25}, 1)),
        ("empty-cache-in-loop", "TL401", inconclusive("a CPU cannot tell")),
        ("inplace-on-leaf", "TL302", not_reached()),
        ("anomaly-detection-left-on", "TL402", confirmed("on", {"steps_on": 30}, 0)),
        ("undetached-accumulation", "TL201", confirmed("a pile", {"graphs_kept": 28}, 1)),
    ]
    judged = tuple(
        Judged(finding(name, code), SOURCE, dataclasses.replace(verdict, device="cpu"))
        for name, code, verdict in verdicts
    )
    return Verification(("python", "train.py", EVIL), judged, Ended(0, 3.25), (evidence(),), (f"Note {EVIL}.",), 1)


def test_json_matches_its_schema() -> None:
    report = json.loads(render("json", verification(), False))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(report, SCHEMA, jsonschema.Draft202012Validator)
    assert [item["code"] for item in report["findings"]] == ["TL202", "TL101", "TL401", "TL302", "TL402", "TL201"]
    assert report["counts"] == {"confirmed": 3, "refuted": 1, "not-reached": 1, "inconclusive": 1}


def test_json_of_a_program_that_was_not_run_matches_its_schema() -> None:
    nothing = dataclasses.replace(verification(), ended=None, evidence=(), judged=())
    jsonschema.validate(json.loads(render("json", nothing, False)), SCHEMA, jsonschema.Draft202012Validator)


def test_sarif_ranks_confirmed_findings_first_and_suppresses_refuted_ones() -> None:
    log = json.loads(render("sarif", verification(), False))
    if schema := os.environ.get("SARIF_SCHEMA"):
        jsonschema.validate(log, json.loads(Path(schema).read_text("utf-8")))
    results = log["runs"][0]["results"]
    assert [result["properties"]["verdict"] for result in results] == [
        *["confirmed"] * 3,
        "inconclusive",
        "not-reached",
        "refuted",
    ]
    assert [result["rank"] for result in results] == sorted((result["rank"] for result in results), reverse=True)
    assert ["suppressions" in result for result in results] == [False] * 5 + [True]
    assert results[-1]["suppressions"][0]["status"] == "accepted"


def test_text_names_place_verdict_and_reason() -> None:
    text = render("text", verification(), False)
    assert "confirmed     dir/tr\u00e4in <x>.py:2:1: TL101 missing-zero-grad" in text
    assert "(first at step 2)" in text
    assert text.endswith("30 steps in 3.2 s on cpu; the program ended with exit code 0.\n")
    assert "\x1b[" not in text
    assert "\x1b[" in render("text", verification(), True)


def test_text_tells_what_was_confirmed_first_and_what_was_not_reached_in_one_line() -> None:
    text = render("text", verification(), False)
    verdicts = [line.split()[0] for line in text.splitlines() if line.startswith(("conf", "inco", "refu", "not-"))]
    assert verdicts == [*["confirmed"] * 3, "inconclusive", "refuted", "not-reached"]
    assert "not-reached   1, the code did not run: dir/tr\u00e4in <x>.py:2 TL302" in text
    assert "next: run more steps, for example with --max-steps 200" in text


def test_text_names_many_findings_that_no_run_can_judge_in_one_line() -> None:
    unjudged = Judged(finding("deprecated-api", "TL802"), SOURCE, inconclusive(NO_JUDGE))
    few, many = (dataclasses.replace(verification(), judged=(unjudged,) * count) for count in (5, 562))
    assert render("text", few, False).count("TL802 deprecated-api") == 5
    lines = [line for line in render("text", many, False).splitlines() if "TL802" in line]
    assert len(lines) == 1
    assert lines[0].startswith("inconclusive  562, no run can judge findings of this rule: dir/")
    assert lines[0].endswith(" and 557 more")


def test_text_of_a_run_in_which_nothing_was_observed_lists_no_verdicts() -> None:
    text = render("text", dataclasses.replace(verification(), evidence=()), False)
    assert "TL101" not in text
    assert "note: Note" in text


def test_only_processes_that_trained_are_counted() -> None:
    """The process that starts the ranks makes no steps."""
    ranks = [evidence(), evidence(), dataclasses.replace(evidence(), steps=0)]
    shown = Verification(("python",), (), Ended(0, 1.0), tuple(ranks), (), 0, title="torchlint watch")
    assert "30 steps in 2 processes in" in render("text", shown, False)


def test_a_run_that_was_stopped_has_no_exit_code() -> None:
    stopped = dataclasses.replace(verification(), ended=Ended(0, 3.25, stopped="40 steps"))
    assert render("text", stopped, False).endswith("the program was stopped after 40 steps.\n")
    assert json.loads(render("json", stopped, False))["program"]["exit_code"] is None


def test_steps_are_counted_from_one_in_all_reports() -> None:
    findings = json.loads(render("json", verification(), False))["findings"]
    assert [item["first_step"] for item in findings if item["code"] == "TL101"] == [2]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders_a_verification_of_nothing(name: str) -> None:
    nothing = dataclasses.replace(verification(), ended=None, evidence=(), judged=(), notes=("Nothing.",))
    assert "\n" in render(name, nothing, False)


class _Page(HTMLParser):
    """Collects tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


def test_the_page_is_escaped_and_fetches_nothing() -> None:
    pytest.importorskip("matplotlib")
    text = page.render(verification())
    parsed = _Page(text)
    assert EVIL not in text
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert "&lt;script&gt;" in text
    links = [value for _, attributes in parsed.tags for key, value in attributes.items() if key in ("src", "href")]
    assert all(str(link).startswith(("#", "data:")) for link in links)
    assert not re.search(r"url\(\s*['\"]?http", text)


def test_the_page_has_an_index_and_switches() -> None:
    pytest.importorskip("matplotlib")
    shown = dataclasses.replace(verification().judged[0], verdict=refuted("`loss` is used again", {}))
    text = page.render(dataclasses.replace(verification(), judged=(*verification().judged, shown)))
    parsed = _Page(text)
    targets = {attributes["id"] for tag, attributes in parsed.tags if tag == "article"}
    assert [attributes["href"] for tag, attributes in parsed.tags if tag == "a"] == [f"#{i}" for i in sorted(targets)]
    switches = {attributes["id"] for tag, attributes in parsed.tags if tag == "input"}
    assert switches == {"show-confirmed", "show-refuted", "show-not-reached", "show-inconclusive"}
    assert "<code>loss</code> is used again" in text.lower()


def test_the_plots_have_data() -> None:
    pytest.importorskip("matplotlib")
    text = page.render(verification())
    curves = re.findall(r'<g id="plot-(\d)-curve-\d">\s*<path d="([^"]+)"', text)
    assert {number for number, _ in curves} == {"0", "1", "2", "4"} | ({"3"} & {number for number, _ in curves})
    assert all(len(path.split()) >= 14 * 3 for _, path in curves)


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    """In a real one: no complaint on its console, and every plot is drawn somewhere."""
    pytest.importorskip("matplotlib")
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no browser is installed")
    path = tmp_path / "page.html"
    curves = "[...document.querySelectorAll('svg g[id*=curve] path')]"
    drawn = f"{curves}.filter(path => path.getBoundingClientRect().width > 50).length"
    script = f"<script>addEventListener('load', () => document.title = 'curves ' + {drawn})</script>"
    path.write_text(page.render(verification()).replace("</body>", f"{script}</body>"), "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [
            browser,
            *options,
            "--enable-logging=stderr",
            "--dump-dom",
            f"--user-data-dir={tmp_path / 'profile'}",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    shown = re.search(r"<title>curves (\d+)</title>", done.stdout)
    assert shown is not None, done.stderr
    assert int(shown[1]) >= 6


def test_the_index_of_a_page_has_short_paths() -> None:
    """The shortest end of each path that no other path has, so that links fit into their column."""
    long = [f"/home/me/project/{name}" for name in ("a/train.py", "b/train.py", "b/model.py")]
    sources = [SourceFile.of_text(path, "loss.backward()\nloss.backward()\n") for path in long]
    judged = [
        Judged(finding_at(source, "missing-zero-grad", 1), source, confirmed("was seen", {})) for source in sources
    ]
    text = page.render(Verification((), tuple(judged), None, (), (), 1, title="torchlint watch"))
    pattern = r'<a href="#finding-\d+">[a-z-]+</a> <span class="dim">([^ ]+)</span>'
    links = re.findall(pattern, text.replace("<wbr>", ""))
    assert sorted(links) == ["a/train.py:1", "b/train.py:1", "model.py:1"]
