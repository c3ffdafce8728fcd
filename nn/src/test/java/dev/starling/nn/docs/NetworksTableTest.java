package dev.starling.nn.docs;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.conformance.OpsSource;
import java.io.IOException;
import org.junit.jupiter.api.Test;

/** {@code docs/nn.md} is up to date. With {@code -Dstarling.regenerate=true} the test writes the file. */
class NetworksTableTest {
    @Test
    void tableIsUpToDate() throws IOException {
        OpsSource source = new OpsSource();
        String page = new NetworksTable(source.root()).render();
        assertThat(page).contains("| `Linear.of(in, out, generator)` |", "| `Loss.dice()` |", "| `Metrics.rocAuc()` |",
                "| `Lion.over(model)` |", "| `Schedule.multiStep(rate, factor, milestones)` |");
        source.requireCurrent("docs/nn.md", page, "nn", "NetworksTableTest");
    }
}
