"""Hand-over files: JSON that one stage writes and other processes read. One class writes and reads each kind of file."""
