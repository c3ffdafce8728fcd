package dev.starling.samples.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Split;
import dev.starling.samples.digits.DigitRenderer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

/** Tests the command that trains a deep belief network. */
class DbnTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"--batch 20 --labels 500, 0.6", "--batch 20 --no-pretraining, 0.6",
        "--batch 20 --workers 2 --transport local --strategy ring, 0.6",
        "--batch 10 --workers 2 --transport local --strategy gossip, 0.25",
        "--batch 10 --workers 2 --transport local --strategy ps, 0.35"})
    @Timeout(120)
    void trainsOnDrawnDigits(String arguments, double minAccuracy) {
        TrainOptions options = parse(new TrainOptions(), arguments);
        options.epochs = 6;
        options.rate = 0.01;
        options.json = true;
        options.curve = dir.resolve("curve.png");
        TeamOptions teamOptions = parse(new TeamOptions(), arguments);
        assertThat(Team.problem(teamOptions, null)).isNull();
        Sample dbn = parse(new DbnOptions(), arguments + " --layers 64,64 --dropout 0 --pretraining-epochs 2").sample();
        DigitRenderer renderer = new DigitRenderer(1);
        Sample tiny = new Sample(dbn.name(), directory -> new Split(renderer.images(0, 2000),
                renderer.images(2000, 250)), false, dbn.training(), dbn.evaluation(), dbn.network(), dbn.epochs(),
                dbn.batchSize(), dbn.rate(), dbn.precision(), false, null, dbn.labels(), dbn.pretrainingRate());
        StringWriter out = new StringWriter();
        PrintWriter writer = new PrintWriter(out);
        TrainingRun run = TrainingRun.of(tiny, options);
        DataDirectory directory = DataDirectory.of(dir, System.err);
        if (teamOptions.isRequested()) {
            new Team(run, teamOptions, directory, writer).threads();
        } else {
            run.run(directory, writer);
        }
        writer.flush();
        assertThat(out.toString().lines()).as("one result").hasSize(2);
        assertThat(out.toString()).contains("\"epochs\":" + (arguments.contains("--no") ? 6 : 10))
                .contains("\"workers\":" + Math.max(1, teamOptions.workers()));
        assertThat(accuracy(out.toString())).as("a guess has 0.1").isGreaterThan(minAccuracy);
        assertThat(options.curve).isNotEmptyFile();
    }

    private static <T> T parse(T options, String arguments) {
        new CommandLine(options).setCaseInsensitiveEnumValuesAllowed(true).setUnmatchedArgumentsAllowed(true)
                .parseArgs(arguments.split(" "));
        return options;
    }

    @Test
    @Tag("stress")
    @Timeout(1800)
    void trainsOnRealDigits() {
        Path data = data();
        assertThat(accuracy(run("--data " + data))).isBetween(0.985, 1.0);
    }

    @Test
    @Tag("stress")
    @Timeout(1800)
    void needsFewerLabelsAfterPretraining() {
        String few = "--data " + data() + " --labels 1000 --epochs 2 --layers 500,500 --dropout 0.5 ";
        double with = accuracy(run(few + "--pretraining-epochs 3"));
        assertThat(with).isGreaterThan(accuracy(run(few + "--no-pretraining")) + 0.01);
    }

    private static Path data() {
        Path data = Path.of(System.getProperty("starling.data", ""), "mnist");
        assumeTrue(Files.isDirectory(data), () -> "no " + data + "; set -Dstarling.data=DIR");
        return data;
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {"--layers 64,0 | --layers must be positive, got [64, 0]",
        "--pretraining-epochs 0 | to skip pre-training use --no-pretraining",
                "--steps 0 | --steps must be positive, got 0",
        "--pretraining-rate 0 | --pretraining-rate must be between 0 and 1, got 0.0",
        "--labels -1 | --labels must be positive, got -1", "--labels 0 | --labels must be positive, got 0",
        "--dropout 1 | less than 1, got 1.0",
        "--precision bf16 | dbn computes free energies, which need f32",
        "--curve x.txt | --curve must name a file that ends in .png or .svg, got x.txt",
        "--profile /none/x.html | --profile must name a file in a directory that exists, got /none/x.html",
        "--captured | replay one kind of step", "--explain x.html | replay one kind of step",
        "--labels 20001 | --labels must be at most the 20000 training images, got 20001"})
    void reportsInvalidOptions(String arguments, String problem) {
        StringWriter errors = new StringWriter();
        int code = new CommandLine(new Train()).setErr(new PrintWriter(errors, true))
                .execute(("dbn " + arguments).split(" "));
        assertThat(code).isNotZero();
        assertThat(errors.toString()).contains(problem);
    }

    @Test
    void readsAllImagesFirstAndThenTheSelectedOnesEquallyOften() {
        try (Scope scope = Scope.open()) {
            Tensor numbers = Tensor.arange(60);
            TensorDataset all = TensorDataset.of(numbers, numbers);
            LabelledSubset few = LabelledSubset.of(all, 12, 2, Generator.seeded(3));
            try (DataLoader data = DataLoader.of(few).batchSize(10).shuffle().build()) {
                assertThat(numbers(data, 1)).hasSize(60);
                assertThat(numbers(data, 2)).hasSize(12).isEqualTo(numbers(data, 3));
                long sum = 0;
                for (Batch batch : data.epoch(2)) {
                    sum += (long) batch.input().sum().item();
                }
                assertThat(sum).isEqualTo(5 * numbers(data, 2).stream().mapToLong(Long::longValue).sum());
            }
            assertThatThrownBy(() -> LabelledSubset.of(all, 61, 2, Generator.seeded(3)))
                    .isInstanceOf(IllegalArgumentException.class);
        }
    }

    private static Set<Long> numbers(DataLoader data, int epoch) {
        Set<Long> numbers = new TreeSet<>();
        for (Batch batch : data.epoch(epoch)) {
            for (double number : batch.input().toDoubles()) {
                numbers.add((long) number);
            }
        }
        return numbers;
    }

    private String run(String arguments) {
        StringWriter out = new StringWriter();
        StringWriter errors = new StringWriter();
        int code = new CommandLine(new Train()).setCaseInsensitiveEnumValuesAllowed(true)
                .setOut(new PrintWriter(out, true)).setErr(new PrintWriter(errors, true))
                .execute(("dbn --json --curve " + dir.resolve("curve.png") + " " + arguments).trim().split(" +"));
        assertThat(code).as(errors.toString()).isZero();
        return out.toString();
    }

    private static double accuracy(String output) {
        return Double.parseDouble(output.replaceAll("(?s).*\"value\":([0-9.]+).*", "$1"));
    }
}
