"""Who gets which arm in the next cohort, and what to expect of it."""

from __future__ import annotations

from auucmax.targeting.calibration import Calibration, calibrate
from auucmax.targeting.choose import Choice, choose

__all__ = ["Calibration", "Choice", "calibrate", "choose"]
