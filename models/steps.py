"""Six steps that every program of this folder can run, in the order of a Bayesian workflow.

Simulate from the prior; condition on ``y`` and draw from the posterior by a kernel of NumPyro's; approximate it by
stochastic variational inference; simulate from the posterior; hand everything to ArviZ; compute leave-one-out scores.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.handlers import condition
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

__all__ = ["Steps", "nuts", "six_steps"]


class Steps(NamedTuple):
    """What the six steps made."""

    prior: dict[str, Any]
    mcmc: MCMC
    svi: Any
    predictive: dict[str, Any]
    data: Any
    loo: Any


def nuts(program, y):
    """The kernel of programs with a smooth density."""
    return NUTS(program)


def six_steps(
    program, *arguments, kernel, smooth=None, draws=500, tune=500, steps=2000, chains=2, most=20, show=True, **keywords
):
    """Run the six steps on data that the program simulates itself; print a line on each if ``show``.

    Below the summary of the posterior stand the values that made the data, of variables of at most ``most`` numbers.
    ``kernel`` makes the kernel that suits the program of it and ``y``. ``smooth`` states the same posterior without
    discrete variables, for variational inference; by default it is the program. The data are simulated at an intercept
    of 0: under the prior's most labels of a data set may be equal, and a posterior given them is the prior.
    """
    import arviz as az

    keys = jax.random.split(jax.random.key(0), 5)
    prior = Predictive(program, num_samples=draws)(keys[0], *arguments, **keywords)
    fixed = {name: jnp.zeros_like(part[0]) for name, part in prior.items() if name == "intercept"}
    simulated = Predictive(condition(program, fixed), num_samples=1)(keys[4], *arguments, **keywords)
    truth = {name: part[0] for name, part in simulated.items()} | fixed
    data = {**keywords, "y": simulated["y"][0]}  # 1

    # Any function such as jax.vmap runs chains side by side, of Gibbs samplers too.
    side_by_side = jax.vmap if chains > 1 else "sequential"
    mcmc = MCMC(
        kernel(program, data["y"]), num_warmup=tune, num_samples=draws, num_chains=chains, chain_method=side_by_side
    )
    mcmc.run(keys[1], *arguments, **data)  # 2

    smooth = program if smooth is None else smooth
    svi = SVI(smooth, AutoNormal(smooth, init_scale=0.1), numpyro.optim.Adam(0.01), Trace_ELBO())
    found = svi.run(keys[2], steps, *arguments, progress_bar=False, **data)  # 3

    predictive = Predictive(program, mcmc.get_samples())(keys[3], *arguments, **keywords)  # 4
    posterior = az.from_numpyro(mcmc, prior=prior, posterior_predictive=predictive, log_likelihood=True)  # 5
    loo = az.loo(posterior, var_name="y")  # 6
    if show:
        tail = found.losses[-len(found.losses) // 10 :]
        print(f"prior predictive   y {prior['y'].shape}, mean {float(prior['y'].mean()):.2f}")
        mcmc.print_summary(exclude_deterministic=False)
        for name in mcmc.get_samples():
            if name in truth and truth[name].size <= most:
                print(f"truth              {name} {np.round(np.asarray(truth[name]), 2)}")
        print(f"SVI                loss {float(found.losses[0]):.1f} at first, {float(tail.mean()):.1f} in the end")
        print(f"posterior predict. y {predictive['y'].shape}, mean {float(predictive['y'].mean()):.2f}")
        print(f"ArviZ              observed_data.y {dict(posterior.observed_data['y'].sizes)}")
        print(loo)
    return Steps(prior, mcmc, found, predictive, posterior, loo)
