"""What compiling did, for the user."""
