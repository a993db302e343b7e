"""Before and after a trial: plan, assign, monitor, verify."""

# Imported at once: `assign` and `verify` would otherwise be their modules, if these come first.
from auucmax.campaign.assign import Assignment, assign
from auucmax.campaign.monitor import Look, Monitor, monitor_trial
from auucmax.campaign.plan import TrialPlan, past_rows, plan_trial
from auucmax.campaign.verify import Verification, verify

__all__ = [
    "Assignment",
    "Look",
    "Monitor",
    "TrialPlan",
    "Verification",
    "assign",
    "monitor_trial",
    "past_rows",
    "plan_trial",
    "verify",
]
