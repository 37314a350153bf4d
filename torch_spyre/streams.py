"""The documented name of the streams; they live in torch_spyre.device.streams."""

from torch_spyre.device.streams import Event, Stream, current_stream, default_stream, set_stream, stream, synchronize

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream", "synchronize"]
