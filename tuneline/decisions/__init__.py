"""What is done with probabilities: answers that cost least, and rows that show how often they are wrong."""
