"""Models kept in the store by their content, to be measured in turn with later ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from trtbench.domain.spec import ModelRef
from trtbench.errors import StoreError, writing
from trtbench.host.unfinished import scratch_directory
from trtbench.models.identity import changed, external_files, files_elsewhere, model_ref, with_parts
from trtbench.store.store import Store

FOLDER = "models"
LARGEST_BYTES = 512 << 20
"""A model above this is not kept unasked."""


def keep_model(store: Store, model: ModelRef) -> Path:
    """Copy a model with the files beside it into the store; what is there already stays."""
    source = Path(model.path)
    if model.sha256 is None or not source.is_file():
        raise StoreError(
            f"{model.name} is no file whose bytes could be kept",
            fix="leave --keep-model out, or export it to an ONNX file first",
        )
    target = _place(store, model)
    if target.is_file():
        return target
    with writing(target):
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        with scratch_directory(target.parent.parent) as folder:
            work = folder / "model"
            work.mkdir()
            for name in (source.name, *external_files(source)):
                place = work / (target.name if name == source.name else name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source.parent / name, place)
            if not target.parent.exists():
                work.replace(target.parent)
    return target


def kept_model(store: Store, model: ModelRef) -> ModelRef | None:
    """Find the bytes of a model: where they were, or in the store; ``None`` when they are gone."""
    if model.sha256 is None:
        return None
    if Path(model.path).is_file() and not changed(model):
        return model
    copy = _place(store, model)
    if not copy.is_file():
        return None
    own = model_ref(copy, whole=False)
    kept = with_parts(own, files_elsewhere(model), made_with=model.made_with)
    return kept if kept.sha256 == model.sha256 else None


def _place(store: Store, model: ModelRef) -> Path:
    # The name is the model's own, for people who look; what finds it is the content.
    return store.root / FOLDER / str(model.sha256) / Path(model.name).name
