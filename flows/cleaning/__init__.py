"""What runs leave behind: finds it and removes it, as ``retention`` in ``conf/flows.yaml`` says."""
