"""The verdict on a trained model: what a careful colleague would say, and what to do."""
