"""Draw a replay as one SVG: jobs over time, their nodes, and the usage of each queue.

The output is deterministic. Long lists are folded: nodes into their lowest domain, and the tail of the jobs into a line
with their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from trainyard import quantity
from trainyard.local.simulate.clock import shown
from trainyard.local.simulate.replay import Replay
from trainyard.local.simulate.timeline import Ending, PodRun, Timeline
from trainyard.stack_checks import stack_queues
from trainyard.svg import Svg

_WIDTH, _LEFT, _RIGHT = 1200, 190, 24
_ROW, _GAP = 18, 3
_JOB_ROWS, _NODE_ROWS = 120, 64
_PLOT = 54
_COLORS = ("#3b6fb6", "#d9822b", "#4c9f70", "#8e5ea2", "#c0504d", "#2a9d8f", "#b5893a", "#6c757d")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 }
.small { font-size: 10px; fill: #666 } .title { font-size: 17px; font-weight: 600 }
.head { font-size: 12px; font-weight: 600; fill: #444 } .good { fill: #2e7d32 } .bad { fill: #c62828 }
.wait { fill: #e9e9e9; stroke: #bbb; stroke-dasharray: 3 2 }
.grid { stroke: #ececec } .mark { stroke: #c62828; stroke-dasharray: 2 3 }
.limit { stroke: #333; stroke-dasharray: 4 3; fill: none } .share { stroke: #333; fill: none }
"""


def draw(replay: Replay) -> str:
    """Return the drawing of a replay as SVG."""
    return _Drawing(replay).svg()


