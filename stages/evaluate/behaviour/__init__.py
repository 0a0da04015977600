"""Tests of the model's behaviour, as in Ribeiro et al. 2020, "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList"."""
