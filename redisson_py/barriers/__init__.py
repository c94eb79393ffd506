"""CountDownLatch and CyclicBarrier: tasks that wait for what other tasks have done."""
