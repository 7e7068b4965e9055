"""Models, libraries and files that ``torch_probe.py`` tries, written into the working folder."""

import sys
import zipfile
from pathlib import Path
from typing import Any

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, wide=4):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, wide, 3, padding=1), nn.Linear(wide, 5)
    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))

class Nested(Net):
    def forward(self, x):
        y = super().forward(x)
        return {"first": y, "rest": [y * 2, (y.argmax(1),)], "words": "none"}

class Pair(Net):
    def forward(self, x):
        y = super().forward(x)
        return y, y * 0

class Words(Net):
    def forward(self, x):
        return "no tensor"

class Masked(nn.Module):
    def forward(self, x, mask):
        return torch.where(mask, x, -x)

class Talk(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(5, 3), nn.Embedding(2, 3)
    def forward(self, ids):
        return self.words(ids).mean(1)

class Named(Net):
    def forward(self, x, scale=None, mask=None):
        y = super().forward(x if mask is None else x * mask)
        return {"logits": y, "probabilities": y.softmax(1)}

class Strict(Net):
    def forward(self, x):
        assert x.shape[2] % 32 == 0
        return super().forward(x)

class Branching(Net):
    def forward(self, x):
        y = super().forward(x)
        return y * 2 if y.sum() > 0 else y * 3

class Sixteen(Net):
    def forward(self, x):
        return super().forward(x).bfloat16()

class Picky(Net):
    def half(self):
        raise ValueError("`.half()` is not supported for quantized models")

class Disabled(Net):
    @torch.compiler.disable
    def forward(self, x):
        return super().forward(x)

def make_disabled(): return Disabled()
def make_named(): return Named()
def make_strict(): return Strict()
def make_branching(): return Branching()
def make_sixteen(): return Sixteen()
def make_picky(): return Picky()
def make_of(wide): return Net(wide)
def make(): return Net()
def make_nested(): return Nested()
def make_pair(): return Pair()
def make_words(): return Words()
def make_masked(): return Masked()
"""
TORCHVISION = """
from types import SimpleNamespace as Space
from nets import Net

def list_models(): return ["netone", "nettwo"]
def get_model(name, weights=None):
    if name not in list_models(): raise ValueError(name)
    return Net()
def get_model_weights(name):
    crop = [96] if name == "netone" else None
    keywords = {"crop_size": crop} if crop else {}
    return Space(DEFAULT=Space(transforms=Space(keywords=keywords)))
"""
TIMM = """
from nets import Net
def list_models(): return ["net_small"]
def is_model(name): return name in list_models()
def create_model(name, pretrained=False):
    made = Net()
    made.pretrained_cfg = {"input_size": (3, 48, 64)}
    return made
"""

ULTRALYTICS = """
from nets import Net
class Model(Net):
    def __init__(self):
        super().__init__()
        self.yaml, self.args = {"channels": 4}, {"imgsz": 96}
class YOLO:
    def __init__(self, path):
        self.model = Model()
"""
HUB = """
import torch, nets
dependencies = ["torch"]
def by_weights(*, weights=None, weights_backbone="IMAGENET1K_V1", **more):
    assert (weights, weights_backbone) in (("DEFAULT", "IMAGENET1K_V1"), (None, None))
    return nets.make()
def by_pretrained(pretrained):
    assert pretrained in (True, False)
    return nets.make()
def like_dinov2(*, pretrained: bool = True, weights="LVD142M", **kwargs):
    assert weights == "LVD142M" and not kwargs, "Unsupported weights"
    if pretrained:
        raise __import__("urllib.error").error.URLError("Name or service not known")
    return nets.make()
def by_nothing(**swallowed):
    assert not swallowed
    return nets.make()
def failing(pretrained): raise TypeError("another argument is odd")
"""


def prepare() -> None:
    """Write the modules and the files that the cases load, into the working folder."""
    Path("nets.py").write_text(NETS)
    Path("torchvision").mkdir()
    Path("torchvision/__init__.py").touch()
    Path("torchvision/models.py").write_text(TORCHVISION)
    Path("timm.py").write_text(TIMM)
    Path("ultralytics.py").write_text(ULTRALYTICS)
    for name, text in {
        "hub": HUB,
        "lacking": HUB.replace('["torch"]', '["no_such_package", "torch"]'),
    }.items():
        Path(name).mkdir()
        Path(name, "hubconf.py").write_text(text)
    Path("broken_nets.py").write_text("def make(:\n")
    Path("gone_nets.py").write_text("class Gone(__import__('torch').nn.Linear): pass\n")
    sys.path.insert(0, str(Path.cwd()))
    import nets  # type: ignore[import-not-found]
    import torch

    torch.manual_seed(0)
    net = nets.Net().eval()
    weights = net.state_dict()
    torch.save(weights, "weights.pt")
    torch.save(nets.Net(8).state_dict(), "wide.pt")
    torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}, "nested.pt")
    torch.save({"ema": None, "model": net}, "checkpoint.pt")
    torch.save(net, "module.pt")
    torch.save(nets.Masked(), "masked.pt")
    torch.save(nets.Talk(), "talk.pt")
    torch.jit.script(nets.Talk()).save("talk.ts")
    torch.save({"epochs": 3, "note": "no module"}, "plain.pt")
    torch.save({"where": Path("x")}, "odd.pt")
    Path("damaged.pt").write_bytes(b"\x80\x04not a pickle")
    example = torch.rand(2, 3, 16, 16)
    torch.jit.trace(net, example).save("net.ts")
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(net, (example,), dynamic_shapes=({0: batch},))
    torch.export.save(program, "net.pt2")
    odd_files(nets, net, example)


def odd_files(nets: Any, net: Any, example: Any) -> None:
    """Write models of kinds that are seldom seen, and files that are not what they seem."""
    import gone_nets  # type: ignore[import-not-found]
    import torch
    import ultralytics

    torch.save(gone_nets.Gone(2, 2), "needs_code.pt")
    Path("gone_nets.py").unlink()
    sys.modules.pop("gone_nets")
    torch.save(ultralytics.Model(), "yolo.pt")
    torch.save({"model": net.state_dict()}, "wrapped.pt")
    torch.jit.freeze(torch.jit.script(net)).save("frozen.ts")
    quantization, kinds = torch.ao.quantization, torch.backends.quantized.supported_engines
    torch.backends.quantized.engine = next(each for each in kinds if each != "none")
    made = quantization.quantize_dynamic(net, {torch.nn.Linear})
    torch.save(made, "quantized.pt")
    config = quantization.float_qparams_weight_only_qconfig
    torch.save(
        quantization.quantize_dynamic(nets.Talk().eval(), {torch.nn.Embedding: config}),
        "talk_quantized.pt",
    )
    program = torch.export.export(net, (example,))
    program._example_inputs = None
    torch.export.save(program, "no_example.pt2")
    with zipfile.ZipFile("net.ts") as whole, zipfile.ZipFile("cut.ts", "w") as made:
        for each in whole.namelist():
            made.writestr(each, b"!" if each.endswith(".py") else whole.read(each))
