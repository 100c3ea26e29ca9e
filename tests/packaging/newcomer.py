"""From a formula to an answer, checked and stored: a newcomer's script, of a family named on the command line."""

import subprocess
import sys

import arviz as az
import matplotlib
import numpy as np
import pandas as pd

import bayesdrop as bd

matplotlib.use("Agg")
rng = np.random.default_rng(3)
data = pd.DataFrame(
    {"age": rng.normal(50, 10, 160), "dose": rng.exponential(2, 160), "site": rng.choice(["UK", "US"], 160)}
)
score = 0.5 + 0.04 * (data.age - 50) + 0.7 * (data.site == "US")
data["time"] = 20 * score + rng.normal(0, 8, 160)
data["ill"] = np.where(score + rng.logistic(size=160) > 0, "ill", "well")
data["visits"] = rng.poisson(np.exp(score))
data["seizures"] = rng.poisson(np.exp(score) * rng.gamma(1.5, 1 / 1.5, 160))
data["days"] = 20 * score + rng.laplace(0, 8, 160)
FAMILIES = {
    "time": bd.Squared(),
    "ill": bd.Logistic(),
    "visits": bd.Poisson(),
    "seizures": bd.NegativeBinomial(),
    "days": bd.Quantile(0.5),
}

response = sys.argv[1]
spread = data[response].std() if response in ("time", "days") else 1.0
prior = bd.Normal({"scale(age)": 1.0 * spread, "default": 2.5 * spread})
model = bd.Model(FAMILIES[response], rates=bd.Fixed(0.0), weight_prior=prior)
formula = f"{response} ~ scale(age) + site"
print(bd.priors_table(model, formula, data))
before = bd.prior_draws(model, formula, data, draws=100, intercept_scale=spread)
print(bd.groups.dataset(before, "prior_predictive")["y"].to_series().describe())
post = bd.sample(model, formula, data, log_likelihood=True, progress=False)
print(bd.diagnose(post))
checked = bd.posterior_predictive(post, data)
ax = bd.plots.ppc(checked)
print(bd.loo(post))
smaller = bd.sample(model, f"{response} ~ scale(age)", data, log_likelihood=True, progress=False)
print(az.compare({"both": post, "age alone": smaller}))
print(bd.hypothesis(post, "site[US] - site[UK] > 0"))
print(bd.comparisons(post, data, "site"))
bd.groups.save(post, "post.nc")
data.to_csv("rows.csv", index=False)
elsewhere = """import pandas, bayesdrop as bd
print(bd.predict(bd.groups.load("post.nc"), pandas.read_csv("rows.csv")).mean.sum())"""
told = subprocess.run([sys.executable, "-c", elsewhere], capture_output=True, text=True, check=True).stdout
assert np.isclose(float(told), bd.predict(post, data).mean.sum())
