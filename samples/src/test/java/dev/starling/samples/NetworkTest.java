package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.samples.Finding.Verdict;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Runs all network checks of the doctor on a machine where loopback and Aeron work. */
class NetworkTest {
    @Test
    void checksEverythingAndGivesRemedies() {
        Diagnosis diagnosis = new Diagnosis();
        Network.inspect(diagnosis, Duration.ofSeconds(30));
        List<Finding> findings = diagnosis.findings();
        assertThat(findings).extracting(Finding::subject).contains("Loopback ports", "Host's ports", "MTU",
                "Socket buffers", "TCP", "/dev/shm", "Locked memory", "Clock", "Transport auto", "Transport aeron",
                "Transport local", "Transport tcp", "Transport ucx").doesNotContain("Transport simulated");
        assertThat(findings).allMatch(f -> f.verdict() == Verdict.OK || !f.remedy().isBlank());
        assertThat(findings).filteredOn(f -> f.subject().equals("Loopback ports")
                || f.subject().equals("Transport aeron")).hasSize(2).allMatch(f -> f.verdict() == Verdict.OK);
        assertThat(findings).filteredOn(f -> f.subject().equals("Transport aeron")).first()
                .extracting(Finding::state).asString().contains("200 round trips");
    }
}
