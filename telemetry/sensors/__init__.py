"""What the device tells about itself: power, heat, clocks and what holds them down."""
