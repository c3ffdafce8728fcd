package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.data.LabelledImages;
import dev.starling.samples.digits.DigitRenderer;
import dev.starling.transport.Transport;
import dev.starling.transport.spi.WireProvider;
import java.io.DataOutputStream;
import java.io.IOException;
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

/** The command as {@code ./starling} starts it, which starts itself or others several times over. */
@Timeout(180)
class CommandLineTest {
    private static final String ACCURACY = ".*\"value\":([0-9.]+),.*";

    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"ring, 2, 2, 0.5", "ps, 3, 2, 0.5", "gossip, 2, 3, 0.4"})
    void trainsWithProcesses(String strategy, int processes, int epochs, double least) throws Exception {
        train("mnist", strategy, processes, epochs, least);
    }

    /** Machines one after the other, then all of them, over the same processes. */
    @ParameterizedTest
    @CsvSource({"gossip, 2, 20, 0.2"})
    void trainsADeepBeliefNetworkWithProcesses(String strategy, int processes, int epochs, double least)
            throws Exception {
        trainDeepBeliefNetwork(strategy, processes, epochs, least);
    }

    @ParameterizedTest
    @Tag("stress")
    @CsvSource({"ring, 2, 20, 0.35", "ps, 3, 20, 0.2"})
    void trainsADeepBeliefNetworkWithProcessesInOtherWays(String strategy, int processes, int epochs,
            double least) throws Exception {
        trainDeepBeliefNetwork(strategy, processes, epochs, least);
    }

    private void trainDeepBeliefNetwork(String strategy, int processes, int epochs, double least) throws Exception {
        train("dbn --layers 64,64 --pretraining-epochs 3 --rate 0.02 --dropout 0", strategy, processes, epochs, least);
    }

    @ParameterizedTest
    @Tag("stress")
    @CsvSource({"ps --staleness 3, 3, 3, 0.4", "ring --transport ucx, 2, 1, 0.4"})
    void trainsWithProcessesInOtherWays(String strategy, int processes, int epochs, double least)
            throws Exception {
        train("mnist", strategy, processes, epochs, least);
    }

    private void train(String sample, String strategy, int processes, int epochs, double least) throws Exception {
        boolean isUcx = strategy.endsWith("ucx");
        assumeUcx(isUcx);
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
        // By chance one image in ten is told right.
        assertThat(Double.parseDouble(json.replaceAll(ACCURACY, "$1"))).isBetween(least, 1.0);
        assertThat(curve).isNotEmptyFile();
        assertThat(program.files()).as("what the processes mapped to talk to each other, and its directory")
                .hasSizeGreaterThan(isUcx ? 0 : processes).allSatisfy(file -> assertThat(file).doesNotExist());
    }

    /** A coordinator, a worker and a server, each started by itself; worker and server are both number 0. */
    @Test
    void formsAGroupAtACoordinatorOfItsOwn() throws Exception {
        DigitRenderer renderer = new DigitRenderer(1);
        write("train", renderer.images(0, 800));
        write("t10k", renderer.images(800, 200));
        String address = "file:" + dir.resolve("address");
        Map<String, String> common = Map.of("STARLING_SECRET", "0123456789abcdef".repeat(4), "STARLING_WORLD", "2",
                "STARLING_SERVERS", "1", "STARLING_COORDINATOR", address, "STARLING_COORDINATOR_RANK", "none",
                "STARLING_RANK", "0");
        String[] train = {"train", "mnist", "--data", dir.toString(), "--epochs", "2", "--batch", "20", "--silence",
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

    /** What four processes learn of the real digits in two epochs. */
    @ParameterizedTest
    @Tag("stress")
    @Timeout(900)
    @ValueSource(strings = {"ring", "ps", "ps --staleness 4", "gossip", "ring --transport ucx"})
    void learnsRealDigits(String strategy) throws Exception {
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

    private static void assumeUcx(boolean isNeeded) {
        WireProvider.Availability there = Transport.providers().get("ucx").availability();
        assumeTrue(!isNeeded || there instanceof WireProvider.Availability.Ready, () -> "no ucx here: " + there);
    }

    @Test
    void saysThatThereAreNoData() throws Exception {
        Program program = Program.run("train", "mnist", "--workers", "2", "--data", dir.toString());
        assertThat(program.status()).isEqualTo(1);
        assertThat(program.errors()).contains("starling: ").contains(dir.toString());
        assertThat(program.ranks()).isEmpty();
    }

    @Test
    void saysWhichTransportsThereAre() throws Exception {
        Program program = Program.run("train", "digits", "--workers", "2", "--transport", "pigeon");
        assertThat(program.status()).isEqualTo(1);
        assertThat(program.errors()).contains("starling: unknown transport 'pigeon'; available: aeron, local")
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
    void endsAsTheCommandThatFailed() throws Exception {
        Program program = Program.run("run", "--workers", "2", "--", "/bin/sh", "-c",
                "[ $STARLING_RANK = 1 ] || exec sleep 100; echo the reason >&2; exit 7");
        assertThat(program.status()).isEqualTo(7);
        assertThat(program.errors()).contains("[1] the reason").contains("starling: ").contains("rank 1")
                .contains("exit status 7");
    }

    /** Writes images as the files of MNIST hold them. */
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
