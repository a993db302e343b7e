"""Whom to treat in the next cohort, and what to expect of it: functions of numbers, no files."""

from __future__ import annotations

from auucmax.targeting.arms import ArmChoice, choose_arms
from auucmax.targeting.calibration import Calibration, calibrate, calibration_table
from auucmax.targeting.planning import Plan, PlanRow, ScoreShift, plan
from auucmax.targeting.policy import Selection, top_share, within_budget, worth_treating

__all__ = [
    "ArmChoice",
    "Calibration",
    "Plan",
    "PlanRow",
    "ScoreShift",
    "Selection",
    "calibrate",
    "calibration_table",
    "choose_arms",
    "plan",
    "top_share",
    "within_budget",
    "worth_treating",
]
