"""Explicit NumPyro programs, one published model a file, to read with the paper and to edit.

``svm``
    Bayesian support vector machine (Polson & Scott 2011), plain and with its latent scales.
``logistic``
    Bayesian logistic regression (Polson, Scott & Windle 2013), plain and with its Polya-Gamma variables.
``feature_noising``
    Learnt dropout rates (Zhuo, Zhu & Zhang 2015): every mask explicit, or all masks summed.
``augmented_noising``
    The same with its masks and the variables of the loss, and the full conditionals as a block of NumPyro's HMCGibbs.
``missing_entries``
    The same with missing entries, which are dropped ones whose masks are known.
``spike_slab``
    Logistic regression with indicators of features (Mitchell & Beauchamp 1988), explicit, or all models summed.
``hierarchical_rates``
    The same with rates that are pooled within groups of features.
``normal_scores``
    The same with the masks integrated as if scores were normal, which is fast and approximate.
``latent``
    One learnt hidden layer whose inputs are dropped out (Chen, Zhu, Chen & Chen 2015), with learnt rates.
``marginalised_dropout``
    The marginalised energy of dropout training (Chen, Zhu, Chen & Chen 2015), whose mode is the point fit.
``unlabelled_rows``
    The same with rows that have no label, which say how large the features are (Wager, Wang & Liang 2013).
``svr``
    Bayesian support vector regression (Chen, Zhu, Chen & Chen 2015), plain and with its two latent scales.
``quantile``
    Bayesian quantile regression (Yu & Moyeed 2001), plain and with the mixture of Kozumi & Kobayashi (2011).
``ridge``
    Dropout ridge regression, whose posterior is normal (van der Maaten, Chen, Tyree & Weinberger 2013).
``counts``
    Poisson, binomial and negative binomial regression: plain, with Polya-Gamma variables, and with every mask explicit.
``softmax``
    Multinomial logistic regression with the quadratic noising penalty (Wager, Wang & Liang 2013), or with masks.
``varying_slopes``
    Intercepts and slopes of groups with a correlation matrix under an LKJ prior (Gelman & Hill 2007).
``matrix_factorization``
    Matrix factorisation whose columns are dropped (Cavazza et al. 2018), every mask explicit, or all masks summed.

Those of a loss of the library have ``STATES``, a :class:`bayesdrop.models.statements.Statement` of its formulas, which
tests hold the library to.

A program is ``program(X, y=None, ...)``: without ``y`` it simulates; if given, ``y`` is an observed site of that name.
Labels are 0 and 1 (0 … K − 1 of ``K`` classes). A loss that is no normalised likelihood enters as one of the
pseudo-likelihoods of :mod:`bayesdrop.distributions`. The prior of an intercept is normal, or flat under
``intercept_scale=None`` as in ``bd.fit`` and ``bd.sample``; a flat prior cannot be simulated from.
In programs without a hidden layer or factors, ``scale`` is the standard deviation of the weights, or a law of it such
as ``HalfNormal(2.0)``, under which it is a site ``weight_scale``; those of counts take a number.

Each runs as ``python -m bayesdrop.models.NAME``: simulated data, a kernel of NumPyro's, variational inference,
predictions, ArviZ and leave-one-out scores, which are the function ``demonstrate`` of the file and
:mod:`bayesdrop.models.steps`. They share no code with the library beyond :mod:`bayesdrop.distributions`; the tests hold
the two statements of each density equal.
"""
