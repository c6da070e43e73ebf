"""Recordings as robots make them: MCAP and ROS bags, read and written."""
