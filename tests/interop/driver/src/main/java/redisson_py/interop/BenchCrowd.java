package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import io.netty.channel.nio.NioEventLoopGroup;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/** Clients with a thread each that want one lock; when each asked and was in. */
final class BenchCrowd {
    /** How long all may take to stop. Who is stuck is left behind. */
    private static final long GRACE = TimeUnit.SECONDS.toMillis(10);

    /** It warns of so many clients. */
    private static final Logger TIMERS = Logger.getLogger("io.netty.util.HashedWheelTimer");

    private final String address;
    private final Map<String, Object> settings;
    private final List<RedissonClient> clients = new ArrayList<>();

    BenchCrowd(String address) {
        this.address = address;
        TIMERS.setLevel(Level.OFF);
        // The fewest connections, and what no client needs for itself.
        settings =
                Map.of(
                        "connectionPoolSize", 1,
                        "connectionMinimumIdleSize", 1,
                        "subscriptionConnectionPoolSize", 1,
                        "subscriptionConnectionMinimumIdleSize", 1,
                        "eventLoopGroup", new NioEventLoopGroup(4),
                        "executor", Executors.newCachedThreadPool());
    }

    /** Connect clients until there are so many. */
    String gather(JsonNode order) throws Exception {
        while (clients.size() < order.get("clients").asInt()) {
            clients.add(Clients.connect(address, "", settings));
        }
        return "gathered";
    }

    /** Return what they saw: `visits`, without `pushes`. */
    Map<String, Object> run(JsonNode order) throws Exception {
        List<long[]> visits = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        int first = order.get("first").asInt();
        for (int number = 0; number < order.get("clients").asInt(); number++) {
            RedissonClient client = clients.get(number);
            int mine = first + number;
            threads.add(new Thread(() -> visit(client, order, mine, visits)));
        }
        threads.forEach(Thread::start);
        long end = nanos(order.get("end_at"));
        pause(end - System.nanoTime());
        threads.forEach(Thread::interrupt);
        for (Thread thread : threads) {
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()) + GRACE;
            thread.join(Math.max(1, left));
        }
        synchronized (visits) {
            return Map.of("visits", List.copyOf(visits));
        }
    }

    private static void visit(
            RedissonClient client, JsonNode order, int number, List<long[]> visits) {
        String name = order.get("name").asText();
        // Whatever only the first pair of a client costs.
        RLock own = client.getLock(name + ":" + number);
        own.lock();
        own.unlock();
        // What System.nanoTime counts here is the system's monotonic clock.
        pause(nanos(order.get("start_at")) - System.nanoTime());
        RLock lock = client.getLock(name);
        long end = nanos(order.get("end_at"));
        while (System.nanoTime() < end) {
            long[] ask = {System.nanoTime(), 0, number};
            synchronized (visits) {
                visits.add(ask);
            }
            try {
                lock.lockInterruptibly();
                ask[1] = System.nanoTime();
                pause(nanos(order.get("hold")));
                lock.unlock();
                pause(nanos(order.get("pause")));
            } catch (InterruptedException over) {
                return;
            } catch (RedisException error) {
                // Interrupted while it waited for an answer.
                if (System.nanoTime() < end) {
                    throw error;
                }
            }
        }
    }

    private static long nanos(JsonNode seconds) {
        return (long) (seconds.asDouble() * 1e9);
    }

    /** Sleep, also while interrupted: the lock must be given back. */
    private static void pause(long nanos) {
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
