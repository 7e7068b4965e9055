"""Scores one model after the other by a task, from outputs that are computed elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from trtbench.domain.feed import Feed
from trtbench.host.chunks import Chunks, ChunkWriter
from trtbench.tasks import TASKS
from trtbench.tasks.contract import Arrays, DataSource, Predicted


class TaskJudge:
    """Takes the outputs of one model batch by batch, and scores them at the end."""

    def __init__(self, feed: Feed, source: DataSource, folder: Path) -> None:
        assert feed.task is not None
        self._task, self._settings = TASKS.load(feed.task), feed.settings
        self._source, self._folder = source, folder
        source.scores_only = True
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._writer = ChunkWriter(folder)

    def add(self, outputs: Arrays, loaded: Sequence[object]) -> None:
        """Make predictions of one batch."""
        decoded = self._task.decode(outputs, loaded, settings=self._settings)
        self._writer.add(decoded, items=len(loaded))

    def scores(self) -> dict[str, float]:
        """Score the model by every metric of the task."""
        self._writer.flush()
        model = Predicted(label="model", chunks=Chunks(self._folder))
        judgement = self._task.judge(self._source, [model], self._settings, folder=self._folder)
        return {score.metric: score.value for score in judgement.scores[0]}
