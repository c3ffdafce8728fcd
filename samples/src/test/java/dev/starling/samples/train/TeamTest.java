package dev.starling.samples.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.Augment;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Split;
import dev.starling.samples.digits.DigitRenderer;
import dev.starling.tensor.Threads;
import dev.starling.transport.Protection;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** Tests the command-line options of training with several workers, and the training. */
class TeamTest {
    private static final int SIDE = DigitRenderer.SIDE;

    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"--strategy ring --compress powersgd=4", "--strategy ring --elastic --proportional",
            "--strategy ps", "--strategy ps --staleness 0 --servers 2 --proportional", "--strategy ps --staleness 3",
            "--strategy gossip"})
    @Timeout(120)
    void trainsWithThreads(String arguments) {
        TeamOptions options = parse("--workers 2 --transport local " + arguments);
        assertThat(Team.problem(options, null)).isNull();
        String out = train(options, new TrainOptions(), () -> { });
        assertThat(out.lines()).as("one result, of rank 0").hasSize(2);
        assertThat(out).contains("\"workers\":2").contains("\"epochs\":2");
        double accuracy = Double.parseDouble(out.replaceAll("(?s).*\"value\":([0-9.]+).*", "$1"));
        assertThat(accuracy).as("a guess has 0.1").isGreaterThan(0.5);
    }

    /**
     * Trains a small network, and returns the output.
     *
     * @param building runs where a worker builds the network
     */
    private String train(TeamOptions options, TrainOptions trainOptions, Runnable building) {
        trainOptions.device = "cpu";
        trainOptions.epochs = 2;
        trainOptions.json = true;
        trainOptions.curve = dir.resolve("curve.png");
        DigitRenderer renderer = new DigitRenderer(1);
        Augment plain = Augment.normalize(1, SIDE, SIDE, new float[] {DigitRenderer.MEAN},
                new float[] {DigitRenderer.STD});
        Sample sample = new Sample("tiny", directory -> new Split(renderer.images(0, 2000),
                renderer.images(2000, 250)), false, plain, plain, g -> {
                    building.run();
                    return Sequential.of(new Flatten(), Linear.of(SIDE * SIDE, 10, g));
                }, 2, 20, 0.01);
        StringWriter out = new StringWriter();
        PrintWriter writer = new PrintWriter(out);
        new Team(TrainingRun.of(sample, trainOptions), options, DataDirectory.of(dir, System.err), writer).threads();
        writer.flush();
        return out.toString();
    }

    @Test
    @Timeout(120)
    void refusesABatchThatLeavesTooFewSteps() {
        TrainOptions trainOptions = new TrainOptions();
        trainOptions.batch = 2001;
        assertThatThrownBy(() -> train(parse("--workers 2 --transport local"), trainOptions, () -> { }))
                .isInstanceOf(IllegalArgumentException.class).hasMessage("--batch 2001 leaves 0 steps an epoch and 0 "
                        + "in all, but the schedule of the learning rate needs 2: use a smaller --batch");
    }

    @Test
    @Timeout(120)
    void computesWithTheNumberOfThreadsThatIsSet() {
        TrainOptions trainOptions = new TrainOptions();
        trainOptions.threads = Threads.count() + 1;
        Queue<Integer> counts = new ConcurrentLinkedQueue<>();
        train(parse("--workers 2 --transport local"), trainOptions, () -> counts.add(Threads.count()));
        assertThat(counts).containsExactly(trainOptions.threads, trainOptions.threads);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '"', value = {
        "--strategy ring | --workers N",
        "--workers 0 | --workers must be positive, got 0; omit it to train alone",
        "--workers 0 --strategy gossip | --workers must be positive, got 0",
        "--workers -1 | --workers must be positive, got -1",
        "--workers 2 --silence 0 | --silence must be from 0.001 to 31536000 seconds, got 0",
        "--workers 2 --silence 0.0001 | --silence must be from 0.001 to 31536000 seconds, got 1.0E-4",
        "--workers 2 --silence 1e300 | --silence must be from 0.001 to 31536000 seconds, got 1.0E300",
        "--workers 2 --restarts -1 | --restarts must not be negative, got -1",
        "--workers 2 --strategy ps --servers 0 | --servers must be positive, got 0",
        "--workers 2 --strategy ps --staleness -1 | --staleness must be 0 for synchronous steps, or more",
        "--workers 2 --staleness 0 | --staleness applies to ps, and --strategy ring has no servers",
        "--workers 2 --strategy gossip --staleness 3 | --staleness applies to ps, and --strategy gossip",
        "--workers 2 --servers 1 | --servers applies to ps, and --strategy ring",
        "--workers 2 --strategy gossip --server-data d | --server-data applies to ps, and --strategy gossip",
        "--workers 2 --strategy ps --half | --half applies to ring, and --strategy ps sends f32",
        "--workers 2 --strategy gossip --half | --half applies to ring, and --strategy gossip sends f32",
        "--workers 2 --strategy ps --proportional | with --strategy ps each worker has batches of its own: use ring",
        "--workers 2 --strategy ps --staleness 3 --proportional | with --strategy ps --staleness 3 each",
        "--workers 2 --strategy gossip --proportional | --proportional divides batches",
        "--workers 2 --transport local --restarts 1 | --restarts restarts processes, but --transport local",
        "--workers 2 --strategy ps --staleness 0 --elastic | --elastic cannot be combined with --strategy ps --stal",
        "--workers 2 --strategy ps --staleness 0 --restarts 1 | resume from --checkpoints with --resume",
        "--workers 2 --transport local --protection plain | --protection applies to frames between hosts",
        "--protection plain | --protection applies to several workers: add --workers N",
        "--workers 2 --transport local --logs d | --logs writes the output of processes, but --transport local",
        "--logs d | --logs applies to several workers: add --workers N",
        "--workers 2 --elastic --min-workers 3 | 1 <= --min-workers <= --workers <= --max-workers must hold, got 3",
        "--workers 2 --elastic --max-workers 1 | must hold, got 1, 2 and 1",
        "--workers 2 --elastic --quorum most | --quorum: a quorum is majority, none or a number of members, got most",
        "--workers 2 --quorum 3 | --quorum applies to workers that continue after a loss, and --strategy ring ends",
        "--workers 2 --max-workers 3 | --max-workers applies to workers that continue after a loss",
        "--strategy gossip --quorum none | --workers N",
        "--workers 2 --elastic --join | --join applies to a process that is started by itself",
        "--half | --half applies to several workers: add --workers N",
        "--workers 2 --strategy ps --compress bf16 | --compress applies to ring, and --strategy ps sends f32",
        "--workers 2 --half --compress bf16 | --half is --compress bf16",
        "--transport local | --transport local applies to several workers"})
    void reportsInvalidOptions(String arguments, String problem) {
        assertThat(Team.problem(parse(arguments), null)).contains(problem);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '"', value = {
        "topk=2 | 0 < fraction <= 1 must hold, got 2",
        "powersgd=x | 'powersgd=x' contains no number",
        "zip | expected bf16, topk=FRACTION or powersgd=RANK, got 'zip'"})
    void reportsInvalidCompression(String compression, String problem) {
        assertThatThrownBy(() -> parse("--workers 2 --compress " + compression))
                .isInstanceOf(CommandLine.ParameterException.class).hasMessageContaining(problem);
    }

    @ParameterizedTest
    @ValueSource(strings = {"--workers 2 --half --elastic --restarts 1", "--workers 2 --strategy gossip --restarts 1",
            "--workers 2 --strategy ps --servers 2 --server-data d --restarts 1 --elastic",
            "--workers 2 --strategy ps --staleness 3 --restarts 1", "--silence 5",
            "--workers 2 --elastic --quorum none --min-workers 2 --max-workers 3"})
    void acceptsValidOptions(String arguments) {
        assertThat(Team.problem(parse(arguments), null)).isNull();
    }

    @Test
    void passesTheProtectionOfFramesToTheTransport() {
        LaunchedProcess me = new LaunchedProcess(0, 3, 0, 3, 0, "host:1", -1, Secret.random(), "host", null, 0);
        assertThat(Clusters.config(me, parse("--strategy ring")).protection()).isEqualTo(Protection.ENCRYPTED);
        assertThat(Clusters.config(me, parse("--strategy ring --protection authenticated")).protection())
                .isEqualTo(Protection.AUTHENTICATED);
    }

    @Test
    void comparesItsOptionsWithThoseOfTheLauncher() {
        LaunchedProcess me = new LaunchedProcess(0, 3, 0, 3, 0, "host:1", -1, Secret.random(), "host", null, 0);
        assertThat(Team.problem(parse("--strategy ring"), me)).isNull();
        assertThat(Team.problem(parse("--workers 2"), me)).contains("--workers=2").contains("one of 3");
        assertThat(Team.problem(parse("--elastic --join"), me)).isNull();
        assertThat(Team.problem(parse("--join"), me)).contains("--join applies").contains("continue after a loss");
        assertThat(Team.problem(parse("--strategy ps --servers 2"), me)).contains("run --servers 2");
        assertThat(Team.problem(parse("--strategy ps --servers 2"),
                new LaunchedProcess(0, 3, 2, 3, 0, "host:1", -1, Secret.random(), "host", null, 0))).isNull();
    }

    @ParameterizedTest
    @ValueSource(strings = {"host:abc", "host", "host:", "host:0", "host:65536", "[::1]:x"})
    void namesTheVariableWithoutAValidPort(String coordinator) {
        LaunchedProcess me = new LaunchedProcess(0, 3, 0, 3, 0, coordinator, 0, Secret.random(), "host", null, 0);
        assertThatThrownBy(() -> Clusters.coordinator(me, TransportConfig.of("aeron", me.secret()),
                CoordinatorConfig.of(3, Coordinator.OnLoss.END)).close())
                .isInstanceOf(IllegalArgumentException.class).hasMessageContaining("STARLING_COORDINATOR) must be "
                + "host:port").hasMessageEndingWith("got " + coordinator);
    }

    @Test
    void knowsWhichStrategiesSurviveALoss() {
        assertThat(parse("--workers 2").survives()).isFalse();
        assertThat(parse("--workers 2 --elastic").survives()).isTrue();
        assertThat(parse("--workers 2 --restarts 1").survives()).isTrue();
        assertThat(parse("--workers 2 --strategy gossip").survives()).isTrue();
        assertThat(parse("--workers 2 --strategy ps").survives()).isTrue();
        assertThat(parse("--workers 2 --strategy ps --staleness 0").survives()).isFalse();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {"--workers 0 | --workers must be positive, got 0",
        "--epochs 0 | --epochs must be positive, got 0", "--batch -1 | --batch must be positive, got -1",
        "--rate 0 | --rate must be positive, got 0.0", "--rate NaN | --rate must be positive, got NaN",
        "--rate Infinity | --rate must be finite, got Infinity",
        "--precision F64 | --precision must be f32, bf16 or f16, got f64",
        "--resume | --resume needs the directory of the checkpoints: add --checkpoints DIR",
        "--skip-damaged | --skip-damaged needs the directory of the checkpoints: add --checkpoints DIR",
        "--threads 0 | --threads must be positive, got 0"})
    void refusesInvalidOptions(String option, String message) {
        StringWriter errors = new StringWriter();
        int status = new CommandLine(new Train()).setErr(new PrintWriter(errors, true)).execute(("digits "
                + option).split(" "));
        assertThat(status).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains(message);
    }

    private static TeamOptions parse(String arguments) {
        TeamOptions options = new TeamOptions();
        new CommandLine(options).setCaseInsensitiveEnumValuesAllowed(true).parseArgs(arguments.split(" "));
        return options;
    }
}
