"""Performance summaries of every wording from TensorRT 5 to 11."""

from __future__ import annotations

import re

from trtbench.trtexec._log_lines import number
from trtbench.trtexec._log_values import Metric, PerformanceSummary, TraceAverage

METRICS = (
    "Latency",
    "End-to-End Host Latency",
    "Enqueue Time",
    "H2D Latency",
    "GPU Compute Time",
    "D2H Latency",
)
"""Labels of TensorRT 8 and later; older wordings are filed under the same ones."""

MOST_AVERAGES = 200_000
"""Trace averages kept of one run; trtexec itself leaves lines out of long traces."""

_STATISTICS = ("min", "max", "mean", "median")
BLOCKS = {
    "host latency": "Latency",
    "enqueue time": "Enqueue Time",
    "gpu compute": "GPU Compute Time",
}
"""Headings of TensorRT 7, whose numbers stand on lines of their own; 7.0 writes some small."""

END_MARKS = " \t\"'$\\`*+"
"""What quoting and ``cat -A`` put behind a line."""

TOTALS = {
    "Throughput": "throughput_qps",
    "throughput": "throughput_qps",
    "Total Host Walltime": "wall_s",
    "walltime": "wall_s",
    "Total GPU Compute Time": "gpu_total_s",
    "total compute time": "gpu_total_s",
}
_UNIT = {"throughput_qps": "qps", "wall_s": "s", "gpu_total_s": "s"}

_N = r"([-+\w.]{1,40})"
_TOTAL = re.compile(
    rf"\s*{_N} ?(qps|s)(?![\w.])(?:\W*$|\s{{2,}}\S{{1,80}}$| \[[^\]]{{1,80}}\]$|\s*\||\\|[,;\"<]\S)"
)
"""With what loggers put behind: the file and line that spoke, or its name."""
_PAIR = re.compile(
    r"(min|max|mean|median|percentile\([\d.]{1,20}%\))[ \t]{0,8}=[ \t]{0,8}([-+\w.]{1,40}?)"
    r"[ \t]{0,8}ms(?!\w)"
)
_BLOCK_LINE = re.compile(
    rf"(min|max|mean|median|percentile): {_N} ms(?: at ([\d.]{{1,20}})%)?"
    rf"(?: \(end to end {_N} ms(?: at [\d.]{{1,20}}%)?\))?(?:\W*$|\s{{2,}}\S{{1,80}}$)"
)
_TRACE = re.compile(
    rf"Average on (\d{{1,12}}) runs - GPU latency: {_N} ms(?: - Host latency: {_N} ms)?"
    rf"(?: \((?:end to end {_N} ms)?(?:, )?(?:enqueue {_N} ms)?\))?"
)
_AVERAGE = re.compile(
    rf"Average over (\d{{1,12}}) runs? is {_N} ms(?: \(host walltime is {_N} ms"
    rf"(?:, ([\d.]{{1,20}})% percentile time is {_N}(?: ms)?)?\))?"
)


_KNOWN_HEADING = re.compile(
    r"=== (?:Performance summary|Trace details|(?:Model|Build|System|Inference|Reporting) Options"
    r"|Device Information) ===\s*$"
)


def block_of(text: str) -> str | None:
    """Find the metric that a heading of TensorRT 7 names, with whatever marks behind it."""
    return BLOCKS.get(text.rstrip(END_MARKS).lower()) if len(text) < 40 else None


def values_told(text: str) -> int:
    """Count the numbers that a line of a summary or of a trace gives; a heading counts as one."""
    if text.startswith("Average o"):
        match = _TRACE.match(text) or _AVERAGE.match(text)
        return sum(each is not None for each in match.groups()) if match else 0
    block = _BLOCK_LINE.match(text)
    if block is not None:
        return sum(each is not None for each in block.groups())
    label, _, rest = text.partition(":")
    if label in TOTALS:
        return _TOTAL.match(rest) is not None
    if label in METRICS:
        return len(_PAIR.findall(rest))
    return block_of(text) is not None or _KNOWN_HEADING.match(text) is not None


