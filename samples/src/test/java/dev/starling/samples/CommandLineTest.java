package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.data.LabelledImages;
import dev.starling.samples.digits.DigitRenderer;
import dev.starling.transport.Transport;
import dev.starling.transport.spi.WireProvider;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs the command as {@code ./starling} starts it; it starts itself or other commands as several processes. */
@Timeout(180)
class CommandLineTest {
    private static final String ACCURACY = ".*\"value\":([0-9.]+),.*";

    @TempDir
    Path dir;

    @Test
    void reportsAnInvalidOptionInAFewLines() {
        StringWriter errors = new StringWriter();
        int code = Main.commandLine().setErr(new PrintWriter(errors, true)).execute("train", "digits", "--epochz", "3");
        assertThat(code).isEqualTo(2);
        assertThat(errors.toString()).contains("Unknown option", "--epochz").contains("./starling train digits --help")
                .hasLineCount(3);
    }

    @ParameterizedTest
    @CsvSource({"ring, 2, 2, 0.5"})
    void trainsWithProcesses(String strategy, int processes, int epochs, double minAccuracy) throws Exception {
        train("mnist", strategy, processes, epochs, minAccuracy);
    }

    /** Trains the machines one after another and then the whole network, with the same processes. */
    @ParameterizedTest
    @CsvSource({"gossip, 2, 20, 0.2"})
    void trainsADeepBeliefNetworkWithProcesses(String strategy, int processes, int epochs, double minAccuracy)
            throws Exception {
        trainDeepBeliefNetwork(strategy, processes, epochs, minAccuracy);
    }

    @ParameterizedTest
    @Tag("stress")
    @CsvSource({"ring, 2, 20, 0.35", "ps, 3, 20, 0.2"})
    void trainsADeepBeliefNetworkWithProcessesOverOtherStrategies(String strategy, int processes, int epochs,
            double minAccuracy) throws Exception {
        trainDeepBeliefNetwork(strategy, processes, epochs, minAccuracy);
    }

    private void trainDeepBeliefNetwork(String strategy, int processes, int epochs,
            double minAccuracy) throws Exception {
        train("dbn --layers 64,64 --pretraining-epochs 3 --rate 0.02 --dropout 0", strategy, processes, epochs,
                minAccuracy);
    }

    @ParameterizedTest
    @Tag("stress")
    @CsvSource({"ps, 3, 2, 0.5", "gossip, 2, 3, 0.4", "ps --staleness 3, 3, 3, 0.4",
        "ring --transport ucx, 2, 1, 0.4"})
    void trainsWithProcessesOverOtherStrategies(String strategy, int processes, int epochs, double minAccuracy)
            throws Exception {
        train("mnist", strategy, processes, epochs, minAccuracy);
    }

    private void train(String sample, String strategy, int processes, int epochs, double minAccuracy) throws Exception {
        boolean ucx = strategy.endsWith("ucx");
        assumeUcx(ucx);
        String name = sample.split(" ")[0];
        DigitRenderer renderer = new DigitRenderer(1);
        write("train", renderer.images(0, 800));
        write("t10k", renderer.images(800, 200));
        Path curve = dir.resolve("curve.png");
        List<String> arguments = new ArrayList<>(List.of("train"));
        arguments.addAll(List.of(sample.split(" ")));
        arguments.addAll(List.of("--data", dir.toString(), "--workers", "2", "--epochs", Integer.toString(epochs),
                "--batch", "20", "--silence", "60", "--json", "--curve", curve.toString(), "--strategy"));
        arguments.addAll(List.of(strategy.split(" ")));
        Program program = Program.run(arguments.toArray(String[]::new));
        assertThat(program.status()).as(program.errors()).isZero();
        assertThat(program.ranks()).hasSize(processes);
        assertThat(program.output()).as("the result of rank 0, in words and as JSON").hasSize(2);
        assertThat(program.output().getFirst()).startsWith(name + ": ");
        String json = program.output().getLast();
        assertThat(json).startsWith("{\"sample\":\"" + name + "\",").contains("\"workers\":2").matches(ACCURACY);
        // By chance one image in ten is classified correctly.
        assertThat(Double.parseDouble(json.replaceAll(ACCURACY, "$1"))).isBetween(minAccuracy, 1.0);
        assertThat(curve).isNotEmptyFile();
        assertThat(program.files()).as("memory shared by the processes, and its directory")
                .hasSizeGreaterThan(ucx ? 0 : processes).allSatisfy(file -> assertThat(file).doesNotExist());
    }

    /** Starts a coordinator, a worker and a server separately. Both worker and server have number 0. */
    @Test
    void joinsAGroupAtASeparateCoordinator() throws Exception {
        DigitRenderer renderer = new DigitRenderer(1);
        write("train", renderer.images(0, 200));
        write("t10k", renderer.images(200, 100));
        String address = "file:" + dir.resolve("address");
        Map<String, String> common = Map.of("STARLING_SECRET", "0123456789abcdef".repeat(4), "STARLING_WORLD", "2",
                "STARLING_SERVERS", "1", "STARLING_COORDINATOR", address, "STARLING_COORDINATOR_RANK", "none",
                "STARLING_RANK", "0");
        String[] train = {"train", "mnist", "--data", dir.toString(), "--epochs", "1", "--batch", "20", "--silence",
            "60", "--strategy", "ps"};
        List<Process> all = new ArrayList<>();
        try {
            all.add(start(common, "coordinator", null, "coordinator", "--at", address, "--world", "2", "--silence",
                    "60"));
            all.add(start(common, "server", "server", train));
            all.add(start(common, "worker", "worker", train));
            for (Process process : all) {
                assertThat(process.waitFor(90, TimeUnit.SECONDS)).isTrue();
                assertThat(process.exitValue()).as(read("coordinator") + read("server") + read("worker")).isZero();
            }
        } finally {
            all.forEach(Process::destroyForcibly);
        }
        assertThat(read("coordinator")).contains("coordinator of 2 members at ");
        assertThat(read("server")).doesNotContain("mnist: ");
        assertThat(read("worker")).contains("mnist: ");
    }

