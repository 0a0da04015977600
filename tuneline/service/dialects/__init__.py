"""Dialects of the service: requests and answers as other servers of text classifiers have them.

Each reads rows out of a body, and writes predictions.
"""
