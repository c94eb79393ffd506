package redisson_py.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * The Java part of the mixed crowd: threads that work in sections under one lock, each of which
 * tells the referee (tests/interop/crowd_referee.py) when it goes in and when it goes out.
 *
 * <p>An order has: kind and name of the lock; port of the referee; process, what the referee calls
 * this one; workers, their number; sections, how many each of them does, unless the referee closes
 * before that; first, the number of the first; alternate, whether to come again after somebody
 * else only; wait_ms, if it is not 0 how long to stand in line before coming again; parties, of a
 * latch, how many there are in all processes.
 */
final class Crowd {
    private final RedissonClient client;
    private final String kind;
    private final String name;
    private final int sections;
    private final long wait;
    private final int first;
    private final boolean alternate;

    Crowd(RedissonClient client, Map<String, Object> order) {
        this.client = client;
        kind = (String) order.get("kind");
        name = (String) order.get("name");
        sections = (Integer) order.get("sections");
        wait = (Integer) order.get("wait_ms");
        first = (Integer) order.get("first");
        alternate = (Boolean) order.get("alternate");
    }

    /** Work until all threads have done their share. */
    void run(Map<String, Object> order) throws Exception {
        int workers = (Integer) order.get("workers");
        ExecutorService threads = Executors.newFixedThreadPool(workers);
        try {
            // The first that fails ends it all.
            var ends = new ExecutorCompletionService<Void>(threads);
            for (int i = 0; i < workers; i++) {
                ends.submit(() -> work(order));
            }
            for (int i = 0; i < workers; i++) {
                ends.take().get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private Void work(Map<String, Object> order) throws Exception {
        try (Referee referee = new Referee((Integer) order.get("port"))) {
            referee.tell("hello java " + order.get("process"));
            if (kind.equals("latch")) {
                rounds(referee, (Integer) order.get("parties"));
                return null;
            }
            Gate gate = gate();
            for (int i = 0; i < sections; i++) {
                Held held = gate.enter(first + i);
                int value = Integer.parseInt(referee.tell("enter " + held.mode));
                String answer = referee.tell("leave " + (value + 1));
                held.exit.leave();
                if (answer.equals("closed")) {
                    break;
                }
                if (alternate) {
                    referee.tell("rest");
                }
            }
        }
        return null;
    }

    private Gate gate() throws ReflectiveOperationException {
        switch (kind) {
            case "lock":
                return gate(client.getLock(name));
            case "non-reentrant lock":
                // Not in every release.
                Object plain =
                        client.getClass()
                                .getMethod("getNonReentrantLock", String.class)
                                .invoke(client, name);
                return gate((RLock) plain);
            case "fair lock":
                return gate(client.getFairLock(name));
            case "multi lock":
                RLock one = client.getLock(name + 1);
                RLock other = client.getLock(name + 2);
                return gate(client.getMultiLock(one, other));
            case "fenced lock":
                RFencedLock fenced = client.getFencedLock(name);
                return number -> new Held("alone " + fenced.lockAndGetToken(), fenced::unlock);
            case "read-write lock":
                RReadWriteLock both = client.getReadWriteLock(name);
                Gate read = gate(both.readLock(), "shared");
                Gate write = gate(both.writeLock(), "alone");
                return number -> (number % 2 == 0 ? read : write).enter(number);
            case "write lock":
                return gate(client.getReadWriteLock(name).writeLock());
            case "semaphore":
                RSemaphore semaphore = client.getSemaphore(name);
                return number -> {
                    semaphore.acquire();
                    return new Held("permit", semaphore::release);
                };
            case "permit semaphore":
                RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore(name);
                return number -> {
                    String id = permits.acquire();
                    return new Held("permit", () -> permits.release(id));
                };
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private Gate gate(RLock lock) {
        return gate(lock, "alone");
    }

    private Gate gate(RLock lock, String mode) {
        Held held = new Held(mode, lock::unlock);
        return number -> {
            if (wait == 0) {
                lock.lock();
            } else {
                while (!lock.tryLock(wait, TimeUnit.MILLISECONDS)) {}
            }
            return held;
        };
    }

    /** All parties count down and wait for the others; see `rounds` in crowd_worker.py. */
    private void rounds(Referee referee, int parties) throws Exception {
        for (int i = 0; i < sections; i++) {
            if (i + 1 < sections) {
                latch(i + 1).trySetCount(parties);
            }
            referee.tell("arrive " + i);
            latch(i).countDown();
            latch(i).await();
            referee.tell("pass " + i);
        }
    }

    private RCountDownLatch latch(int round) {
        return client.getCountDownLatch(name + round % 3);
    }

    /** How to get in. */
    private interface Gate {
        Held enter(int number) throws Exception;
    }

    /** How to get out. */
    private interface Exit {
        void leave() throws Exception;
    }

    /** What is held, as the referee should know it, and the way out. */
    private static final class Held {
        private final String mode;
        private final Exit exit;

        Held(String mode, Exit exit) {
            this.mode = mode;
            this.exit = exit;
        }
    }

    /** Asks one question at a time. */
    private static final class Referee implements AutoCloseable {
        private final Socket socket;
        private final BufferedReader answers;

        Referee(int port) throws IOException {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            answers =
                    new BufferedReader(
                            new InputStreamReader(
                                    socket.getInputStream(), StandardCharsets.US_ASCII));
        }

        String tell(String words) throws IOException {
            socket.getOutputStream().write((words + "\n").getBytes(StandardCharsets.US_ASCII));
            String answer = answers.readLine();
            if (answer == null) {
                throw new IOException("the referee is gone");
            }
            return answer;
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
