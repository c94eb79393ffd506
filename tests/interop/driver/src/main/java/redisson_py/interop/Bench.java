package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.redisson.api.RedissonClient;

/**
 * One side of the benchmarks: does one job a line, as the workers of the benchmarks do.
 *
 * <p>{"job": "pairs", "tasks": 8, ...} is answered by {"result": ...}; the first answer says that
 * it is connected. The program ends with its input, and when a job fails.
 */
public final class Bench {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Bench() {}

    /** Arguments: the address of the server, and the settings of the client as JSON. */
    public static void main(String[] args) throws Exception {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Logger.getLogger("").setLevel(Level.WARNING);
        int status = 1;
        try {
            serve(args[0], JSON.readValue(args[1], HashMap.class), output);
            status = 0;
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // Not a clean shutdown: threads that wait for a lock would keep the program alive.
        Runtime.getRuntime().halt(status);
    }

    @SuppressWarnings("unchecked")
    private static void serve(String address, Map<?, ?> settings, PrintStream output)
            throws Exception {
        RedissonClient client =
                Clients.connect(address, "", (Map<String, Object>) settings);
        // Whoever asks before there is a connection waits for one.
        client.getBucket("hello").isExists();
        say(output, "ready");
        BenchOutage outage = null;
        BenchCrowd crowd = new BenchCrowd(address);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode order = JSON.readTree(line);
            // Garbage of the round before is not this round's.
            if (outage == null) {
                System.gc();
            }
            if (order.get("job").asText().equals("begin_outage")) {
                // What fails is counted, and need not be told of.
                Logger.getLogger("").setLevel(Level.OFF);
                outage = BenchOutage.begin(client, order);
            }
            BenchOutage current = outage;
            say(
                    output,
                    switch (order.get("job").asText()) {
                        case "pairs" -> BenchPairs.measure(client, order);
                        case "sections" -> BenchSections.measure(client, order);
                        case "gather_crowd" -> crowd.gather(order);
                        case "in_crowd" -> crowd.run(order);
                        case "begin_outage" -> "begun";
                        case "look_at_outage" -> current.look();
                        case "end_outage" ->
                                current.end(
                                        order.get("patience").asDouble(),
                                        order.get("waiters").asInt());
                        default -> throw new IllegalArgumentException("no job " + order);
                    });
        }
    }

    private static void say(PrintStream output, Object result) throws Exception {
        output.println(JSON.writeValueAsString(Map.of("result", result)));
    }
}
