"""As much of a weakly typed TensorRT (8.6) as the builder touches, with a log of what it was told.

The names are held against the real bindings elsewhere; here it is about what is done with them.
"""

import json
from enum import IntEnum
from types import SimpleNamespace
from typing import Any


class BuilderFlag(IntEnum):
    FP16 = 0
    INT8 = 1
    TF32 = 7
    REFIT = 4
    GPU_FALLBACK = 3
    VERSION_COMPATIBLE = 14


class Base:
    def __init__(self) -> None: ...


class Tensor(SimpleNamespace):
    is_shape_tensor = False


IMAGE = Tensor(name="image", dtype=SimpleNamespace(name="FLOAT"), shape=(-1, 3, 8, 8))
LOGITS = Tensor(name="logits", dtype=SimpleNamespace(name="FLOAT"), shape=(-1, 10))


class Network:
    num_inputs = num_outputs = num_layers = 1

    def get_input(self, index: int) -> Tensor:
        return IMAGE

    def get_output(self, index: int) -> Tensor:
        return LOGITS

    def get_layer(self, index: int) -> Any:
        return SimpleNamespace(
            name="conv", type="CONV", metadata="", num_inputs=1, num_outputs=1,
            get_input=lambda index: IMAGE, get_output=lambda index: LOGITS,
        )  # fmt: skip


class Config:
    def __init__(self) -> None:
        self.on: set[str] = {"TF32"}
        self.previews: set[str] = set()
        self.pools: dict[str, int] = {}
        self.profiles: list[Any] = []
        self.calibration_profile: Any = None
        self.int8_calibrator: Any = None
        self.cache: Any = None
        self.progress_monitor: Any = None
        self.targets: list[str] = []
        self.sources = 0b11111

    def set_flag(self, flag: BuilderFlag) -> None:
        self.on.add(flag.name)

    def clear_flag(self, flag: BuilderFlag) -> None:
        self.on.discard(flag.name)

    def set_tactic_sources(self, sources: int) -> bool:
        self.sources = sources
        return True

    def set_preview_feature(self, feature: str, on: bool) -> None:
        (self.previews.add if on else self.previews.discard)(feature)

    def set_compute_capability(self, target: Any, index: int) -> bool:
        self.targets.insert(index, target.name)
        return True

    def set_memory_pool_limit(self, pool: str, size: int) -> None:
        self.pools[pool] = size

    def add_optimization_profile(self, profile: Any) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1

    def set_calibration_profile(self, profile: Any) -> bool:
        self.calibration_profile = profile
        return True

    def create_timing_cache(self, data: bytes) -> Any:
        cache = SimpleNamespace(data=data)
        cache.serialize = lambda: cache.data or b"ptrt" + bytes(20)  # nothing after the header
        return cache

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        cache.data = cache.data or b"ptrt" + bytes(12) + bytes((7, *bytes(7))) + b"timings"
        self.cache = cache
        return True


class Profile:
    def __init__(self) -> None:
        self.shapes: dict[str, tuple[Any, ...]] = {}

    def set_shape(self, name: str, *ends: tuple[int, ...]) -> None:
        self.shapes[name] = ends


class Builder:
    platform_has_fast_fp16 = platform_has_fast_int8 = True
    last: Config
    halfway: Any = staticmethod(lambda: None)
    network_flags: int

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def create_network(self, flags: int) -> Network:
        Builder.network_flags = flags
        return Network()

    def create_builder_config(self) -> Config:
        Builder.last = Config()
        return Builder.last

    def create_optimization_profile(self) -> Profile:
        return Profile()

    def build_serialized_network(self, network: Network, config: Config) -> bytes | None:
        if config.pools.get("workspace") == 1:
            self.logger.log(SimpleNamespace(name="ERROR"), "no tactics within workspace limit")
            return None
        if config.progress_monitor is not None:
            config.progress_monitor.phase_start("tactics", None, 1)
            self.halfway()
            if not config.progress_monitor.step_complete("tactics", 0):
                return None
            config.progress_monitor.phase_finish("tactics")
        calibrator = config.int8_calibrator
        if calibrator is not None and calibrator.read_calibration_cache() is None:
            while calibrator.get_batch(["image"]) is not None:
                pass
            calibrator.write_calibration_cache(memoryview(b"TRT-8601-x\nimage: 3c010a14\n"))
        return b"ftrt" + bytes(20) + bytes([8, 6, 1, 6]) + bytes(64)


class OnnxParser:
    num_errors = 0

    def __init__(self, network: Network, logger: Any) -> None: ...

    def parse_from_file(self, path: str) -> bool:
        return True


class Runtime:
    kinds = ("Half",)

    def __init__(self, logger: Any) -> None: ...

    def deserialize_cuda_engine(self, data: bytes) -> Any:
        outputs = [{"Name": "t", "Dimensions": [1], "Format/Datatype": k} for k in self.kinds]
        layers = [{"Name": "conv", "LayerType": "Conv", "Inputs": [], "Outputs": outputs}]
        text = json.dumps({"Layers": layers, "Bindings": ["image", "logits"]})
        inspector = SimpleNamespace(get_engine_information=lambda kind: text)
        return SimpleNamespace(
            num_layers=1,
            device_memory_size=4096,
            create_engine_inspector=lambda: inspector,
            create_execution_context=lambda: SimpleNamespace(
                set_input_shape=lambda name, shape: True, infer_shapes=list
            ),
        )


def module() -> Any:
    """Find the module, as ``load`` would."""
    return SimpleNamespace(
        __version__="8.6.1",
        BuilderFlag=BuilderFlag,
        Builder=Builder,
        OnnxParser=OnnxParser,
        Runtime=Runtime,
        ILogger=Base,
        IInt8EntropyCalibrator2=Base,
        IInt8MinMaxCalibrator=Base,
        IBuilderConfig=SimpleNamespace(int8_calibrator=True),
        ICudaEngine=SimpleNamespace(device_memory_size=True),
        NetworkDefinitionCreationFlag=SimpleNamespace(EXPLICIT_BATCH=0),
        PreviewFeature=SimpleNamespace(PROFILE_SHARING_0806="sharing"),
        MemoryPoolType=SimpleNamespace(WORKSPACE="workspace"),
        ProfilingVerbosity=SimpleNamespace(DETAILED=2),
        HardwareCompatibilityLevel=SimpleNamespace(AMPERE_PLUS=1),
        DeviceType=SimpleNamespace(DLA=1),
        LayerInformationFormat=SimpleNamespace(JSON=1),
        init_libnvinfer_plugins=lambda logger, namespace: True,
        get_plugin_registry=lambda: SimpleNamespace(load_library=lambda path: None),
    )


def rtx_module() -> Any:
    """As much of a strongly typed TensorRT-RTX, which builds for other GPUs and tells progress."""
    found = module()
    found.__version__ = "1.5.0"
    found.BuilderFlag = SimpleNamespace(TF32=BuilderFlag.TF32, REFIT=BuilderFlag.REFIT)
    found.IBuilderConfig = SimpleNamespace(progress_monitor=True, set_compute_capability=True)
    found.NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=1)
    found.ComputeCapability = IntEnum("ComputeCapability", ["SM86", "SM89"])
    found.IProgressMonitor = Base
    return found
