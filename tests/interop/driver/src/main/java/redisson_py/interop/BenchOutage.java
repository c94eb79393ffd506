package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Holds locks, waits for one and keeps taking others while somebody strikes the servers. */
final class BenchOutage {
    /** Owners of what is held: no thread has such a number. */
    private static final long OWNER = 1L << 40;

    private final RedissonClient client;
    private final String prefix;
    private final List<RLock> held = new ArrayList<>();
    private final List<long[]> pairs = Collections.synchronizedList(new ArrayList<>());
    private final List<String> errors = Collections.synchronizedList(new ArrayList<>());
    private final AtomicInteger woken = new AtomicInteger();
    private volatile long firstWoken;
    private volatile boolean over;

    private BenchOutage(RedissonClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    static BenchOutage begin(RedissonClient client, JsonNode order) throws Exception {
        BenchOutage outage = new BenchOutage(client, order.get("prefix").asText());
        for (int i = 0; i < order.get("holds").asInt(); i++) {
            RLock lock = client.getLock(outage.prefix + "held:" + i);
            lock.lockAsync(OWNER + i).get();
            outage.held.add(lock);
        }
        client.getLock(outage.prefix + "wanted").lockAsync(OWNER).get();
        for (int i = 0; i < order.get("waiters").asInt(); i++) {
            start(outage::waitForIt);
        }
        for (int i = 0; i < order.get("probes").asInt(); i++) {
            int number = i;
            start(() -> outage.probe(number));
        }
        return outage;
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void probe(int number) {
        for (int i = 0; !over; i++) {
            long began = System.nanoTime();
            try {
                RLock lock = client.getLock(prefix + "probe:" + number + ":" + i);
                lock.lock();
                lock.unlock();
                pairs.add(new long[] {began, System.nanoTime()});
                Thread.sleep(5);
            } catch (Exception error) {
                errors.add(error.getClass().getSimpleName());
                sleep(20);
            }
        }
    }

    private void waitForIt() {
        while (true) {
            try {
                RLock lock = client.getLock(prefix + "wanted");
                lock.lock();
                if (woken.getAndIncrement() == 0) {
                    firstWoken = System.nanoTime();
                }
                lock.unlock();
                return;
            } catch (Exception error) {
                errors.add(error.getClass().getSimpleName());
                sleep(20);
            }
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** When the last pair began. */
    Object look() {
        synchronized (pairs) {
            return pairs.isEmpty() ? 0L : pairs.get(pairs.size() - 1)[0];
        }
    }

    private List<Long> ends() {
        synchronized (pairs) {
            return pairs.stream().map(pair -> pair[1]).toList();
        }
    }

    /** Give back what others wait for; return everything. */
    Map<String, Object> end(double patience, int waiters) throws Exception {
        over = true;
        long released = System.nanoTime();
        client.getLock(prefix + "wanted").unlockAsync(OWNER).get(10, TimeUnit.SECONDS);
        long limit = released + (long) (patience * 1e9);
        while (woken.get() < waiters && System.nanoTime() < limit) {
            Thread.sleep(5);
        }
        int inTime = woken.get();
        int lost = 0;
        for (int i = 0; i < held.size(); i++) {
            if (!held.get(i).isHeldByThread(OWNER + i)) {
                lost++;
            }
        }
        return Map.of(
                "ends", ends(),
                "errors", new ArrayList<>(errors),
                "lost", lost,
                "told", 0,
                "woken", inTime,
                "after", inTime == 0 ? -1.0 : (firstWoken - released) / 1e9);
    }
}
