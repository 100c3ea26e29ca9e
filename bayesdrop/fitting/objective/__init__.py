"""What a point fit minimises: the marginalised energy of the data, and what it is made of."""
