"""Choose whom to treat, and forecast the result."""

from __future__ import annotations

from auucmax.targeting.calibration import Calibration, calibrate
from auucmax.targeting.choose import Choice, choose

__all__ = ["Calibration", "Choice", "calibrate", "choose"]
