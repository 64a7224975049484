"""The comparison of tensors between ranks, on the ranks themselves."""
