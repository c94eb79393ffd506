package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RedissonClient;

/**
 * Takes orders as JSON lines on its input and answers them, in the order they end, on its output.
 *
 * <p>{"id": 1, "thread": "a", "on": "lock", "method": "tryLock", "args": [10, "SECONDS"]} calls a
 * method of a named object in the Java thread of that name; "as" keeps the result under a name.
 * The object "driver" is this one. The answer is {"id": 1, "result": ...} or {"id": 1, "error":
 * "java.lang.IllegalMonitorStateException", "message": "..."}. The program ends with its input.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** What Redisson's waiting threads sleep on; for replies they wait elsewhere. */
    private static final Set<String> WAKE_UPS =
            Set.of("java.util.concurrent.Semaphore", "org.redisson.misc.ReclosableLatch");

    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final Complaints complaints = new Complaints();
    private final PrintStream output;

    private Driver(PrintStream output) {
        this.output = output;
        objects.put("driver", this);
    }

    public static void main(String[] args) throws Exception {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not look like an answer.
        System.setOut(System.err);
        new Driver(output).serve();
        // Not a clean shutdown: clients that are still open would keep the program alive.
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode order = JSON.readTree(line);
            worker(order.path("thread").asText("main")).run(() -> carryOut(order));
        }
    }

    private Worker worker(String name) {
        return workers.computeIfAbsent(name, Worker::new);
    }

    private void carryOut(JsonNode order) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", order.get("id"));
        try {
            Object result = call(order);
            answer.set("result", Values.toJson(JSON, result));
        } catch (Throwable error) {
            answer.put("error", error.getClass().getName());
            answer.put("message", withCauses(error));
        }
        synchronized (output) {
            output.println(answer);
        }
    }

    private static String withCauses(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error.getMessage()));
        for (Throwable each = error.getCause(); each != null; each = each.getCause()) {
            text.append("; because of ").append(each);
        }
        return text.toString();
    }

    private Object call(JsonNode order) throws Throwable {
        Object target = objects.get(order.get("on").asText());
        if (target == null) {
            throw new IllegalArgumentException("no object is called " + order.get("on"));
        }
        try {
            Object result =
                    Values.invoke(target, order.get("method").asText(), order.get("args"), objects);
            if (order.hasNonNull("as")) {
                objects.put(order.get("as").asText(), result);
                return null;
            }
            return result instanceof Future<?> future ? future.get() : result;
        } catch (InvocationTargetException | ExecutionException wrapped) {
            throw wrapped.getCause();
        }
    }

    /** Connect a client; `settings` are setters of Config or of its part for such servers. */
    public Object connect(String address, String prefix, Map<String, Object> settings)
            throws Exception {
        return Clients.connect(address, prefix, settings);
    }

    /** Let threads of a client work in the mixed crowd until they have done their share. */
    public void crowd(RedissonClient client, Map<String, Object> order) throws Exception {
        new Crowd(client, order).run(order);
    }

    /** Let threads of a client want one lock for a while; when they were in: BenchSections. */
    public List<long[]> sections(RedissonClient client, Map<String, Object> order)
            throws Exception {
        return BenchSections.measure(client, JSON.valueToTree(order));
    }

    /** Forget an object. */
    public void forget(String name) {
        objects.remove(name);
    }

    /** Let every thread go, also one that hangs: the next order for its name starts another. */
    public void dismiss() {
        List<Worker> all = List.copyOf(workers.values());
        workers.clear();
        all.forEach(Worker::stop);
    }

    /** Interrupt what a thread does. */
    public void interrupt(String thread) {
        worker(thread).thread.interrupt();
    }

    /** The id of a thread, as Redisson puts it into owner ids. */
    public long threadId(String thread) {
        return worker(thread).thread.getId();
    }

    /** Whether a thread sleeps until a message, or the time that it was told, wakes it. */
    public boolean sleeps(String thread) {
        return Arrays.stream(worker(thread).thread.getStackTrace())
                .map(StackTraceElement::getClassName)
                .anyMatch(WAKE_UPS::contains);
    }

    /** What was logged as a warning or an error since the last call. */
    public List<String> complaints() {
        return complaints.take();
    }

    /** The Java thread of one name; orders for it wait for each other. */
    private static final class Worker {
        private final ExecutorService executor;
        private Thread thread;

        Worker(String name) {
            executor =
                    Executors.newSingleThreadExecutor(
                            task -> {
                                thread = new Thread(task, name);
                                thread.setDaemon(true);
                                return thread;
                            });
            // The thread exists from now on.
            ((java.util.concurrent.Executor) executor).execute(() -> {});
        }

        void run(Runnable order) {
            executor.execute(order);
        }

        void stop() {
            if (thread == Thread.currentThread()) {
                executor.shutdown();
            } else {
                executor.shutdownNow();
            }
        }
    }
}