    private Process start(Map<String, String> variables, String name, String role, String... arguments)
            throws IOException {
        ProcessBuilder builder = new ProcessBuilder(Program.command(arguments)).redirectErrorStream(true)
                .redirectOutput(dir.resolve(name + ".log").toFile());
        builder.environment().keySet().removeIf(variable -> variable.startsWith("STARLING_"));
        builder.environment().putAll(variables);
        if (role != null) {
            builder.environment().put("STARLING_ROLE", role);
        }
        return builder.start();
    }

    private String read(String name) throws IOException {
        return Files.readString(dir.resolve(name + ".log"));
    }

    /** Checks the accuracy of four processes on the real digits after two epochs. */
    @ParameterizedTest
    @Tag("stress")
    @Timeout(900)
    @ValueSource(strings = {"ring", "ps", "ps --staleness 4", "gossip", "ring --transport ucx"})
    void trainsOnRealDigits(String strategy) throws Exception {
        Path data = Path.of(System.getProperty("starling.data", ""), "mnist");
        assumeTrue(Files.isDirectory(data), () -> "no " + data + "; set -Dstarling.data=DIR");
        assumeUcx(strategy.endsWith("ucx"));
        List<String> arguments = new ArrayList<>(List.of("train", "mnist", "--data", data.toString(), "--workers", "4",
                "--epochs", "2", "--json", "--strategy"));
        arguments.addAll(List.of(strategy.split(" ")));
        Program program = Program.run(arguments.toArray(String[]::new));
        assertThat(program.status()).as(program.errors()).isZero();
        assertThat(Double.parseDouble(program.output().getLast().replaceAll(ACCURACY, "$1"))).isBetween(0.985, 1.0);
    }

    private static void assumeUcx(boolean needed) {
        WireProvider.Availability ucx = Transport.providers().get("ucx").availability();
        assumeTrue(!needed || ucx instanceof WireProvider.Availability.Ready, () -> "ucx is not available: " + ucx);
    }

    @Test
    void reportsMissingData() throws Exception {
        Program program = Program.run("train", "mnist", "--workers", "2", "--data", dir.toString());
        assertThat(program.status()).isEqualTo(1);
        assertThat(program.errors()).contains("starling: ").contains(dir.toString());
        assertThat(program.ranks()).isEmpty();
    }

    @Test
    void namesTheAvailableTransports() throws Exception {
        Program program = Program.run("train", "digits", "--workers", "2", "--transport", "pigeon");
        assertThat(program.status()).isEqualTo(1);
        assertThat(program.errors()).contains("starling: unknown transport 'pigeon'; available: auto, aeron, local")
                .contains("ucx");
        assertThat(program.ranks()).isEmpty();
    }

    @Test
    void runsAnyCommand() throws Exception {
        Program program = Program.run("run", "--workers", "2", "--", "/bin/sh", "-c",
                "echo $STARLING_RANK of $STARLING_WORLD at ${STARLING_COORDINATOR##*:}; echo \"$0\" >&2; sleep 1",
                "an argument");
        assertThat(program.status()).as(program.errors()).isZero();
        assertThat(program.output()).hasSize(2).anyMatch(line -> line.matches("\\[0] 0 of 2 at \\d+"))
                .anyMatch(line -> line.matches("\\[1] 1 of 2 at \\d+"));
        assertThat(program.errors().lines()).contains("[0] an argument", "[1] an argument");
        assertThat(program.ranks()).containsExactly(0, 1);
        assertThat(program.files()).isNotEmpty().allSatisfy(file -> assertThat(file).doesNotExist());
    }

    @Test
    void endsWithTheStatusOfTheFailedCommand() throws Exception {
        Program program = Program.run("run", "--workers", "2", "--", "/bin/sh", "-c",
                "[ $STARLING_RANK = 1 ] || exec sleep 100; echo the reason >&2; exit 7");
        assertThat(program.status()).isEqualTo(7);
        assertThat(program.errors()).contains("[1] the reason").contains("starling: ").contains("rank 1")
                .contains("exit status 7");
    }

    /** Writes images in the format of MNIST's files. */
    private void write(String name, LabelledImages images) throws IOException {
        Path pixels = dir.resolve(name + "-images-idx3-ubyte");
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(pixels))) {
            for (int each : List.of(0x803, images.count(), images.height(), images.width())) {
                out.writeInt(each);
            }
            out.write(images.pixels());
        }
        Path labels = dir.resolve(name + "-labels-idx1-ubyte");
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(labels))) {
            out.writeInt(0x801);
            out.writeInt(images.count());
            out.write(images.labels());
        }
    }
}
