"""Which module does which conversion; each is imported when it is needed.

The interpreter of an export has PyTorch but maybe no ONNX Runtime, that of ModelOpt neither.
"""

from __future__ import annotations

from pathlib import Path

from trtbench.domain.conversion import ExportOutcome, QuantOutcome, VerifyOutcome
from trtbench.domain.job import ConversionJob, ExportJob, QuantizeJob, Stage


def convert(
    job: ConversionJob, *, folder: Path, stage: Stage
) -> ExportOutcome | QuantOutcome | VerifyOutcome:
    """Do one conversion in the folder of its job."""
    if isinstance(job, ExportJob):
        from trtbench.build.export import export

        return export(job.spec, folder=folder, stage=stage)
    if isinstance(job, QuantizeJob):
        from trtbench.build.quantize import quantize

        return quantize(job.spec, folder=folder, stage=stage)
    from trtbench.build.onnx_verify import verify

    return verify(job.spec, folder=folder, stage=stage)