class _Drawing:
    def __init__(self, replay: Replay) -> None:
        self._replay, self._seen = replay, replay.timeline
        self._end = max(self._seen.now, 1)
        if any(run.ended is None for run in self._seen.runs):
            self._end += max(60, self._end // 5)  # so that a job that starts at the last instant is visible
        queues = dict.fromkeys(job.queue for job in self._seen.jobs.values())
        self._color = {queue: _COLORS[index % len(_COLORS)] for index, queue in enumerate(queues)}
        self._svg = Svg()
        self._y = 0

    def svg(self) -> str:
        """Return the SVG text."""
        self._heading()
        top = self._y
        self._jobs()
        self._fleet()
        self._queues()
        bottom = self._y
        self._axis(top, bottom)
        self._expectations()
        title, summary = self._replay.scenario.file.title, self._summary
        return self._svg.document(_WIDTH, self._y + 16, title, summary, _STYLE)

    @property
    def _summary(self) -> str:
        nodes, preset = len(self._seen.fabric.nodes), self._replay.scenario.settings.scheduler.preset
        return f"{nodes} nodes · scheduler preset {preset} · {shown(self._seen.now)} of scenario time"

    def _heading(self) -> None:
        self._text(16, 28, self._replay.scenario.file.title, "title")
        verdict = "all expectations hold" if self._replay.holds else "some expectations do not hold"
        self._text(_WIDTH - _RIGHT, 28, verdict, "head " + ("good" if self._replay.holds else "bad"), anchor="end")
        self._text(16, 46, self._summary, "small")
        self._y = 70

    def _x(self, at: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / self._end

    def _jobs(self) -> None:
        waits, runs = defaultdict(list), defaultdict(list)
        for wait in self._seen.waits:
            waits[wait.job].append((wait.began, self._end if wait.ended is None else wait.ended))
        for name, bars in _gang_bars(self._seen, self._end).items():
            runs[name] = bars
        self._text(16, self._y, "Jobs", "head")
        self._y += 8
        names = [name for queue in self._color for name, job in self._seen.jobs.items() if job.queue == queue]
        for name in names[:_JOB_ROWS]:
            job = self._seen.jobs[name]
            middle = self._y + _ROW - 5
            self._text(_LEFT - 8, middle, f"{name} ({job.queue}, {job.pods})", "small", anchor="end")
            for began, ended in waits[name]:
                self._bar(began, ended, self._y, _ROW - _GAP, "wait", "", f"{name} waits {_span(began, ended)}")
            for began, ended, where, lost in runs[name]:
                tip = f"{name} runs {_span(began, ended)} on {where}{', then loses pods' if lost else ''}"
                self._bar(began, ended, self._y, _ROW - _GAP, "", self._color[job.queue], tip, label=where)
                if lost:
                    x = self._x(ended)
                    cross = f"M{x - 4:.1f} {self._y}l8 {_ROW - _GAP}m0 -{_ROW - _GAP}l-8 {_ROW - _GAP}"
                    self._svg.element("path", d=cross, stroke="#c62828", fill="none")
            self._y += _ROW
        if len(names) > _JOB_ROWS:
            self._text(_LEFT, self._y + 12, f"and {len(names) - _JOB_ROWS} jobs more", "small")
            self._y += _ROW
        self._y += 24

    def _fleet(self) -> None:
        nodes = self._seen.fabric.nodes
        folded = len(nodes) > _NODE_ROWS
        groups: dict[str, list[str]] = {}
        for node in nodes:
            groups.setdefault(node.path[0] if folded else node.name, []).append(node.name)
        level = self._seen.fabric.levels[0] if self._seen.fabric.levels else "node"
        self._text(16, self._y, f"Nodes of each {level} in use" if folded else "Nodes", "head")
        self._y += 8
        by_node: defaultdict[str, list[PodRun]] = defaultdict(list)
        for run in self._seen.runs:
            by_node[run.node].append(run)
        for name, members in groups.items():
            self._text(_LEFT - 8, self._y + 10, name, "small", anchor="end")
            self._across(self._y + 12, class_="grid")
            found = [run for member in members for run in by_node[member]]
            for began, ended, shares in _shares(found, self._seen, self._end, len(members)):
                base = self._y + 12.0
                for queue in (queue for queue in self._color if queue in shares):
                    height = 12 * float(shares[queue])
                    base -= height
                    used = f"{name}: {float(shares[queue]) * len(members):g} of {len(members)} nodes for {queue}"
                    self._bar(began, ended, base, height, "", self._color[queue], f"{used}, {_span(began, ended)}")
            self._y += 14
        self._y += 24

    def _queues(self) -> None:
        resource = next(iter(self._replay.scenario.settings.accelerator_resources), "cpu")
        unit = resource.rpartition("/")[2]
        usage = self._seen.usage(resource)
        top = max([Fraction(1), *(level for steps in usage.values() for _, level in steps)])
        settings = self._replay.scenario.settings
        queue_objects = stack_queues(settings)
        specs = {body["metadata"]["name"]: body["spec"] for body in queue_objects.all}
        limits = {
            queue: {
                kind: quantity.parse(amounts[resource])
                for kind in ("deserved", "capability")
                if resource in (amounts := specs.get(queue, {}).get(kind, {}))
            }
            for queue in usage
        }
        top = max([top, *(limit for each in limits.values() for limit in each.values())])
        self._text(16, self._y, f"{unit} of each queue (solid line: deserved, dashed: capability)", "head")
        self._y += 8
        for queue, steps in usage.items():
            base = self._y + _PLOT

            def height(level: Fraction, base: float = base) -> float:
                return base - (_PLOT - 6) * float(level / top)

            self._text(_LEFT - 8, self._y + 24, queue, "", anchor="end")
            peak = max(level for _, level in steps)
            self._text(_LEFT - 8, self._y + 38, f"at most {float(peak):g} {unit}", "small", anchor="end")
            area = self._area(steps, base, height)
            self._svg.element("path", d=area, fill=self._color[queue], fill_opacity="0.75")
            for kind, limit in limits[queue].items():
                self._across(height(limit), class_="share" if kind == "deserved" else "limit")
            self._across(base, stroke="#999")
            self._y += _PLOT + 10
        self._y += 4

    def _across(self, y: float, **look: str) -> None:
        self._svg.element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, **look)

    def _area(self, steps: Sequence[tuple[int, Fraction]], base: float, height: Callable[[Fraction], float]) -> str:
        path = f"M{self._x(0):.1f} {base}"
        for at, level in steps:
            path += f"H{self._x(at):.1f}V{height(level):.1f}"
        return f"{path}H{self._x(self._end):.1f}V{base}Z"

    def _axis(self, top: int, bottom: int) -> None:
        behind = Svg()
        for at in range(0, self._end + 1, _tick(self._end)):
            x = self._x(at)
            behind.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
            self._text(x, bottom + 12, shown(at), "small", anchor="middle")
        for at, label in self._seen.marks:
            x = self._x(at)
            self._svg.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="mark")
            end = x > _WIDTH - 160
            self._text(x + (-4 if end else 4), top - 2, label, "small bad", anchor="end" if end else "start")
        self._svg.prepend(behind)
        self._y = bottom + 34

    def _expectations(self) -> None:
        if not self._replay.results:
            return
        self._text(16, self._y, "Expectations", "head")
        self._y += 16
        for result in self._replay.results:
            sign, css = ("✓", "good") if result.holds else ("✗", "bad")
            text = f"{sign} {result.instant}: {result.expected}"
            self._text(24, self._y, text if result.holds else f"{text} — observed {result.observed}", css)
            self._y += 16

    def _bar(
        self,
        began: int,
        ended: int,
        y: float,
        height: float,
        css: str,
        color: str,
        tip: str,
        *,
        label: str = "",
    ) -> None:
        x, width = self._x(began), max(1.5, self._x(ended) - self._x(began))
        self._svg.element("rect", "", tip, x=x, y=y, width=width, height=height, class_=css, fill=color)
        room = int(width / 5.6)
        if label and room > 6:
            text = label if len(label) <= room else f"{label[: room - 1]}…"
            self._svg.element("text", text, x=x + 4, y=y + height - 4, style="font-size:10px;fill:white")

    def _text(self, x: float, y: float, text: str, css: str, *, anchor: str = "start") -> None:
        self._svg.element("text", text, x=x, y=y, text_anchor=anchor, class_=css)


