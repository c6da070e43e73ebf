"""How well boxes fit boxes: matching, average precision, bootstrap, agreement.

Pure functions on arrays; ``edgepipe.evaluation`` brings the recordings and networks.
"""
