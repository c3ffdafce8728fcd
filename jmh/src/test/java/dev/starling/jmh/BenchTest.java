package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class BenchTest {
    @ParameterizedTest
    @ValueSource(strings = {"--threads=0", "--threads=-1", "--pairs=0", "--pairs=-3", "--warmup=-1"})
    void refusesCountsBelowTheLeast(String option) {
        StringWriter errors = new StringWriter();
        // Without the check, this name would end the command before anything is measured.
        int code = Bench.commandLine().setErr(new PrintWriter(errors, true)).execute(option, "--only", "no-such-name");
        assertThat(code).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains("--threads and --pairs must be 1 or more")
                .contains(option.substring(option.indexOf('=') + 1));
    }

    /** Without the check, each of these would measure for minutes, measure nothing, or fail late. */
    @ParameterizedTest
    @ValueSource(strings = {"--only matmul-1024,no-such-name", "startup --runs 0", "serving --pairs 0",
        "serving --clients 8,0", "serving --sample 1", "cluster --processes 4 --only ROUND_TRIP",
        "cluster --only STEP_LATE", "cluster --only ALL_REDUCE,STEP_ALONE", "cluster --link veth --only TRAIN",
        "cluster --parties GRPC", "cluster --sizes 1024,67108868", "cluster --sizes 0", "cluster --sizes 1023",
        "cluster --model --link veth",
        "cluster --model --only PUT", "cluster --processes 4 --only TRAIN",
        "cluster --link no-such-rate --processes 2 --only ROUND_TRIP",
        "serving --models MLP,RESNET18", "gpu --device cpu --python none --tiny --only ^copy --rounds 0",
        "gpu --device cpu --python none --tiny --only ^copy --millis 0",
        "gpu --device cpu --python none --tiny --only ^copy --index=-1",
        "gpu --device cpu --python none --tiny --only ^copy --json no-such-directory/findings"})
    void refusesWhatItCannotMeasure(String arguments) {
        assertThat(Bench.commandLine().setErr(new PrintWriter(new StringWriter())).execute(arguments.split(" ")))
                .isEqualTo(CommandLine.ExitCode.USAGE);
    }

    @Test
    void refusesToCompareTf32WithFullPrecision() {
        StringWriter errors = new StringWriter();
        int code = Bench.commandLine().setErr(new PrintWriter(errors, true)).execute("gpu", "--tf32");
        assertThat(code).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains("--tf32 and -Dstarling.cuda.tf32=true need each other");
    }

    @Test
    void reportsWhyAnEngineDoesNotStart() throws IOException {
        PrintStream before = System.out;
        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        System.setOut(new PrintStream(answers, true, StandardCharsets.UTF_8));
        try {
            Worker.main(new String[] {"NO_ENGINE", "1", "WALL"});
        } finally {
            System.setOut(before);
        }
        assertThat(answers.toString(StandardCharsets.UTF_8)).startsWith(Worker.MARK + Worker.FAILURE)
                .contains("NO_ENGINE");
    }

    @Test
    void printsNoRatioOfTimesOfZero() {
        Comparison fast = new Comparison(Workload.ALL.getFirst(), Contender.PYTORCH, "plain", 0, 0, 0.0 / 0);
        assertThat(Bench.row(fast)).contains(" - ").doesNotContain("NaN");
        assertThat(Bench.json(fast)).contains("\"ratio\":null");
        Comparison usual = new Comparison(Workload.ALL.getFirst(), Contender.PYTORCH, "plain", 3, 2, 1.5);
        assertThat(Bench.row(usual)).contains(" 1.50 ");
        assertThat(Bench.json(usual)).contains("\"ratio\":1.500");
    }
}