_Bar = tuple[int, int, str, bool]


def _gang_bars(seen: Timeline, end: int) -> dict[str, list[_Bar]]:
    """Return the intervals of constant placement of a job: start, end, domains, and whether pods were lost."""
    runs: defaultdict[str, list[PodRun]] = defaultdict(list)
    for run in seen.runs:
        runs[run.job].append(run)
    paths = {node.name: node.path[0] for node in seen.fabric.nodes}
    found: dict[str, list[_Bar]] = {}
    for name, own in runs.items():
        found[name] = []
        instants = sorted({run.began for run in own} | {_ended(run, end) for run in own})
        for began, ended in pairwise(instants):
            there = [run for run in own if run.began <= began and _ended(run, end) >= ended]
            if there:
                domains = sorted({paths.get(run.node, run.node) for run in there})
                where = ", ".join(domains) if len(domains) <= 6 else f"{len(domains)} domains"
                lost = any(run.ending is Ending.LOST and run.ended == ended for run in there)
                found[name].append((began, ended, where, lost))
    return found


def _ended(run: PodRun, end: int) -> int:
    return end if run.ended is None else run.ended


def _shares(
    runs: Sequence[PodRun], seen: Timeline, end: int, count: int
) -> Iterator[tuple[int, int, dict[str, Fraction]]]:
    """Yield the share of the nodes that each queue uses, for each interval without changes."""
    instants = sorted({run.began for run in runs} | {_ended(run, end) for run in runs})
    for began, ended in pairwise(instants):
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for run in runs:
            if run.began <= began and _ended(run, end) >= ended:
                nodes[run.node].add(seen.jobs[run.job].queue)
        shares: defaultdict[str, Fraction] = defaultdict(Fraction)
        for queues in nodes.values():
            for queue in queues:
                shares[queue] += Fraction(1, count * len(queues))
        if shares:
            yield began, ended, dict(shares)


def _span(began: int, ended: int) -> str:
    return f"from {shown(began)} to {shown(ended)}"


def _tick(end: int) -> int:
    steps = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
    return next((step for step in steps if end / step <= 12), 86400 * max(1, end // (12 * 86400)))
