package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Threads that want one lock, or the one permit of a semaphore; when each of them was in, by the clock of the machine. */
final class BenchSections {
    private final RedissonClient client;
    private final String kind;
    private final String name;
    private final long stay;
    private final long rest;
    private final long begin;
    private final long end;
    private final List<long[]> found = new ArrayList<>();

    private BenchSections(RedissonClient client, JsonNode order) {
        this.client = client;
        kind = order.path("kind").asText("lock");
        name = order.get("name").asText();
        if (kind.equals("semaphore")) {
            client.getSemaphore(name).trySetPermits(1);
        } else if (kind.equals("permits")) {
            client.getPermitExpirableSemaphore(name).trySetPermits(1);
        }
        stay = nanos(order.get("stay"));
        rest = nanos(order.get("rest"));
        // Of all processes: what System.nanoTime counts here is the system's monotonic clock.
        begin = Math.max(nanos(order.get("start_at")), System.nanoTime());
        end = begin + nanos(order.get("seconds"));
    }

    /** Return begin, end and thread of every section, in nanoseconds. */
    static List<long[]> measure(RedissonClient client, JsonNode order) throws Exception {
        BenchSections sections = new BenchSections(client, order);
        new BenchThreads(order.get("tasks").asInt(), sections::inThread).run();
        return sections.found;
    }

    private static long nanos(JsonNode seconds) {
        return (long) (seconds.asDouble() * 1e9);
    }

    private void inThread(int number) {
        pause(begin - System.nanoTime());
        while (System.nanoTime() < end) {
            Runnable leave = enter();
            long in = System.nanoTime();
            if (in < end) {
                pause(stay);
                long[] section = {in, System.nanoTime(), number};
                synchronized (found) {
                    found.add(section);
                }
            }
            leave.run();
            pause(rest);
        }
    }

    /** Wait until it is this thread's; return what gives it back. */
    private Runnable enter() {
        try {
            switch (kind) {
                case "semaphore" -> {
                    RSemaphore semaphore = client.getSemaphore(name);
                    semaphore.acquire();
                    return semaphore::release;
                }
                case "permits" -> {
                    RPermitExpirableSemaphore semaphore =
                            client.getPermitExpirableSemaphore(name);
                    String permit = semaphore.acquire();
                    return () -> semaphore.release(permit);
                }
                default -> {
                    RLock lock = lock();
                    lock.lock();
                    return lock::unlock;
                }
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private RLock lock() {
        return switch (kind) {
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            default -> client.getLock(name);
        };
    }

    private static void pause(long nanos) {
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
