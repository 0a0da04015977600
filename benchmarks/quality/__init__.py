"""How good the model of ``tuneline init`` is, beside rivals, on several data sets."""
