"""Point fits: the marginalised energy, its minimisers and the update of the rates."""
