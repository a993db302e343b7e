"""Before and after a trial: plan, assign, look, verify. Names are imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.campaign.arm_monitoring import ArmsLook, ArmsMonitor, monitor_trial
    from auucmax.campaign.arm_verification import ArmsVerification, verify_arms
    from auucmax.campaign.assignment import Assignment, assign, assignment_sql
    from auucmax.campaign.forecast import ForecastVerdict, Promise
    from auucmax.campaign.monitoring import Look, Monitor
    from auucmax.campaign.planning import TrialPlan, plan_arms, plan_trial
    from auucmax.campaign.verification import Comparison, Verification, verify

__all__ = [
    "ArmsLook",
    "ArmsMonitor",
    "ArmsVerification",
    "Assignment",
    "Comparison",
    "ForecastVerdict",
    "Look",
    "Monitor",
    "Promise",
    "TrialPlan",
    "Verification",
    "assign",
    "assignment_sql",
    "monitor_trial",
    "plan_arms",
    "plan_trial",
    "verify",
    "verify_arms",
]

_HOME = {
    "ArmsVerification": "arm_verification", "verify_arms": "arm_verification",
    "Assignment": "assignment", "assign": "assignment", "assignment_sql": "assignment",
    "ArmsLook": "arm_monitoring", "ArmsMonitor": "arm_monitoring",
    "monitor_trial": "arm_monitoring", "Look": "monitoring", "Monitor": "monitoring",
    "TrialPlan": "planning", "plan_arms": "planning", "plan_trial": "planning",
    "ForecastVerdict": "forecast", "Promise": "forecast",
    "Comparison": "verification", "Verification": "verification", "verify": "verification",
}  # fmt: skip
__getattr__ = lazy_names(__name__, _HOME)
