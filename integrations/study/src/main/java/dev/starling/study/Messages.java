package dev.starling.study;

import com.fasterxml.jackson.databind.JsonNode;
import dev.starling.distributed.launch.Launch;
import dev.starling.distributed.launch.Launcher;
import dev.starling.jmh.cluster.ClusterBench;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;

/** Measures the round-trip time of messages between two processes, alternating between Starling and grpc-java. */
final class Messages {
    private static final int BYTES = 1024;
    private static final Duration TIMEOUT = Duration.ofMinutes(5);

    private Messages() {
    }

    /** Runs {@code bench cluster} in a child process. */
    static List<Result.Message> measure(OutputStream progress) throws TimeoutException, InterruptedException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (Launch launch = Launcher.ofJava(ClusterBench.class, "--only", "ROUND_TRIP", "--processes", "2",
                "--message", Integer.toString(BYTES), "--parties", "STARLING_MESSAGES,STARLING_NETWORK_MESSAGES,GRPC",
                "--json").output(Launcher.Output.FIRST_RANK).output(out, progress).start()) {
            launch.await(TIMEOUT);
        }
        return parse(out.toString(StandardCharsets.UTF_8));
    }

    /** Reads the JSON object at the end of the command's output. */
    static List<Result.Message> parse(String output) {
        JsonNode found = output.lines().filter(line -> line.startsWith("{")).reduce((a, b) -> b).map(Json::parse)
                .orElse(null);
        if (found == null || !found.path("cases").isArray() || found.path("cases").isEmpty()) {
            throw new IllegalStateException("bench cluster printed no measurement: " + output.strip());
        }
        Map<String, Result.Message> messages = new LinkedHashMap<>();
        for (JsonNode one : found.path("cases")) {
            put(messages, one.path("implementation").asText(), one.path("ours"), one);
        }
        for (JsonNode one : found.path("cases")) {
            put(messages, one.path("peer").asText(), one.path("theirs"), one);
        }
        return List.copyOf(messages.values());
    }

    private static void put(Map<String, Result.Message> messages, String implementation, JsonNode value, JsonNode one) {
        messages.putIfAbsent(implementation,
                new Result.Message(implementation, one.path("bytes").asLong(), value.asDouble()));
    }
}
