package dev.starling.jmh.startup;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

class StartupBenchTest {
    private static String printed(Runnable command) {
        PrintStream before = System.out;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        System.setOut(new PrintStream(bytes, true, StandardCharsets.UTF_8));
        try {
            command.run();
        } finally {
            System.setOut(before);
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Test
    void predictsTheSameClassWithThePredictor() {
        String byModel = printed(() -> FirstResult.main(new String[] {"PREDICTION"}));
        assertThat(byModel).startsWith(FirstResult.DONE);
        assertThat(printed(() -> FirstResult.main(new String[] {"PREDICTOR"}))).isEqualTo(byModel);
    }

    @Test
    void trainsFromTheLossOfAnUntrainedModel() {
        assertThat(FirstResult.Kind.TRAINING.compute()).isBetween(1.5, 4.0);
    }

    @Test
    void keepsTheJarsThatAnApplicationNeeds() {
        String needed = String.join(File.pathSeparator, "nn/target/starling-nn-1.0.jar",
                "tensor/target/starling-tensor-1.0-SNAPSHOT.jar", "repository/javacpp-1.5.jar",
                "repository/opencl-3.0-1.5-linux-x86_64.jar", "repository/fastcsv-4.4.jar");
        String all = String.join(File.pathSeparator, "cuda/target/starling-cuda-1.0.jar", needed,
                "repository/picocli-4.7.jar");
        assertThat(StartupBench.classPath(all, Path.of("unused"))).isEqualTo(needed);
    }

    @Test
    @Tag("stress")
    void measuresEachKindOfStart() {
        String table = printed(() -> assertThat(new CommandLine(new StartupBench()).execute("--runs", "1")).isZero());
        assertThat(table.lines()).hasSize(4);
        assertThat(table).containsPattern("prediction +\\d+ +\\d+").containsPattern("predictor +\\d+ +\\d+")
                .containsPattern("training +\\d+ +\\d+");
    }
}
