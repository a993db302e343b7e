"""Networks: TARNet, CFRNet (and BNN), GANITE. torch is loaded by ``fit``, and by nothing else."""

from __future__ import annotations

from auucmax.baselines.networks.models import GANITE, CFRNet, TARNet

__all__ = ["GANITE", "CFRNet", "TARNet"]
