package dev.starling.jmh.serving;

import dev.starling.jmh.Model;
import dev.starling.jmh.serving.Load.Observed;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A process with one server and its clients, in turn measured and idle. */
final class ServerProcess implements AutoCloseable {
    /** Starts an answer, since native libraries may print too. */
    private static final String MARK = "@ ";

    /** How long an answer may take in addition to the time for which the clients send requests. */
    private static final Duration ANSWER_TIMEOUT = Duration.ofMinutes(5);

    private final Contender contender;
    private final Process process;
    private final Writer orders;
    private final BufferedReader answers;

    ServerProcess(Contender contender, Model model) {
        this.contender = contender;
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), ServerProcess.class.getName(),
                contender.name(), model.name()));
        try {
            ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
            builder.environment().putAll(contender.environment());
            process = builder.start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        orders = process.outputWriter();
        answers = process.inputReader();
    }

    Contender contender() {
        return contender;
    }

    /** Returns the result for an example. */
    float[] result() {
        String[] numbers = ask("result", 0).split(" ");
        float[] result = new float[numbers.length];
        for (int i = 0; i < result.length; i++) {
            result[i] = Float.parseFloat(numbers[i]);
        }
        return result;
    }

    Observed run(int clients, long millis) {
        return Observed.parse(ask("run " + clients + " " + millis, millis));
    }

    private String ask(String order, long millis) {
        CompletableFuture<Void> late = new CompletableFuture<Void>().completeOnTimeout(null,
                ANSWER_TIMEOUT.toMillis() + 2 * millis, TimeUnit.MILLISECONDS);
        late.thenRun(process::destroyForcibly);
        try {
            orders.write(order + "\n");
            orders.flush();
            for (String line = answers.readLine(); line != null; line = answers.readLine()) {
                if (line.startsWith(MARK)) {
                    return line.substring(MARK.length());
                }
            }
            throw new IllegalStateException(contender + (late.isDone() ? " did not answer in time: "
                    : "'s process ended at: ") + order);
        } catch (IOException e) {
            throw new UncheckedIOException(contender + ": " + order, e);
        } finally {
            late.cancel(false);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }

    /** Serves: the arguments are the names of the contender and of the model, and standard input has the orders. */
    public static void main(String[] arguments) throws IOException {
        Model model = Model.valueOf(arguments[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try (Server server = Contender.valueOf(arguments[0]).start(model)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] order = line.split(" ");
                System.out.println(MARK + switch (order[0]) {
                    case "result" -> Arrays.toString(server.client().apply(Load.example(model, 0)))
                            .replaceAll("[\\[\\],]", "");
                    case "run" -> Load.run(server, model, Integer.parseInt(order[1]), Long.parseLong(order[2]));
                    default -> throw new IllegalArgumentException(line);
                });
            }
        }
    }
}
