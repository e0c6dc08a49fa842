"""DGL's functions of messages, compiled; its layers are taken by `hetune.compile`."""

from hetune.costmodel.selection.message_passing import message_passing

__all__ = ["message_passing"]
