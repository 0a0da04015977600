"""From the files of a user to ``params.yaml``: what ``tuneline init`` proposes and writes."""
