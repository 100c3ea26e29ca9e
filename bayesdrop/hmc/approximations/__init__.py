"""Normal approximations of a posterior, which whiten it, of one score or many classes, at known or learnt scales."""
