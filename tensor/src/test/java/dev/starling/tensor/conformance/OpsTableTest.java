package dev.starling.tensor.conformance;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/** {@code docs/ops.md} is up to date. With {@code -Dstarling.regenerate=true} the test writes the file. */
class OpsTableTest {
    @Test
    void tableIsUpToDate() throws IOException {
        OpsSource source = new OpsSource();
        source.requireCurrent("docs/ops.md", OpsTable.render(source), "tensor", "OpsTableTest");
    }
}
