"""Networks whose packages bring weights, written again in plain torch, with the packages' names of weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Crepe(nn.Module):
    """Pitch of frames of 1024 samples at 16 kHz (the tiny one): convolutions along time, 360 bins of 20 cents."""

    def __init__(self) -> None:
        super().__init__()
        channels = (1, 128, 16, 16, 16, 32, 64)
        for number in range(1, 7):
            kernel, stride = ((512, 1), (4, 1)) if number == 1 else ((64, 1), (1, 1))
            setattr(self, f"conv{number}", nn.Conv2d(channels[number - 1], channels[number], kernel, stride))
            setattr(self, f"conv{number}_BN", nn.BatchNorm2d(channels[number], eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames[:, None, :, None]
        for number in range(1, 7):
            x = F.pad(x, (0, 0, 254, 254) if number == 1 else (0, 0, 31, 32))
            x = F.relu(getattr(self, f"conv{number}")(x))
            x = F.max_pool2d(getattr(self, f"conv{number}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


class SileroVad(nn.Module):
    """Speech or not, per 512 samples at 16 kHz with 64 before them: spectrum, convolutions, an LSTM cell from chunk to chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, 1, 1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, 1)
        self.conv4 = nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, chunks: torch.Tensor) -> torch.Tensor:
        """Probabilities of [recordings, chunks, 576] samples."""
        state, told = None, []
        for chunk in chunks.unbind(1):
            spectrum = self.stft_conv(F.pad(chunk, (0, 64), "reflect").unsqueeze(1))
            x = (spectrum[:, :129] ** 2 + spectrum[:, 129:] ** 2).sqrt()
            for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
                x = F.relu(layer(x))
            state = self.lstm_cell(x.squeeze(-1), state)
            told.append(torch.sigmoid(self.final_conv(F.relu(state[0]).unsqueeze(-1))).mean((1, 2)))
        return torch.stack(told, 1)


class _Inverted(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inner * factor
        self.adds = stride == 1 and inner == outer
        spread = [_convolution(inner, wide, 1)] if factor != 1 else []
        self.conv = nn.Sequential(
            *spread,
            _convolution(wide, wide, 3, stride, wide),
            nn.Conv2d(wide, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


def _convolution(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outer), nn.ReLU6())


class MobileNetV2(nn.Module):
    """A thousand kinds of pictures, of 224 x 224."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        inner = 32
        for factor, outer, count, stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        ):  # fmt: skip
            for place in range(count):
                layers.append(_Inverted(inner, outer, stride if place == 0 else 1, factor))
                inner = outer
        self.features = nn.Sequential(*layers, _convolution(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(pictures).mean((2, 3)))
