package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class StreamingTest {
    @Test
    @Timeout(120)
    void shouldScoreEachRecordOnceAndEndByItself() throws Exception {
        Program run = Program.run("stream", "--seconds", "4", "--rate", "300", "--json");
        assertThat(run.status()).as(run.errors()).isZero();
        assertThat(run.output().getLast()).startsWith("{\"arrived\": 1200, \"results\": 1200, \"distinct\": 1200, ");
        assertThat(run.output()).anyMatch(line -> line.startsWith("Seconds    Arrived     Scored"));
    }

    @Test
    @Timeout(60)
    void shouldRefuseNumbersThatMakeNoStream() throws Exception {
        Program run = Program.run("stream", "--rate", "0");
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.errors()).contains("--seconds, --rate and --records must be 1 or more");
    }
}
