"""Explicit NumPyro programs, one published model a file, to read beside the paper and to edit.

``svm``
    Bayesian support vector machine (Polson & Scott 2011), plain and with its latent scales.
``logistic``
    Bayesian logistic regression (Polson, Scott & Windle 2013), plain and with its Polya-Gamma variables.
``feature_noising``
    Learnt dropout rates (Zhuo, Zhu & Zhang 2015): every mask explicit, or all masks summed.
``normal_scores``
    The same with the masks integrated as if scores were normal, which is fast and approximate.
``latent``
    One learnt hidden layer whose inputs are dropped out (Chen, Zhu, Chen & Chen 2015), with learnt rates.
``marginalised_dropout``
    The marginalised energy of dropout training (Chen, Zhu, Chen & Chen 2015), whose mode is the point fit.
``svr``
    Bayesian support vector regression (Chen, Zhu, Chen & Chen 2015), plain and with its two latent scales.
``quantile``
    Bayesian quantile regression (Yu & Moyeed 2001), plain and with the mixture of Kozumi & Kobayashi (2011).
``ridge``
    Dropout ridge regression, whose posterior is normal (van der Maaten, Chen, Tyree & Weinberger 2013).
``softmax``
    Multinomial logistic regression with the quadratic noising penalty (Wager, Wang & Liang 2013).
``matrix_factorization``
    Matrix factorisation whose columns are dropped (Cavazza et al. 2018), every mask explicit, or all masks summed.

Each runs as ``python -m bayesdrop.models.NAME``: simulated data, NUTS, a summary. They share no code with the
library beyond :mod:`bayesdrop.distributions`; the tests hold the two statements of each density equal.
"""
