package dev.starling.jmh.startup;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
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
        String byModel = printed(() -> FirstPrediction.main(new String[0]));
        assertThat(byModel).startsWith(FirstPrediction.DONE);
        assertThat(printed(() -> FirstPrediction.main(new String[] {"predictor"}))).isEqualTo(byModel);
    }

    @Test
    @Tag("stress")
    void measuresBothKindsOfStart() {
        String table = printed(() -> assertThat(new CommandLine(new StartupBench()).execute("--runs", "1")).isZero());
        assertThat(table.lines()).hasSize(3);
        assertThat(table).containsPattern("model +\\d+ +\\d+").containsPattern("predictor +\\d+ +\\d+");
    }
}
