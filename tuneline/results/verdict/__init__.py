"""The verdict on a trained model: what a careful colleague would say, and what to do.

Rules make findings from metrics and curves.
``tuneline show``, the page, the model card and ``tuneline evaluate`` all print the same ones.
"""
