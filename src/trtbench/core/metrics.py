"""Metrics: kind, direction and spelling of numbers; a task declares its own in ``METRICS``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trtbench.core.errors import UsageError

Kind = Literal["time", "size", "rate", "share", "level", "count"]
"""What a number measures, which decides its unit; a share is in per cent, a level in dB."""
Better = Literal["low", "high"]


@dataclass(frozen=True)
class Metric:
    """A metric; ``#`` in its name matches any number: ``top#``, ``PCK@#``."""

    name: str
    better: Better | None = None  # `None` where neither a low nor a high value is better
    kind: Kind | None = None  # `None`: a plain number

    @property
    def is_share(self) -> bool:
        """Whether it is a part of a whole, which is shown in per cent."""
        return self.kind == "share"

    @property
    def less_is_better(self) -> bool:
        """Whether a low value is better; raises an error if that is not declared."""
        if self.better is None:
            raise UsageError(
                f"it is not declared whether a low or a high {self.name} is better",
                fix=f'METRICS = (Metric("{self.name}", better="low"),) in the task that takes it',
            )
        return self.better == "low"


PERCENTILES = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9")
TIMES = (
    "median", "mean", "min", "max", "std", "gpu", "gpu_mean", "gpu_max", "per_item", *PERCENTILES,
)  # fmt: skip


def _same(better: Better | None, kind: Kind | None, *names: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, better, kind) for name in names)


_METRICS = (
    # of runs
    *_same("low", "time", *TIMES),
    *_same("high", "rate", "throughput", "items"),
    *_same("low", "share", "cov", "jitter"),
    *_same("high", None, "speedup"),
    *_same("low", "size", "size"),
    *_same("low", "count", "layers", "parameters"),
    *_same("high", "count", "batch"),
    # of outputs against a reference
    *_same("low", "count", "max_abs"),
    *_same("high", "level", "sqnr"),
    *_same("high", None, "sqnr_db", "cosine", "close", "equality", "argmax_match",
          "top5_agreement", "psnr", "ssim", "speedup"),
    *_same("low", None, "nan", "inf", "nonfinite", "shape_mismatch", "argmax_mismatch", "mean_abs",
          "max_rel", "mean_rel", "rel_l2", "bias", "kl", "kl_max", "lpips", "fid"),
    # of tasks
    *_same("high", "share", "top#", "prec@#", "agreement",
          "accuracy", "precision_score", "recall", "f1",
          "mAP", "mAP#", "mAP_small", "mAP_medium", "mAP_large", "AP", "AP#", "AR", "AR#",
          "PCK@#", "iou", "miou", "dice", "iou_to_first", "oks_to_first", "delta#", "delta_#"),
    *_same("low", "share", "wer", "cer", "ece", "error_rate", "eer"),
    *_same("low", None, "abs_rel", "sq_rel", "rmse", "rmse_log", "mae", "mse", "log10", "silog",
          "mae_to_first", "rmse_to_first", "max_error", "max_error_to_first", "loss", "nll",
          "perplexity", "brier", "epe"),
    *_same("high", None, "d#", "bleu", "rouge", "auc", "mcc", "r2"),
)  # fmt: skip

_KNOWN = {each.name.lower(): each for each in _METRICS}
_TASKS: dict[str, Metric] = {}


def declare_metrics(metrics: Iterable[Metric]) -> None:
    """Add the metrics that a task declares; they override the built-in ones."""
    _TASKS.update({each.name.lower(): each for each in metrics})


def metric(name: str) -> Metric:
    """Return the declared metric; one that is not declared has neither kind nor direction."""
    key = name.lower().replace("-", "")  # others write top-1
    general = re.sub(r"\d+(?:\.\d+)?", "#", key)
    found = (known.get(each) for known in (_TASKS, _KNOWN) for each in (key, general))
    return next(filter(None, found), Metric(name))


def kinds(names: Iterable[str]) -> dict[str, Kind]:
    """Return the kinds of the metrics that have one, for conditions on them."""
    found = {name: metric(name).kind for name in names}
    return {name: kind for name, kind in found.items() if kind is not None}
