package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.errors.ThreadException;
import dev.starling.nn.checkpoint.CheckpointWriter;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.search.Trial;
import dev.starling.nn.search.TrialTraining;
import dev.starling.nn.serve.Predictor;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.ThreadLimit;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** What starts threads names limits and remedies if the system refuses one. */
class ThreadLimitTest {
    /** Starts threads until the system refuses one, and then what needs one. */
    static final class Probe {
        private Probe() {
        }

        public static void main(String[] arguments) {
            Linear model = Linear.of(1, 1, Generator.seeded(1));
            Dataset rows = TensorDataset.of(Tensor.ones(2, 1), Tensor.ones(2, 1));
            report("loader", () -> DataLoader.of(rows).workers(1).build());
            report("checkpoint", () -> new CheckpointWriter(Path.of("unused"), 1).save(1, Map.of(), Map.of()));
            report("predictor", () -> Predictor.of(model, 1).build());
            report("trial", () -> new TrialTraining("none", Map.of(), Loss::meanSquared, null, 1).run(
                    List.of(new Trial.Plan(0, Map.of(), 1)), rows, rows, "", 1, 1, null, () -> { }, trial -> { }));
        }

        private static void report(String what, Runnable start) {
            ThreadLimit.exhaust();
            try {
                // A thread may have ended meanwhile.
                for (int i = 0; i < 64; i++) {
                    start.run();
                }
                System.out.println(what + " has started");
            } catch (ThreadException | OutOfMemoryError e) {
                System.out.println(what + " fails: " + e);
            }
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void namesLimitAndRemedyOfAThreadThatCannotStart() throws Exception {
        String output = ThreadLimit.run(Probe.class);
        assertThat(output).doesNotContain("has started");
        for (String thread : List.of("starling-loader-0", "starling-checkpoint", "starling-predictor", "trial-0")) {
            assertThat(output).containsPattern("fails: .*ThreadException: the thread " + thread
                    + " cannot start: .*ulimit -u");
        }
    }
}
