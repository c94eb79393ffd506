package redisson_py.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** Threads that begin together, when all of them exist. */
final class BenchThreads {
    /** What one of them does. */
    interface Work {
        void run(int number) throws Exception;
    }

    private final List<Thread> threads = new ArrayList<>();
    private final CountDownLatch begin = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    BenchThreads(int count, Work work) throws InterruptedException {
        CountDownLatch ready = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            int mine = number;
            threads.add(
                    new Thread(
                            () -> {
                                try {
                                    ready.countDown();
                                    begin.await();
                                    work.run(mine);
                                } catch (Throwable error) {
                                    failure.compareAndSet(null, error);
                                }
                            }));
            threads.get(number).start();
        }
        ready.await();
    }

    /** Have them begin; return when all have ended. */
    void run() throws Exception {
        begin.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure.get() != null) {
            throw new Exception("a thread failed", failure.get());
        }
    }
}
