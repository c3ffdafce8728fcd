package dev.starling.kafka.sample;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import picocli.CommandLine;

class StreamingTest {
    private final StringWriter output = new StringWriter();
    private final StringWriter errors = new StringWriter();

    private int run(String... arguments) {
        return new CommandLine(new Streaming()).setOut(new PrintWriter(output)).setErr(new PrintWriter(errors))
                .execute(arguments);
    }

    @Test
    @Timeout(120)
    void scoresEachRecordOnceAndEndsByItself() {
        Locale locale = Locale.getDefault();
        Locale.setDefault(Locale.GERMANY);
        try {
            assertThat(run("--seconds", "4", "--rate", "300", "--json")).as(errors.toString()).isZero();
        } finally {
            Locale.setDefault(locale);
        }
        List<String> lines = output.toString().lines().toList();
        assertThat(lines).anyMatch(line -> line.startsWith("1,200 records arrived, 1,200 results for 1,200 different"));
        assertThat(lines.getLast()).startsWith("{\"arrived\": 1200, \"results\": 1200, \"distinct\": 1200, ");
        assertThat(lines).anyMatch(line -> line.startsWith("Seconds    Arrived     Scored"));
    }

    @Test
    void refusesNumbersThatMakeNoStream() {
        assertThat(run("--rate", "0")).isEqualTo(2);
        assertThat(errors.toString()).contains("--seconds, --rate and --records must be 1 or more");
    }
}
