"""Programs that look for faults in the folders that standard input names, as ``protocol.py`` describes."""
