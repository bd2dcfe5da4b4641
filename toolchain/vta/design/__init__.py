"""What a design of the accelerator is made from: its configuration, and the model of its cycles."""
