"""How far an exported model is from the trained one, row by row and as a whole."""
