"""Scenarios played live: real threads and the real clock, synthetic cameras and stages.

Frames and service times are those that the simulator draws for the same seed
(``scheduler.workload``), so the two can be compared frame by frame.
"""
