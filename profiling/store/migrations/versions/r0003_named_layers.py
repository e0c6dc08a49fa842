"""Where stores begin that are brought up to date: those that know layers by name."""

from __future__ import annotations

revision = "0003"
down_revision = None
