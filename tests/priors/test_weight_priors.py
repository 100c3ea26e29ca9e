"""A prior of the weights of the user's own."""

import pytest

import bayesdrop as bd


class Unfinished:
    """The normal prior without its density."""

    gaussian, has_mean, relative = True, True, False
    absolute = check = learnt_scale = precision = first_precision = constants = init = bd.Normal.check
    sample_precision = record = log_scale_density = staticmethod(bd.Normal.record)

    def __repr__(self):
        return "Unfinished()"


def test_the_refusal_of_an_unfinished_prior_names_what_it_lacks():
    expected = r"^weight_prior: expected an object such as bd\.Normal\(1\.0\), got "
    with pytest.raises(TypeError, match=expected + r"Unfinished\(\); it has no sample_weight, log_density\.$"):
        bd.Model(weight_prior=Unfinished())
    with pytest.raises(TypeError, match=expected + r"3\.$"):
        bd.Model(weight_prior=3)
