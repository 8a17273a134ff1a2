"""The demo's main job, on a small network: what it runs, what it prints, and the picture that it names."""

from pathlib import Path

import onnx
import onnx.parser
import pytest

from tools import show_resnet

SMALL = """
<ir_version: 8, opset_import: ["": 17]>
small (float[1, 3, 32, 32] x) => (float[1, 3, 16, 16] y) {
    a = Relu(x)
    y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
}
"""


def test_demo_shows_each_device_the_plan_and_its_picture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_resnet, "build", lambda _: onnx.parser.parse_model(SMALL))
    monkeypatch.setattr(show_resnet, "INPUT_SHAPE", (1, 3, 32, 32))

    code = show_resnet.main(["--rounds", "1"])

    out = capsys.readouterr().out
    devices = show_resnet.find_devices()
    rows = ("onnxruntime, all cores", *(f"{device} alone" for device in devices), "codl's own choice")
    assert code == 0
    assert out.startswith("plan: ")
    assert all(any(line.startswith(row) for line in out.splitlines()) for row in rows)
    (picture,) = (line.partition(": ")[2] for line in out.splitlines() if line.startswith("a picture"))
    assert Path(picture).read_bytes().startswith(b"\x89PNG")