class SummaryCollector:
    """Gathers the performance summary and the trace averages of one run."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}
        self.metrics: dict[str, dict[str, float]] = {}
        self.averages: list[TraceAverage] = []
        self.block: str | None = None

    @property
    def printed(self) -> bool:
        """Whether a performance summary was seen, as against averages of a trace."""
        return bool(self.metrics or self.totals)

    @property
    def legacy(self) -> bool:
        """Whether averages in the wording of TensorRT 3 to 6 were seen."""
        return bool(self.averages) and self.averages[0].legacy

    def repeats(self, text: str) -> bool:
        """Say whether a line gives a number that this summary has, so that it is another's."""
        heading = block_of(text)
        if heading is not None:
            return heading in self.metrics
        label, colon, rest = text.partition(":")
        if not colon or len(label) > 40:
            return False
        if label in METRICS:
            return label in self.metrics and _PAIR.search(rest) is not None
        return label in TOTALS and TOTALS[label] in self.totals and bool(_TOTAL.match(rest))

    def take(self, text: str) -> bool:
        """Take a line in; say whether it belonged to a summary."""
        if text.startswith("Average o"):
            return self._average(text)
        block = block_of(text)
        if block is not None:
            self.block = block
            return True
        label, colon, rest = text.partition(":")
        if not colon or len(label) > 40:
            return False
        if label in METRICS:
            return self._metric(label, rest)
        if label in TOTALS:
            return self._total(TOTALS[label], rest)
        return self.block is not None and self._block_line(text)

    def _total(self, field: str, rest: str) -> bool:
        match = _TOTAL.match(rest)
        value = number(match[1]) if match else None
        if match is None or value is None or match[2] != _UNIT[field]:
            return False
        self.totals[field] = value
        return True

    def _metric(self, label: str, rest: str) -> bool:
        found = {_statistic(name): number(text) for name, text in _PAIR.findall(rest[:20_000])}
        known = {name: value for name, value in found.items() if value is not None}
        if known:
            self.metrics[label] = known
        return bool(known)

    def _block_line(self, text: str) -> bool:
        match = _BLOCK_LINE.match(text)
        value = number(match[2]) if match else None
        if match is None or value is None or self.block is None:
            return False
        if match[1] == "percentile" and match[3] is None:
            return False  # cut off before it says which
        key = f"{match[3]}%" if match[1] == "percentile" else match[1]
        if key in self.metrics.get(self.block, {}):
            self.block = None  # of a block whose heading was lost
            return False
        self.metrics.setdefault(self.block, {})[key] = value
        whole = number(match[4]) if match[4] else None
        if whole is not None:
            self.metrics.setdefault("End-to-End Host Latency", {})[key] = whole
        return True

    def _average(self, text: str) -> bool:
        trace = _TRACE.match(text)
        legacy = None if trace else _AVERAGE.match(text)
        match = trace or legacy
        gpu = number(match[2]) if match else None
        if match is None or gpu is None:
            return False
        rest = [None if each is None else number(each) for each in match.groups()[2:]]
        if legacy:
            line = TraceAverage(
                runs=int(match[1]),
                gpu_ms=gpu,
                host_ms=rest[0],
                percentile=None if legacy[4] is None else f"{legacy[4]}%",
                percentile_ms=rest[2],
                legacy=True,
            )
        else:
            line = TraceAverage(
                runs=int(match[1]),
                gpu_ms=gpu,
                host_ms=rest[0],
                end_to_end_ms=rest[1],
                enqueue_ms=rest[2],
            )
        if len(self.averages) < MOST_AVERAGES:
            self.averages.append(line)
        return True

    def summary(self) -> PerformanceSummary | None:
        """Find the summary, or ``None`` when the log has none."""
        if self.printed:
            metrics = {label: _metric_from(found) for label, found in self.metrics.items()}
            # TensorRT 7 multiplies by the batch, which it takes for 0 when it is explicit.
            rate = self.totals.get("throughput_qps") or None
            return PerformanceSummary(
                throughput_qps=rate,
                wall_s=self.totals.get("wall_s"),
                gpu_total_s=self.totals.get("gpu_total_s"),
                metrics=metrics,
            )
        return _derived(self.averages) if self.averages else None


def _statistic(name: str) -> str:
    """Turn ``percentile(99%)`` into ``99%``; other names stay."""
    if name.startswith("percentile(") and name.endswith(")"):
        return name[len("percentile(") : -1]
    return name


def _metric_from(found: dict[str, float]) -> Metric:
    named = {f"{name}_ms": found[name] for name in _STATISTICS if name in found}
    rest = {name: value for name, value in found.items() if name not in _STATISTICS}
    return Metric(
        min_ms=named.get("min_ms"),
        max_ms=named.get("max_ms"),
        mean_ms=named.get("mean_ms"),
        median_ms=named.get("median_ms"),
        percentiles_ms=rest,
    )


def _derived(lines: list[TraceAverage]) -> PerformanceSummary:
    """Take means over averages of a few runs each, where trtexec printed nothing else."""
    legacy = [line for line in lines if line.legacy]
    lines = legacy or lines
    metrics = {"GPU Compute Time": _mean(lines, "gpu_ms") or Metric()}
    named = {"Latency": "host_ms", "End-to-End Host Latency": "end_to_end_ms"}
    if legacy:
        named = {"Host": "host_ms"}  # the wall time of a call, in which nothing is copied
    for label, field in (*named.items(), ("Enqueue Time", "enqueue_ms")):
        mean = _mean(lines, field)
        if mean is not None:
            metrics[label] = mean
    tails = {line.percentile: line.percentile_ms for line in lines if line.percentile}
    if tails:
        # Of several groups the largest: no more than that share of all calls took longer.
        most = {
            label: max(x.percentile_ms or 0.0 for x in lines if x.percentile == label)
            for label in tails
        }
        mean_ms = metrics["GPU Compute Time"].mean_ms
        metrics["GPU Compute Time"] = Metric(mean_ms=mean_ms, percentiles_ms=most)
    generation = None if not legacy else 6 if "Host" in metrics else 4
    return PerformanceSummary(metrics=metrics, derived=True, generation=generation)


def _mean(lines: list[TraceAverage], field: str) -> Metric | None:
    values = [(getattr(line, field), line.runs) for line in lines]
    if any(value is None for value, _ in values):
        return None
    if len(values) == 1:
        return Metric(mean_ms=values[0][0])  # as printed, to the last digit
    runs = sum(count for _, count in values) or 1
    return Metric(mean_ms=sum(value * count for value, count in values) / runs)
