"""Engine-free stateful operators: process a batch, snapshot, restore."""
