package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Acquires and releases, each thread on a lock of its own, renewed by the watchdog. */
final class BenchPairs {
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final RLock[] locks;
    private final LongAdder done = new LongAdder();
    private final CompletableFuture<Void> allEnded = new CompletableFuture<>();
    private final AtomicInteger busy;
    private long end;

    private BenchPairs(RedissonClient client, JsonNode order) {
        locks = new RLock[order.get("tasks").asInt()];
        for (int i = 0; i < locks.length; i++) {
            locks[i] = client.getLock(order.get("prefix").asText() + ":" + i);
        }
        busy = new AtomicInteger(locks.length);
    }

    static Map<String, Object> measure(RedissonClient client, JsonNode order) throws Exception {
        BenchPairs pairs = new BenchPairs(client, order);
        boolean async = order.get("async").asBoolean();
        BenchThreads threads = new BenchThreads(async ? 0 : pairs.locks.length, pairs::inThread);
        long cpu = PROCESS.getProcessCpuTime();
        long start = System.nanoTime();
        pairs.end = start + (long) (order.get("seconds").asDouble() * 1e9);
        if (async) {
            for (int i = 0; i < pairs.locks.length; i++) {
                pairs.next(pairs.locks[i], i);
            }
            pairs.allEnded.get();
        } else {
            threads.run();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        cpu = PROCESS.getProcessCpuTime() - cpu;
        return Map.of("done", pairs.done.sum(), "seconds", seconds, "cpu", cpu / 1e9);
    }

    private void inThread(int number) {
        RLock lock = locks[number];
        do {
            lock.lock();
            lock.unlock();
            done.increment();
        } while (System.nanoTime() < end);
    }

    /** Owners of asynchronous locks are numbers of the caller's choice. */
    private void next(RLock lock, long owner) {
        lock.lockAsync(owner)
                .thenCompose(held -> lock.unlockAsync(owner))
                .whenComplete(
                        (released, error) -> {
                            if (error != null) {
                                allEnded.completeExceptionally(error);
                                return;
                            }
                            done.increment();
                            if (System.nanoTime() < end) {
                                next(lock, owner);
                            } else if (busy.decrementAndGet() == 0) {
                                allEnded.complete(null);
                            }
                        });
    }
}
