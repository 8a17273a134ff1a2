"""Asks one application one question under one runtime: ``worker.py CLIENT RUNTIME CHECKOUT``.

Runs in the application's environment, where neither codl nor this checkout is installed. Prints one line of
JSON: the application's version, its answer as nested lists of texts and numbers, and a summary.
"""

import importlib.metadata
import json
import subprocess
import sys
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

SENTENCES = ("The quick brown fox jumps over the lazy dog", "OpenCL devices compute slices at once")
RATE_HZ = 16000
CHUNK = 512
"""Samples that the model takes at a time."""


def main() -> None:
    """Print the answer."""
    name, runtime, checkout = sys.argv[1:]
    if runtime == "codl":
        sys.path.insert(0, checkout)
        import codl

        sys.modules["onnxruntime"] = codl
    answer, summary = ASK[name]()
    version = importlib.metadata.version(name)
    print(json.dumps({"version": version, "answer": answer, "summary": summary}))


def draw_text() -> Any:
    """Return an image of two lines, [H, W, 3]."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (760, 160), "white")
    font = ImageFont.load_default(size=32)
    for index, sentence in enumerate(SENTENCES):
        ImageDraw.Draw(image).text((24, 20 + 64 * index), sentence, fill="black", font=font)
    return np.asarray(image)


def ask_magika() -> tuple[Any, str]:
    """Return kinds and scores that magika finds for these tools."""
    import magika

    found = magika.Magika().identify_paths(sorted(Path(__file__).parent.glob("*.py")))
    answer = [[one.output.label, float(one.score)] for one in found]
    return answer, ", ".join(label for label, _ in answer)


def ask_old_ocr() -> tuple[Any, str]:
    """Return boxes, texts and scores of rapidocr-onnxruntime."""
    import rapidocr_onnxruntime

    found, _ = rapidocr_onnxruntime.RapidOCR()(draw_text())
    answer = [[_nest(box), text, float(score)] for box, text, score in found]
    return answer, "; ".join(text for _, text, _ in answer)


def ask_ocr() -> tuple[Any, str]:
    """Return boxes, texts and scores of rapidocr."""
    import rapidocr

    found = rapidocr.RapidOCR()(draw_text())
    return [_nest(found.boxes), list(found.txts), _nest(found.scores)], "; ".join(found.txts)


def ask_vad() -> tuple[Any, str]:
    """Return the stretches of speech that silero-vad finds, and the probability of speech in each chunk."""
    import silero_vad
    import torch

    audio = torch.from_numpy(speak())
    model = silero_vad.load_silero_vad(onnx=True)
    found = silero_vad.get_speech_timestamps(audio, model, sampling_rate=RATE_HZ)
    model.reset_states()
    chunks = audio[: len(audio) // CHUNK * CHUNK].reshape(-1, CHUNK)
    chances = [float(model(chunk, RATE_HZ).item()) for chunk in chunks]
    stretches = [[part["start"], part["end"]] for part in found]
    summary = "speech at " + ", ".join(f"{a / RATE_HZ:.2f}-{b / RATE_HZ:.2f} s" for a, b in stretches)
    return [stretches, chances], summary


def speak() -> Any:
    """Return two spoken sentences with a second of silence around each, [samples] at `RATE_HZ`."""
    import numpy as np

    silence = np.zeros(RATE_HZ, np.float32)
    parts = [silence]
    with tempfile.TemporaryDirectory() as folder:
        for sentence in SENTENCES:
            path = Path(folder, "speech.wav")
            subprocess.run(["espeak-ng", "-w", path, sentence], check=True)
            with wave.open(str(path)) as file:
                rate_hz = file.getframerate()
                samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 2**15
            times = np.arange(int(len(samples) * RATE_HZ / rate_hz)) * rate_hz / RATE_HZ
            spoken = np.interp(times, np.arange(len(samples)), samples).astype(np.float32)
            parts += [spoken, silence]
    return np.concatenate(parts)


def _nest(values: Any) -> Any:
    """Return an array as nested lists."""
    import numpy as np

    return np.asarray(values, np.float64).tolist()


ASK: dict[str, Callable[[], tuple[Any, str]]] = {
    "magika": ask_magika,
    "rapidocr-onnxruntime": ask_old_ocr,
    "rapidocr": ask_ocr,
    "silero-vad": ask_vad,
}

if __name__ == "__main__":
    main()
