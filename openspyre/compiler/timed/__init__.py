"""The strategy `timed`: divisions that the clock says are fastest, neighbours aligned so that tensors can stay in scratchpads."""
