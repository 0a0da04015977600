"""What the columns of a file mean: readings with evidence, and the choice of the best joint one."""
