from dataclasses import dataclass

import numpy as np

from auucmax.targeting.arms import choose_arms
from auucmax.targeting.policy import check_money  # noqa: F401


@dataclass
class Choice:
    arm: object; counts: tuple; cost: float; uplift: float; rate: float; threshold: object; n_tied: int; n_tied_taken: int; part: object
def choose(uplift, *, share=None, budget=None, cost=1.0, value=None, at_most=None, at_least=None, allowed=None):
    u=np.asarray(uplift,float)
    one=u.ndim==1
    g=u
    if one and value is None: g=u-u.min()+1
    if share is not None: budget=round(share*len(u)); cost=1.0
    f=choose_arms(g,cost=cost,budget=budget,value=value,at_most=at_most,at_least=at_least,allowed=allowed)
    th=None
    if one and sum(f.counts):
        th=float(u[f.arm>=0].min())
        nt=int((u==th).sum()); ntt=int(((u==th)&(f.arm>=0)).sum())
        return Choice(f.arm,f.counts,f.cost,f.uplift,f.rate,th,nt,ntt,f.part)
    return Choice(f.arm,f.counts,f.cost,f.uplift,f.rate,th,f.n_tied,f.n_tied_taken,f.part)
